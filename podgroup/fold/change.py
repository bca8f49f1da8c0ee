"""Changes of a known pod: what follows from them, worked out in one place from before and after.

Theory. A delta carries the pod as it is; what happened is the difference between the view before
and the view after (`happen`). `_FOLLOWS` says what follows from each difference, in the order
in which history has it. Each of these functions sees both views and knows nothing of the others: it
writes notes, keeps the pod's own record, and counts in the pod's role. `take_over` has what follows
from all of them together: the flags by which the group counts the pod, and, from the flags before
and after, which changes of the group the rules have to look at.

Invariant: for a known pod, flags and the changes of its group follow from a view here alone.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace as replace_fields

from podgroup.fold import sentences as say
from podgroup.fold.common import end_expectation, index, note
from podgroup.fold.failures import failures
from podgroup.fold.group import reporting
from podgroup.fold.leaving import look_at_places, one_ended
from podgroup.fold.lives import lead, retry_workload
from podgroup.fold.placing import larger, replace
from podgroup.fold.podwaits import pod_waits
from podgroup.fold.progress import deletion_requested, gates_removed, phased, scheduled
from podgroup.log.dialects import ROLES, declaration, declared, declares_alike
from podgroup.log.journal import At
from podgroup.model.ids import PodUID, newer
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_TOTAL_COUNT,
    POD_GROUP_ROLE,
    POD_GROUP_ROLE_COUNT,
    QUEUE_NAME,
)
from podgroup.model.objects import PodView
from podgroup.model.quantities import format_amount
from podgroup.state.changes import EVERYTHING, nothing_read, of_pod, only_ungated, rules_read
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.termination import DISRUPTION, ENDINGS, answers, terminating
from podgroup.state.world import World

_GATES: Final = 1
_NODE: Final = 2
_PHASE: Final = 4
_DELETION: Final = 8
_FINALIZERS: Final = 16
"""The finalizers of a pod that is being deleted."""
_CONDITIONS: Final = 32
_ENDS: Final = 64
"""How its containers ended, or why the pod did."""
_WAITING: Final = 128
_OF_ITSELF: Final = 256
"""The pod's own declarations: labels, annotations, amounts."""
_ENDING: Final = 512
"""The pod is or was being deleted: each view may show that its kubelet answers."""
_OUT_OF_SIGHT: Final = 1024
_DISRUPTION: Final = 2048
"""Conditions, with DisruptionTarget among them, by which the cluster ends a pod."""
_AWAITED: Final = 4096
"""A decision about the pod is in flight, or was refused: each view may show its effect."""

Follows = Callable[[World, At, Group, Pod, PodView], None]
"""(world, here, group, pod with its new view, view before)."""


def take_over(world: World, here: At, group: Group, pod: Pod, view: PodView, same: bool) -> None:
    """Take over the new view of a known pod, with all that follows from it.

    `same`: the pod is managed, and its own declarations are as before; so it is with most changes.
    """
    before, role, members = pod.view, pod.role, world.members[group.id]
    old = members.flags[view.uid]
    happen(world, here, group, pod, view, same)
    resized = not same and view.requests != before.requests
    counts_same = same or (_counts_same(before, view) and not resized)
    new = index(world, group, pod, old if counts_same else None)
    if old & Flag.LIVE and not new & Flag.LIVE:
        one_ended(world, group)
    # While a group holds quota its queue stays, so only a new first pod can change the group.
    settled = same and group.composition.done and group.quota.holding is not None
    led = (not settled or (old ^ new) & Flag.FAILED) and lead(world, group)
    last = group.mirror
    retried = last.workload is None and not last.too_large and retry_workload(group)
    dirty = world.dirty_groups
    known, looks = dirty.get(group.id, 0), EVERYTHING
    if (
        known != EVERYTHING
        and not (led or retried or resized)
        and (same or _reads_same(before, view, old & ~new))
        and pod.role == role
        and world.track_changes
    ):
        looks = of_pod(world, group, old, new)
        if looks and old == new and nothing_read(world, group, before, view, new):
            looks = 0
    dirty[group.id] = known | looks
    world.journal.groups.add(group.id)
    if world.nodes and old != new:
        look_at_places(world, group, view)


