"""Derived conclusions of rules, entered into the indices; none of them is stored.

Invariant: applying a derived conclusion depends on the state and the conclusion alone.
"""

from collections.abc import Callable
from typing import Any, Final

from podgroup.fold import account
from podgroup.state import derived as d
from podgroup.state.changes import EVERYTHING
from podgroup.state.quota import places
from podgroup.state.world import World


def apply_derived(world: World, what: d.Derived) -> None:
    """Enter a conclusion that follows from state and settings."""
    _APPLIED[type(what)](world, what)


def _waits(world: World, what: d.Waits) -> None:
    if not what.waits:
        world.quotas.dequeue(what.group)
        return
    group = world.groups[what.group]
    local = world.local_queues[group.namespace, group.spec.queue]
    where = places((group.namespace, group.spec.queue), local.cluster_queue)
    world.quotas.enqueue(what.group, where)


def _charged(world: World, what: d.Charged) -> None:
    if what.source is not None:
        world.members[what.group].charged_for = what.source
    if what.charge is None:
        world.quotas.discharge(what.group)
    else:
        world.quotas.charge(what.group, what.charge)


def _contradicted(world: World, what: d.Contradicted) -> None:
    world.members[what.group].contradict(what.what, what.first, what.second)


def _reevaluated(world: World, what: d.Reevaluated) -> None:
    world.dirty_groups[what.group] = EVERYTHING


def _entered(world: World, what: d.Entered) -> None:
    account.enter(world, what.at)


def _corrected(world: World, what: d.Corrected) -> None:
    account.correct(world, what.group)


def _forgotten(world: World, what: d.Forgotten) -> None:
    world.quotas.forget()


def _statuses_read(world: World, what: d.StatusesRead) -> None:
    world.unannounced.clear()


def _moves_read(world: World, what: d.MovesRead) -> None:
    world.quotas.counted(reported=what.reported)


_APPLIED: Final[dict[type[d.Derived], Callable[[World, Any], None]]] = {
    d.Waits: _waits,
    d.Charged: _charged,
    d.Contradicted: _contradicted,
    d.Reevaluated: _reevaluated,
    d.Entered: _entered,
    d.Corrected: _corrected,
    d.Forgotten: _forgotten,
    d.StatusesRead: _statuses_read,
    d.MovesRead: _moves_read,
}
