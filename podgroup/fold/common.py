"""What every part of the fold needs: where we are in the log, notes, and the members index.

Invariant: a pod's flags are recomputed through `index` whenever the pod, its expectation or its
group's ownership changes; flags are never written by hand.
"""

from typing import Final, NamedTuple

from podgroup.fold.group import mirror, quota
from podgroup.log.dialects import declaration
from podgroup.log.journal import (
    AdmissionRow,
    At,
    Note,
    ParkedRow,
    PlacementRow,
    ShortageRow,
    StartRow,
)
from podgroup.model.ids import GroupID, PodUID, newer
from podgroup.model.names import (
    ADMISSION_GATE,
    ADMISSION_GATED_BY,
    POD_FINALIZER,
    QUEUE_NAME,
    RETRIABLE_IN_GROUP,
)
from podgroup.model.objects import Since
from podgroup.state.changes import EVERYTHING
from podgroup.state.facts import role_of
from podgroup.state.group import Group, HeldStart, QuotaReservation, QuotaShortage
from podgroup.state.members import Flag, Members
from podgroup.state.pod import Expectation, Pod
from podgroup.state.world import World

EXCESS = "excess"
REPLACED = "replaced"
KEPT = "kept"
LOST = "lost"


def note(
    world: World,
    here: At,
    kind: str,
    group: str = "",
    pod: str = "",
    reason: str = "",
    message: str = "",
    decision: str = "",
    cause: int | None = None,
) -> None:
    """Write a line of history.

    A line of every pod is written with positional arguments: their names cost as much as the line.
    """
    number = world.note_ord
    world.note_ord = number + 1
    world.journal.notes.append(
        Note(here.position, number, here.at, kind, reason, message, group, pod, cause, decision)
    )


def listed(world: World, kind: str, relist: str, uid: str) -> bool:
    """Tell whether a delta belongs to the open relist frame of its kind, and note its object."""
    frame = world.meta.frames.get(kind)
    if not relist or frame is None or frame.relist != relist:
        return False
    frame.seen.add(uid)
    return True


def see_version(world: World, kind: str, version: str) -> None:
    """Remember how far the watch of a kind has come."""
    if newer(version, world.meta.versions.get(kind, "")):
        world.meta.versions[kind] = version


def stale(world: World, kind: str, version: str, known: str, in_frame: bool) -> bool:
    """Tell whether a delta is a duplicate or out of date; otherwise remember its version.

    A watch delivers a kind in the order of its versions, and ingest may hold back a change of an
    object that the log knows. So a delta of a known object is fresh if it is newer than the version
    `known`; a delta of any other object, if it is newer than the newest of its kind: otherwise it
    is a duplicate of an object that has been forgotten since. A complete list is the truth of its
    moment, whatever was known: after a restore of etcd versions go back, and a version that comes
    again has other content.
    """
    versions = world.meta.versions
    if version == known and not (in_frame and kind in world.meta.rewound):
        return True
    newest = versions.get(kind, "")
    digits, others = len(version), len(newest)
    if version > newest if digits == others else digits > others:  # `newer`, asked of each delta
        versions[kind] = version
        return False
    return not in_frame and not (known and newer(version, known))


class Cause(NamedTuple):
    """Which event of a message is parked, and why; its object's name and its bytes, if known."""

    ordinal: int
    reason: str
    message: str
    object: str = ""
    raw: bytes = b""


def park(world: World, here: At, why: Cause, group: Group | None = None) -> None:
    """Park an event or a group: a row, a line of history, and the group stops."""
    identity = group.id if group is not None else ""
    world.journal.parked.append(
        ParkedRow(
            seq=here.position,
            ord=why.ordinal,
            at=here.at,
            reason=why.reason,
            message=why.message,
            group=identity,
            object=why.object,
            raw=why.raw,
        )
    )
    note(world, here, "Parked", group=identity, reason=why.reason, message=why.message)
    if group is not None:
        group.parked = f"{here.position}/{why.ordinal} ({why.object}): {why.message}"
        world.quotas.news[group.id] = None
        mark(world, group.id)


def unpark(world: World, target: str) -> list[Group]:
    """Let groups go on that were stopped for `target`: a parked entry `seq/ord`, or a group id."""
    found = [
        group
        for group in world.groups.values()
        if group.parked and (group.id == target or group.parked.startswith(f"{target} "))
    ]
    for group in found:
        group.parked = ""
        world.quotas.news[group.id] = None
        mark(world, group.id)
    return found


def mark(world: World, group: GroupID, changed: int = EVERYTHING) -> None:
    """Have the rules that read what `changed` run for a group, and the group's row written."""
    touched = world.dirty_groups
    touched[group] = touched.get(group, 0) | changed
    world.journal.groups.add(group)


_PHASES: Final = {"Running": 1, "Succeeded": 2, "Failed": 3}
_SERVING, _OWNED, _GATED, _DELETING, _BOUND = 4, 8, 16, 32, 64
_OF_PHASE: Final = (
    0,
    Flag.RUNNING,
    Flag.SUCCEEDED | Flag.READY | Flag.TERMINATED,
    Flag.FAILED | Flag.TERMINATED,
)


