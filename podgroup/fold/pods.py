"""Fold of pod deltas: which life of which group, what happened to the pod, what is observed.

Theory. A delta carries the pod as it is; what *happened* is the difference from the known pod
(`change`, `progress`). Each difference of interest becomes a note. A pod joins a life of a group
(`lives`) and stays in it until it leaves (`leaving`), whatever its labels say while it may run.

Order of lookups: uid first (a uid is forever), then group name, then pod name.
Invariant: an older or equal resource version of a known pod changes nothing. A delta of an unknown
pod changes something only if it is newer than the newest seen of its kind, or a relist names it.
"""

from msgspec.structs import replace as replace_fields

from podgroup.fold import sentences as say
from podgroup.fold.change import happen, take_over
from podgroup.fold.claims import seen
from podgroup.fold.common import (
    EXCESS,
    KEPT,
    LOST,
    end_expectation,
    flags_of,
    index,
    listed,
    mark,
    note,
    see_version,
    stale,
)
from podgroup.fold.failures import failures
from podgroup.fold.group import departures, reporting
from podgroup.fold.leaving import disown, forget, hide, leave
from podgroup.fold.lives import lead, life, retry_workload
from podgroup.fold.placing import assigned_role, larger
from podgroup.fold.podwaits import pod_waits
from podgroup.fold.progress import progress, write_gate
from podgroup.fold.refusals import left_out, mended
from podgroup.fold.sharing import joined
from podgroup.fold.weighing import lighten, within
from podgroup.fold.workloads import claim
from podgroup.log.events import PodApplied
from podgroup.log.journal import At
from podgroup.model.ids import PodUID
from podgroup.model.interning import intern_times, joining, renewed, shared
from podgroup.model.names import (
    ADMISSION_GATE,
    ADMITTED_CONDITION,
    MANAGED_LABEL,
    MANAGED_VALUE,
    POD_FINALIZER,
    QUEUE_NAME,
    group_name,
)
from podgroup.model.objects import PodView
from podgroup.model.weight import is_light, own_weight
from podgroup.state.changes import (
    of_joining,
)
from podgroup.state.facts import KUEUE
from podgroup.state.group import GROUP, SINGLE, Group, Role
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.termination import end_unseen, lost, terminating
from podgroup.state.world import World


def pod_seen(world: World, here: At, event: PodApplied, _: int) -> None:
    """Fold a pod that a watch or a list shows; its group gets a Workload that existed before."""
    view = event.pod
    pod_applied(world, here, view, event.relist)
    if view.unread and view.uid in world.pods:
        left_out(world, here, view)
    if world.workloads:
        claim(world, here, view.uid)


def pod_applied(world: World, here: At, view: PodView, relist: str) -> None:
    """Fold a created, changed or listed pod."""
    uid = view.uid
    in_frame = bool(relist) and listed(world, "Pod", relist, uid)
    known = world.pods.get(uid)
    version = known.view.resource_version if known is not None else ""
    if stale(world, "Pod", view.resource_version, version, in_frame):
        return
    if world.meta.refused and not view.unread:
        mended(world, uid, known)
    if world.policy.device_classes or view.device_requests:
        view = seen(world, view)
    if view.phase == "Failed" and world.policy.deleted_node_timeout_s:
        view = _outliving(world, here, view, known)
    heavy = bool(world.weights) or not is_light(view)
    if heavy:
        view = within(world, view)
    if known is not None:
        if in_frame and "Pod" in world.meta.rewound and _taken_back(known.view, view):
            world.meta.undone.add(known.group)
        before = known.view
        made = None if heavy and own_weight(view) else renewed(view, before)
        if made is None:
            view = shared(view, before)
        else:
            view = made
            if (
                made.labels is before.labels
                and made.annotations is before.annotations
                and made.labels.get(MANAGED_LABEL) == MANAGED_VALUE
            ):
                take_over(world, here, world.groups[known.group], known, made, True)
                return
    _sort_in(world, here, view, known, in_frame)


