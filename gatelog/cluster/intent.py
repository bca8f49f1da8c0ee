"""Stop and resume: requests to the API server about queues and groups.

Theory. `spec.stopPolicy` of a ClusterQueue or LocalQueue stops admission (Hold), and also evicts
admitted groups (HoldAndDrain); `spec.active` of a group's Workload does so for the group. Both take
effect in either mode, by Kueue or by us. An annotation beside it has the reason and its author:
ingest reads it, so the event log has both in one event.

Invariant: an object is read, then patched on condition that it has not changed since.
"""

from typing import Any, Literal, NamedTuple

from gatelog.cluster import clusterinfo
from gatelog.shell.errors import CommandFailed
from podgroup.model.limits import PERSONS_REASON_CHARS
from podgroup.model.names import (
    GROUP_NAME,
    REASON_ANNOTATION,
    REASON_BY_ANNOTATION,
    workload_name,
)
from runtime.kube import KubeClient

What = Literal["clusterqueue", "localqueue", "group"]
Stop = Literal["None", "Hold", "HoldAndDrain"]
DryRun = Literal["none", "client", "server"]
"""Whether a write is kept, only shown (client), or checked by the API server and not stored."""
_PLURALS: dict[What, str] = {
    "clusterqueue": "clusterqueues",
    "localqueue": "localqueues",
    "group": "workloads",
}
_TRIES = 5


class Done(NamedTuple):
    """An object as the API server has it now, its title, and whether it was changed."""

    obj: dict[str, Any]
    title: str
    changed: bool = True


class Queue(NamedTuple):
    """A queue by kind, namespace ("" for a ClusterQueue) and name."""

    what: What
    namespace: str
    name: str


async def set_queue(
    kube: KubeClient, queue: Queue, stop: Stop, reason: str, *, dry: DryRun
) -> Done:
    """Set the stop policy of a queue.

    Raises:
        CommandFailed: the queue does not exist, or the API server refuses.
    """
    what, namespace, name = queue
    path = await _path(kube, what, namespace, name)
    for _ in range(_TRIES):
        found = await _read(kube, path, f"{what} {name}")
        if (found["spec"].get("stopPolicy") or "None") == stop and not reason:
            return Done(found, _title(what, name), changed=False)
        done = await _patched(kube, path, found, {"stopPolicy": stop}, reason, dry=dry)
        if done is not None:
            return Done(done, _title(what, name))
    raise CommandFailed(f"{path} changes all the time: try again")


async def set_group(
    kube: KubeClient, namespace: str, name: str, reason: str, *, active: bool, dry: DryRun
) -> Done:
    """Set whether a group may be admitted, in its Workload.

    Raises:
        CommandFailed: there is no such group, or it has no Workload (yet).
    """
    workload = await _workload_of(kube, namespace, name)
    path = await _path(kube, "group", namespace, workload)
    for _ in range(_TRIES):
        found = await _read(kube, path, f"Workload {namespace}/{workload}")
        if (found["spec"].get("active") is not False) == active and not reason:
            return Done(found, _title("group", workload), changed=False)
        done = await _patched(kube, path, found, {"active": active}, reason, dry=dry)
        if done is not None:
            return Done(done, _title("group", workload))
    raise CommandFailed(f"{path} changes all the time: try again")


async def _has_workload(kube: KubeClient, namespace: str, name: str) -> bool:
    """Return whether a Workload exists; True where this account may not look."""
    found = await clusterinfo.seen(kube, await _path(kube, "group", namespace, name))
    return found is None or bool(found)


async def _path(kube: KubeClient, what: What, namespace: str, name: str) -> str:
    version = (await clusterinfo.kueue(kube)).version
    if not version:
        raise CommandFailed(
            f"{kube.server} serves none of {clusterinfo.KUEUE_GROUP}: is gatelog or Kueue "
            "installed on this cluster?"
        )
    place = f"/namespaces/{namespace}" if what in ("localqueue", "group") else ""
    return f"/apis/{clusterinfo.KUEUE_GROUP}/{version}{place}/{_PLURALS[what]}/{name}"


async def _read(kube: KubeClient, path: str, title: str) -> dict[str, Any]:
    status, found = await kube.json("GET", path)
    if status == 404:
        raise CommandFailed(f"there is no {title}")
    if status != 200:
        raise CommandFailed(f"cannot read {title}: {_said(status, found)}")
    return dict(found)


async def _patched(
    kube: KubeClient,
    path: str,
    found: dict[str, Any],
    spec: dict[str, Any],
    reason: str,
    *,
    dry: DryRun,
) -> dict[str, Any] | None:
    """Patch an object; None when it was changed meanwhile. Without a reason the old reason goes."""
    meta = found["metadata"]
    marks = await _reason(kube, reason) if reason else _NO_REASON
    if dry == "client":
        kept = {**(meta.get("annotations") or {}), **marks}
        annotations = {name: text for name, text in kept.items() if text is not None}
        shown = {**meta, "annotations": annotations}
        return {**found, "metadata": shown, "spec": {**found["spec"], **spec}}
    guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "annotations": marks}
    status, answer = await kube.json(
        "PATCH",
        path,
        body={"metadata": guard, "spec": spec},
        content_type="application/merge-patch+json",
        params=_params(dry),
    )
    if status == 409:
        return None
    if status != 200:
        raise CommandFailed(f"cannot patch {path}: {_said(status, answer)}")
    return dict(answer)


_NO_REASON = {REASON_ANNOTATION: None, REASON_BY_ANNOTATION: None}


async def _reason(kube: KubeClient, reason: str) -> dict[str, str | None]:
    return {
        REASON_ANNOTATION: _one_line(reason),
        REASON_BY_ANNOTATION: await clusterinfo.user(kube) or None,
    }


def _one_line(reason: str) -> str:
    text = " ".join(reason.split())
    if len(text) > PERSONS_REASON_CHARS:
        raise CommandFailed(
            f"--reason has {len(text)} characters, {PERSONS_REASON_CHARS} are taken"
        )
    return text


async def _workload_of(kube: KubeClient, namespace: str, name: str) -> str:
    """Return the Workload of a group, of a pod of a group, or of a single pod."""
    if await _has_workload(kube, namespace, name):
        return name
    status, pod = await kube.json("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    if status == 200:
        meta = pod["metadata"]
        texts = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
        workload = texts.get(GROUP_NAME) or workload_name(name, meta["uid"])
        if GROUP_NAME in texts or await _has_workload(kube, namespace, workload):
            return str(workload)
        raise CommandFailed(
            f"pod {namespace}/{name} has no Workload, which is what is stopped: gatelog has not "
            "made it yet (gatelog why says what it waits for), or single pods do without "
            "(queueing.workloads=groups): delete the pod, or stop its queue"
        )
    raise CommandFailed(
        f"there is no Workload {namespace}/{name}, nor a pod of that name: a group gets its "
        "Workload once all its pods are there (gatelog why says what it waits for)"
    )


def _params(dry: DryRun) -> dict[str, str]:
    return {"dryRun": "All"} if dry == "server" else {}


def _title(what: str, name: str) -> str:
    kind = "workload" if what == "group" else what
    return f"{kind}.{clusterinfo.KUEUE_GROUP}/{name}"


def _said(status: int, answer: Any) -> str:
    return f"{status}: {(answer or {}).get('message') or 'no message'}"