def _classified(key: int) -> int:
    """Return the flags that follow from phase, gate, deletion, node and owner (`flags_of`)."""
    flags = _OF_PHASE[key & 3]
    ended, gated, deleting = flags & Flag.TERMINATED, key & _GATED, key & _DELETING
    if (
        flags & Flag.FAILED
        or (deleting and not ended and not key & _BOUND)
        or (key & _SERVING and (ended or deleting))
    ):
        flags |= Flag.INACTIVE
    else:
        flags |= Flag.ACTIVE
        if not gated:
            flags |= Flag.OPEN
        if ended or not deleting:
            flags |= Flag.SOLID
        if not key & _OWNED:
            flags |= Flag.UNOWNED
    if gated:
        flags |= Flag.GATED
    elif not ended:
        if not deleting:
            flags |= Flag.STOPPABLE
        if not deleting or key & _BOUND or flags & Flag.RUNNING:
            flags |= Flag.LIVE
    return flags | Flag.DELETING if deleting else flags


_AT_ITS_GATE: Final = Flag.ACTIVE | Flag.GATED
_CLASSES: Final = tuple(map(_classified, range(2 * _BOUND)))


def flags_of(pod: Pod, serving: bool, owned: bool) -> int:
    """Classify a pod.

    Active = not Failed, and not deleted before it was bound to a node (KEP-976: "runnable or
    succeeded"). In a serving group a terminated or terminating pod gives its place up as well. An
    excess pod counts only for its clean-up, and for its usage while it runs.

    Live = may run: past our gate, not ended, and not deleted before it was bound (no scheduler
    binds a pod that is being deleted). Live pods are charged, whatever else they are.
    """
    view, expected = pod.view, pod.expect
    key = _PHASES.get(view.phase, 0)
    if serving:
        key |= _SERVING
    if owned:
        key |= _OWNED
    if view.gates and ADMISSION_GATE in view.gates:
        key |= _GATED
    if view.deleted_at is not None:
        key |= _DELETING | _BOUND if view.node else _DELETING
    flags = _CLASSES[key]
    if pod.fate == EXCESS:
        flags = flags & (Flag.DELETING | Flag.LIVE) | Flag.EXCESS
    else:
        if view.conditions and not flags & Flag.READY:
            for condition in view.conditions:
                if condition.type == "Ready" and condition.status == "True":
                    flags |= Flag.READY
        if view.annotations.get(RETRIABLE_IN_GROUP) == "false":
            flags |= Flag.UNRETRIABLE
        if expected is not None and key & _GATED and expected.action == "UngatePod":
            flags |= Flag.OPENING
    if POD_FINALIZER in view.finalizers:
        flags |= Flag.HELD
    if pod.larger:
        flags |= Flag.LARGER
    if pod.hiding is not None and pod.hidden:
        flags |= Flag.HIDDEN
    if pod.reported is not None:
        flags |= Flag.REPORTED
    if pod.terminating is not None:
        if pod.terminating.absurd:
            flags |= Flag.ABSURD
        if pod.terminating.long:
            flags |= Flag.LONG
    if pod.refused is not None:
        flags |= _refusing(pod.refused[0], flags)
    if view.too_large or view.crowded:
        flags |= Flag.CUT
    if expected is not None or pod.refused_version == view.resource_version:
        flags |= Flag.BUSY  # not `pod.free`
    return flags


def _refusing(action: str, flags: int) -> int:
    """Return the flag of a pod whose refused write is still needed, 0 if it is not."""
    if action == "UngatePod":
        return Flag.SHUT
    return 0 if action == "StopPod" and not flags & Flag.LIVE else Flag.REFUSED


def index(world: World, group: Group, pod: Pod, old: int | None = None) -> int:
    """Bring the members index up to date with one pod, and have its row written.

    `old` are the flags of a pod with an unchanged declaration, which is less work. Returns the new
    flags.
    """
    members = world.members[group.id]
    view = pod.view
    uid = view.uid
    new = flags_of(pod, group.spec.serving, uid in members.owned)
    if old is None or (old ^ new) & Flag.FAILED:  # what a failed pod declares does not count
        queue = view.labels.get(QUEUE_NAME, "")
        members.put(uid, pod.role, new, view.created_at, queue, declaration(view))
    elif old != new:
        members.move(uid, old, new)
    text = view.annotations.get(ADMISSION_GATED_BY, "")
    if text or members.gated_by:
        waits = new & _AT_ITS_GATE == _AT_ITS_GATE
        members.gate(uid, text if waits else "")
    if pod.hiding is not None:
        members.keep(uid, pod.kept)
    world.journal.pods.add(uid)
    return new


def set_owners(world: World, group: Group, owners: frozenset[str]) -> bool:
    """Take over the Workload's owners, touching only pods that became owners or ceased to be.

    Returns whether the owners changed.
    """
    members = world.members[group.id]
    changed = members.owned ^ owners
    if not changed:
        return False
    pods = world.pods
    known = {pods[u].view.uid if u in pods else u for u in map(PodUID, owners)}
    members.owned = frozenset(known)  # made from a set: a set grown by pieces has twice the table
    for uid in changed:
        pod = world.pods.get(uid)
        if pod is not None and pod.group == group.id:
            index(world, group, pod, members.flags[uid])
    return True


