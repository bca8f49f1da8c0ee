"""Fold of the mark of objects in use: the finalizer on ClusterQueues, flavors and AdmissionChecks.

Theory. A decision about a mark is in flight until the object shows it or its outcome is known: no
second write meanwhile. A rejected write (an account lacks the right) is tried again by a timer:
soon where a deletion waits for it, seldom where the mark merely guards.

Invariant: `world.marks` has decisions in flight, `world.ending` ClusterQueues being deleted.
"""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from podgroup.log.events import Decision, OutcomeRecorded
from podgroup.log.journal import At
from podgroup.model.objects import MARK_TIMER, ClusterQueueView, Marked, mark_timer
from podgroup.state.meta import Timer
from podgroup.state.quota import QueueKey
from podgroup.state.world import World

AGAIN = {False: timedelta(minutes=10), True: timedelta(seconds=30)}
"""Whether the object is being deleted -> after how long a rejected mark is tried again."""


def carried(world: World, known: Any, view: Marked) -> Marked:
    """Return an object as it was seen, with the decision about it that is still in flight."""
    if isinstance(view, ClusterQueueView):
        if view.deleting:
            world.ending[view.name] = None
        else:
            world.ending.pop(view.name, None)
    if known is None or not known.marking:
        return view
    if (known.uid, known.marked) == (view.uid, view.marked):
        return replace(view, marking=known.marking)
    world.marks.pop(known.marking, None)
    return view


def forgotten(world: World, known: Marked) -> None:
    """An object is gone."""
    world.marks.pop(known.marking, None)
    if isinstance(known, ClusterQueueView):
        world.ending.pop(known.name, None)


def recalled(world: World, kind: str, view: Marked) -> None:
    """An object was read from a database."""
    if isinstance(view, ClusterQueueView) and view.deleting:
        world.ending[view.name] = None
    if view.marking:
        world.marks[view.marking] = (kind, "", view.name)


def decided(world: World, decision: Decision) -> None:
    """A mark is to be put on or taken off: in flight from here on."""
    on = decision.command.target
    key = (on.kind, "", on.name)
    view = world.objects_of(on.kind).get(on.name)
    if isinstance(view, Marked) and view.uid == on.uid:
        _put(world, key, replace(view, marking=decision.id))
        world.marks[decision.id] = key


def outcome(world: World, here: At, event: OutcomeRecorded) -> None:
    """Fold the outcome of a mark; the watch will show objects that are gone."""
    key = world.marks.pop(event.decision, None)
    view = world.objects_of(key[0]).get(key[2]) if key is not None else None
    if key is None or not isinstance(view, Marked) or view.marking != event.decision:
        return
    if event.status == "applied":
        _put(world, key, replace(view, marked=not view.marked, marking=""))
    elif event.status == "rejected":
        after = Timer(here.at + AGAIN[view.deleting], "", MARK_TIMER)
        world.meta.timers[mark_timer(key[0], key[2])] = after
        _put(world, key, replace(view, marking=""))


def due(world: World, timer: str) -> None:
    """A rejected mark may be tried again."""
    _, kind, name = timer.split("/", 2)
    world.unannounced[kind, "", name] = None


def _put(world: World, key: QueueKey, view: Marked) -> None:
    world.objects_of(key[0])[key[2]] = view
    world.journal.objects.add(key)
