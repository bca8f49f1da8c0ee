"""Fold of pod deltas: which life of which group, what happened to the pod, what is observed.

Theory. A delta carries the pod as it is; what *happened* is the difference to the pod as known.
Each difference worth telling becomes a note. A life of a group opens with a pod and ends
when its last pod and its Workload are gone; the next pod of that name opens another life.

A pod that may run stays in its group until it has ended or is gone, whatever its labels say: what
it takes is charged there. When it leaves the sight of a watch that has a label selector, it may be
gone or without the label. It is *hidden* then, and stays what it was until either is known
(`rules.keep` has the label put back, which finds out).

Order of lookups: uid first (a uid is forever), then group name, then pod name.
Invariant: an older or equal resource version of a known pod changes nothing, and neither does a
delta of an unknown one that is not newer than the newest seen of its kind unless a relist names it.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace as replace_fields

from podgroup.fold.common import (
    EXCESS,
    KEPT,
    LOST,
    end_expectation,
    end_shortage,
    flags_of,
    index,
    listed,
    mark,
    new_members,
    note,
    stale,
    write_admission,
    write_places,
)
from podgroup.fold.failures import failures
from podgroup.fold.group import departures, ending, explained, mirror, reporting, spec
from podgroup.fold.naming import claim_name, give_up_name
from podgroup.fold.placing import assigned_role, declare, larger, replace
from podgroup.log.dialects import ROLES, declaration, declared
from podgroup.log.journal import At, GateRow, WaitRow
from podgroup.model.ids import GroupID, PodUID, group_id, newer
from podgroup.model.interning import intern_times, renewed, resembling, shared
from podgroup.model.names import (
    ADMISSION_GATE,
    ADMITTED_CONDITION,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    MANAGED_VALUE,
    POD_FINALIZER,
    POD_GROUP_ROLE,
    POD_GROUP_ROLE_COUNT,
    PRIORITY_CLASS,
    QUEUE_NAME,
    group_name,
    prebuilt_name,
    workload_name,
)
from podgroup.model.objects import PodView
from podgroup.model.quantities import format_amount
from podgroup.model.topology import HOSTNAME
from podgroup.state.changes import EVERYTHING, nothing_read, of_joining, of_leaving, of_pod
from podgroup.state.facts import (
    KEEP,
    KUEUE,
    cluster_queue_name,
    end_unseen,
    given_up_at,
    unwell,
)
from podgroup.state.group import GROUP, SINGLE, Group, Mirror, Role, Spec
from podgroup.state.members import Flag
from podgroup.state.pod import OutOfSelector, Pod
from podgroup.state.world import World

QUIET = timedelta(minutes=10)
"""After this long in peace a pod that loses its label has lost it for the first time."""
MAX_EAGER = 2
"""Refusals of a Workload after which changes of pods are no reason any more to try it again."""


def pod_applied(world: World, here: At, view: PodView, relist: str) -> None:
    """Fold a created, changed or listed pod."""
    uid = view.uid
    in_frame = bool(relist) and listed(world, "Pod", relist, uid)
    known = world.pods.get(uid)
    version = known.view.resource_version if known is not None else ""
    if stale(world, "Pod", view.resource_version, version, in_frame):
        return
    if world.meta.refused and not view.unread:
        _mended(world, uid, known)
    if view.phase == "Failed" and world.policy.deleted_node_timeout_s:
        view = _outliving(world, here, view, known)
    if known is not None:
        before = known.view
        made = renewed(view, before)
        if made is None:
            view = shared(view, before)
        else:
            view = made
            if (
                made.labels is before.labels
                and made.annotations is before.annotations
                and made.labels.get(MANAGED_LABEL) == MANAGED_VALUE
            ):
                _change(world, here, world.groups[known.group], known, made, True)
                return
    wanted = (GROUP, view.namespace, group_name(view.labels, view.annotations))
    if not wanted[2]:
        wanted = (SINGLE, view.namespace, view.name)
    moved = False
    stays = known is not None and bool(_flags(world, known) & Flag.LIVE)
    if not stays and not _concerns_us(view):
        if known is not None:
            _disown(world, here, world.groups[known.group], known)
        return
    if known is not None and not stays:
        group = world.groups[known.group]
        if (group.kind, group.namespace, group.name) != wanted:
            _leave(world, here, group, known, "group name changed")
            known, moved = None, True
    if known is None:
        _join(world, here, _life(world, here, wanted, view, moved=moved), view)
        if not moved and (view.ends or view.conditions):
            failures(world, here, world.pods[PodUID(uid)], None)
    else:
        _change(world, here, world.groups[known.group], known, view, False)


def pod_deleted(
    world: World, here: At, view: PodView, *, inferred: bool = False, filtered: bool = False
) -> None:
    """Fold the end of a pod. `inferred`: a relist did not list it, no watch saw it go.

    `filtered`: the watch or list has a label selector, so the pod may only have lost the label.
    """
    uid = view.uid
    _see_version(world, view)
    if world.meta.refused:
        _mended(world, uid, None)
    pod = world.pods.get(uid)
    if pod is None:
        return
    group = world.groups[pod.group]
    # Past its gate, or its gate is being removed: it may run by now.
    if filtered and not view.ended and _flags(world, pod) & (Flag.LIVE | Flag.OPENING):
        _hide(world, here, group, pod, view)
        return
    if filtered and view.ended and not inferred and view.deleted_at is None and pod.held:
        # It ended in our hands and lost the label: its end counts, and nothing of ours keeps it.
        departures.disowned(group, pod, gated=False)
    elif not inferred and view.deleted_at is None and POD_FINALIZER in view.finalizers:
        # No object with a finalizer is deleted before that is asked for: it left our selector.
        _disown(world, here, group, pod)
        return
    if inferred and pod.held and not pod.deleting and not _being_released(pod):
        # Gone, or out of our selector: a patch that names its uid will find out.
        departures.disowned(group, pod, gated=pod.gated)
        departures.strayed(group)
        mark(world, group.id)
    members = world.members[group.id]
    flags = members.flags[uid]
    if not inferred:
        _see(world, here, group, pod, view, False)
        flags |= flags_of(pod, group.spec.serving, uid in members.owned)
    pod.gone_at = here.at
    if not pod.fate:
        pod.fate = KEPT if pod.terminated else LOST
    role = group.roles[pod.role]
    if view.phase == "Succeeded" and pod.fate != EXCESS and not group.spec.serving:
        # Before a Workload is made of the group there is no place that a success could keep.
        role.succeeded_gone += group.composition.done
    how = "inferred from a relist: no watch saw it go" if inferred else ""
    note(world, here, "PodGone", group.id, uid, pod.fate, how)
    if end_expectation(world, group, pod, indexed=False):
        mark(world, group.id)
    _forget(world, group, pod, flags)


def _outliving(world: World, here: At, view: PodView, known: Pod | None) -> PodView:
    """Return a pod of a deleted Node as it was: that it is called failed ends no container."""
    if world.mode == KUEUE or not end_unseen(view):
        return view
    lost_at = given_up_at(world.policy, view)
    if lost_at is not None and lost_at <= here.at:
        return view
    return replace_fields(view, phase=known.view.phase if known is not None else "Running")


def _flags(world: World, pod: Pod) -> int:
    return world.members[pod.group].flags[pod.view.uid]


def _hide(world: World, here: At, group: Group, pod: Pod, view: PodView) -> None:
    """A pod that may run is out of the watch's sight: it is kept as it was until it is found."""
    if view.resource_version != pod.view.resource_version:
        pod.view = replace_fields(pod.view, resource_version=view.resource_version)
    hiding = pod.hiding or OutOfSelector()
    peace = hiding.kept_at is not None and here.at - hiding.kept_at > QUIET
    kept = 0 if peace else hiding.kept
    pod.hiding = OutOfSelector(here.at, kept, hiding.kept_at)
    why = f"label {MANAGED_LABEL} was removed from a pod that runs, or the pod is gone"
    note(world, here, "PodHidden", group.id, view.uid, "Unmanaged", why)
    end_expectation(world, group, pod, indexed=False)  # its effect would never be seen
    index(world, group, pod)
    if not kept:
        world.meta.timers.pop(keep_timer(group.id), None)  # it need not wait for the others
    mark(world, group.id)