def happen(world: World, here: At, group: Group, pod: Pod, view: PodView, same: bool) -> None:
    """Give a pod its new view and write down what happened; the caller sets the pod's flags."""
    before, pod.view = pod.view, view
    happened = 0 if same else _OF_ITSELF
    if view.gates != before.gates:
        happened |= _GATES
    if view.node != before.node:
        happened |= _NODE
    if view.phase != before.phase:
        happened |= _PHASE
    if view.conditions is not before.conditions:
        happened |= _CONDITIONS
        for one in view.conditions:
            if one.type == DISRUPTION:
                happened |= _DISRUPTION
    if view.ends != before.ends or view.reason != before.reason:
        happened |= _ENDS
    if view.waiting != before.waiting:
        happened |= _WAITING
    if view.deleted_at is not None:
        if before.deleted_at is None:
            happened |= _DELETION
        if view.finalizers != before.finalizers:
            happened |= _FINALIZERS
    elif before.deleted_at is not None:
        happened |= _DELETION
    if view.deleted_at is not None or pod.terminating is not None:
        happened |= _ENDING
    if pod.hiding is not None and pod.hiding.since is not None:
        happened |= _OUT_OF_SIGHT
    if pod.expect is not None or pod.refused is not None:
        happened |= _AWAITED
    for follows in _STORIES[happened]:
        follows(world, here, group, pod, before)


def _ends(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """Work out how long a pod that is being deleted has, and whether its kubelet answers."""
    view, known = pod.view, pod.terminating
    pod.terminating = terminating(world.policy, here.at, known, before, view)
    if answers(view) is not answers(before):
        world.members[group.id].moves += 1
    if known is not None and view.grace_s != before.grace_s:
        for purpose in ENDINGS:  # the pod may be due before the timer
            world.meta.timers.pop(f"{purpose}/{group.id}/", None)
    if view.deleted_at is not None and before.deleted_at is None:
        pod.deleted_while_gated = ADMISSION_GATE in before.gates


def _found(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """Note that a hidden pod is in the watch again."""
    if pod.hiding is not None:
        pod.hiding = replace_fields(pod.hiding, since=None)
    note(world, here, "PodFound", group.id, before.uid, "", say.FOUND_AGAIN)


def _says_other(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """Take over a pod's new amounts, declaration and role."""
    view = pod.view
    if view.requests != before.requests:
        _resized(world, here, group, pod, before)
    _recount(world, here, group, before, view)
    if before.labels.get(POD_GROUP_ROLE) != view.labels.get(POD_GROUP_ROLE) and pod.gated:
        replace(world, group, pod)


def _answered(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """End a decision in flight about a pod, or a refusal, once the pod shows the effect."""
    if pod.refused is not None and _shows(pod.refused[0], pod):
        pod.refused = None
    if pod.expect is not None and _observed(pod):
        pod.refused = None
        end_expectation(world, group, pod, indexed=False)


_FOLLOWS: Final[tuple[tuple[int, Follows], ...]] = (
    (_ENDING, _ends),
    (_OUT_OF_SIGHT, _found),
    (_GATES, gates_removed),
    (_NODE, scheduled),
    (_PHASE, phased),
    (_DELETION, deletion_requested),
    (_ENDS | _DISRUPTION, failures),
    (_GATES | _NODE | _PHASE | _DELETION | _FINALIZERS | _CONDITIONS | _WAITING, pod_waits),
    (_OF_ITSELF, _says_other),
    (_AWAITED, _answered),
)
"""What differs -> what follows, in the order in which history has it."""


class _Stories(dict[int, tuple[Follows, ...]]):
    """All that differs, as one number -> what follows: combined once for each number."""

    def __missing__(self, happened: int) -> tuple[Follows, ...]:
        story = self[happened] = tuple(does for when, does in _FOLLOWS if when & happened)
        return story


_STORIES: Final = _Stories()


def _reads_same(before: PodView, view: PodView, lost: int) -> bool:
    """Tell whether all that rules read is the same in two views of a pod that `lost` some flags.

    Our ungating adds labels of our own: if rules ran for these of each pod, that would cost a tenth
    of a trickle of groups.
    """
    if lost & Flag.OPENING and lost & Flag.GATED:
        return only_ungated(before, view)
    return rules_read(view) == rules_read(before)


def _counts_same(before: PodView, view: PodView) -> bool:
    """Tell whether `Members` counts a pod as before: queue, declaration and age are the same."""
    return (
        declares_alike(view, before)
        and view.created_at == before.created_at
        and view.labels.get(QUEUE_NAME) == before.labels.get(QUEUE_NAME)
    )


def _resized(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """Take over a pod's changed requests (subresource `pods/resize`), which are charged.

    A gated pod is placed anew: without quota its group requests the new amount, and a pod that is
    larger than its group's admission stays gated.
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
    """B8: report a size that is declared anew after composition, and has no effect."""
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
    """Tell whether a pod shows the effect of the decision about it."""
    expectation = pod.expect
    assert expectation is not None
    version = expectation.result_version
    if version and not newer(version, pod.view.resource_version):
        return True
    return _shows(expectation.action, pod, expectation.grace_s)


def _shows(action: str, pod: Pod, most_s: int | None = None) -> bool:
    """Tell whether a pod shows the effect of an action, with `most_s` seconds of grace at most."""
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
