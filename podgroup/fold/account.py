"""The account of quota in the scheduler: queues, groups that hold quota and groups that wait.

Theory. `state.quota` notes which groups are charged, which wait, and which changed. Before rules
decide (`Entered`), the changes are entered here into the scheduler, which goes on from its former
state: the work per message is that of the changes, however many groups wait or hold. The scheduler
holds no fact that the world lacks, save which shapes did not fit lately: after a start it is made
anew from the world as it was then, and tries no group that was refused before. Where Kueue's
decisions are followed, the failure of a group answers for all equal groups, and follows from the
verdicts that these got.

A group that holds quota and waits for more waits under an id of its own, until it holds all.

A group that waits while pods of it run without an admission is both in line and charged: its pods'
usage is entered apart, and counts as free for the group itself. That usage takes only its own
ClusterQueue's quota, unless an admission started the group once. An admission taken over for the
marks of a start is limited so too, since other clients can write the marks.

Invariant: after `enter` the scheduler's queues, holders and waiting groups are those of the world.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from podgroup.admission import Scheduler
from podgroup.admission.cache.queue_manager import Refusal
from podgroup.admission.cache.reserved_starts import NEVER
from podgroup.admission.holding import growth_id, unadmitted_id
from podgroup.admission.model import Workload
from podgroup.model.ids import GroupID
from podgroup.model.objects import QUEUE_KINDS, Assignment, ClusterQueueView, NamespaceView
from podgroup.model.policy import reserves_starts
from podgroup.model.standing import STARTS_TIMER
from podgroup.model.wording import kueues
from podgroup.state import asked
from podgroup.state.changes import EVERYTHING
from podgroup.state.facts import grows, nodes_listed, priority_class_of, unwell
from podgroup.state.group import Group, QuotaReservation
from podgroup.state.quota import Charge, Deciding
from podgroup.state.world import World


def enter(world: World, at: float | None = None) -> None:
    """Enter all changes, as of `at` (seconds); all of the world where nothing was entered yet.

    Groups with places on nodes that changed are entered and looked at anew.
    """
    quotas, anew = world.quotas, world.quotas.deciding is None
    if quotas.deciding is None:
        quotas.deciding = known(world)
    deciding = quotas.deciding
    timer = world.meta.timers.get(STARTS_TIMER)
    due_at = timer.due_at.timestamp() if timer is not None else NEVER
    deciding.scheduler.cache.starts.due_at = 0 if quotas.overdue else due_at
    for identity in list(deciding.ill):
        group = world.groups.get(GroupID(identity))
        if group is None or group.parked:
            del deciding.ill[identity]
    if at is not None:
        deciding.scheduler.cache.wake_ups.begin(at)
    entry = _Entry(world, deciding)
    for kind, namespace, name in quotas.objects:
        if kind in _KINDS:
            entry.object(kind, namespace, name)
        if kind == "Node":
            deciding.tenants.judge(name, unwell(world, name), news=True)
    near = deciding.tenants.concerned()
    news = (*quotas.charged, *quotas.news)
    gone = [g for g in news if g not in quotas.waiting and g not in quotas.charges]
    if anew:
        news = ()  # groups that wait or are charged were entered just now
    for identity in dict.fromkeys((*gone, *news, *near)):
        entry.guarded(identity, entry.group)
    world.dirty_groups.update(dict.fromkeys(map(GroupID, near), EVERYTHING))
    quotas.read()


def known(world: World) -> Deciding:
    """Return a new scheduler, with its account, into which all of the world is entered."""
    deciding = Deciding(Scheduler(asked.configuration(world.policy)))
    cache, entry = deciding.scheduler.cache, _Entry(world, deciding, new=True)
    for kind in _KINDS:
        for view in world.objects_of(kind).values():
            entry.object(kind, view.namespace, view.name)
    for identity in world.quotas.charges:
        entry.guarded(identity, entry.charged)
    ledger = cache.reservations.ledger
    if ledger is not None:
        for key, used in world.meta.used.items():
            namespace, _, name = key.partition("/")
            at = used.at.timestamp() if used.at is not None else 0.0
            ledger.restore((namespace, name), dict(used.consumed or ()), at)
    cache.settle(0, sample=False)
    for identity in world.quotas.waiting:
        entry.guarded(identity, entry.group)
    for identity in {**world.quotas.charges, **world.quotas.waiting}:
        for by in world.groups[GroupID(identity)].requeueing.preempted_for:
            if by in world.groups:
                cache.preemptions.add(identity, by)
    waiting = {one: world.groups[GroupID(one)].quota for one in world.quotas.waiting}
    ids = {one: asked.waiter_id(world.groups[GroupID(one)]) for one in waiting}
    cache.restore(
        {ids[identity] for identity, quota in waiting.items() if quota.effect.tried},
        {ids[one]: asked.kept_quota(quota.kept) for one, quota in waiting.items() if quota.kept},
        [asked.reserved_start(one.start.start) for one in waiting.values() if one.start],
    )
    if cache.configuration.as_kueue:
        cache.queues.mark_inadmissible(waiting)
    return deciding


def correct(world: World, identity: GroupID) -> None:
    """Enter a group as the world has it, where the scheduler decided otherwise than the log.

    The group is not tried again before it changes.
    """
    deciding = world.quotas.deciding
    if deciding is None:
        return
    cache, group = deciding.scheduler.cache, world.groups.get(identity)
    cache.remove(growth_id(identity))
    if group is not None and group.quota.holding is None:
        if identity in cache.reservations.admitted:
            cache.release(identity)
        cache.submit(asked.workload(world, group, asleep=True))
    else:
        cache.remove(identity)
        _Entry(world, deciding).group(identity)


class _Entry:
    """Enters groups and objects into the scheduler; `new`: which is empty."""

    __slots__ = ("_cache", "_ill", "_new", "_tenants", "_world")

    def __init__(self, world: World, deciding: Deciding, *, new: bool = False) -> None:
        self._world = world
        self._cache = deciding.scheduler.cache
        self._tenants = deciding.tenants
        self._ill = deciding.ill
        self._new = new

    def guarded(self, identity: str, enter: Callable[[str], object]) -> None:
        """Enter a group by `enter`; a group that cannot be read does not keep others waiting."""
        try:
            enter(identity)
        except Exception as error:
            self._cache.remove(identity)
            self._ill[identity] = error.with_traceback(None)  # which holds frames and the world
            with suppress(Exception):
                self._counted(identity)

    def object(self, kind: str, namespace: str, name: str) -> None:
        """Enter the present state of an object."""
        world, cache = self._world, self._cache
        view = world.objects_of(kind).get(QUEUE_KINDS[kind].key(namespace, name))
        if view is None or (kind == "Topology" and not nodes_listed(world)):
            cache.delete(kind, name, namespace)
        elif isinstance(view, ClusterQueueView):
            cache.apply(view, usable=asked.usable(world, view))
        else:
            cache.apply(view)

    def group(self, identity: str) -> None:
        """Enter a group's charge, and whether the group waits."""
        world, cache = self._world, self._cache
        if not self._new or identity in world.quotas.charges:
            if self.charged(identity):
                self._growth(identity)
                return
            cache.remove(growth_id(identity))
        group = world.groups[GroupID(identity)]
        if identity in world.quotas.waiting:
            if group.namespace not in cache.objects.namespaces:
                cache.apply(NamespaceView(uid="", name=group.namespace, resource_version=""))
            self._submit(group, asked.workload(world, group))
        elif identity in cache.queues.waiting:
            remembered = identity in cache.preemptions or identity in cache.claims.held_back
            if group.ending.finish is None and remembered:
                cache.submit(asked.workload(world, group, asleep=True))
            else:
                cache.remove(identity)

    def _growth(self, identity: str) -> None:
        """Enter whether a group waits for more quota than it holds."""
        world, cache = self._world, self._cache
        group = world.groups.get(GroupID(identity))
        if group is None or identity not in world.quotas.waiting or not grows(group):
            cache.remove(growth_id(identity))
            return
        self._submit(group, asked.growth(world, group))

    def _submit(self, group: Group, waits: Workload) -> None:
        """Enter that a group waits; `new`: with the refusal that the log has of it."""
        quota, refused = group.quota, None
        if self._new and quota.effect.tried and waits.id not in self._cache.queues.waiting:
            reason, message = quota.reason
            short = quota.shortage.shortages if quota.shortage is not None else ()
            refused = Refusal(reason, kueues(message), quota.effect, short)
        self._cache.submit(waits, refused)

    def charged(self, identity: str) -> bool:
        """Enter a group's charge; tell whether the group is entered completely by it."""
        world, cache = self._world, self._cache
        group = world.groups.get(GroupID(identity))
        charge = world.quotas.charges.get(identity)
        if group is None:
            cache.remove(unadmitted_id(identity))
            cache.remove(growth_id(identity))
            cache.remove(identity)
            self._locate(identity, ())
            return True
        holding = group.quota.holding
        if growth_id(identity) in cache.reservations.admitted:
            cache.remove(growth_id(identity))  # the group holds it from now on
        if holding is not None and charge is not None:
            if not self._resized(group, charge, holding):
                self._holds(group, charge, holding)
            held = cache.reservations.admitted[identity]
            if held.began is None and holding.admitted:
                held.began = holding.begin.at.timestamp()
            held.priority_class = priority_class_of(group)
            if reserves_starts(world.policy):
                cache.reservations.bound(group.id, asked.ends_by(world, group, holding))
            return True
        self._locate(identity, ())
        if identity in cache.reservations.admitted:
            cache.release(identity, requeue=group.ending.finish is None)
        if charge is not None:
            apart = msgspec.structs.replace(
                asked.workload(world, group),
                id=unadmitted_id(identity),
                unadmitted=charge.unadmitted,
            )
            self._reserve(apart, charge)
        else:
            cache.remove(unadmitted_id(identity))
        return False

    def _holds(self, group: Group, charge: Charge, holding: QuotaReservation) -> None:
        world, cache, given = self._world, self._cache, holding.admission.assignments
        cache.remove(unadmitted_id(group.id))
        held = asked.workload(world, group)
        if holding.taken_over:
            held = msgspec.structs.replace(held, unadmitted=True)
        self._reserve(held, charge, given)
        self._locate(group.id, given)
        eviction, evicted = asked.eviction(group), group.requeueing.evicted
        if eviction is not None:
            cache.evict(group.id, eviction, evicted.preempted_by if evicted is not None else "")
        elif nodes := self._tenants.unwell(group.id):
            cache.reservations.fail_nodes(group.id, asked.failed_nodes(world, group, nodes))

    def _counted(self, identity: str) -> None:
        """Enter only the charge of a group that cannot be read, since its pods may run."""
        cache, charge = self._cache, self._world.quotas.charges.get(identity)
        group = self._world.groups.get(GroupID(identity))
        if charge is None or group is None:
            return
        holds = group.quota.holding is not None
        eviction = asked.eviction(group)
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

    def _resized(self, group: Group, charge: Charge, holding: QuotaReservation) -> bool:
        """Enter the new amount of a group whose reservation is else the same; tell whether it is.

        Every success of a pod takes this way, where no places are given: to make the whole
        reservation, and to find it the same, costs three times as much.
        """
        reservations = self._cache.reservations
        held = reservations.admitted.get(group.id)
        if held is None or held.given or held.evicted is not None:
            return False
        workload = held.workload
        if (
            group.requeueing.evicted is not None
            or held.cluster_queue != charge.cluster_queue
            or workload.priority != group.composition.priority
            or workload.queue != group.spec.queue
            or workload.fixed
            or unadmitted_id(group.id) in reservations.admitted
            or self._tenants.placed(group.id)
        ):
            return False
        for one in holding.admission.assignments:
            if one.place is not None:
                return False
        reservations.resize(group.id, asked.taken(charge))
        return True

    def _locate(self, identity: str, given: tuple[Assignment, ...]) -> None:
        """Enter the nodes on which a group has places."""
        world = self._world
        hosts = frozenset(host for one in given for host in asked.hosts_of(one.place))
        for host in self._tenants.locate(identity, hosts):
            self._tenants.judge(host, nodes_listed(world) and unwell(world, host))

    def _reserve(
        self, workload: Workload, charge: Charge, given: tuple[Assignment, ...] = ()
    ) -> None:
        cache = self._cache
        held = cache.reservations.admitted.get(workload.id)
        if held is not None:
            before = held.workload
            same = (before.priority, before.queue, before.fixed) == (
                workload.priority,
                workload.queue,
                workload.fixed,
            )
            back = held.evicted is not None and workload.evicted is None
            names = {pod_set.name for pod_set in workload.pod_sets}
            placed = {one.name: one.place for one in given if one.place and one.name in names}
            same = same and placed == {one.name: one.topology for _, one in held.given}
            if same and not back and held.cluster_queue == charge.cluster_queue:
                cache.reservations.resize(workload.id, asked.taken(charge))
                return
        cache.reserve(workload, asked.reservation(charge, given))


_KINDS: Final = (
    *("Namespace", "Topology", "Node", "WorkloadPriorityClass", "ResourceFlavor"),
    *("Cohort", "ClusterQueue", "LocalQueue"),
)
"""The kinds that admission reads, in the order in which they are entered."""