def gone(world: World, here: At, group: Group, pod: Pod) -> None:
    """A hidden pod turned out to be gone."""
    flags = world.members[group.id].flags[pod.view.uid]
    pod.gone_at = here.at
    pod.fate = pod.fate or LOST
    how = "found out by a write: no watch saw it go"
    note(world, here, "PodGone", group.id, pod.view.uid, pod.fate, how)
    end_expectation(world, group, pod, indexed=False)
    _forget(world, group, pod, flags)
    mark(world, group.id)


def keep_timer(identity: GroupID) -> str:
    """Return the name of the timer after which labels of a group's pods are put back."""
    return f"{KEEP}/{identity}/"


def _being_released(pod: Pod) -> bool:
    return pod.expect is not None and pod.expect.may_end


def _disown(world: World, here: At, group: Group, pod: Pod) -> None:
    """A pod is there and not ours to care for any more: it lost the managed label."""
    uid = pod.view.uid
    if pod.held:
        departures.disowned(group, pod, gated=pod.gated)
    departures.left(group, group.single and pod.gated)
    departures.strayed(group)
    pod.gone_at = here.at
    pod.fate = pod.fate or LOST
    why = f"label {MANAGED_LABEL} was removed"
    note(world, here, "PodLeft", group=group.id, pod=uid, reason="Unmanaged", message=why)
    end_expectation(world, group, pod, indexed=False)
    _forget(world, group, pod, world.members[group.id].flags[uid])
    mark(world, group.id)


