"""fold: (world, event) -> world changed, one step of the reduction of the log to state.

Theory. Every fact is folded exactly once in effect: what is not newer than what is known is
dropped, so duplicates, batches cut differently after a crash and overlapping relists do no harm.
The fold never decides; it marks the groups that changed, and what of them (`world.dirty_groups`)
and writes notes of what happened into the journal.

Invariant: an event folded twice is an event folded once.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from podgroup.fold import sentences as say
from podgroup.fold.common import Cause, note, park, unpark
from podgroup.fold.deciding import settings_recorded
from podgroup.fold.measuring import pod_measured
from podgroup.fold.nodes import nodes_taken
from podgroup.fold.outcomes import outcome_recorded, timer_fired, try_again
from podgroup.fold.pods import pod_applied, pod_deleted
from podgroup.fold.queues import object_applied, object_deleted
from podgroup.fold.relists import relist_completed, relist_started, synced, unlisted
from podgroup.fold.restoring import cluster_restored
from podgroup.fold.workloads import claim, link, workload_applied, workload_deleted
from podgroup.log.events import (
    ClusterRestored,
    DecisionRefused,
    DeltaRefused,
    Event,
    NodesTaken,
    ObjectApplied,
    ObjectDeleted,
    OperatorActed,
    OutcomeRecorded,
    PodApplied,
    PodDeleted,
    PodMeasured,
    RelistCompleted,
    RelistStarted,
    SettingsRecorded,
    TimerFired,
    WatchProgressed,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.log.journal import At, ParkedRow
from podgroup.model.ids import GroupID, newer
from podgroup.model.objects import PodView
from podgroup.model.reasons import DECISION_REFUSED, PARKED_DECISION
from podgroup.model.wording import unparked
from podgroup.state.group import GROUP, Group
from podgroup.state.meta import Refusal
from podgroup.state.world import World

__all__ = ["FOLDS", "link", "synced", "unlisted"]


MAX_GIVEN_UP = 1000
"""Parked decisions that are known apart: of those that fall out the next is listed anew."""
MAX_REFUSED = 100
"""Pods that cannot be read of which it is remembered what was reported."""


def _pod_applied(world: World, here: At, event: PodApplied, _: int) -> None:
    view = event.pod
    pod_applied(world, here, view, event.relist)
    if view.unread and view.uid in world.pods:
        _left_out(world, here, view)
    if world.workloads:
        claim(world, here, event.pod.uid)


def _object_deleted(world: World, here: At, event: ObjectDeleted, _: int) -> None:
    object_deleted(world, here, event)


def _progressed(world: World, here: At, event: WatchProgressed, _: int) -> None:
    if newer(event.resource_version, world.meta.versions.get(event.kind, "")):
        world.meta.versions[event.kind] = event.resource_version


def _workload_applied(world: World, here: At, event: WorkloadApplied, _: int) -> None:
    workload_applied(world, here, event.workload, event.relist)


def _operator(world: World, here: At, event: OperatorActed, _: int) -> None:
    """What a person (or a deployment on its own behalf) did to gatelog."""
    released: list[Group] = []
    if event.action in ("release", "discard"):
        released = unpark(world, event.target)
        for key, place in list(world.meta.given_up.items()):
            if place == event.target:
                del world.meta.given_up[key]
                group = world.groups.get(GroupID(key.partition(": ")[0]))
                if event.action == "release" and group is not None:
                    try_again(world, here, group)
                    released.append(group)
        for refusal in world.meta.refused.values():
            # Should the pod be as it was, it is parked once more.
            if refusal.parked == event.target or "/" not in event.target:
                refusal.parked = ""
    note(
        world,
        here,
        "OperatorActed",
        group=released[0].id if released else "",
        reason=event.action,
        message=say.acted(event.target, event.by, event.message),
    )


def _refused(world: World, here: At, event: DeltaRefused, ordinal: int) -> None:
    """A watch item the ingester could not read: shown, and its relist frame kept honest.

    Its history says so each time; it is parked once for each thing that is wrong with it.
    """
    frame = world.meta.frames.get(event.kind)
    if frame is not None and not event.unlabelled:
        frame.seen.add(event.uid)
    group = _group_refused(world, event)
    named = event.kind == "Pod" and event.uid and event.name
    message = (
        event.message
        if event.field in event.message
        else say.unreadable(event.field, event.message)
    )
    refusal = Refusal(
        event.namespace,
        event.name,
        message,
        parked=f"{here.position}/{ordinal}",
        unlabelled=event.unlabelled,
    )
    if not named or _remember(world, event.uid, refusal):
        world.journal.parked.append(
            ParkedRow(
                seq=here.position,
                ord=ordinal,
                at=here.at,
                reason="DeltaRefused",
                message=say.unreadable(event.field, event.message),
                group=group,
                object=say.object_refused(event.kind, event.namespace, event.name),
            )
        )
    note(
        world,
        here,
        "DeltaRefused",
        group=group if group in world.groups else "",
        pod=event.uid if event.kind == "Pod" else "",
        reason=event.field,
        message=say.object_unreadable(event.kind, event.namespace, event.name, event.message),
    )


def _outcome(world: World, here: At, event: OutcomeRecorded, ordinal: int) -> None:
    """What became of a decision; one that was parked is listed once for each group and reason.

    Its group goes on: its rules decide again after a while, or when it is released.
    """
    outcome_recorded(world, here, event)
    if not event.parked:
        return
    known, key = world.meta.given_up, f"{event.group}: {event.message}"
    if key in known:
        return
    if len(known) >= MAX_GIVEN_UP:
        del known[next(iter(known))]
    known[key] = f"{here.position}/{ordinal}"
    row = ParkedRow(
        seq=here.position,
        ord=ordinal,
        at=here.at,
        reason=PARKED_DECISION,
        message=unparked(event.message),
        group=event.group,
        object=say.decision_parked(event.decision, event.parked),
    )
    world.journal.parked.append(row)
    group = event.group if event.group in world.groups else ""
    note(world, here, "Parked", group, "", row.reason, row.message, event.decision)


def _decision_refused(world: World, here: At, event: DecisionRefused, ordinal: int) -> None:
    """A message among the decisions that the actuators do not believe: shown, and nothing stops."""
    what = say.decisions_message(event.sequence)
    message = say.decision_refused(event.subject, event.reason, event.others)
    park(world, here, Cause(ordinal, DECISION_REFUSED, message, what, event.raw.encode()))


def _left_out(world: World, here: At, view: PodView) -> None:
    """Keep which fields of a pod are over their bounds; the rest of it is folded like any other."""
    message = "; ".join(view.unread)
    known = world.meta.refused.get(view.uid)
    if known is not None and known.message == message:
        return
    _remember(world, view.uid, Refusal(view.namespace, view.name, message))
    group = world.pods[view.uid].group
    note(
        world, here, "DeltaRefused", group=group, pod=view.uid, reason=say.LEFT_OUT, message=message
    )


def _remember(world: World, uid: str, found: Refusal) -> bool:
    """Keep what is wrong with a pod until it was reported: once, not with each of its changes.

    Returns whether it is to be parked where it says: the same is not parked already.
    """
    refused, message = world.meta.refused, found.message
    known = refused.pop(uid, None)
    if known is None and len(refused) >= MAX_REFUSED:
        world.meta.unreported -= not refused.pop(next(iter(refused))).reported
    same = known if known is not None and known.message == message else None
    reported = same is not None and same.reported
    world.meta.unreported += (not reported) - (known is not None and not known.reported)
    parked = same.parked if same is not None else ""
    refused[uid] = replace(found, reported=reported, parked=parked or found.parked)
    return not parked


def _group_refused(world: World, event: DeltaRefused) -> str:
    """Return the id of the group a refused object belongs to, else the group name it bears."""
    match event.kind:
        case "Pod":
            known = world.pods.get(event.uid)
            if known is not None:
                return known.group
            named = (GROUP, event.namespace, event.group)
            return world.lives.get(named, event.group) if event.group else ""
        case "Workload":
            return world.by_workload.get((event.namespace, event.name), event.group)
        case _:
            return event.group


FOLDS: dict[type[Event], Callable[[World, At, Any, int], object]] = {
    PodApplied: _pod_applied,
    PodDeleted: lambda world, here, event, _: pod_deleted(
        world, here, event.pod, filtered=event.filtered
    ),
    PodMeasured: lambda world, here, event, _: pod_measured(world, event),
    WorkloadApplied: _workload_applied,
    WorkloadDeleted: lambda world, here, event, _: workload_deleted(world, here, event.workload),
    ObjectApplied: lambda w, here, event, _: object_applied(w, here, event.object, event.relist),
    ObjectDeleted: _object_deleted,
    NodesTaken: lambda world, here, event, _: nodes_taken(world, event),
    RelistStarted: lambda world, here, event, _: relist_started(world, here, event),
    RelistCompleted: lambda world, here, event, _: relist_completed(world, here, event),
    WatchProgressed: _progressed,
    ClusterRestored: lambda world, here, event, _: cluster_restored(world, here, event),
    OutcomeRecorded: _outcome,
    TimerFired: lambda world, here, event, _: timer_fired(world, here, event),
    DeltaRefused: _refused,
    DecisionRefused: _decision_refused,
    OperatorActed: _operator,
    SettingsRecorded: lambda world, here, event, _: settings_recorded(world, here, event),
}
"""How each event is folded; a test holds this against the events there are."""
