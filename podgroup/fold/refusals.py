"""Refusals: objects that could not be read, and messages that are not believed.

Theory. A pod that the ingester could not read, or whose fields it left out, is remembered until the
fault was reported on the pod, the pod can be read again, or it is gone. History has the fault each
time; the pod is parked once for each fault.

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
"""Unreadable pods that are remembered, with what was reported on them."""


def delta_refused(world: World, here: At, event: DeltaRefused, ordinal: int) -> None:
    """Fold a watch item that the ingester could not read; its relist frame counts it as listed.

    History has the fault each time; the item is parked once for each fault.
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
    """Fold a message of DECISIONS that actuators do not believe: it is parked, nothing stops."""
    what = say.decisions_message(event.sequence)
    message = say.decision_refused(event.subject, event.reason, event.others)
    park(world, here, Cause(ordinal, DECISION_REFUSED, message, what, event.raw.encode()))


def left_out(world: World, here: At, view: PodView) -> None:
    """Remember which fields of a pod are over their bounds; the rest is folded as usual."""
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
    """An unreadable pod can be read now, or is gone."""
    refusal = world.meta.refused.pop(uid, None)
    if refusal is None:
        return
    world.meta.unreported -= not refusal.reported
    if known is not None and known.reported is not None:
        reporting.forgotten(world.groups[known.group])  # the pod bears it: another is due
        mark(world, known.group)


def _remember(world: World, uid: str, found: Refusal) -> bool:
    """Remember a pod's fault until it was reported, which is done once, not with each change.

    Returns whether the refusal is to be parked: False if the same fault is parked already.
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
