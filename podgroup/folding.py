"""Folding: one message of the log in, a changed world and a journal out, without rules.

Theory. A message is folded event by event; then come its conclusions, in their order. Live the
rules draw them (`engine`); a replay applies the conclusions that the log has.

A fold that fails for one event is a bug of ours or a fact not thought of, and an event that cannot
be decoded was written by a later release or another program. Either is parked, and its group
stops; everything else goes on. Whether the event's pod may run is counted all the same.

Invariant: `load_world(...)` of a stored world equals that world.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice

from msgspec import Struct

from podgroup.fold import FOLDS, marking
from podgroup.fold.common import Cause, index, new_members, park
from podgroup.fold.deciding import line_up
from podgroup.fold.decisions import apply_decision
from podgroup.fold.naming import claim_name
from podgroup.fold.pods import count_plainly
from podgroup.fold.records import apply_record
from podgroup.fold.sharing import joined
from podgroup.fold.weighing import recalled
from podgroup.log.codec import Concerned, concerned, is_strange
from podgroup.log.events import (
    Batch,
    Decision,
    DeltaRefused,
    Event,
    PodApplied,
    PodDeleted,
    TimerFired,
    Undecodable,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.log.journal import At, Journal
from podgroup.log.records import AsOf, Concluded
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.interning import intern, intern_time, intern_times, shared
from podgroup.model.names import group_name
from podgroup.model.objects import (
    QUEUE_KINDS,
    Marked,
    PodView,
    QueueObject,
    WorkloadView,
    kind_of,
)
from podgroup.model.policy import Policy
from podgroup.model.standing import StandingReport
from podgroup.state.group import GROUP, SINGLE, Group
from podgroup.state.meta import Meta
from podgroup.state.pod import Pod
from podgroup.state.quota import QueueKey
from podgroup.state.termination import terminating
from podgroup.state.world import World


class PendingWrites(Struct):
    """What is to be written: the journal, and pods and groups that left since the last journal."""

    journal: Journal
    gone_pods: dict[str, Pod]
    gone_groups: dict[GroupID, Group]


def new_world(cluster: str, mode: str = "builtin", policy: Policy | None = None) -> World:
    """Return the state before the first event."""
    return World(cluster=cluster, mode=mode, policy=policy or Policy())


def fold_message(world: World, position: int, at: datetime, batch: Batch) -> At:
    """Fold the events of one message; return its place in the log."""
    here = At(position, at)
    world.note_ord = 0
    for ordinal, event in enumerate(batch.events):
        if isinstance(event, Undecodable):
            _park_undecodable(world, here, ordinal, event)
            continue
        try:
            FOLDS[type(event)](world, here, event, ordinal)
        except Exception as error:  # a fold that fails stops one group only
            _park_event(world, here, ordinal, event, error)
    world.meta.position = position
    world.at = at
    return here


def replay(
    world: World,
    position: int,
    at: datetime,
    batch: Batch,
    decisions: Mapping[str, Decision],
    concluded: Concluded | None,
) -> None:
    """Fold one message and its recorded conclusions; no rule runs."""
    world.track_changes = False
    here = fold_message(world, position, at, batch)
    _apply(world, here, decisions, concluded)
    # All this is for rules, and no rule runs.
    world.dirty_groups.clear()
    world.unannounced.clear()
    world.quotas.read()
    world.loaded = False
    world.meta.at = at


def _apply(
    world: World, here: At, decisions: Mapping[str, Decision], concluded: Concluded | None
) -> None:
    """Apply conclusions in the order in which they were made."""
    made = iter(sorted(decisions.values(), key=lambda decision: decision.number))
    then = here
    for item in concluded.records if concluded is not None else ():
        if isinstance(item, int):
            for decision in islice(made, item):
                apply_decision(world, decision)
        elif isinstance(item, AsOf):
            then = At(here.position, item.at)
        else:
            apply_record(world, then, item)
    for decision in made:
        apply_decision(world, decision)
    if concluded is not None:
        world.meta.decisions = max(world.meta.decisions, concluded.number)


def drain_journal(world: World) -> PendingWrites:
    """Return the journal and start a new one."""
    taken = PendingWrites(world.journal, world.gone_pods, world.gone_groups)
    world.journal = Journal()
    world.gone_pods, world.gone_groups = {}, {}
    return taken


def due_timers(world: World, now: datetime) -> list[TimerFired]:
    """Return the timers that have fallen due by `now`, earliest first, ties by name."""
    due = [(t.due_at, name) for name, t in world.meta.timers.items() if t.due_at <= now]
    return [TimerFired(timer=name, due_at=at) for at, name in sorted(due)]


class Stored(Struct):
    """The stored parts of a world; pods as `read_back` returned them."""

    meta: Meta
    groups: Collection[Group] = ()
    pods: Collection[Pod] = ()
    objects: Collection[QueueObject] = ()
    workloads: Collection[WorkloadView] = ()
    """Workloads that belong to no group."""
    standings: Collection[tuple[QueueKey, StandingReport]] = ()


def load_world(cluster: str, mode: str, stored: Stored, policy: Policy | None = None) -> World:
    """Rebuild the world, indices included, from its stored parts.

    `mode` and `policy` hold for a log without settings.
    """
    if (said := stored.meta.settings) is not None:
        mode, policy = said.mode, said.policy
    world = World(cluster=cluster, mode=mode, policy=policy or Policy(), meta=stored.meta)
    for group in stored.groups:
        world.groups[group.id] = group
        world.lives[(group.kind, group.namespace, group.name)] = group.id
        members = new_members(world, group)
        if group.mirror.workload is not None:
            members.owned = frozenset(group.mirror.workload.owner_uids)
        if group.mirror.expect is not None:
            world.expecting[group.mirror.expect.decision] = (group.id, PodUID(""))
    by_right = sorted(
        world.groups.values(),
        key=lambda g: (g.mirror.workload is None, bool(g.spec.prebuilt), g.created_seq, g.id),
    )
    for group in by_right:
        claim_name(world, group)
    for pod in sorted(stored.pods, key=lambda p: (p.seen_seq, p.view.created_at, p.view.uid)):
        uid = PodUID(pod.view.uid)
        world.pods[uid] = pod
        pod.group = world.groups[pod.group].id
        if pod.deleting and pod.terminating is None:  # stored by a release without this field
            since = stored.meta.at or pod.view.created_at
            pod.terminating = terminating(world.policy, since, None, None, pod.view)
        if pod.expect is not None:
            world.expecting[pod.expect.decision] = (pod.group, uid)
        recalled(world, pod)
        index(world, world.groups[pod.group], pod)
        joined(world, world.groups[pod.group], pod.view)
    for view in stored.objects:
        kind = kind_of(view)
        world.objects_of(kind)[QUEUE_KINDS[kind].key(view.namespace, view.name)] = view
        if isinstance(view, Marked):
            marking.recalled(world, kind, view)
    for workload in stored.workloads:
        world.workloads[(workload.namespace, workload.name)] = workload
    world.standings.update(stored.standings)
    line_up(world)
    world.journal = Journal()
    return world


def read_back(pod: Pod) -> Pod:
    """Let a pod that was read from a database share values with other pods, as when it was folded.

    This is done pod by pod as they are read: unshared, all pods take several times the memory.
    """
    pod.view = shared(pod.view)
    pod.group, pod.role = intern(pod.group), intern(pod.role)
    pod.gate_added = intern_times(pod.gate_added)
    for name in ("ungated_at", "scheduled_at", "started_at"):
        if (time := getattr(pod, name)) is not None:
            setattr(pod, name, intern_time(time))
    return pod


def rejoin_frames(world: World, batch: Batch, position: int) -> None:
    """Refill the objects that open relist frames have seen, from a message that was folded before.

    The projector calls this for the messages between the start of the oldest open frame and its
    checkpoint, because the set of seen objects is not stored.
    """
    for event in batch.events:
        kind = uid = relist = ""
        match event:
            case PodApplied():
                kind, uid, relist = "Pod", event.pod.uid, event.relist
            case WorkloadApplied():
                kind, uid, relist = "Workload", event.workload.uid, event.relist
            case DeltaRefused():
                # As when it was folded: the object exists, though it cannot be read.
                refused = world.meta.frames.get(event.kind)
                if refused is not None and position >= refused.started_seq:
                    refused.seen.add(event.uid)
                continue
            case Undecodable():
                _seen_undecodable(world, event, position)
                continue
            case _:
                view = getattr(event, "object", None)
                if view is not None:
                    kind = kind_of(view)
                    uid, relist = view.uid, getattr(event, "relist", "")
        frame = world.meta.frames.get(kind)
        if frame is not None and relist == frame.relist and position >= frame.started_seq:
            frame.seen.add(uid)


def _park_event(world: World, here: At, ordinal: int, event: Event, error: Exception) -> None:
    identity, name = _concerned(world, event)
    group = world.groups.get(identity) if identity is not None else None
    message = f"{type(error).__name__}: {error}"
    park(world, here, Cause(ordinal, "FoldFailed", message, name), group)
    if isinstance(event, PodApplied | PodDeleted):
        with suppress(Exception):
            count_plainly(world, here, event.pod, gone=isinstance(event, PodDeleted))


def _park_undecodable(world: World, here: At, ordinal: int, event: Undecodable) -> None:
    """Park an event that cannot be decoded; the group of its pod or Workload stops.

    The known state of the group is not the latest any more, so nothing is to be decided on it. The
    object exists, though it cannot be read: a relist must not infer its deletion.
    """
    _seen_undecodable(world, event, here.position)
    identity, name = None, ""
    about = concerned(event.raw)
    if about is not None and about.kind == "Pod":
        identity, name = _group_of_pod(world, about)
    elif about is not None:
        identity, name = _group_of_workload(world, about)
    group = world.groups.get(identity) if identity is not None else None
    reason = "WrongSource" if is_strange(event) else "Undecodable"
    park(world, here, Cause(ordinal, reason, event.error, name, event.raw), group)


def _seen_undecodable(world: World, event: Undecodable, position: int) -> None:
    about = concerned(event.raw)
    frame = world.meta.frames.get(about.kind) if about is not None else None
    if about is not None and frame is not None and position >= frame.started_seq:
        frame.seen.add(about.uid)


def _group_of_pod(world: World, view: PodView | Concerned) -> tuple[GroupID | None, str]:
    known = world.pods.get(view.uid)
    labels, annotations = (
        found if isinstance(found, dict) else {} for found in (view.labels, view.annotations)
    )
    name = str(group_name(labels, annotations))
    key = (GROUP if name else SINGLE, view.namespace, name or view.name)
    found = known.group if known is not None else world.lives.get(key)
    return found, f"pod {view.namespace}/{view.name}"


def _group_of_workload(world: World, view: WorkloadView | Concerned) -> tuple[GroupID | None, str]:
    where = (view.namespace, view.name)
    return world.by_workload.get(where), f"Workload {view.namespace}/{view.name}"


def _concerned(world: World, event: Event) -> tuple[GroupID | None, str]:
    match event:
        case PodApplied(pod=view) | PodDeleted(pod=view):
            return _group_of_pod(world, view)
        case WorkloadApplied(workload=workload) | WorkloadDeleted(workload=workload):
            return _group_of_workload(world, workload)
        case _:
            return None, type(event).__name__
