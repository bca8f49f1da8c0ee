"""Carrying out commands on pods: the order of requests, and the next step after each answer.

Theory. Where one request suffices, one is sent: finalizers and conditions go by strategic merge,
guarded by the uid, without a read first. Ungating tries a patch that tests all it relies on, and
reads the pod only when the patch is refused (or has been refused too often lately: pods with a node
selector of their own always need a read). Before a pod is deleted it is read, unless it was seen
before: it must be inside of the fence. A message in the status is optional: no write that stops a
pod or frees its finalizer waits for it. Deletes carry the uid as a precondition; after a 409 the
object that has the name now is read.

Invariant: no function here changes a pod with another uid, and each may be repeated from the start
at any point.
"""

from collections.abc import Callable
from datetime import datetime

from actuator import fence, patches
from actuator.kubeapi import JSON_PATCH, STRATEGIC_PATCH, KubeApi
from actuator.replies import Reply
from actuator.verdicts import Verdict, applied, gone_from, judge, rejected
from actuator.workloadcache import Look, Unread
from podgroup.model.commands import (
    DeletePod,
    FinalizePod,
    KeepPod,
    ObjectRef,
    ReportPod,
    StopPod,
    UngatePod,
)
from podgroup.model.names import ADMISSION_GATE, PODSET_LABEL, SINGLE_PODSET, TOPOLOGY_GATE

CONFLICT = 409
"""HTTP status in the outcome of an ungating whose values contradict the pod: it cannot succeed."""


async def ungate(api: KubeApi, command: UngatePod) -> Verdict:
    """Remove the gates and merge labels, annotations and node selector, in one patch.

    The answer is kept for the Workload of a single pod, unless the topology gate was removed: the
    Workload's template is of a pod that has this gate.
    """
    if _single(command) and TOPOLOGY_GATE not in command.gates:
        with api.ungated.under_way(command.target.uid):
            return await _ungate(api, command, api.ungated.remember)
    return await _ungate(api, command, lambda _: None)


def _single(command: UngatePod) -> bool:
    return command.labels.get(PODSET_LABEL) == SINGLE_PODSET


def _lets_in(command: UngatePod) -> bool:
    return ADMISSION_GATE in command.gates


async def _ungate(api: KubeApi, command: UngatePod, keep: Callable[[Reply], None]) -> Verdict:
    if fence.strange_keys(command):
        beyond = await _unasked(api, command)
        if beyond is not None:
            return beyond
    unread = api.unread[_single(command)]
    operations, tried = None, unread.likely
    if unread.guess.worth_trying():
        operations = patches.ungate_unread(
            command,
            annotated=tried.annotated,
            untrack=tried.untrack and _lets_in(command),
        )
    if operations is not None:
        reply = await api.patch(command.target, operations, JSON_PATCH)
        keep(reply)
        verdict = judge(reply)
        if verdict.status == "applied":
            api.inside.add(command.target.uid)
            unread.guess.learn(True)
        if not verdict.again:
            return verdict
    return await _ungate_read(api, command, unread, None if operations is None else tried)


async def _unasked(api: KubeApi, command: UngatePod) -> Verdict | None:
    """Check that an admission check asked for the foreign keys; None if it did."""
    target = ObjectRef(kind="Workload", namespace=command.target.namespace, name=command.workload)
    found = await api.get(target)
    gone = gone_from(found, target)
    if gone is not None:
        return gone
    beyond = fence.unasked(command, found.object())
    return rejected(f"outside of the fence: {beyond}") if beyond else None


async def _ungate_read(
    api: KubeApi, command: UngatePod, unread: Unread, tried: Look | None
) -> Verdict:
    """Read the pod, then ungate it: this separates conflicts, other gates and repetitions.

    `tried` is the guess about the pod that was wrong, None without a guess.
    """
    target = command.target
    found = await api.get(target)
    gone = gone_from(found, target)
    if gone is not None:
        return gone
    beyond = _not_ours(api, found)
    if beyond is not None:
        return beyond
    pod = found.object()
    seen = Look(bool(pod["metadata"].get("annotations")), api.untrack and patches.may_untrack(pod))
    unread.looked(seen, tried)
    match patches.ungate(command, pod, untrack=seen.untrack and _lets_in(command)):
        case patches.Unchanged():
            return applied(found, f"{found.path}: the gates are gone already", unchanged=True)
        case patches.Conflict(message=message):
            return rejected(f"{found.path}: {message}", CONFLICT)
        case patches.Patch(operations=operations):
            return judge(await api.patch(target, operations, JSON_PATCH))


