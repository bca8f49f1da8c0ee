"""What rules derive, entered into the indices; none of it is stored.

Invariant: applying what is derived depends on the state and on what it says only.
"""

from collections.abc import Callable
from typing import Any, Final

from podgroup.fold.reservations import recharge
from podgroup.state import derived as d
from podgroup.state.changes import EVERYTHING
from podgroup.state.quota import places
from podgroup.state.world import World


def apply_derived(world: World, what: d.Derived) -> None:
    """Enter what follows from state and settings."""
    _APPLIED[type(what)](world, what)


def _enqueued(world: World, what: d.Enqueued) -> None:
    group = world.groups[what.group]
    local = world.local_queues[group.namespace, group.spec.queue]
    where = places((group.namespace, group.spec.queue), local.cluster_queue)
    world.quotas.enqueue(what.group, where)


def _dequeued(world: World, what: d.Dequeued) -> None:
    world.quotas.dequeue(what.group)


def _recharged(world: World, what: d.Recharged) -> None:
    recharge(world, world.groups[what.group])


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


def _scheduler_kept(world: World, what: d.SchedulerKept) -> None:
    world.scheduler_mirror = what.scheduler_mirror


def _all_reconsidered(world: World, what: d.AllReconsidered) -> None:
    world.quotas.recall()


def _news_read(world: World, what: d.NewsRead) -> None:
    world.quotas.read()


def _statuses_read(world: World, what: d.StatusesRead) -> None:
    world.unannounced.clear()


def _moves_read(world: World, what: d.MovesRead) -> None:
    world.quotas.counted(reported=what.reported)


_APPLIED: Final[dict[type[d.Derived], Callable[[World, Any], None]]] = {
    d.Enqueued: _enqueued,
    d.Dequeued: _dequeued,
    d.Recharged: _recharged,
    d.Charged: _charged,
    d.Contradicted: _contradicted,
    d.Reevaluated: _reevaluated,
    d.SchedulerKept: _scheduler_kept,
    d.AllReconsidered: _all_reconsidered,
    d.NewsRead: _news_read,
    d.StatusesRead: _statuses_read,
    d.MovesRead: _moves_read,
}
