"""The line-up: what deciding on quota remembers of the world between two messages.

Theory. A `Scheduler` is kept beside the world and given what is news (`Quotas.news`, `objects`):
the work per message is that of what changed, however many wait or hold. It holds no fact that is
not in the world, save which shapes did not fit lately: after a start it is made anew from the world
as it was before what comes next, and none is tried that was refused then. As Kueue decides, an
equal one's failure answers for all, and that is derived from the verdicts they got.

A group that waits while pods of it run without an admission is both in the line and charged: what
its pods take is entered apart, and counts as free for the group itself. It takes no more than its
own ClusterQueue has, unless the group was started by an admission once; nor does what was taken
over for the marks of a start, since others can write those.

Invariant: after `follow` queues, holders and who waits are those of the world.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from podgroup.admission import Scheduler
from podgroup.admission.cache.queue_manager import Refusal
from podgroup.admission.holding import unadmitted_id
from podgroup.admission.model import (
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Namespace,
    Object,
    Topology,
    Workload,
)
from podgroup.admission.topology.tenants import Tenants
from podgroup.model.ids import GroupID
from podgroup.model.objects import QUEUE_KINDS, Assignment, NodeView
from podgroup.model.wording import kueues
from podgroup.rules.helpers import snapshot
from podgroup.rules.helpers.topology import failed_nodes, hosts_of
from podgroup.state.derived import AnyDerived, SchedulerKept
from podgroup.state.facts import nodes_listed, unwell
from podgroup.state.group import Group
from podgroup.state.quota import Charge
from podgroup.state.world import World


class SchedulerMirror:
    """A scheduler that follows a world."""

    __slots__ = ("_ill", "_new", "near", "scheduler", "tenants")

    def __init__(self, world: World) -> None:
        self.scheduler = Scheduler(snapshot.configuration(world.policy))
        self._ill: dict[str, Exception] = {}
        self._new = True
        self.tenants = Tenants()
        self.near: list[str] = []
        """Groups with places on nodes of which the last news was."""
        cache = self.scheduler.cache
        for kind in _KINDS:
            for view in world.objects_of(kind).values():
                self._object(world, kind, view.namespace, view.name)
        for identity in world.quotas.charges:
            self._guarded(world, identity, self._charged)
        ledger = cache.reservations.ledger
        if ledger is not None:
            for key, used in world.meta.used.items():
                namespace, _, name = key.partition("/")
                at = used.at.timestamp() if used.at is not None else 0.0
                ledger.restore((namespace, name), dict(used.consumed or ()), at)
        cache.settle(0, sample=False)
        for identity in world.quotas.waiting:
            self._guarded(world, identity)
        for identity in {**world.quotas.charges, **world.quotas.waiting}:
            for by in world.groups[GroupID(identity)].requeueing.preempted_for:
                if by in world.groups:
                    cache.preemptions.add(identity, by)
        self._new = False
        waiting = {one: world.groups[GroupID(one)].quota for one in world.quotas.waiting}
        cache.restore(
            {identity for identity, quota in waiting.items() if quota.effect.tried},
            {one: snapshot.kept_quota(quota.kept) for one, quota in waiting.items() if quota.kept},
        )
        if cache.configuration.as_kueue:
            cache.queues.mark_inadmissible(waiting)

    def follow(self, world: World) -> dict[str, Exception]:
        """Take notice of the news; return for which groups that failed, and why."""
        quotas = world.quotas
        for kind, namespace, name in quotas.objects:
            if kind in _KINDS:
                self._object(world, kind, namespace, name)
            if kind == "Node":
                self.tenants.judge(name, unwell(world, name), news=True)
        self.near = self.tenants.concerned()
        news = (*quotas.charged, *quotas.news)
        gone = [g for g in news if g not in quotas.waiting and g not in quotas.charges]
        for identity in dict.fromkeys((*gone, *news, *self.near)):
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
            if identity in cache.reservations.admitted:
                cache.release(identity)
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
            with suppress(Exception):
                self._counted(world, identity)

    def _counted(self, world: World, identity: str) -> None:
        """Enter what a group is charged and nothing else: it cannot be read, and may run."""
        cache, charge = self.scheduler.cache, world.quotas.charges.get(identity)
        group = world.groups.get(GroupID(identity))
        if charge is None or group is None:
            return
        holds = group.quota.holding is not None
        eviction = snapshot.eviction(group)
        plain = Workload(
            id=identity if holds else unadmitted_id(identity),
            uid=identity,
            namespace=group.namespace,
            queue=group.spec.queue,
            created=charge.at.timestamp(),
            priority=group.composition.priority,
            evicted=eviction,
            fixed=not holds,
            unadmitted=charge.unadmitted,
        )
        self._reserve(plain, charge)
        if eviction is not None:
            cache.evict(identity, eviction, "")

    def _charged(self, world: World, identity: str) -> bool:
        """Enter what a group is charged; tell whether nothing else is to be entered of it."""
        cache = self.scheduler.cache
        group = world.groups.get(GroupID(identity))
        charge = world.quotas.charges.get(identity)
        if group is None:
            cache.remove(unadmitted_id(identity))
            cache.remove(identity)
            self._locate(world, identity, ())
            return True
        if group.quota.holding is not None and charge is not None:
            if self._resized(group, charge):
                return True
            cache.remove(unadmitted_id(identity))
            known = snapshot.workload(world, group)
            over = group.quota.holding.taken_over
            known = msgspec.structs.replace(known, unadmitted=over) if over else known
            given = group.quota.holding.admission.assignments
            self._reserve(known, charge, given)
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
                cache.reservations.fail_nodes(identity, failed_nodes(world, group, nodes))
            return True
        self._locate(world, identity, ())
        if identity in cache.reservations.admitted:
            cache.release(identity, requeue=group.ending.finish is None)
        if charge is not None:
            asked = snapshot.workload(world, group)
            apart = msgspec.structs.replace(
                asked, id=unadmitted_id(identity), unadmitted=charge.unadmitted
            )
            self._reserve(apart, charge)
        else:
            cache.remove(unadmitted_id(identity))
        return False

    def _resized(self, group: Group, charge: Charge) -> bool:
        """Enter the amount of a group that holds what it held; tell whether that was all there is.

        It is what each success of a pod comes to, where no places are given: what else there is to
        know of the group costs three times as much to make and to find the same.
        """
        reservations = self.scheduler.cache.reservations
        held = reservations.admitted.get(group.id)
        if held is None or held.given or held.evicted is not None:
            return False
        known = held.workload
        if (
            group.requeueing.evicted is not None
            or held.cluster_queue != charge.cluster_queue
            or known.priority != group.composition.priority
            or known.queue != group.spec.queue
            or known.fixed
            or unadmitted_id(group.id) in reservations.admitted
            or self.tenants.placed(group.id)
        ):
            return False
        for one in group.quota.holding.admission.assignments if group.quota.holding else ():
            if one.place is not None:
                return False
        reservations.resize(group.id, snapshot.taken(charge))
        return True

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
            if group.namespace not in cache.objects.namespaces:
                cache.apply(Namespace(name=group.namespace))
            quota = group.quota
            new = self._new and identity not in cache.queues.waiting and quota.effect.tried
            reason, message = quota.reason
            refused = Refusal(reason, kueues(message), quota.effect) if new else None
            short = quota.shortage.shortages if quota.shortage is not None else ()
            cache.submit(snapshot.workload(world, group), refused, short)
        elif identity in cache.queues.waiting:
            remembered = identity in cache.preemptions or identity in cache.claims.held_back
            if group.ending.finish is None and remembered:
                cache.submit(snapshot.workload(world, group, asleep=True))
            else:
                cache.remove(identity)
        return True

    def _reserve(
        self, workload: Workload, charge: Charge, given: tuple[Assignment, ...] = ()
    ) -> None:
        cache = self.scheduler.cache
        held = cache.reservations.admitted.get(workload.id)
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
                cache.reservations.resize(workload.id, snapshot.taken(charge))
                return
        cache.reserve(workload, snapshot.reservation(charge, given))

    def _object(self, world: World, kind: str, namespace: str, name: str) -> None:
        view = world.objects_of(kind).get(QUEUE_KINDS[kind].key(namespace, name))
        value = snapshot.quota_object(world, view) if view is not None else None
        if value is not None:
            self.scheduler.cache.apply(value)
        else:
            self.scheduler.cache.delete(_KINDS[kind], name, namespace)


_KINDS: Final[Mapping[str, type[Object]]] = {
    "Namespace": Namespace,
    "Topology": Topology,
    "Node": NodeView,
    "ResourceFlavor": Flavor,
    "Cohort": Cohort,
    "ClusterQueue": ClusterQueue,
    "LocalQueue": LocalQueue,
}
"""What admission asks for, in the order in which it is entered."""


def scheduler_mirror(world: World) -> Generator[AnyDerived, None, SchedulerMirror]:
    """Return what is remembered of a world; if nothing is, it is made from what there is."""
    if world.scheduler_mirror is None:
        yield SchedulerKept(SchedulerMirror(world))
    return known_mirror(world)


def known_mirror(world: World) -> SchedulerMirror:
    """Return what is remembered of a world of which something is."""
    assert isinstance(world.scheduler_mirror, SchedulerMirror), "nothing is remembered"
    return world.scheduler_mirror