def _sort_in(world: World, here: At, view: PodView, known: Pod | None, in_frame: bool) -> None:
    """Fold a pod that is new or changed its own declarations: find the group that it belongs to."""
    wanted = (GROUP, view.namespace, group_name(view.labels, view.annotations))
    if not wanted[2]:
        wanted = (SINGLE, view.namespace, view.name)
    moved = False
    stays = known is not None and bool(_flags(world, known) & Flag.LIVE)
    if not stays and not _concerns_us(view):
        lighten(world, view)
        if known is not None:
            disown(world, here, world.groups[known.group], known)
        return
    if known is not None and not stays:
        group = world.groups[known.group]
        if (group.kind, group.namespace, group.name) != wanted:
            leave(world, here, group, known, say.GROUP_NAME_CHANGED)
            known, moved = None, True
    if known is not None:
        take_over(world, here, world.groups[known.group], known, view, False)
        return
    group = life(world, here, wanted, view, moved=moved or "Pod" in world.meta.rewound)
    if in_frame and "Pod" in world.meta.rewound and group.composition.done:
        world.meta.undone.add(group.id)
    _join(world, here, group, view)
    if not moved and (view.ends or view.conditions):
        failures(world, here, group, world.pods[PodUID(view.uid)], None)


def pod_deleted(
    world: World, here: At, view: PodView, *, inferred: bool = False, filtered: bool = False
) -> None:
    """Fold the end of a pod. `inferred`: a relist lacks the pod, and no watch saw it go.

    `filtered`: the watch or list has a label selector, so the pod may only have lost the label.
    """
    uid = view.uid
    see_version(world, "Pod", view.resource_version)
    if world.meta.refused:
        mended(world, uid, None)
    pod = world.pods.get(uid)
    if pod is None:
        return
    if world.policy.device_classes or view.device_requests:
        view = seen(world, view)
    group = world.groups[pod.group]
    # A pod past its gate, or being ungated, may run by now.
    if filtered and not view.ended and _flags(world, pod) & (Flag.LIVE | Flag.OPENING):
        hide(world, here, group, pod, view)
        return
    if filtered and view.ended and not inferred and view.deleted_at is None and pod.held:
        # A managed pod ended and lost the label: its end counts, and our finalizer comes off.
        departures.disowned(group, pod, gated=False)
    elif not inferred and view.deleted_at is None and POD_FINALIZER in view.finalizers:
        # An object with a finalizer is only gone after its deletion was requested, so this pod left
        # our selector.
        disown(world, here, group, pod)
        return
    if inferred and pod.held and not pod.deleting and not _being_released(pod):
        # Gone, or out of our selector: a patch that names the pod's uid will find out.
        departures.disowned(group, pod, gated=pod.gated)
        departures.strayed(group)
        mark(world, group.id)
    members = world.members[group.id]
    flags = members.flags[uid]
    if not inferred:
        happen(world, here, group, pod, view, False)
        flags |= flags_of(pod, group.spec.serving, uid in members.owned)
    pod.gone_at = here.at
    if not pod.fate:
        pod.fate = KEPT if pod.terminated else LOST
    role = group.roles[pod.role]
    if view.phase == "Succeeded" and pod.fate != EXCESS and not group.spec.serving:
        # Before the group is composed there are no places, so a success keeps none.
        role.succeeded_gone += group.composition.done
    how = say.GONE_BY_RELIST if inferred else ""
    note(world, here, "PodGone", group.id, uid, pod.fate, how)
    if end_expectation(world, group, pod, indexed=False):
        mark(world, group.id)
    forget(world, here, group, pod, flags)


def _taken_back(before: PodView, view: PodView) -> bool:
    """Tell whether a pod is as before an ungating, an end or a deletion that the log has."""
    return (
        (ADMISSION_GATE in view.gates and ADMISSION_GATE not in before.gates)
        or (before.ended and not view.ended)
        or (before.deleted_at is not None and view.deleted_at is None)
    )


