"""The line-up: what deciding on quota remembers of the world between two messages.

Theory. A `Scheduler` is kept beside the world and given what is news (`Quotas.news`, `objects`):
the work per message is that of what changed, however many wait or hold. It holds no fact that is
not in the world, save which shapes did not fit lately: after a start it is made anew from the world
as it was before what comes next, and none is tried that was refused then. By Kueue's options, where
an equal one's failure answers for all, that is derived from the verdicts they got.

A group that waits while pods of it run without an admission is both in the line and charged: what
its pods take is entered apart, and counts as free for the group itself. It takes no more than its
own ClusterQueue has, unless the group was started by an admission once; nor does what was taken
over for the marks of a start, since others can write those.

Invariant: after `follow` queues, holders and who waits are those of the world.
"""

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from podgroup.admission import BETTER, KUEUE, Scheduler
from podgroup.admission.cache import own
from podgroup.admission.holding import usage_of
from podgroup.admission.model import Workload
from podgroup.admission.topology.tenants import Tenants
from podgroup.model.ids import GroupID
from podgroup.model.names import (
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_PREEMPTED_WORKLOADS,
    PENDING_TOPOLOGY_FAILED,
    PENDING_WAITING_FOR_QUOTA,
    PENDING_WAITING_FOR_TOPOLOGY,
)
from podgroup.model.objects import Assignment
from podgroup.model.wording import kueues
from podgroup.rules.helpers import snapshot
from podgroup.rules.helpers.topology import failed_nodes, hosts_of
from podgroup.state.derived import AnyDerived, SchedulerKept
from podgroup.state.facts import nodes_listed, unwell
from podgroup.state.quota import Charge
from podgroup.state.world import World

REFUSED = frozenset(
    {
        PENDING_EXCEEDS_MAX_QUOTA,
        PENDING_NO_MATCHING_FLAVOR,
        PENDING_PREEMPTED_WORKLOADS,
        PENDING_TOPOLOGY_FAILED,
        PENDING_WAITING_FOR_QUOTA,
        PENDING_WAITING_FOR_TOPOLOGY,
    }
)
"""Reasons that only say that it was tried."""