def _mended(world: World, uid: str, known: Pod | None) -> None:
    """A pod that could not be read can be, or is gone."""
    refusal = world.meta.refused.pop(uid, None)
    if refusal is None:
        return
    world.meta.unreported -= not refusal.reported
    if known is not None and known.reported is not None:
        reporting.forgotten(world.groups[known.group])  # it bears that report: say what holds now
        mark(world, known.group)


def _see_version(world: World, view: PodView) -> None:
    if newer(view.resource_version, world.meta.versions.get("Pod", "")):
        world.meta.versions["Pod"] = view.resource_version


def _life(
    world: World, here: At, key: tuple[str, str, str], view: PodView, *, moved: bool
) -> Group:
    """Return the life of the group that is going on, or open one."""
    kind, namespace, name = key
    # A single pod is its own group: a successor of the same name is another life at once, even
    # while the first is still terminating under the same name (it cannot be, but a relist after a
    # gap may show the new one before the old one is known to be gone).
    identity = world.lives.get(key)
    if identity is not None and (kind == GROUP or identity == group_id(kind, PodUID(view.uid))):
        return world.groups[identity]
    # A pod that came from another group may have opened that one, which keeps its id.
    own = group_id(kind, PodUID(view.uid))
    group = Group(
        id=GroupID(f"{own}-{here.position}") if moved else own,
        namespace=namespace,
        name=name,
        kind=kind,
        created_at=here.at,
        created_seq=here.position,
        mirror=Mirror(name=name if kind == GROUP else _workload_name(view)),
        spec=Spec(prebuilt="" if kind == GROUP else prebuilt_name(view.labels, view.annotations)),
    )
    world.groups[group.id] = group
    world.lives[key] = group.id
    claim_name(world, group)
    new_members(world, group)
    note(world, here, "GroupSeen", group=group.id, reason=kind, message=f"{namespace}/{name}")
    return group


def _workload_name(view: PodView) -> str:
    prebuilt = prebuilt_name(view.labels, view.annotations)
    return prebuilt or workload_name(view.name, view.uid)


