"""What is printed: tables of the API, JSON and YAML, and sentences where a person asked why.

Theory. Columns and cells are the server's, as `kubectl get` shows them; here is only chosen which
of them answer a question.

Invariant: pure: from what the API answered to text; times are written as spans or in UTC.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gatelog.readmodel.timeline import TimelineEntry, plain
from gatelog.serve.words import ago

PENDING = ("Name", "State", "Queue", "Position", "Why", "For", "Starts", "Message")
QUEUES = ("Name", "ClusterQueue", "Pending", "Admitted", "Oldest", "Usage")
IN_LINE = ("Position", "Name", "Priority", "Queued", "Starts", "Why", "Message")
CLUSTER_QUEUES = ("Name", "Pending", "Admitted", "Oldest", "Usage")
DAYS = ("Name", "Resource", "Running", "Pods", "Held", "Wasted", "Waited", "Unadmitted", "Cost")


class TableRow(NamedTuple):
    """A row of a table of the API: its object, and its cells by the name of their column."""

    namespace: str
    uid: str
    cells: dict[str, Any]


def rows(table: Any) -> list[TableRow]:
    """Return the rows of a Table (meta.k8s.io/v1)."""
    names = [column["name"] for column in table["columnDefinitions"]]
    found = []
    for row in table["rows"]:
        meta = row["object"]["metadata"]
        cells = dict(zip(names, row["cells"], strict=True))
        found.append(TableRow(meta.get("namespace", ""), meta.get("uid", ""), cells))
    return found


def texts(
    found: Iterable[TableRow], columns: Sequence[str], everywhere: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return the headings and cells of chosen columns; `everywhere`: with namespaces.

    Messages are without what says nothing to people.
    """
    first = ["Namespace"] if everywhere else []
    made = []
    for row in found:
        cells = [str(row.cells[name]) for name in columns]
        if "Message" in columns:
            cells[columns.index("Message")] = plain(row.cells["Message"])
        made.append([*([row.namespace] if everywhere else []), *cells])
    return [name.upper() for name in (*first, *columns)], made


def title(group: Any) -> tuple[str, str]:
    """Return the name of a group, and its state, queue and priority."""
    meta, spec, status = group["metadata"], group["spec"], group["status"]
    return (
        f"{meta['namespace']}/{meta['name']}",
        f"{status.get('ended') or status['state']}, queue {spec.get('queue') or '(none)'}"
        + (f" of ClusterQueue {status['clusterQueue']}" if status.get("clusterQueue") else "")
        + (f", priority {spec['priority']}" if spec.get("priority") else ""),
    )


def why(group: Any, reasons: Any, admissions: Any) -> str:
    """Return why a group is where it is, in lines of a label and its text."""
    pods = group["status"]["pods"]
    declared = group["spec"].get("pods") or pods["seen"]
    of = f"{pods['running']} run, {pods['succeeded']} succeeded, {pods['gated']} at their gate"
    lines: list[tuple[str, str]] = [
        title(group),
        (
            "pods",
            f"{declared} declared, {pods['seen']} seen: {of}",
        ),
    ]
    lines += [(one["label"], one["text"]) for one in (reasons or {}).get("explanation", [])]
    for one in (admissions or {}).get("admissions", [])[:3]:
        until = f", released {ago(one.get('releasedTime'))} ago: {one.get('releaseReason', '')}"
        held = until if one.get("releasedTime") else ", and holds it"
        lines.append(("admitted", f"{ago(one['admittedTime'])} ago by {one['clusterQueue']}{held}"))
    width = max(len(word) for word, _ in lines)
    return "\n".join(f"{word.ljust(width)}  {text}".rstrip() for word, text in lines)


_WORDS = ("source", "kind", "reason", "message", "pod", "rule", "status", "decision")


def entries(history: Any) -> list[TimelineEntry]:
    """Return the entries of a history as the story is made from."""
    return [
        TimelineEntry(
            seq=one.get("position", 0),
            ord=one.get("order", 0),
            at=datetime.fromisoformat(one["time"]),
            until=datetime.fromisoformat(one["until"]) if one.get("until") else None,
            **{word: one.get(word, "") for word in _WORDS},
        )
        for one in history["entries"]
    ]


def event(one: Any) -> str:
    """Return a change of a group as one line."""
    group = one["object"]
    meta, status = group["metadata"], group["status"]
    state = "Gone" if one["type"] == "DELETED" else status.get("ended") or status["state"]
    pods = status["pods"]
    waiting = status.get("waiting") or {}
    now = f"{pods['running'] + pods['succeeded']}/{group['spec'].get('pods') or pods['seen']} pods"
    said = plain(waiting.get("message") or status.get("message", ""))
    title = f"{meta['namespace']}/{meta['name']}"
    return f"{datetime.now(UTC):%H:%M:%S}  {title}  {state}  {now}  {said}".rstrip()