def expect(world: World, group: Group, pod: Pod | None, expectation: Expectation) -> None:
    """Remember that a decision about `pod` (None: the Workload) is in flight."""
    if pod is None:
        mirror.expected(group, expectation)
        world.expecting[expectation.decision] = (group.id, PodUID(""))
    else:
        uid = pod.view.uid
        pod.expect = expectation
        world.expecting[expectation.decision] = (group.id, uid)
        members = world.members[group.id]
        old = members.flags[uid]
        if pod.fate == EXCESS and not old & Flag.EXCESS:
            index(world, group, pod, old)
            return
        new = old | Flag.BUSY
        if old & Flag.GATED and expectation.action == "UngatePod":
            new |= Flag.OPENING
        if old != new:
            members.move(uid, old, new)
        world.journal.pods.add(uid)


def end_expectation(world: World, group: Group, pod: Pod | None, *, indexed: bool = True) -> bool:
    """End an expectation: its effect was observed, or will never be. Tells if there was one.

    Without `indexed` the caller updates the index and marks what changed.
    """
    expectation = group.mirror.expect if pod is None else pod.expect
    if expectation is None:
        return False
    world.expecting.pop(expectation.decision, None)
    if pod is None:
        mirror.expected(group, None)
    else:
        pod.expect = None
    if indexed:
        if pod is not None:
            index(world, group, pod)
        mark(world, group.id)
    return True


def new_members(world: World, group: Group) -> Members:
    """Make the index of a group that has no pods yet."""
    members = Members()
    world.members[group.id] = members
    return members


def end_shortage(world: World, here: At, group: Group) -> None:
    """End the shortage of a group, if there is one."""
    if group.quota.shortage is not None:
        write_shortage(world, group.id, group.quota.shortage, until=here)
        quota.set_shortage(group, None)


def write_shortage(
    world: World, group: GroupID, shortage: QuotaShortage, *, until: At | None = None
) -> None:
    """Have the rows of a group's shortage written, which lasts or lasted `until`."""
    for one in shortage.shortages:
        world.journal.shortages[group, shortage.from_seq, one.flavor, one.resource] = ShortageRow(
            group=group,
            cluster_queue=shortage.cluster_queue,
            shortage=one,
            from_at=shortage.from_at,
            from_seq=shortage.from_seq,
            # The log's clock may have been set back; an interval never ends before it began.
            to_at=None if until is None else max(shortage.from_at, until.at),
            to_seq=None if until is None else until.position,
        )


def end_start(world: World, here: At, group: Group, why: str) -> None:
    """End the reserved start of a group, if it has one; `why` is a word of column `ended`."""
    if group.quota.start is not None:
        write_start(world, group, group.quota.start, until=here, why=why)
        quota.start_held(group, None)


def write_start(
    world: World, group: Group, held: HeldStart, *, until: At | None = None, why: str = ""
) -> None:
    """Have the row of a reserved start written, which lasts or lasted `until`."""
    world.journal.starts[group.id, held.from_seq] = StartRow(
        group=group.id,
        start=held.start,
        queued_at=group.requeueing.queued_at,
        from_at=held.from_at,
        from_seq=held.from_seq,
        to_at=None if until is None else max(held.from_at, until.at),
        to_seq=None if until is None else until.position,
        ended=why,
    )


def write_admission(
    world: World,
    group: Group,
    holding: QuotaReservation,
    *,
    released_at: At | None = None,
    reason: str = "",
) -> None:
    """Have the row of an admission written, which lasts or ended at `released_at`."""
    world.journal.admissions[(group.id, holding.number)] = AdmissionRow(
        group=group.id,
        number=holding.number,
        cluster_queue=holding.admission.cluster_queue,
        assignments=holding.admission.assignments,
        queued_at=holding.queued_at,
        admitted_at=holding.admitted_at or holding.at,
        admitted_seq=holding.seq,
        released_at=None
        if released_at is None
        else max(holding.admitted_at or holding.at, released_at.at),
        release_reason=reason,
        decided_by=holding.decided_by,
    )


def write_places(
    world: World, group: Group, holding: QuotaReservation, *, until: At | None = None
) -> None:
    """Have the rows of the pods' places written, which last or lasted `until`."""
    begin = holding.moved or Since(seq=holding.seq, at=holding.at)
    for given in holding.admission.assignments:
        role = group.roles.get(role_of(group, given.name))
        if given.place is None or begin.at is None:
            continue
        world.journal.placements[group.id, begin.seq, given.name] = PlacementRow(
            group=group.id,
            given=given,
            requests={} if role is None else role.requests,
            from_at=begin.at,
            from_seq=begin.seq,
            to_at=None if until is None else max(begin.at, until.at),
            to_seq=None if until is None else until.position,
        )