def _join(world: World, here: At, group: Group, view: PodView) -> None:
    uid = view.uid
    members = world.members[group.id]
    first = members.first()
    made = None
    if first is None:
        view = shared(view)
    elif (made := resembling(view, like := world.pods[first].view)) is None:
        view = shared(view, like)
    else:
        view = made
    gated = ADMISSION_GATE in view.gates
    name = assigned_role(world, group, view)
    role = group.roles.get(name)
    if role is None:
        role = group.roles[name] = Role(name=name, requests=view.requests)
    role.seen += 1
    pod = Pod(view, group.id, role.name, here.position, gated)
    pod.larger = larger(group, role.name, view)
    world.pods[uid] = pod
    world.gone_pods.pop(uid, None)
    if group.departures.left:
        departures.left(group, False)
    if view.conditions:
        _reported(group, pod)
    if view.gates:
        pod.gate_added = intern_times(dict.fromkeys(view.gates, view.created_at))
        for gate in view.gates:
            _gate(world, pod, gate, view.created_at)
    seen = "gated" if gated else "not gated"
    note(world, here, "PodSeen", group.id, uid, seen, f"pod {view.name}, role {name}")
    _progress(world, here, group, pod, None)
    index(world, group, pod)
    lead(world, group)
    _retry_workload(group)
    mark(world, group.id, of_joining(world, group, pod.role, members.flags[uid], first))


def _reported(group: Group, pod: Pod) -> None:
    """Take over what a pod's condition says: it was written in another life, or before a loss."""
    for condition in pod.view.conditions:
        if condition.type == ADMITTED_CONDITION and condition.status == "False":
            pod.reported = (condition.reason, condition.message)
            reporting.conditions(group, 1)


def _change(world: World, here: At, group: Group, pod: Pod, view: PodView, same: bool) -> None:
    """Take over the new view of a known pod.

    `same`: it is managed and says of itself what it said before; most changes are elsewhere.
    """
    before, role = pod.view, pod.role
    flags = world.members[group.id].flags
    old = flags[view.uid]
    _see(world, here, group, pod, view, same)
    resized = not same and view.requests != before.requests
    if same or (_counts_same(before, view) and not resized):
        new = index(world, group, pod, old)
    else:
        index(world, group, pod)
        new = flags[view.uid]
    # While a group holds quota its queue stays, so only another first pod has something to say.
    settled = same and group.composition.done and group.quota.holding is not None
    led = (not settled or (old ^ new) & Flag.FAILED) and lead(world, group)
    retried = group.mirror.workload is None and _retry_workload(group)
    changed = EVERYTHING
    if (
        not (led or retried or resized)
        and pod.role == role
        and world.track_changes
        and world.dirty_groups.get(group.id, 0) != EVERYTHING
    ):
        changed = of_pod(world, group, old, new)
        if changed and old == new and nothing_read(world, group, before, view, new):
            changed = 0
    mark(world, group.id, changed)
    if world.nodes and old != new:
        _on_node(world, group, view)


def _on_node(world: World, group: Group, view: PodView) -> None:
    """Have the places of a group looked at where a pod of it changes on a node that is unwell."""
    node = view.node or view.node_selector.get(HOSTNAME, "")
    if node and group.quota.holding is not None and unwell(world, node):
        world.quotas.news[group.id] = None


def _counts_same(before: PodView, view: PodView) -> bool:
    """Tell whether a pod is counted among the same in `Members`: queue, declaration and age."""
    return (
        view.annotations == before.annotations
        and view.sets_key == before.sets_key
        and view.created_at == before.created_at
        and view.labels.get(QUEUE_NAME) == before.labels.get(QUEUE_NAME)
    )


def _see(world: World, here: At, group: Group, pod: Pod, view: PodView, same: bool) -> None:
    """Write down what happened to a pod since it was seen last; its flags are still to be set."""
    before, pod.view = pod.view, view
    if pod.hiding is not None and pod.hiding.since is not None:
        pod.hiding = replace_fields(pod.hiding, since=None)
        note(world, here, "PodFound", group.id, view.uid, "", "it is in sight again")
    deleted = view.deleted_at is not None
    if deleted and before.deleted_at is None:
        pod.deleted_while_gated = ADMISSION_GATE in before.gates
    if before.gates and view.gates != before.gates:
        for gate in before.gates:
            if gate not in view.gates:
                _ungated(world, here, group, pod, gate, before)
    if deleted or view.phase != before.phase or view.node != before.node:
        _progress(world, here, group, pod, before)
    failures(world, here, pod, before)
    if not same:
        if view.requests != before.requests:
            _resized(world, here, group, pod, before)
        _recount(world, here, group, before, view)
        if before.labels.get(POD_GROUP_ROLE) != view.labels.get(POD_GROUP_ROLE) and pod.gated:
            replace(world, group, pod)
    if pod.expect is not None and _observed(pod):
        end_expectation(world, group, pod, indexed=False)


