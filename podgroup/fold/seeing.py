"""What happened to a known pod since it was seen last: the difference of two of its views.

Invariant: the flags by which a group counts the pod are still to be set anew.
"""

from msgspec.structs import replace as replace_fields

from podgroup.fold import sentences as say
from podgroup.fold.common import end_expectation, note
from podgroup.fold.failures import failures
from podgroup.fold.group import reporting
from podgroup.fold.placing import larger, replace
from podgroup.fold.podwaits import pod_waits
from podgroup.fold.progress import progress, ungated
from podgroup.log.dialects import ROLES, declaration, declared, declares_alike
from podgroup.log.journal import At
from podgroup.model.ids import PodUID, newer
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_TOTAL_COUNT,
    POD_GROUP_ROLE,
    POD_GROUP_ROLE_COUNT,
)
from podgroup.model.objects import PodView
from podgroup.model.quantities import format_amount
from podgroup.state.group import Group
from podgroup.state.pod import Pod
from podgroup.state.termination import ENDINGS, answers, terminating
from podgroup.state.world import World


def see(world: World, here: At, group: Group, pod: Pod, view: PodView, same: bool) -> None:
    """Write down what happened to a pod since it was seen last; its flags are still to be set."""
    before, pod.view = pod.view, view
    if view.deleted_at is not None or pod.terminating is not None:
        known = pod.terminating
        pod.terminating = terminating(world.policy, here.at, known, before, view)
        if answers(view) is not answers(before):
            world.members[group.id].moves += 1
        if known is not None and view.grace_s != before.grace_s:
            for purpose in ENDINGS:  # it may be due before what was waited for
                world.meta.timers.pop(f"{purpose}/{group.id}/", None)
    if pod.hiding is not None and pod.hiding.since is not None:
        pod.hiding = replace_fields(pod.hiding, since=None)
        note(world, here, "PodFound", group.id, view.uid, "", say.FOUND_AGAIN)
    deleted = view.deleted_at is not None
    if deleted and before.deleted_at is None:
        pod.deleted_while_gated = ADMISSION_GATE in before.gates
    if before.gates and view.gates != before.gates:
        for gate in before.gates:
            if gate not in view.gates:
                ungated(world, here, group, pod, gate, before)
    if deleted or view.phase != before.phase or view.node != before.node:
        progress(world, here, group, pod, before)
    failures(world, here, pod, before)
    pod_waits(world, here, pod, before)
    if not same:
        if view.requests != before.requests:
            _resized(world, here, group, pod, before)
        _recount(world, here, group, before, view)
        if before.labels.get(POD_GROUP_ROLE) != view.labels.get(POD_GROUP_ROLE) and pod.gated:
            replace(world, group, pod)
    if pod.refused is not None and _shows(pod.refused[0], pod):
        pod.refused = None
    if pod.expect is not None and _observed(pod):
        pod.refused = None
        end_expectation(world, group, pod, indexed=False)


def _resized(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """A pod asks for other amounts than it did (subresource `pods/resize`): those are charged.

    One at its gate is placed anew: quota is asked for what it wants now, where it was not given
    any yet, and what is more than its group was given keeps it at its gate.
    """
    view = pod.view
    sizes = ", ".join(
        say.became(name, *(format_amount(name, v.requests.get(name, 0)) for v in (before, view)))
        for name in sorted({*before.requests, *view.requests})
        if before.requests.get(name, 0) != view.requests.get(name, 0)
    )
    note(world, here, "PodResized", group.id, view.uid, "", say.resized(view.name, sizes))
    world.members[group.id].moves += 1
    if ADMISSION_GATE in view.gates:
        if group.single and group.quota.holding is None:
            group.roles[pod.role].requests = view.requests
        elif not group.single:
            replace(world, group, pod)
    pod.larger = larger(group, pod.role, view)


def _recount(world: World, here: At, group: Group, before: PodView, view: PodView) -> None:
    """B8: a size declared anew after composition is not obeyed, but it is not silent either."""
    if not group.composition.done:
        return
    if group.spec.dialect != ROLES and declares_alike(view, before):
        return
    if declaration(before) == declaration(view):
        counts = [v.annotations.get(POD_GROUP_ROLE_COUNT, "1") for v in (before, view)]
        if group.spec.dialect != ROLES or counts[0] == counts[1]:
            return
        old, new = (f"{POD_GROUP_ROLE_COUNT}: {count}" for count in counts)
    elif group.spec.dialect:
        old, new = declared(before), declared(view)
    else:
        old, new = (v.annotations.get(GROUP_TOTAL_COUNT, "") for v in (before, view))
    reporting.recounted(group, (PodUID(view.uid), old, new))
    note(
        world,
        here,
        "TotalCountChanged",
        group=group.id,
        pod=view.uid,
        reason="ignored",
        message=say.recounted(view.name, old, new, group.composition.total),
    )


def _observed(pod: Pod) -> bool:
    """Tell whether what was decided about a pod has become visible on it."""
    expectation = pod.expect
    assert expectation is not None
    version = expectation.result_version
    if version and not newer(version, pod.view.resource_version):
        return True
    return _shows(expectation.action, pod, expectation.grace_s)


def _shows(action: str, pod: Pod, most_s: int | None = None) -> bool:
    """Tell whether a pod is as after such a write, with `most_s` seconds of grace at most."""
    match action:
        case "UngatePod":
            return not pod.gated
        case "FinalizePod":
            return not pod.held
        case "DeletePod":
            return not pod.held and pod.deleting
        case "StopPod":
            given_s = pod.view.grace_s
            return pod.deleting and (most_s is None or given_s is None or given_s <= most_s)
        case _:
            return False
