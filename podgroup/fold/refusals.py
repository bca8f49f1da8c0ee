"""Refusals: what could not be read of an object, or believed of a message.

Theory. A pod that the ingester cannot read, or of which it left fields out, is remembered until
that was reported on it, it can be read again, or it is gone. History says each time what was wrong;
it is parked once for each thing that is wrong with it.

Invariant: `meta.unreported` counts the refusals that are remembered and were not reported.
"""

from typing import Final

from msgspec.structs import replace

from podgroup.fold import sentences as say
from podgroup.fold.common import Cause, mark, note, park
from podgroup.fold.group import reporting
from podgroup.log.events import DecisionRefused, DeltaRefused
from podgroup.log.journal import At, ParkedRow
from podgroup.model.objects import PodView
from podgroup.model.reasons import DECISION_REFUSED
from podgroup.state.group import GROUP
from podgroup.state.meta import Refusal
from podgroup.state.pod import Pod
from podgroup.state.world import World

MAX_REFUSED: Final = 100
"""Pods that cannot be read of which it is remembered what was reported."""


def delta_refused(world: World, here: At, event: DeltaRefused, ordinal: int) -> None:
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


def decision_refused(world: World, here: At, event: DecisionRefused, ordinal: int) -> None:
    """A message among the decisions that the actuators do not believe: shown, and nothing stops."""
    what = say.decisions_message(event.sequence)
    message = say.decision_refused(event.subject, event.reason, event.others)
    park(world, here, Cause(ordinal, DECISION_REFUSED, message, what, event.raw.encode()))


def left_out(world: World, here: At, view: PodView) -> None:
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


def mended(world: World, uid: str, known: Pod | None) -> None:
    """A pod that could not be read can be, or is gone."""
    refusal = world.meta.refused.pop(uid, None)
    if refusal is None:
        return
    world.meta.unreported -= not refusal.reported
    if known is not None and known.reported is not None:
        reporting.forgotten(world.groups[known.group])  # it bears that report: say what holds now
        mark(world, known.group)


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
