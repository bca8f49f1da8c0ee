"""What is printed: kubectl's columns, JSON and YAML, and sentences where a person asked why.

Invariant: pure: from objects of the API to text; times are written as spans or in UTC.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from gatelog.readmodel.rows import GroupRow
from gatelog.readmodel.starts import short_of
from gatelog.readmodel.timeline import TimelineEntry, plain
from gatelog.serve.words import ago


def columns(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as kubectl prints one."""
    lines = [list(head), *([str(cell) if cell != "" else "<none>" for cell in r] for r in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def starts(found: Any) -> str:
    """Return when a group starts, of its `expectedStart`, in a word; "" where it is unknown."""
    if not found:
        return ""
    times = found.get("time"), found.get("latestTime")
    return short_of(*times, found.get("never", ""), datetime.now(UTC))


def pending(groups: Iterable[Any], positions: Iterable[Any], everywhere: bool) -> str:
    """Return a table of groups that are not admitted, and why."""
    places = {
        one["metadata"]["uid"]: str(one["position"]["positionInClusterQueue"]) for one in positions
    }
    head = [*(["NAMESPACE"] if everywhere else []), "NAME", "STATE", "QUEUE", "POSITION", "WHY"]
    rows = []
    for one in groups:
        meta, status = one["metadata"], one["status"]
        waiting = status.get("waiting") or {}
        rows.append(
            [
                *([meta["namespace"]] if everywhere else []),
                meta["name"],
                status["state"],
                one["spec"].get("queue", ""),
                places.get(meta["uid"], ""),
                waiting.get("reason") or status.get("reason", ""),
                ago(waiting.get("since")),
                starts(status.get("expectedStart")),
                plain(waiting.get("message") or status.get("message", "")),
            ]
        )
    return columns([*head, "FOR", "STARTS", "MESSAGE"], rows)


def why(group: Any, reasons: Any, admissions: Any) -> str:
    """Return why a group is where it is, in lines of a word and what it says."""
    meta, spec, status = group["metadata"], group["spec"], group["status"]
    pods = status["pods"]
    of = f"{pods['running']} run, {pods['succeeded']} succeeded, {pods['gated']} at their gate"
    lines: list[tuple[str, str]] = [
        (
            f"{meta['namespace']}/{meta['name']}",
            f"{status['state']}, queue {spec.get('queue') or '(none)'}"
            + (f" of ClusterQueue {status['clusterQueue']}" if status.get("clusterQueue") else "")
            + (f", priority {spec['priority']}" if spec.get("priority") else ""),
        ),
        ("pods", f"{spec.get('pods') or pods['seen']} declared, {pods['seen']} seen: {of}"),
    ]
    lines += [(one["label"], one["text"]) for one in (reasons or {}).get("explanation", [])]
    for one in (admissions or {}).get("admissions", [])[:3]:
        until = f", released {ago(one.get('releasedTime'))} ago: {one.get('releaseReason', '')}"
        held = until if one.get("releasedTime") else ", and holds it"
        lines.append(("admitted", f"{ago(one['admittedTime'])} ago by {one['clusterQueue']}{held}"))
    width = max(len(word) for word, _ in lines)
    return "\n".join(f"{word.ljust(width)}  {text}".rstrip() for word, text in lines)


def entries(history: Any) -> list[TimelineEntry]:
    """Return the entries of a history as the story is made from."""
    return [
        TimelineEntry(
            seq=one.get("position", 0),
            ord=one.get("order", 0),
            at=datetime.fromisoformat(one["time"]),
            source=one.get("source", ""),
            kind=one.get("kind", ""),
            reason=one.get("reason", ""),
            message=one.get("message", ""),
            pod=one.get("pod", ""),
            rule=one.get("rule", ""),
            status=one.get("status", ""),
            decision=one.get("decision", ""),
            until=datetime.fromisoformat(one["until"]) if one.get("until") else None,
        )
        for one in history["entries"]
    ]


def row(group: Any) -> GroupRow:
    """Return a group as the command line's own printing takes it."""
    meta, spec, status = group["metadata"], group["spec"], group["status"]
    pods = status["pods"]
    waiting = status.get("waiting") or {}
    return GroupRow(
        id=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        kind=spec.get("kind", ""),
        queue=spec.get("queue", ""),
        cluster_queue=status.get("clusterQueue", ""),
        priority=spec.get("priority", 0),
        priority_class=spec.get("priorityClass", ""),
        total_count=spec.get("pods", 0),
        state=status.get("state", ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        workload_name=status.get("workload", ""),
        **{f"pods_{word}": number for word, number in pods.items()},
        wait_reason=waiting.get("reason", ""),
        wait_message=waiting.get("message", ""),
        wait_since=_time(waiting.get("since")),
        parked=status.get("parked", ""),
        created_at=datetime.fromisoformat(meta["creationTimestamp"]),
        complete_at=_time(status.get("completeTime")),
        queued_at=_time(status.get("queuedTime")),
        admitted_at=_time(status.get("admittedTime")),
        finished_at=_time(status.get("finishedTime")),
        gone_at=_time(meta.get("deletionTimestamp")),
        as_of_seq=int(meta.get("resourceVersion") or 0),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def usage(found: Iterable[Any]) -> str:
    """Return amounts of queues as one cell."""
    return ", ".join(
        f"{u['resource']} {u.get('held', '0')}{'/' + u['nominal'] if u.get('nominal') else ''}"
        f" ({u['flavor']})" + (f" and {u['unadmitted']} unadmitted" if u.get("unadmitted") else "")
        for u in found
    )


def queues(found: Iterable[Any], everywhere: bool) -> str:
    """Return LocalQueues and who waits in them."""
    rows = [
        [
            *([one["metadata"]["namespace"]] if everywhere else []),
            one["metadata"]["name"],
            one["clusterQueue"],
            one["groups"]["pending"],
            one["groups"]["admitted"],
            ago(one["groups"].get("oldest")),
            usage(one["usage"]),
        ]
        for one in found
    ]
    head = ["NAME", "CLUSTERQUEUE", "PENDING", "ADMITTED", "OLDEST", "HELD"]
    return columns([*(["NAMESPACE"] if everywhere else []), *head], rows)


def in_line(found: Iterable[Any]) -> str:
    """Return who waits in a LocalQueue, in its order."""
    ordered = sorted(found, key=lambda one: one["position"]["positionInLocalQueue"])
    return columns(
        ["POSITION", "NAME", "PRIORITY", "QUEUED", "STARTS", "WHY", "MESSAGE"],
        [
            [
                one["position"]["positionInClusterQueue"],
                one["metadata"]["name"],
                one["position"]["priority"],
                ago(one["position"].get("queuedTime")),
                starts(one["position"].get("expectedStart")),
                (one["position"].get("waiting") or {}).get("reason", ""),
                plain((one["position"].get("waiting") or {}).get("message", "")),
            ]
            for one in ordered
        ],
    )


def cluster_queues(found: Iterable[Any]) -> str:
    """Return ClusterQueues by how full they are."""
    return columns(
        ["CLUSTERQUEUE", "PENDING", "ADMITTED", "OLDEST", "USED"],
        [
            [
                one["metadata"]["name"],
                one["groups"]["pending"],
                one["groups"]["admitted"],
                ago(one["groups"].get("oldest")),
                usage(one["usage"]),
            ]
            for one in found
        ],
    )


def days(found: Iterable[Any], everywhere: bool) -> str:
    """Return resource-hours by day."""
    head = ["DAY", "RESOURCE", "RUNNING", "PODS", "HELD", "WASTED", "WAITED", "UNADMITTED", "COST"]
    rows = [
        [
            *([one["metadata"]["namespace"]] if everywhere else []),
            one["metadata"]["name"],
            used["resource"],
            f"{used['running']:.3f}",
            used["pods"],
            *(f"{used[word]:.3f}" for word in ("held", "wasted", "waited", "unadmitted")),
            ""
            if used.get("cost") is None
            else f"{used['cost']:.2f} {one.get('currency', '')}".rstrip(),
        ]
        for one in found
        for used in one["usage"]
    ]
    return columns([*(["NAMESPACE"] if everywhere else []), *head], rows)


def event(one: Any) -> str:
    """Return a change of a group as one line."""
    group = one["object"]
    meta, status = group["metadata"], group["status"]
    state = "Gone" if one["type"] == "DELETED" else status["state"]
    pods = status["pods"]
    waiting = status.get("waiting") or {}
    now = f"{pods['running'] + pods['succeeded']}/{group['spec'].get('pods') or pods['seen']} pods"
    said = plain(waiting.get("message") or status.get("message", ""))
    title = f"{meta['namespace']}/{meta['name']}"
    return f"{datetime.now(UTC):%H:%M:%S}  {title}  {state}  {now}  {said}".rstrip()
