"""The results of a play: waits, quota over time, preemptions, and starts.

Theory. Waits are counted per admission, from the group's place in the queue to its admission, as
`v_admission_latency.queue_seconds` counts them. Quota is integrated over time whenever a
ClusterQueue's usage changes: `used` is charged quota, `borrowed` its part beyond the nominal quota,
`idle` the unused part of the nominal quota, `lent` a queue's share, by its idle quota, of the quota
that others of its cohort borrow. `lost` is the quota that preempted groups had held since their
admission, as in `v_preemptions`. Amounts are resource-seconds, cpu in thousandths.

Invariant: for each ClusterQueue, flavor and resource `used - borrowed + idle` is `nominal`, at each
moment and so in sum; `lent` is a part of `idle`.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, field

from gatelog.readmodel.rates import unit
from podgroup.log.events import Decision
from podgroup.model.commands import AdmitGroup, EvictGroup
from podgroup.model.ids import GroupID
from podgroup.model.objects import ClusterQueueView
from podgroup.model.reasons import effect_of
from podgroup.state.facts import cluster_queue_name
from podgroup.state.group import Group, QuotaReservation
from podgroup.state.world import World


class Kind(Struct, frozen=True, order=True):
    """Groups whose waits are counted together: by ClusterQueue, priority, and value of the team
    label.
    """

    queue: str
    priority: int
    team: str


class Key(Struct, frozen=True, order=True):
    """What quota is of."""

    queue: str
    flavor: str
    resource: str


class Quota(Struct):
    """Resource-seconds of one ClusterQueue, flavor and resource."""

    nominal: float = 0.0
    used: float = 0.0
    borrowed: float = 0.0
    idle: float = 0.0
    lent: float = 0.0
    lost: float = 0.0


def hours(key: Key, amount: float) -> float:
    """Return resource-seconds as hours in people's units (`rates.unit_name`)."""
    return amount / 3600 / unit(key.resource)


class Start(Struct, frozen=True, gc=False):
    """The first admission of a group; `order` counts admissions."""

    title: str
    queue: str
    at: datetime
    wait_s: float
    order: int


class Spread(Struct, frozen=True):
    """Of how many, and how long: quantiles by nearest rank; seconds."""

    count: int
    p50_s: float
    p90_s: float
    p99_s: float
    total_s: float


class Tally(Struct, kw_only=True):
    """The counts of a play so far; `starts` only if requested."""

    label: str = "team"
    waits: "dict[Kind, array[float]]" = field(default_factory=dict)
    waiting: "dict[Kind, array[float]]" = field(default_factory=dict)
    """Of groups that wait at the end: how long so far."""
    quota: dict[Key, Quota] = field(default_factory=dict)
    preempted: Counter[str] = field(default_factory=Counter)
    """ClusterQueue -> its groups that were preempted."""
    evicted: Counter[str] = field(default_factory=Counter)
    """Groups evicted for other reasons."""
    admissions: int = 0
    starts: dict[str, Start] | None = None
    begin: datetime | None = None
    end: datetime | None = None

    def spread(self, kinds: Iterable[Kind]) -> Spread:
        """Return how long groups of these kinds waited that were admitted."""
        return spread([wait for kind in kinds for wait in self.waits.get(kind, ())])


def spread(waits: list[float]) -> Spread:
    """Return quantiles and sum."""
    waits.sort()
    if not waits:
        return Spread(0, 0.0, 0.0, 0.0, 0.0)
    last = len(waits) - 1
    p50, p90, p99 = (waits[min(last, math.ceil(q * len(waits)) - 1)] for q in (0.5, 0.9, 0.99))
    return Spread(len(waits), p50, p90, p99, math.fsum(waits))