async def finalize(api: KubeApi, command: FinalizePod) -> Verdict:
    """Take our finalizer out; absent is as good as removed."""
    reply = await _strip(api, command.target)
    if reply.status == 409:
        found = await api.get(command.target)
        return gone_from(found, command.target) or judge(reply)
    return judge(reply)


async def restore_label(api: KubeApi, command: KeepPod) -> Verdict:
    """Put the label of watched pods back, if the pod still has this uid."""
    target = command.target
    beyond = await _beyond(api, target)
    if beyond is not None:
        return beyond
    reply = await api.patch(target, patches.managed_again(target.uid), STRATEGIC_PATCH)
    if reply.status == 409:
        found = await api.get(target)
        return gone_from(found, target) or judge(reply)
    return judge(reply)


async def delete(api: KubeApi, command: DeletePod) -> Verdict:
    """Take our finalizer out, then delete."""
    beyond = await _beyond(api, command.target)
    if beyond is not None:
        return beyond
    stripped = await _strip(api, command.target)
    if not stripped.ok:
        return judge(stripped)
    verdict = await delete_only(api, command.target, command.grace_s)
    if verdict.status == "obsolete":
        # The pod was there a moment ago: only our finalizer kept it, or another client was faster.
        return applied(stripped)
    return verdict


async def stop(api: KubeApi, command: StopPod, at: datetime) -> Verdict:
    """Write the reason into the status, delete the pod, and release it if so commanded.

    The reason is optional: it is written once, and the pod is deleted whatever the answer. `at` is
    the time of the decision: the transition time of the condition.
    """
    target = command.target
    beyond = await _beyond(api, target)
    if beyond is not None:
        return beyond
    marked = None
    if target.uid not in api.marked and not api.slow:
        marked = await api.patch_status(target, patches.termination_target(command, at))
        said = judge(marked)
        if said.status == "obsolete":
            return said
        if not said.whole_server:
            api.marked.add(target.uid)
    deleted = await delete_only(api, target, command.grace_s)
    if deleted.status == "obsolete" and marked is not None and marked.ok:
        return applied(marked)
    if deleted.status != "applied" or not command.finalize:
        return deleted
    stripped = await _strip(api, target)
    if stripped.ok:
        return applied(stripped)
    verdict = judge(stripped)
    return deleted if verdict.status == "obsolete" else verdict


async def report(api: KubeApi, command: ReportPod, at: datetime) -> Verdict:
    """Say in the status why the pod waits."""
    condition = patches.admitted_condition(command, at)
    reply = await api.report_status(command.target, condition)
    if not reply.ok:
        return judge(reply)
    return _not_ours(api, reply) or applied(reply)


async def _beyond(api: KubeApi, target: ObjectRef) -> Verdict | None:
    """Read a pod that was not seen before; return a verdict if it is gone, or not ours."""
    if target.uid in api.inside:
        return None
    found = await api.get(target)
    return gone_from(found, target) or _not_ours(api, found)


def _not_ours(api: KubeApi, found: Reply) -> Verdict | None:
    """Return a verdict if the pod in an answer is not ours; a pod of ours is remembered."""
    if found.uid in api.inside:
        return None
    why = fence.outside(found.object())
    if why:
        return rejected(f"{found.path}: {why}")
    api.inside.add(found.uid)
    return None


async def _strip(api: KubeApi, target: ObjectRef) -> Reply:
    return await api.patch(target, patches.without_finalizer(target.uid), STRATEGIC_PATCH)


async def delete_only(api: KubeApi, target: ObjectRef, grace_s: int | None = None) -> Verdict:
    """Delete the pod, if it still has this uid; `grace_s` as in `patches.delete_options`."""
    reply = await api.delete(target, patches.delete_options(target.uid, grace_s))
    if reply.status != 409:
        return judge(reply)
    found = await api.get(target)
    return gone_from(found, target) or judge(reply)