def _resized(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """A pod asks for other amounts than it did (subresource `pods/resize`): those are charged.

    One at its gate is placed anew: quota is asked for what it wants now, where it was not given
    any yet, and what is more than its group was given keeps it at its gate.
    """
    view = pod.view
    sizes = ", ".join(
        f"{name} {format_amount(name, before.requests.get(name, 0))} became "
        f"{format_amount(name, view.requests.get(name, 0))}"
        for name in sorted({*before.requests, *view.requests})
        if before.requests.get(name, 0) != view.requests.get(name, 0)
    )
    note(world, here, "PodResized", group.id, view.uid, "", f"pod {view.name}: {sizes}")
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
    if before.annotations == view.annotations and before.sets_key == view.sets_key:
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
        message=f"pod {view.name}: {old} became {new}; "
        f"the group stays at {group.composition.total}",
    )


def _retry_workload(group: Group) -> bool:
    # A rejected creation of the Workload is worth another try once a pod of the group changed, but
    # pods of a running group change all the time: what was refused again and again waits its turn.
    if group.mirror.workload is not None or group.mirror.refusals > MAX_EAGER:
        return False
    return bool(group.mirror.refused_version) and mirror.retried(group)


def _observed(pod: Pod) -> bool:
    """Tell whether what was decided about a pod has become visible on it."""
    expectation = pod.expect
    assert expectation is not None
    version = expectation.result_version
    if version and not newer(version, pod.view.resource_version):
        return True
    match expectation.action:
        case "UngatePod":
            return not pod.gated
        case "FinalizePod":
            return not pod.held
        case "DeletePod":
            return not pod.held and pod.deleting
        case "StopPod":
            return pod.deleting
        case _:
            return False


def _gate(
    world: World,
    pod: Pod,
    gate: str,
    added_at: datetime,
    removed_at: datetime | None = None,
    by: str = "",
) -> None:
    if pod.gate_added.get(gate) is not added_at:
        pod.gate_added = intern_times({**pod.gate_added, gate: added_at})
    uid = pod.view.uid
    world.journal.gates[(uid, gate)] = GateRow(uid, gate, added_at, removed_at, by)


def _ungated(world: World, here: At, group: Group, pod: Pod, gate: str, before: PodView) -> None:
    added_at = pod.gate_added.get(gate, pod.view.created_at)
    # The API server notes who took fields, not who gave them up: one who removed a gate and wrote
    # nothing else has left no trace, and saying nothing is better than naming the writer before.
    view = pod.view
    traced = (view.writer, view.written_at) != (before.writer, before.written_at)
    by = view.writer if traced else ""
    _gate(world, pod, gate, added_at, here.at, by)
    note(world, here, "GateRemoved", group.id, view.uid, gate, f"by {by}" if by else "")
    if gate == ADMISSION_GATE:
        pod.opened = True
        pod.ungated_at = here.at
        group.roles[pod.role].ungated += 1


def _progress(world: World, here: At, group: Group, pod: Pod, before: PodView | None) -> None:
    """Note what a pod went through since `before` (None: all it has been through already)."""
    view, whose, uid = pod.view, group.id, pod.view.uid
    if view.node and (before is None or not before.node):
        pod.scheduled_at = _condition_at(view, "PodScheduled") if before is None else here.at
        pod.scheduled_at = pod.scheduled_at or here.at
        note(world, here, "PodScheduled", whose, uid, "", f"on node {view.node}")
    if before is None or before.phase != view.phase:
        running = view.phase == "Running"
        if running or (view.ended and pod.started_at is None):
            pod.started_at = view.started_at if before is None else here.at
            pod.started_at = pod.started_at or here.at
        if running:
            note(world, here, "PodRunning", whose, uid)
        elif view.ended:
            _ended(world, here, group, pod)
    if view.deleted_at is not None and (before is None or before.deleted_at is None):
        pod.failed_at = _earliest(pod.failed_at, min(view.deleted_at, here.at))
        note(world, here, "PodDeletionRequested", whose, uid)