def count_plainly(world: World, here: At, view: PodView, *, gone: bool) -> None:
    """Count a pod whose fold failed, as far as its charge needs: whether it may run.

    The pod's group is parked and goes no further, but its usage is charged until it has ended.
    """
    known = world.pods.get(view.uid)
    if known is None and gone:
        return
    view = seen(world, view)
    if known is None:
        bare = replace_fields(
            view, conditions=(), ends=(), waiting=(), sets=(), sets_key="", sets_problem=""
        )
        key = (GROUP, view.namespace, group_name(view.labels, view.annotations))
        if not key[2]:
            key = (SINGLE, view.namespace, view.name)
        if _concerns_us(view):
            _join(world, here, life(world, here, key, bare, moved=False), bare)
        return
    group = world.groups[known.group]
    if gone:
        known.gone_at, known.fate = here.at, known.fate or LOST
        forget(world, here, group, known, _flags(world, known))
        return
    state = known.terminating
    known.terminating = terminating(world.policy, here.at, state, known.view, view)
    known.view = view
    index(world, group, known)
    mark(world, group.id)
    pod_waits(world, here, group, known, None)  # the failed fold may have come so far, or not


def _outliving(world: World, here: At, view: PodView, known: Pod | None) -> PodView:
    """Return a pod of a deleted Node with its former phase: phase Failed ends no container."""
    if world.mode == KUEUE or not end_unseen(view):
        return view
    state, before = (None, None) if known is None else (known.terminating, known.view)
    state = terminating(world.policy, here.at, state, before, view)
    lost_at = lost(world, state, view, here.at)
    if lost_at is not None and lost_at <= here.at:
        return view
    return replace_fields(view, phase=known.view.phase if known is not None else "Running")


def _flags(world: World, pod: Pod) -> int:
    return world.members[pod.group].flags[pod.view.uid]


def _being_released(pod: Pod) -> bool:
    return pod.expect is not None and pod.expect.may_end


def _join(world: World, here: At, group: Group, view: PodView) -> None:
    uid = view.uid
    members = world.members[group.id]
    first = members.first()
    view = joining(view, None if first is None else world.pods[first].view)
    gated = ADMISSION_GATE in view.gates
    name = assigned_role(world, group, view)
    role = group.roles.get(name)
    if role is None:
        role = group.roles[name] = Role(name=name, requests=view.requests)
    role.seen += 1
    pod = Pod(view, group.id, role.name, here.position, gated)
    pod.larger = larger(group, role.name, view)
    if view.deleted_at is not None:
        pod.terminating = terminating(world.policy, here.at, None, None, view)
    world.pods[uid] = pod
    joined(world, group, view)
    world.gone_pods.pop(uid, None)
    if group.departures.left:
        departures.left(group, False)
    if view.conditions:
        _reported(group, pod)
    if view.gates:
        pod.gate_added = intern_times(dict.fromkeys(view.gates, view.created_at))
        for gate in view.gates:
            write_gate(world, pod, gate, view.created_at)
    seen = say.GATED if gated else say.NOT_GATED
    note(world, here, "PodSeen", group.id, uid, seen, say.pod_seen(view.name, name))
    progress(world, here, group, pod)
    pod_waits(world, here, group, pod, None)
    index(world, group, pod)
    lead(world, group)
    retry_workload(group)
    mark(world, group.id, of_joining(world, group, pod.role, members.flags[uid], first))


def _reported(group: Group, pod: Pod) -> None:
    """Take over a pod's condition, which was written in another life, or before a loss."""
    for condition in pod.view.conditions:
        if condition.type == ADMITTED_CONDITION and condition.status == "False":
            pod.reported = (condition.reason, condition.message)
            reporting.conditions(group, 1)


def _concerns_us(view: PodView) -> bool:
    """Tell whether a pod is ours: by its label, or past the gate with a queue (B17)."""
    if view.labels.get(MANAGED_LABEL) == MANAGED_VALUE:
        return True
    return bool(view.labels.get(QUEUE_NAME)) and ADMISSION_GATE not in view.gates


def renew(world: World, here: At, group: Group, why: str = say.GROUP_OVER) -> None:
    """Begin another life for pods that came after the end of their group (`renewable`)."""
    members = world.members[group.id]
    pods = [world.pods[uid] for uid in members.flags]
    pods.sort(key=lambda p: (p.view.created_at, p.view.uid))
    for pod in pods:
        leave(world, here, group, pod, why)
    key = (group.kind, group.namespace, group.name)
    for pod in pods:
        _join(world, here, life(world, here, key, pod.view, moved=True), pod.view)
