"""The line-up: what deciding on quota remembers of the world between two messages.

Theory. A `Scheduler` is kept beside the world and given what is news (`Quotas.news`, `objects`):
the work per message is that of what changed, however many wait or hold. It holds no fact that is
not in the world, save which shapes did not fit lately: after a start it is made anew from the world
as it was before what comes next, and none is tried that was refused then. By Kueue's ways, where
an equal one's failure answers for all, that is derived from the verdicts they got.

A group that waits while pods of it run without an admission is both in the line and charged: what
its pods take is entered apart, and counts as free for the group itself. It takes no more than its
own ClusterQueue has, unless the group was started by an admission once; nor does what was taken
over for the marks of a start, since others can write those.

Invariant: after `follow` queues, holders and who waits are those of the world.
"""

from collections.abc import Callable, Generator

import msgspec

from podgroup.admission import BETTER, KUEUE, Scheduler
from podgroup.admission.book import own
from podgroup.admission.holding import usage_of
from podgroup.admission.model import Workload
from podgroup.derived import AnyDerived, SchedulerKept
from podgroup.ids import GroupID
from podgroup.names import (
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_PREEMPTED_WORKLOADS,
    PENDING_WAITING_FOR_QUOTA,
)
from podgroup.quota import Charge
from podgroup.rules.helpers import snapshot
from podgroup.view import World

REFUSED = frozenset(
    {
        PENDING_EXCEEDS_MAX_QUOTA,
        PENDING_NO_MATCHING_FLAVOR,
        PENDING_PREEMPTED_WORKLOADS,
        PENDING_WAITING_FOR_QUOTA,
    }
)
"""Reasons that only say that it was tried."""