def _ended(world: World, here: At, group: Group, pod: Pod) -> None:
    view, role = pod.view, group.roles[pod.role]
    ends = [end.finished_at for end in view.ends if end.finished_at is not None]
    pod.ended_at = max(ends) if ends else here.at
    pod.exit_reason = _exit_reason(view)
    if view.phase == "Succeeded":
        role.succeeded += 1
        note(world, here, "PodSucceeded", group.id, view.uid)
        return
    role.failed += 1
    pod.failed_at = _earliest(pod.failed_at, min(ends) if ends else here.at)
    note(
        world,
        here,
        "PodFailed",
        group=group.id,
        pod=view.uid,
        reason=pod.exit_reason,
        message=view.message,
    )


def _earliest(known: datetime | None, other: datetime) -> datetime:
    return other if known is None else min(known, other)


def _condition_at(view: PodView, kind: str) -> datetime | None:
    return next((c.at for c in view.conditions if c.type == kind and c.status == "True"), None)


def _exit_reason(view: PodView) -> str:
    """Return why it ended: the pod's reason, else that of the first container that failed."""
    if view.reason:
        return view.reason
    bad = [end for end in view.ends if end.exit_code]
    return (bad[0].reason or f"exit code {bad[0].exit_code}") if bad else ""


def _concerns_us(view: PodView) -> bool:
    """Tell whether a pod is ours: labelled so, or past the gate with a queue (B17)."""
    if view.labels.get(MANAGED_LABEL) == MANAGED_VALUE:
        return True
    return bool(view.labels.get(QUEUE_NAME)) and ADMISSION_GATE not in view.gates


def _leave(world: World, here: At, group: Group, pod: Pod, why: str) -> None:
    """Take a pod out of a group, although it exists."""
    note(world, here, "PodLeft", group=group.id, pod=pod.view.uid, reason=why)
    end_expectation(world, group, pod)
    departures.strayed(group)
    if pod.reported is not None:
        reporting.conditions(group, -1)
    uid = PodUID(pod.view.uid)
    world.members[group.id].drop(uid)
    del world.pods[uid]
    # What is stored of it must go too, or a restart finds a pod of a group that may have ended.
    pod.gone_at = here.at
    world.gone_pods[uid] = pod
    world.journal.pods.discard(uid)
    lead(world, group)
    mark(world, group.id)
    retire(world, here, group.id)


def _forget(world: World, group: Group, pod: Pod, flags: int) -> None:
    """Forget a pod that is gone; `flags` are all that it had before and with its last delta."""
    uid = PodUID(pod.view.uid)
    world.members[group.id].drop(uid)
    if pod.reported is not None:
        reporting.conditions(group, -1)
    del world.pods[uid]
    world.gone_pods[uid] = pod
    world.journal.pods.discard(uid)
    led = lead(world, group)
    _retry_workload(group)
    mark(world, group.id, EVERYTHING if led else of_leaving(world, group, flags))
    if world.nodes:
        _on_node(world, group, pod.view)


def lead(world: World, group: Group) -> bool:
    """Let the first pod speak for the group: queue, total count, class, flags.

    Returns whether it says anything new.

    After composition the total stays (B8: a changed total is reported, not obeyed). The queue
    follows as long as nothing holds quota, but not that of a serving group; the priority class
    always does.
    """
    members = world.members[group.id]
    uid = members.first()
    if uid is None:
        return False
    asked = group.spec
    declared = asked.declared
    declare(world, group)
    news = asked.declared != declared
    labels = (view := world.pods[uid].view).labels
    # What runs without an admission is charged where its queue leads, whatever is written later.
    settled = asked.queue and members.count(Flag.LIVE)
    composed = group.composition.done
    if group.quota.holding is None and not (asked.serving and composed) and not settled:
        queue = labels.get(QUEUE_NAME, "")
        news = spec.queued(group, queue) or news
    priority_class = labels.get(PRIORITY_CLASS, "")
    news = spec.classed(group, priority_class) or news
    if composed:
        return news
    return _lead_open(world, group, view) or news