class Counting:
    """Counts a play's messages into `tally`."""

    def __init__(self, tally: Tally, since: datetime | None = None) -> None:
        self.tally = tally
        self._since = since
        self._views: list[ClusterQueueView] = []
        self._pools: list[_Pool] = []
        self._pool_of: dict[str, _Pool] = {}
        self._gave_way: set[tuple[str, int]] = set()
        """Admissions that Kueue took back for others: group and number."""
        self._again: dict[str, list[str]] = {}
        """Group -> its lives after the first, in their order."""

    def each(self, world: World, decisions: list[Decision]) -> None:
        """Count one message."""
        tally, now = self.tally, world.at
        assert now is not None
        if tally.begin is None:
            tally.begin = now if self._since is None else max(now, self._since)
        tally.end = now
        self._follow(world, now)
        early = self._since is not None and now < self._since
        if world.mode == "kueue":
            self._admitted_by_kueue(world, now, early)
        # A group that is admitted, evicted and admitted again on one message has one decision in
        # the log. Decisions count in the order in which they were made, whichever order they are
        # applied in.
        made = {one.id: one for one in decisions}.values()
        for decision in sorted(made, key=lambda one: one.number):
            command = decision.command
            group = world.groups.get(GroupID(decision.group))
            if isinstance(command, AdmitGroup) and not command.checks:
                tally.admissions += 1
                if group is not None and not early:
                    self._admitted(world, group, command.cluster_queue, now)
            elif isinstance(command, EvictGroup) and not early:
                queue = cluster_queue_name(world, group) if group is not None else ""
                preempted = command.effect.preempts or command.preempted_by
                (tally.preempted if preempted else tally.evicted)[queue] += 1
                if preempted and group is not None and group.quota.holding is not None:
                    self._lost(group.quota.holding, now)

    def _lost(self, holding: QuotaReservation, now: datetime) -> None:
        """Count what a preempted group has held since its admission."""
        seconds = (now - (holding.admitted_at or holding.at)).total_seconds()
        for given in holding.admission.assignments if holding.admitted else ():
            for resource, flavor in given.flavors.items():
                key = Key(holding.admission.cluster_queue, flavor, resource)
                sums = self.tally.quota.setdefault(key, Quota())
                sums.lost += given.usage.get(resource, 0) * seconds

    def finish(self, world: World, end: datetime) -> None:
        """Count groups that still wait, and quota up to the end."""
        self._integrate(self._pools, end)
        self.tally.end = end
        for group in world.groups.values():
            if (
                group.quota.holding is None
                and group.ending.finish is None
                and group.requeueing.queued_at is not None
            ):
                if group.composition.done and world.quotas.charges.get(group.id) is None:
                    kind = Kind(
                        cluster_queue_name(world, group),
                        group.composition.priority,
                        self._team(world, group),
                    )
                    waited = (end - group.requeueing.queued_at).total_seconds()
                    self.tally.waiting.setdefault(kind, array("d")).append(max(0.0, waited))

    def _admitted_by_kueue(self, world: World, now: datetime, early: bool) -> None:
        for row in world.journal.admissions.values():
            group = world.groups.get(GroupID(row.group))
            if row.admitted_seq == world.meta.position and row.released_at is None:
                self.tally.admissions += 1
                if group is not None and not early:
                    self._admitted(world, group, row.cluster_queue, now)
            elif effect_of(row.release_reason).preempts and row.released_at == now and not early:
                if (row.group, row.number) not in self._gave_way:
                    self._gave_way.add((row.group, row.number))
                    self.tally.preempted[row.cluster_queue] += 1

    def _admitted(self, world: World, group: Group, queue: str, now: datetime) -> None:
        tally = self.tally
        holding = group.quota.holding
        queued_at = holding.queued_at if holding is not None else group.requeueing.queued_at
        wait = max(0.0, (now - (queued_at or now)).total_seconds())
        kind = Kind(queue, group.composition.priority, self._team(world, group))
        tally.waits.setdefault(kind, array("d")).append(wait)
        life = self._life(group) if tally.starts is not None else ""
        if tally.starts is not None and life not in tally.starts:
            tally.starts[life] = Start(
                f"{group.namespace}/{group.name}",
                queue,
                now,
                wait,
                tally.admissions,
            )

    def _life(self, group: Group) -> str:
        """Return a name of a group's life that two plays agree on.

        The id of a second life that the same pod opens ends in the position in its log.
        """
        first = group.id.removesuffix(f"-{group.created_seq}")
        if first == group.id:
            return group.id
        lives = self._again.setdefault(first, [])
        if group.id not in lives:
            lives.append(group.id)
        return f"{first}/{lives.index(group.id) + 2}"

    def _team(self, world: World, group: Group) -> str:
        members = world.members.get(group.id)
        first = members.first() if members is not None else None
        pod = world.pods.get(first) if first is not None else None
        return pod.view.labels.get(self.tally.label, "") if pod is not None else ""

    def _follow(self, world: World, now: datetime) -> None:
        """Add up usage that changes from now on."""
        views = list(world.cluster_queues.values())
        if views != self._views:
            self._integrate(self._pools, now)
            self._views = views
            pools = {view.cohort or (view.name,): _Pool(view.cohort, now) for view in views}
            self._pools = list(pools.values())
            self._pool_of = {view.name: pools[view.cohort or (view.name,)] for view in views}
            for view in views:
                self._pool_of[view.name].quotas[view.name] = [
                    (Key(view.name, quotas.name, resource), each.nominal)
                    for group in view.groups
                    for quotas in group.flavors
                    for resource, each in quotas.resources.items()
                ]
        for queue, pool in self._pool_of.items():
            used = world.quotas.tally(("ClusterQueue", "", queue)).reserved
            if pool.used.get(queue, _NOTHING) != used:
                self._integrate((pool,), now)
                pool.used[queue] = dict(used)

    def _integrate(self, pools: "Iterable[_Pool]", now: datetime) -> None:
        """Add up usage from the last change to now."""
        for pool in pools:
            begin, pool.at = pool.at, now
            if self._since is not None:
                begin = max(begin, self._since)
            seconds = (now - begin).total_seconds()
            if seconds > 0:
                _add(self.tally, pool, seconds)


_NOTHING: dict[tuple[str, str], int] = {}


class _Pool(Struct):
    """ClusterQueues of one cohort, or one without a cohort: its usage touches no others."""

    cohort: str
    at: datetime
    """The time up to which their quota is added up."""
    quotas: dict[str, list[tuple[Key, int]]] = field(default_factory=dict)
    """ClusterQueue -> the resources of its quota, and their nominal quota."""
    used: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)


def _add(tally: Tally, pool: _Pool, seconds: float) -> None:
    quota = tally.quota
    beyond: Counter[tuple[str, str]] = Counter()
    idle: dict[tuple[str, str], list[tuple[Quota, int]]] = {}
    for queue, quotas in pool.quotas.items():
        used = pool.used.get(queue, _NOTHING)
        for key, nominal in quotas:
            which = key.flavor, key.resource
            sums = quota.get(key)
            if sums is None:
                sums = quota[key] = Quota()
            taken = used.get(which, 0)
            more = max(0, taken - nominal)
            less = max(0, nominal - taken)
            sums.nominal += nominal * seconds
            sums.used += taken * seconds
            sums.borrowed += more * seconds
            sums.idle += less * seconds
            if pool.cohort and (more or less):
                beyond[which] += more
                idle.setdefault(which, []).append((sums, less))
    for which, more in beyond.items():
        there = sum(less for _, less in idle[which])
        share = min(1.0, more / there) if there and more else 0.0
        for sums, less in idle[which]:
            sums.lent += less * share * seconds