class Lineup:
    """A scheduler that follows a world."""

    __slots__ = ("_ill", "_new", "scheduler")

    def __init__(self, world: World) -> None:
        policy = world.policy
        ways = KUEUE if policy.compatibility == "kueue" else BETTER
        self.scheduler = Scheduler(snapshot.configuration(policy), ways)
        self._ill: dict[str, Exception] = {}
        self._new = True
        book = self.scheduler.book
        for kind, store in _STORES.items():
            for key in getattr(world, store):
                self._object(world, kind, key)
        for identity in world.quotas.charges:
            self._guarded(world, identity, self._charged)
        if book.ledger is not None:
            for key, used in world.meta.used.items():
                namespace, _, name = key.partition("/")
                at = used.at.timestamp() if used.at is not None else 0.0
                book.ledger.restore((namespace, name), dict(used.consumed or ()), at)
        book.settle(0, look=False)
        for identity in world.quotas.waiting:
            self._guarded(world, identity)
        for identity in {**world.quotas.charges, **world.quotas.waiting}:
            for by in world.groups[GroupID(identity)].requeueing.beaten_by:
                if by in world.groups:
                    book.beaten(identity, by)
        self._new = False
        waiting = {one: world.groups[GroupID(one)].quota for one in world.quotas.waiting}
        keeping = [(identity, quota.kept) for identity, quota in waiting.items() if quota.kept]
        book.stand(
            {identity for identity, quota in waiting.items() if quota.reason[0] in REFUSED},
            {identity: usage_of(snapshot.kept(kept)) for identity, kept in keeping if kept.head},
        )
        for identity, kept in keeping:
            if kept.head and not kept.assignments:
                book.keep_place(identity, kept.cluster_queue)
            elif not kept.head:
                sets = snapshot.kept(kept)
                book.keep(identity, kept.cluster_queue, sets, kept.borrowing, kept.victims)
        if not book.ways.drain:
            book.rest(waiting)

    def follow(self, world: World) -> dict[str, Exception]:
        """Take notice of the news; return for which groups that failed, and why."""
        quotas = world.quotas
        for kind, namespace, name in quotas.objects:
            if kind in _STORES:
                self._object(world, kind, (namespace, name) if kind == "LocalQueue" else name)
        gone = [g for g in quotas.news if g not in quotas.waiting and g not in quotas.charges]
        for identity in dict.fromkeys((*gone, *quotas.news)):
            self._guarded(world, identity)
        ill, self._ill = self._ill, {}
        return ill

    def correct(self, world: World, identity: str) -> None:
        """Let the world be right about a group about which something else was decided here.

        It is not tried again before there is news of it.
        """
        book = self.scheduler.book
        group = world.groups.get(GroupID(identity))
        if group is not None and group.quota.holding is None:
            if identity in book.holdings:
                book.released(identity)
            book.submit(snapshot.workload(world, group, asleep=True))
        else:
            book.remove(identity)
            self._group(world, identity)

    def _guarded(
        self, world: World, identity: str, take: Callable[[World, str], bool] | None = None
    ) -> None:
        try:
            (take or self._group)(world, identity)
        except Exception as error:  # no other is to wait for one that cannot be read
            self.scheduler.book.remove(identity)
            self._ill[identity] = error

    def _charged(self, world: World, identity: str) -> bool:
        """Enter what a group is charged; tell whether nothing else is to be entered of it."""
        book = self.scheduler.book
        group = world.groups.get(GroupID(identity))
        charge = world.quotas.charges.get(identity)
        if group is None:
            book.remove(own(identity))
            book.remove(identity)
            return True
        if group.quota.holding is not None and charge is not None:
            book.remove(own(identity))
            known = snapshot.workload(world, group)
            over = group.quota.holding.taken_over
            self._hold(msgspec.structs.replace(known, unadmitted=over) if over else known, charge)
            eviction = snapshot.eviction(group)
            if eviction is not None:
                by = (
                    group.requeueing.evicted.preempted_by
                    if group.requeueing.evicted is not None
                    else ""
                )
                book.evict(identity, eviction, by)
            return True
        if identity in book.holdings:
            book.released(identity, requeue=group.ending.finish is None)
        if charge is not None:
            asked = snapshot.workload(world, group)
            apart = msgspec.structs.replace(asked, id=own(identity), unadmitted=not charge.started)
            self._hold(apart, charge)
        else:
            book.remove(own(identity))
        return False

    def _group(self, world: World, identity: str) -> bool:
        if self._charged(world, identity):
            return True
        book, group = self.scheduler.book, world.groups[GroupID(identity)]
        if identity in world.quotas.waiting:
            if group.namespace not in book.namespaces:
                book.set_namespace(group.namespace, {})
            reason = group.quota.reason
            new = self._new and identity not in book.waiters and reason[0] in REFUSED
            short = group.quota.lack.shortages if group.quota.lack is not None else ()
            book.submit(snapshot.workload(world, group), reason if new else None, short)
        elif identity in book.waiters:
            if group.ending.finish is None and book.remembers(identity):
                book.submit(snapshot.workload(world, group, asleep=True))
            else:
                book.remove(identity)
        return True

    def _hold(self, workload: Workload, charge: Charge) -> None:
        book = self.scheduler.book
        held = book.holdings.get(workload.id)
        if held is not None:
            known = held.workload
            same = (known.priority, known.queue, known.fixed) == (
                workload.priority,
                workload.queue,
                workload.fixed,
            )
            back = held.evicted is not None and workload.evicted is None
            if same and not back and held.cluster_queue == charge.cluster_queue:
                book.resize(workload.id, dict(snapshot.taken(charge)))
                return
        book.hold(workload, snapshot.reservation(charge))

    def _object(self, world: World, kind: str, key: tuple[str, str] | str) -> None:
        book = self.scheduler.book
        view = getattr(world, _STORES[kind]).get(key)
        match kind:
            case "LocalQueue" if view is None:
                book.remove_local_queue(*key)
            case "LocalQueue":
                book.set_local_queue(snapshot.local_queue(view))
            case "ClusterQueue" if view is None:
                book.remove_cluster_queue(str(key))
            case "ClusterQueue":
                usable = not any(snapshot.unusable_checks(world.checks, view))
                book.set_cluster_queue(snapshot.cluster_queue(view, usable=usable))
            case "Cohort" if view is None:
                book.remove_cohort(str(key))
            case "Cohort":
                book.set_cohort(snapshot.cohort(view))
            case "ResourceFlavor" if view is None:
                book.remove_flavor(str(key))
            case "ResourceFlavor":
                book.set_flavor(snapshot.flavor(view))
            case "Namespace" if view is None:
                book.remove_namespace(str(key))
            case "Namespace":
                book.set_namespace(str(key), view.labels)
            case _:
                raise AssertionError(f"{kind} is nothing to admission")


_STORES = {
    "Namespace": "namespaces",
    "ResourceFlavor": "flavors",
    "Cohort": "cohorts",
    "ClusterQueue": "cluster_queues",
    "LocalQueue": "local_queues",
}
"""Where the world has what admission asks for, in the order in which it is entered."""


def lineup(world: World) -> Generator[AnyDerived, None, Lineup]:
    """Return what is remembered of a world; if nothing is, it is made from what there is."""
    if world.lineup is None:
        yield SchedulerKept(Lineup(world))
    found: Lineup = world.lineup
    return found