def _lead_open(world: World, group: Group, view: PodView) -> bool:
    """Let the first pod of a group that is not composed yet say what the group is to be."""
    serving = group.spec.serving
    news = spec.led(group, view)
    name = group.mirror.name
    if group.single and group.mirror.workload is None and name != _workload_name(view):
        give_up_name(world, group)
        mirror.named(group, _workload_name(view))
        claim_name(world, group)
    if serving != group.spec.serving:
        for other in list(world.members[group.id].flags):
            index(world, group, world.pods[other])
    return news or name != group.mirror.name


def report_timer(identity: GroupID) -> str:
    """Return the name of the timer after which a group's reason is reported to its users."""
    return f"report/{identity}/"


def retirable(world: World, group: Group) -> bool:
    """Tell whether no pod and no Workload of a group is left, and nothing is in flight."""
    if len(world.members[group.id]) or group.mirror.workload is not None:
        return False
    return group.mirror.expect is None and not group.departures.disowned


def retire(world: World, here: At, identity: GroupID) -> None:
    """End a life: no pod and no Workload of it is left."""
    group = world.groups.get(identity)
    if group is None or not retirable(world, group):
        return
    ending.gone(group, here.at, cluster_queue_name(world, group))
    explained.said(group, "Gone", None, None)
    if group.quota.holding is not None:
        write_admission(world, group, group.quota.holding, released_at=here, reason="Gone")
        write_places(world, group, group.quota.holding, until=here)
    note(world, here, "GroupGone", group=group.id)
    if group.explained.wait is not None:
        close_wait(world, here, group)
    end_shortage(world, here, group)
    del world.groups[identity]
    del world.members[identity]
    key = (group.kind, group.namespace, group.name)
    if world.lives.get(key) == identity:
        del world.lives[key]
    give_up_name(world, group)
    world.quotas.dequeue(identity)
    world.quotas.discharge(identity)
    world.quotas.charged[identity] = None
    world.meta.timers.pop(report_timer(identity), None)
    world.dirty_groups.pop(identity, None)
    world.journal.groups.discard(identity)
    world.gone_groups[identity] = group


def renewable(world: World, group: Group) -> bool:
    """Tell whether nothing is left of a group that is over but pods that came after its end.

    They came while pods of the ended life were still there, whose name they bear. Once only they
    are left, and no Workload, nothing of that life is left to account for.
    """
    members = world.members[group.id]
    if group.single or group.ending.finish is None or not len(members):
        return False
    if group.mirror.workload is not None or group.mirror.expect is not None:
        return False
    return members.count(Flag.GATED) == len(members)


def renew(world: World, here: At, group: Group) -> None:
    """Let pods that came after the end of their group (`renewable`) begin a life of their own."""
    members = world.members[group.id]
    pods = [world.pods[uid] for uid in members.flags]
    pods.sort(key=lambda p: (p.view.created_at, p.view.uid))
    for pod in pods:
        _leave(world, here, group, pod, "its group was over")
    key = (GROUP, group.namespace, group.name)
    for pod in pods:
        _join(world, here, _life(world, here, key, pod.view, moved=True), pod.view)


def close_wait(world: World, here: At, group: Group) -> None:
    """End the interval in which the group waited for its current reason."""
    wait = group.explained.wait
    if wait is None:
        return
    world.journal.waits[(group.id, wait.from_seq)] = WaitRow(
        group=group.id,
        reason=wait.reason,
        message=wait.message,
        from_at=wait.from_at,
        from_seq=wait.from_seq,
        # The log's clock may have been set back; what came later did not end earlier.
        to_at=max(wait.from_at, here.at),
        to_seq=here.position,
    )
    explained.waits(group, None)
