"""Nomination: the flavors that a head would get, and the victims it would need.

Theory. First it is examined whether a head may be admitted here at all. Then flavors are assigned,
each resource rated alone; if quota has to be made free, victims are searched for all resources
together. Where that fails although every resource alone had victims, the search goes on behind the
flavors at which it stopped, until it comes to an end.

Invariant: the cache and the trees are the same afterwards as before.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from podgroup.admission import classical, fair
from podgroup.admission.amounts import PODS
from podgroup.admission.assign import Assigner, Request
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.holding import AdmittedWorkload, Resumption
from podgroup.admission.located import Wanted, located, wanted
from podgroup.admission.matching import selects
from podgroup.admission.model import FlavorResource
from podgroup.admission.plan import Mode, Plan
from podgroup.admission.starts import Starts
from podgroup.admission.tree import Node, Usage
from podgroup.admission.victims import NEVER, Field, Preemptor, Victim, has_room
from podgroup.admission.wording import (
    NAMESPACE_MISMATCH,
    inactive,
    no_namespace,
)
from podgroup.model.names import (
    PENDING_MISCONFIGURED,
    PENDING_SUSPENDED,
    PENDING_WAITING_FOR_QUOTA,
)
from podgroup.model.wording import NOT_SELECTED


class Nominator:
    """Nominates heads against the present cache."""

    def __init__(self, cache: SchedulerCache) -> None:
        self.gives_reasons = True
        """Whether each head that is not admitted gets a reason; if not, vain tries are skipped."""
        self.spared: dict[str, set[str]] = {}
        """Id -> workloads that the workload may not preempt in this pass."""
        self._freeing: dict[Node, bool] = {}
        self._moment: float | None = None
        """The time as of which least run times are over or not; None: now."""
        self._cache = cache
        self._as_kueue = cache.configuration.as_kueue
        self._find = fair.search if cache.configuration.fair_sharing else classical.search
        objects = cache.objects
        self._assigner = Assigner(objects.flavors, cache.configuration, objects.places)
        self.starts = Starts(cache, self._as_it_is)

    def examine(self, head: Head) -> bool:
        """Tell whether a head is to be compared with quota; else note the reason on it."""
        waiter, queue = head.waiter, head.offer.queue
        if not head.node.active:
            head.rejected(PENDING_SUSPENDED, inactive(queue.name))
            return False
        labels = self._cache.objects.namespaces.get(waiter.namespace)
        if labels is None:
            head.rejected(PENDING_MISCONFIGURED, no_namespace(waiter.namespace))
            return False
        if not selects(queue.namespaces, labels):
            head.rejected(PENDING_MISCONFIGURED, NOT_SELECTED, NAMESPACE_MISMATCH)
            return False
        if waiter.invalid:
            head.rejected(PENDING_MISCONFIGURED, waiter.invalid)
            return False
        return True

    def resumption(self, head: Head) -> Resumption | None:
        """Return where the search for a head's flavors goes on, None for the first flavor."""
        last = head.waiter.last
        if last is None or not self._as_kueue:  # Q4
            return None
        generation = self._cache.objects.cluster_queues[head.node.name].generation
        outdated = self._cache.cycle - last.cycle > 1 and generation > last.generation
        return None if last.shape is not head.waiter.shape or outdated else last

    def nominate(
        self,
        head: Head,
        resume: Resumption | None,
        only: Sequence[Mapping[str, str]] | None = None,
        gone: Set[str] = frozenset(),
        *,
        later: bool = False,
    ) -> None:
        """Find flavors and victims for a head, and note where the search stopped.

        `only` limits the flavors, `gone` are workloads that cannot be preempted. `later`: where no
        workload may be preempted now, the victims that may be preempted soonest are found. Quota
        whose use would put off a reserved start is left out.
        """
        self._freely(head, resume, only, gone, later=later)
        if self._cache.starts.by_id and self.starts.put_off(head):
            self.starts.keep_off(head)

    def _as_it_is(self, head: Head, only: Sequence[Mapping[str, str]] | None) -> None:
        self._freely(head, None, only, frozenset())

    def _freely(
        self,
        head: Head,
        resume: Resumption | None,
        only: Sequence[Mapping[str, str]] | None,
        gone: Set[str],
        *,
        later: bool = False,
    ) -> None:
        """Nominate a head without regard to reserved starts."""
        head.until = 0.0
        if not self.gives_reasons and self._in_vain(head):
            head.plan = Plan([], {}, PENDING_WAITING_FOR_QUOTA)
            head.targets, head.deferred = [], False
            return
        tries = self._tries(head, resume, only, gone)
        best = max(tries, key=_how_good)
        if later and self.spares and _how_good(best) == _IN_VAIN:
            tries = self._soonest(head, only, gone) or tries
            best = max(tries, key=_how_good)
        plan, head.targets, head.deferred = best
        if plan.lacking:
            plan.also([one.plan for one in tries if one is not best])
        head.plan = plan
        head.message = plan.message
        if self._as_kueue:  # Q4
            generation = self._cache.objects.cluster_queues[head.node.name].generation
            shape = head.waiter.shape
            head.waiter.last = Resumption(plan.tried, generation, self._cache.cycle, shape)

    @property
    def spares(self) -> bool:
        """Whether least run times spare any workloads."""
        return self._cache.objects.least_run.on

    def _tries(
        self,
        head: Head,
        resume: Resumption | None,
        only: Sequence[Mapping[str, str]] | None,
        gone: Set[str],
    ) -> list["_Try"]:
        tries = [self._try(head, resume, only, gone)]
        seen: list[Resumption] = []
        while not self._as_kueue:  # Q4
            here = self._behind(head, tries[-1], seen[-1] if seen else None)
            if here is None or any(here.tried == one.tried for one in seen):
                break
            seen.append(here)
            tries.append(self._try(head, here, only, gone))
        return tries

    def _soonest(
        self, head: Head, only: Sequence[Mapping[str, str]] | None, gone: Set[str]
    ) -> list["_Try"]:
        """Return the tries at the first time at which a head has victims; set its `until` to that.

        Later more least run times are over, so the first such time is found by bisection.
        """
        objects = self._cache.objects
        holdings = (
            one
            for name in objects.tree(head.node.name)
            for one in objects.forest.queues[name].holdings.values()
        )
        moments = objects.least_run.moments(holdings, self._cache.wake_ups.now)
        found: list[_Try] = []
        low, high = 0, len(moments) - 1
        at = high  # first: whether there is any such time
        while low <= high:
            self._moment = moments[at]
            tries = self._tries(head, None, only, gone)
            if _how_good(max(tries, key=_how_good)) > _IN_VAIN:
                found, head.until, high = tries, moments[at], at - 1
            elif not found:
                break
            else:
                low = at + 1
            at = (low + high) // 2
        self._moment = None
        return found

    def _spared(self, other: AdmittedWorkload, reason: str) -> bool:
        moment = self._cache.wake_ups.now if self._moment is None else self._moment
        return self._cache.objects.least_run.over_at(other, reason) > moment

    def _in_vain(self, head: Head) -> bool:
        """Tell whether a try is in vain: a resource fits no flavor, and there are no victims.

        False where the order of heads decides (fair sharing, StrictFIFO, topologies), and where
        another head of the round may free quota first. With this a forecast with 1,011 waiting
        workloads takes half as long.
        """
        queue, node, waiter = head.offer.queue, head.node, head.waiter
        if self._as_kueue or self._cache.configuration.fair_sharing:
            return False
        if queue.strategy == "StrictFIFO" or self._cache.objects.places.trees:
            return False
        if node.parent is not None and self._frees(node):
            return False
        policy = queue.within_cluster_queue
        spared = waiter.priority + (policy != "LowerPriority")
        if policy not in NEVER and any(h.priority < spared for h in node.holdings.values()):
            return False
        return any(
            all(amount > node.available((one.name, resource)) for one in group.flavors)
            for asked in waiter.shape.requests(head.offer.covers_pods)
            for resource, amount in asked.items()
            if (group := head.offer.group_of.get(resource)) is not None
        )

    def _frees(self, node: Node) -> bool:
        """Tell whether an admission may free quota in a node's tree, as of the first look.

        By preemption, or since the admission covers pods that ran unadmitted.
        """
        found = self._freeing.get(node.root)
        if found is None:
            objects = self._cache.objects
            tree = objects.tree(node.name)
            specs = [objects.cluster_queues[one].spec for one in tree]
            found = self._freeing[node.root] = any(
                one.within_cluster_queue not in NEVER or one.reclaim_within_cohort not in NEVER
                for one in specs
            ) or any(objects.forest.queues[one].unadmitted for one in tree)
        return found

    def _behind(self, head: Head, tried: "_Try", before: Resumption | None) -> Resumption | None:
        """Return where to search for better flavors than those of a try; None: nowhere.

        Where podsets lack places, they alone get other flavors.
        """
        plan, shape = tried.plan, head.waiter.shape
        if not plan.lacking or self._as_kueue:  # P8
            here = Resumption(plan.tried, 0, 0, shape)
            return here if _how_good(tried) == _IN_VAIN and here.unfinished else None
        if _how_good(tried) > _IN_VAIN and (head.offer.queue.when_can_preempt != "TryNextFlavor"):
            return None
        others = before.tried if before is not None else [{} for _ in plan.sets]
        moving = [one.name in plan.lacking for one in plan.sets]
        here = Resumption(
            [t for t, moves in zip(plan.tried, moving, strict=True) if moves], 0, 0, shape
        )
        if not here.unfinished:
            return None
        here.tried = [
            now if moves else then
            for now, then, moves in zip(plan.tried, others, moving, strict=True)
        ]
        return here

    def _try(
        self,
        head: Head,
        resume: Resumption | None,
        only: Sequence[Mapping[str, str]] | None,
        gone: Set[str],
    ) -> "_Try":
        plan = self._plan(head, resume, only or _held(head), gone)
        return _Try(plan, head.targets, head.deferred)

    def _plan(
        self,
        head: Head,
        resume: Resumption | None,
        only: Sequence[Mapping[str, str]] | None,
        gone: Set[str],
    ) -> Plan:
        cache, objects, waiter = self._cache, self._cache.objects, head.waiter
        found: dict[
            tuple[frozenset[FlavorResource], frozenset[tuple[FlavorResource, int]]], list[Victim]
        ] = {}

        def search(needs: Set[FlavorResource], requests: Usage) -> list[Victim]:
            # A request for one resource searches twice: to rate it, and for all together.
            asked = frozenset(needs), frozenset(requests.items())
            if asked not in found:
                found[asked] = search_anew(needs, requests)
            return found[asked]

        def search_anew(
            needs: Set[FlavorResource], requests: Usage, asked: Wanted = ()
        ) -> list[Victim]:
            field = Field(
                objects.forest,
                lambda name: objects.cluster_queues[name].lines.by_use,
                cache.configuration,
                cache.reservations.used_by,
                objects.places,
                lambda: not asked or objects.places.place(asked).fits,
                self._spared if objects.least_run.on else None,
            )
            exempt = set() if self._as_kueue else cache.preemptions.exempt(waiter.id)  # Q8
            exempt |= self.spared.get(waiter.id, set())
            preemptor = Preemptor(
                waiter.id,
                head.offer.queue,
                head.node,
                waiter.priority,
                waiter.since,
                exempt | gone,
            )
            return self._find(field, preemptor, needs, requests)

        present = None
        if objects.present is not objects.forest:
            present = objects.present.queues[head.node.name]
        request = Request(
            head.offer, objects.forest.queues, present, waiter.shape, resume=resume, only=only
        )
        plan = self._assigner.plan(request, search)
        asked: Wanted = ()
        if objects.places.trees:
            every = self._assigner.places_all(head.offer)
            asked, plan = wanted(plan, waiter.shape.pod_sets, every)
            plan = located(objects.places, plan, asked, better=not self._as_kueue)  # P9
        head.targets, head.deferred = [], False
        if plan.mode is Mode.PREEMPT:
            with cache.reservations.without_leaving():
                self._make_room(head, plan, asked, search_anew if asked else search)
        return plan

    def _make_room(
        self, head: Head, plan: Plan, asked: Wanted, search: Callable[..., list[Victim]]
    ) -> None:
        """Find victims for a head, unless it fits once evictions under way are complete."""
        objects = self._cache.objects
        places, reserving = objects.places, objects.present is not objects.forest
        placed = places.place(asked) if asked and reserving else None
        has_place = placed is None or placed.fits
        if reserving and has_place and has_room(head.node, plan.usage, True):
            head.deferred = True
            plan.places = placed.places if placed is not None else plan.places
            return
        needs = {
            (choice.flavor, resource)
            for one in plan.sets
            for resource, choice in one.choices.items()
            if choice.mode is Mode.PREEMPT
        }
        if reserving and has_place:  # quota that evictions under way will free is not lacking
            needs = {k for k in needs if plan.usage[k] > head.node.available(k)}
        missing = {
            key: amount
            for key, amount in plan.usage.items()
            if amount and not (self._as_kueue and key[1] == PODS)  # Q3
        }
        head.targets = search(needs, missing, asked) if asked else search(needs, missing)
        if asked and head.targets:
            with places.without(victim.holding.given for victim in head.targets):
                plan.places = places.place(asked).places


def _held(head: Head) -> Sequence[Mapping[str, str]] | None:
    """Return the flavors of a head that waits for more than it holds; None for any other head."""
    sets = head.waiter.shape.pod_sets
    return [dict(one.flavors) for one in sets] if any(one.flavors for one in sets) else None


class _Try(NamedTuple):
    """What a head would get in some flavors."""

    plan: Plan
    targets: list[Victim]
    deferred: bool


_IN_VAIN = 1


def _how_good(tried: _Try) -> int:
    """Rank a try; it is in vain if it needs victims and has none."""
    if tried.plan.mode is Mode.PREEMPT:
        return 3 if tried.deferred else 2 if tried.targets else _IN_VAIN
    return 4 if tried.plan.mode is Mode.FIT else 0