class SchedulerMirror:
    """A scheduler that follows a world."""

    __slots__ = ("_ill", "_new", "near", "scheduler", "tenants")

    def __init__(self, world: World) -> None:
        policy = world.policy
        options = KUEUE if policy.compatibility == "kueue" else BETTER
        self.scheduler = Scheduler(snapshot.configuration(policy), options)
        self._ill: dict[str, Exception] = {}
        self._new = True
        self.tenants = Tenants()
        self.near: list[str] = []
        """Groups with places on nodes of which the last news was."""
        cache = self.scheduler.cache
        for kind in _KINDS:
            for key in world.objects_of(kind):
                self._object(world, kind, key)
        for identity in world.quotas.charges:
            self._guarded(world, identity, self._charged)
        if cache.ledger is not None:
            for key, used in world.meta.used.items():
                namespace, _, name = key.partition("/")
                at = used.at.timestamp() if used.at is not None else 0.0
                cache.ledger.restore((namespace, name), dict(used.consumed or ()), at)
        cache.settle(0, look=False)
        for identity in world.quotas.waiting:
            self._guarded(world, identity)
        for identity in {**world.quotas.charges, **world.quotas.waiting}:
            for by in world.groups[GroupID(identity)].requeueing.beaten_by:
                if by in world.groups:
                    cache.beaten(identity, by)
        self._new = False
        waiting = {one: world.groups[GroupID(one)].quota for one in world.quotas.waiting}
        keeping = [(identity, quota.kept) for identity, quota in waiting.items() if quota.kept]
        cache.restore_inadmissible(
            {identity for identity, quota in waiting.items() if quota.reason[0] in REFUSED},
            {identity: usage_of(snapshot.kept(kept)) for identity, kept in keeping if kept.head},
        )
        for identity, kept in keeping:
            if kept.lost_to:
                cache.keep_waiting(identity, kept.victims, kept.lost_to)
            elif kept.head and not kept.assignments:
                cache.keep_place(identity, kept.cluster_queue)
            elif not kept.head:
                sets = snapshot.kept(kept)
                cache.keep(identity, kept.cluster_queue, sets, kept.borrowing, kept.victims)
        if not cache.options.drain:
            cache.mark_inadmissible(waiting)

    def follow(self, world: World) -> dict[str, Exception]:
        """Take notice of the news; return for which groups that failed, and why."""
        quotas = world.quotas
        for kind, namespace, name in quotas.objects:
            if kind in _KINDS:
                self._object(world, kind, (namespace, name) if kind == "LocalQueue" else name)
            if kind == "Node":
                self.tenants.judge(name, unwell(world, name), news=True)
        self.near = self.tenants.concerned()
        gone = [g for g in quotas.news if g not in quotas.waiting and g not in quotas.charges]
        for identity in dict.fromkeys((*gone, *quotas.news, *self.near)):
            self._guarded(world, identity)
        ill, self._ill = self._ill, {}
        return ill

    def correct(self, world: World, identity: str) -> None:
        """Let the world be right about a group about which something else was decided here.

        It is not tried again before there is news of it.
        """
        cache = self.scheduler.cache
        group = world.groups.get(GroupID(identity))
        if group is not None and group.quota.holding is None:
            if identity in cache.holdings:
                cache.released(identity)
            cache.submit(snapshot.workload(world, group, asleep=True))
        else:
            cache.remove(identity)
            self._group(world, identity)

    def _guarded(
        self, world: World, identity: str, take: Callable[[World, str], bool] | None = None
    ) -> None:
        try:
            (take or self._group)(world, identity)
        except Exception as error:  # no other is to wait for one that cannot be read
            self.scheduler.cache.remove(identity)
            self._ill[identity] = error

    def _charged(self, world: World, identity: str) -> bool:
        """Enter what a group is charged; tell whether nothing else is to be entered of it."""
        cache = self.scheduler.cache
        group = world.groups.get(GroupID(identity))
        charge = world.quotas.charges.get(identity)
        if group is None:
            cache.remove(own(identity))
            cache.remove(identity)
            self._locate(world, identity, ())
            return True
        if group.quota.holding is not None and charge is not None:
            cache.remove(own(identity))
            known = snapshot.workload(world, group)
            over = group.quota.holding.taken_over
            known = msgspec.structs.replace(known, unadmitted=over) if over else known
            given = group.quota.holding.admission.assignments
            self._hold(known, charge, given)
            self._locate(world, identity, given)
            eviction = snapshot.eviction(group)
            if eviction is not None:
                by = (
                    group.requeueing.evicted.preempted_by
                    if group.requeueing.evicted is not None
                    else ""
                )
                cache.evict(identity, eviction, by)
            elif nodes := self.tenants.unwell(identity):
                cache.nodes_failed(identity, failed_nodes(world, group, nodes))
            return True
        self._locate(world, identity, ())
        if identity in cache.holdings:
            cache.released(identity, requeue=group.ending.finish is None)
        if charge is not None:
            asked = snapshot.workload(world, group)
            apart = msgspec.structs.replace(asked, id=own(identity), unadmitted=charge.unadmitted)
            self._hold(apart, charge)
        else:
            cache.remove(own(identity))
        return False

    def _locate(self, world: World, identity: str, given: tuple[Assignment, ...]) -> None:
        """Enter on which nodes a group has places."""
        hosts = frozenset(host for one in given for host in hosts_of(one.place))
        for host in self.tenants.locate(identity, hosts):
            self.tenants.judge(host, nodes_listed(world) and unwell(world, host))

    def _group(self, world: World, identity: str) -> bool:
        if self._charged(world, identity):
            return True
        cache, group = self.scheduler.cache, world.groups[GroupID(identity)]
        if identity in world.quotas.waiting:
            if group.namespace not in cache.namespaces:
                cache.set_namespace(group.namespace, {})
            reason = group.quota.reason[0], kueues(group.quota.reason[1])
            new = self._new and identity not in cache.waiters and reason[0] in REFUSED
            short = group.quota.lack.shortages if group.quota.lack is not None else ()
            cache.submit(snapshot.workload(world, group), reason if new else None, short)
        elif identity in cache.waiters:
            if group.ending.finish is None and cache.remembers(identity):
                cache.submit(snapshot.workload(world, group, asleep=True))
            else:
                cache.remove(identity)
        return True

    def _hold(self, workload: Workload, charge: Charge, given: tuple[Assignment, ...] = ()) -> None:
        cache = self.scheduler.cache
        held = cache.holdings.get(workload.id)
        if held is not None:
            known = held.workload
            same = (known.priority, known.queue, known.fixed) == (
                workload.priority,
                workload.queue,
                workload.fixed,
            )
            back = held.evicted is not None and workload.evicted is None
            names = {pod_set.name for pod_set in workload.pod_sets}
            placed = {one.name: one.place for one in given if one.place and one.name in names}
            same = same and placed == {one.name: one.topology for _, one in held.given}
            if same and not back and held.cluster_queue == charge.cluster_queue:
                cache.resize(workload.id, dict(snapshot.taken(charge)))
                return
        cache.hold(workload, snapshot.reservation(charge, given))

    def _object(self, world: World, kind: str, key: tuple[str, str] | str) -> None:
        cache = self.scheduler.cache
        view: Any = world.objects_of(kind).get(key)
        match kind:
            case "LocalQueue" if view is None:
                cache.remove_local_queue(*key)
            case "LocalQueue":
                cache.set_local_queue(snapshot.local_queue(view))
            case "ClusterQueue" if view is None:
                cache.remove_cluster_queue(str(key))
            case "ClusterQueue":
                usable = not any(snapshot.unusable_checks(world.checks, view))
                cache.set_cluster_queue(snapshot.cluster_queue(view, usable=usable))
            case "Cohort" if view is None:
                cache.remove_cohort(str(key))
            case "Cohort":
                cache.set_cohort(snapshot.cohort(view))
            case "ResourceFlavor" if view is None:
                cache.remove_flavor(str(key))
            case "ResourceFlavor":
                cache.set_flavor(snapshot.flavor(view))
            case "Topology" if view is None or not nodes_listed(world):
                cache.remove_topology(str(key))
            case "Topology":
                cache.set_topology(view.name, view.levels)
            case "Node" if view is None:
                cache.remove_node(str(key))
            case "Node":
                cache.set_node(view)
            case "Namespace" if view is None:
                cache.remove_namespace(str(key))
            case "Namespace":
                cache.set_namespace(str(key), view.labels)
            case _:
                raise AssertionError(f"{kind} is nothing to admission")


_KINDS = (
    "Namespace",
    "Topology",
    "Node",
    "ResourceFlavor",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
)
"""What admission asks for, in the order in which it is entered."""


def scheduler_mirror(world: World) -> Generator[AnyDerived, None, SchedulerMirror]:
    """Return what is remembered of a world; if nothing is, it is made from what there is."""
    if world.scheduler_mirror is None:
        yield SchedulerKept(SchedulerMirror(world))
    found: SchedulerMirror = world.scheduler_mirror
    return found
