"""Flavor assignment: which flavor each podset gets in a ClusterQueue, or why none.

Theory. All resources of a resource group that a podset requests come from one flavor. Flavors are
tried in the ClusterQueue's order. For each flavor, every resource is compared with the queue's
potential, with what is available now, and, if policies allow it, with what victims would give; the
worst resource makes the flavor's rating. Fungibility says whether a rating ends the search and
which of two ratings is preferred. The search may begin behind the flavor at which an earlier search
stopped. (Kueue: pkg/scheduler/flavorassigner.)

With a *present* tree beside the tree of decisions, a resource fits only if it fits in both: a
request that fits only after evictions under way is rated as if quota could be reclaimed for it.

Invariant: nothing is changed; a plan that fits takes no more than is available.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from enum import IntEnum
from typing import Final, NamedTuple

from podgroup.admission.amounts import PODS, summed, text
from podgroup.admission.holding import Resumption
from podgroup.admission.matching import contradiction, unsuitable
from podgroup.admission.model import (
    Configuration,
    FlavorResource,
    PodSet,
)
from podgroup.admission.plan import Choice, Mode, Plan, SetPlan, gravest, mildest, overall
from podgroup.admission.shape import Shape
from podgroup.admission.shortfall import shortage
from podgroup.admission.topology.places import Places
from podgroup.admission.tree import Node, Usage
from podgroup.admission.victims import Victim
from podgroup.model.names import (
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_WAITING_FOR_QUOTA,
)
from podgroup.model.objects import ClusterQueueView, FlavorView
from podgroup.model.shortage import Shortage
from podgroup.model.wording import UNAVAILABLE

Search = Callable[[Set[FlavorResource], Usage], list[Victim]]
"""(lacking flavors and resources, request) -> the victims by whose preemption the request fits."""


class Kind(IntEnum):
    """What a flavor can do for a request, the worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


_MODES = {Kind.NO_FIT: Mode.NO_FIT, Kind.FIT: Mode.FIT}


class Rating(NamedTuple):
    """A flavor's kind, and how far up the tree it borrows."""

    kind: Kind
    level: int


_BEST = Rating(Kind.FIT, 0)
_WORST = Rating(Kind.NO_FIT, 1 << 30)
_NOT_NOMINATED = "skipping flavor {} as it is not found in the nomination mapping for resource {}"


class Offer:
    """What a ClusterQueue covers, looked up by resource."""

    __slots__ = ("covers_pods", "flavors", "group_of", "queue")

    def __init__(self, queue: ClusterQueueView) -> None:
        self.queue = queue
        self.group_of = {r: group for group in queue.groups for r in group.covered}
        self.covers_pods = PODS in self.group_of
        self.flavors = {flavor.name for group in queue.groups for flavor in group.flavors}


class Request(NamedTuple):
    """A workload's request to a ClusterQueue.

    `resume` is where an earlier search stopped. `only`, if given, is per podset the flavor from
    which each resource has to come.
    """

    offer: Offer
    nodes: Mapping[str, Node]
    present: Node | None
    shape: Shape
    resume: Resumption | None = None
    only: Sequence[Mapping[str, str]] | None = None

    @property
    def node(self) -> Node:
        """The ClusterQueue's node in the trees of decisions."""
        return self.nodes[self.offer.queue.name]


NONE: Final[frozenset[tuple[str, str]]] = frozenset()
_MOST_TRIES: Final = 64
"""Most searches for flavors of a podset that do not contradict each other."""


class _Found(NamedTuple):
    """Flavors of a resource group; `clashes`: flavors of other groups that excluded some."""

    choices: dict[str, Choice]
    reasons: list[str]
    failures: list[str]
    looked_at: bool
    clashes: set[tuple[str, str]]


class _SetFound(NamedTuple):
    """Flavors of a podset."""

    choices: dict[str, Choice]
    reasons: list[str]
    failure: str = ""
    failed: bool = False
    clashes: tuple[tuple[str, str], ...] = ()


class _Attempt(NamedTuple):
    """A search for the flavors of a podset.

    `chosen` has the flavors that were found for other groups; flavors in `without`, each beside a
    resource of its group, are not looked at.
    """

    place: int
    assigned: Usage
    search: Search
    chosen: Mapping[str, Choice]
    without: Set[tuple[str, str]]


class Assigner:
    """Searches flavors."""

    def __init__(
        self, flavors: Mapping[str, FlavorView], configuration: Configuration, places: Places
    ) -> None:
        self._places = places
        self._flavors = flavors
        self._shares_decide = configuration.fair_sharing
        self._as_kueue = configuration.as_kueue
        self._short: dict[FlavorResource, Shortage] = {}

    def plan(self, request: Request, search: Search) -> Plan:
        """Return the flavors that a workload would get."""
        offer, shape = request.offer, request.shape
        self._short = {}
        sets: list[SetPlan] = []
        usage: Usage = {}
        failure = ""
        asked_per_set = shape.requests(offer.covers_pods)
        for index, (pod_set, asked) in enumerate(zip(shape.pod_sets, asked_per_set, strict=True)):
            found = self._pod_set(request, index, usage, search)
            choices, reasons = found.choices, found.reasons
            failure = found.failure
            sets.append(SetPlan(pod_set.name, pod_set.count, asked, choices, reasons))
            for resource, choice in choices.items():
                key = (choice.flavor, resource)
                usage[key] = usage.get(key, 0) + asked[resource]
            if found.failed:
                break
        return Plan(sets, usage, failure, tuple(self._short.values()))

    def _pod_set(self, request: Request, index: int, assigned: Usage, search: Search) -> _SetFound:
        """Find flavors for a podset, no two of which contradict each other on nodes.

        Where the flavor that was found first contradicts all flavors of other resources, the search
        is made again without it.
        """
        found = [self._attempt(request, index, assigned, search, frozenset())]
        waiting = [frozenset([one]) for one in found[0].clashes]
        seen = set(waiting)
        while waiting and found[-1].failed and len(found) <= _MOST_TRIES:
            without = waiting.pop()
            found.append(self._attempt(request, index, assigned, search, without))
            more = [without | {one} for one in found[-1].clashes]
            waiting += [one for one in more if one not in seen]
            seen.update(more)
        if not found[-1].failed or len(found) == 1:
            return found[-1]
        reasons = dict.fromkeys(reason for one in found for reason in one.reasons)
        kinds = [one.failure for one in found if one.failure]
        return found[0]._replace(reasons=[*reasons], failure=mildest(kinds) if kinds else "")

    def _attempt(
        self,
        request: Request,
        index: int,
        assigned: Usage,
        search: Search,
        without: Set[tuple[str, str]],
    ) -> _SetFound:
        """Find flavors for a podset, resource group by resource group."""
        offer, asked = request.offer, request.shape.requests(request.offer.covers_pods)[index]
        choices: dict[str, Choice] = {}
        attempt = _Attempt(index, assigned, search, choices, without)
        reasons: list[str] = []
        failures: list[list[str]] = []
        for resource, amount in asked.items():
            group = offer.group_of.get(resource)
            if resource in choices or (group is None and not amount):
                continue
            if group is None:
                return self._failed([f"resource {resource} {UNAVAILABLE}"], failures)
            found = self._flavor(request, attempt, resource)
            if found.looked_at:
                failures.append(found.failures)
            if not found.choices:
                return self._failed(found.reasons, failures, found.clashes)
            choices.update(found.choices)
            reasons += found.reasons
        return _SetFound(choices, reasons)

    def _failed(
        self, reasons: list[str], failures: list[list[str]], clashes: Set[tuple[str, str]] = NONE
    ) -> _SetFound:
        failure = overall(failures)
        if not failure and not self._as_kueue:  # Q11
            uncovered = reasons[0].startswith("resource ")
            failure = PENDING_NO_MATCHING_FLAVOR if uncovered else PENDING_WAITING_FOR_QUOTA
        return _SetFound({}, reasons, failure, True, tuple(sorted(clashes)))

    def places_all(self, offer: Offer) -> bool:
        """Whether all flavors of a ClusterQueue have topologies, so that all pods are placed."""
        known = (self._flavors.get(name) for name in offer.flavors)
        return bool(offer.flavors) and all(one is not None and one.topology for one in known)

    def _flavor(self, request: Request, attempt: _Attempt, trigger: str) -> _Found:
        """Find the flavor of all resources in `trigger`'s group that a podset requests."""
        offer, index = request.offer, attempt.place
        group, asked = offer.group_of[trigger], request.shape.requests(offer.covers_pods)[index]
        wanted = {name: amount for name, amount in asked.items() if name in group.covered}
        names = [flavor.name for flavor in group.flavors]
        best: dict[str, Rating] | None = None
        best_rating, best_at = _WORST, -1
        attempted = -1
        reasons: list[str] = []
        failures: list[str] = []
        looked_at = False
        clashes: set[tuple[str, str]] = set()
        for at in range(_start(request.resume, index, trigger), len(names)):
            attempted, name = at, names[at]
            if request.only is not None and request.only[index].get(trigger) != name:
                reasons.append(_NOT_NOMINATED.format(name, trigger))
                continue
            looked_at = True
            if (next(iter(wanted)), name) in attempt.without:
                failures.append(PENDING_NO_MATCHING_FLAVOR)
                continue
            obstacle = self._obstacle(offer, request.shape.pod_sets[index], name)
            if not obstacle and not self._as_kueue:  # Q19
                obstacle = self._clash(name, attempt.chosen, clashes)
            if obstacle:
                reasons.append(obstacle)
                failures.append(PENDING_NO_MATCHING_FLAVOR)
                continue
            rating, rated, kinds = self._rate(request, attempt, name, wanted, reasons)
            if rating.kind is Kind.NO_FIT:
                failures.append(gravest(kinds))
            if not _goes_on(rating, offer.queue):
                best, best_rating, best_at = rated, rating, at
                break
            if _preferred(rating, best_rating, offer.queue.preference):
                best, best_rating, best_at = rated, rating, at
        if best is None:
            return _Found({}, reasons, failures, looked_at, clashes)
        tried = -1 if attempted == len(names) - 1 else attempted
        choices = {
            resource: Choice(names[best_at], _MODES.get(one.kind, Mode.PREEMPT), one.level, tried)
            for resource, one in best.items()
        }
        shown = [] if best_rating.kind is Kind.FIT else reasons
        return _Found(choices, shown, failures, looked_at, clashes)

    def _rate(
        self,
        request: Request,
        attempt: _Attempt,
        name: str,
        wanted: Mapping[str, int],
        reasons: list[str],
    ) -> tuple[Rating, dict[str, Rating], list[str]]:
        """Rate a flavor for a request; add to `reasons` why a resource does not fit.

        Returns the rating, the ratings of resources up to the first that does not fit, and the
        kinds of failure.
        """
        rating = _BEST
        rated: dict[str, Rating] = {}
        kinds: list[str] = []
        for resource, amount in wanted.items():
            key = (name, resource)
            assigned = attempt.assigned.get(key, 0)
            one, why, failure = self._quota(request, key, amount, assigned, attempt.search)
            if why:
                reasons.append(why)
                kinds.append(failure)
            if not self._as_kueue:  # Q5
                rating = Rating(min(rating.kind, one.kind), max(rating.level, one.level))
            elif _preferred(rating, one, request.offer.queue.preference):
                rating = one
            if rating.kind is not Kind.NO_FIT:
                rated[resource] = one
        return rating, rated, kinds

    def _clash(self, name: str, chosen: Mapping[str, Choice], clashes: set[tuple[str, str]]) -> str:
        """Say which flavor chosen for the same pods contradicts a flavor; note each in `clashes`.

        A flavor is noted beside the first resource of its group, as it may be in several groups.
        """
        said, noted = "", set()
        for resource, choice in chosen.items():
            if choice.flavor in noted:
                continue
            noted.add(choice.flavor)
            why = contradiction(self._flavors[choice.flavor], self._flavors[name])
            if why:
                clashes.add((resource, choice.flavor))
                said = said or why
        return said

    def _obstacle(self, offer: Offer, pod_set: PodSet, name: str) -> str:
        """Say why a podset cannot use a flavor, whatever its quota is; "" if it can."""
        flavor = self._flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        obstacle = ""
        if flavor.topology or pod_set.topology.explicit:
            obstacle = self._places.obstacle(flavor, pod_set, self.places_all(offer))
        return obstacle or unsuitable(flavor, pod_set)

    def _quota(
        self, request: Request, key: FlavorResource, amount: int, assigned: int, search: Search
    ) -> tuple[Rating, str, str]:
        """Rate a resource of a flavor; return also why it does not fit, and the kind of failure."""
        flavor, resource = key
        node = request.node
        value = amount + assigned
        most = summed(node.potential.get(key, 0))
        if value > most:
            self._short[key] = shortage(node, key, value, most, ever=True)
            why = (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered "
                f"podsets requests ({text(resource, assigned)}) + current podset request "
                f"({text(resource, amount)}) > maximum capacity ({text(resource, most)})"
            )
            return Rating(Kind.NO_FIT, 0), why, PENDING_EXCEEDS_MAX_QUOTA
        level, within_smaller = level_of(node, key, value)
        available = node.available(key)
        now = available if request.present is None else request.present.available(key)
        if value <= available and value <= now:
            return Rating(Kind.FIT, level), "", ""
        full = node if value > available or request.present is None else request.present
        self._short[key] = shortage(full, key, value, min(available, now))
        more = text(resource, value - min(available, now))
        why = f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"
        if value <= available:
            return Rating(Kind.RECLAIM, level), why, ""
        own = request.offer.queue
        while_borrowing = own.borrow_within_cohort not in ("", "Never") or (
            self._shares_decide and own.reclaim_within_cohort != "Never"
        )
        within_own = (  # Q16
            not self._as_kueue
            and self._shares_decide
            and own.within_cluster_queue not in ("", "Never")
        )
        if node.nominal.get(key, 0) >= value or within_smaller or while_borrowing or within_own:
            return _simulated(request, key, value, level, search), why, ""
        return Rating(Kind.NO_FIT, level), why, PENDING_WAITING_FOR_QUOTA


def _simulated(
    request: Request, key: FlavorResource, value: int, level: int, search: Search
) -> Rating:
    victims = search({key}, {key: value})
    if not victims:
        return Rating(Kind.NO_CANDIDATES, level)
    for victim in victims:
        request.nodes[victim.holding.cluster_queue].give(victim.holding.usage)
    after, _ = level_of(request.node, key, value)
    for victim in victims:
        request.nodes[victim.holding.cluster_queue].take(victim.holding.usage)
    own = any(victim.holding.cluster_queue == request.node.name for victim in victims)
    return Rating(Kind.PREEMPT if own else Kind.RECLAIM, after)


def level_of(node: Node, key: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return how far up the tree an amount comes from, and whether a part of the tree suffices.

    0 is the queue's own quota; other levels are heights of cohorts, larger means further away.
    """
    if node.parent is None or not node.borrows(key, amount):
        return 0, node.parent is not None
    rest = amount - node.spare(key)
    height = 0
    for cohort in node.path():
        if not cohort.borrows(key, rest):
            return cohort.height, cohort.parent is not None
        rest -= cohort.spare(key)
        height = cohort.height
    return height, False


def _start(resume: Resumption | None, index: int, resource: str) -> int:
    if resume is None or index >= len(resume.tried):
        return 0
    return resume.tried[index].get(resource, -1) + 1


def _preferred(one: Rating, other: Rating, preference: str) -> bool:
    """Tell whether one rating is better than another."""
    if one.kind is Kind.NO_FIT:
        return False
    if other.kind is Kind.NO_FIT:
        return True
    hopeless = Kind.NO_CANDIDATES
    if (one.kind is hopeless) != (other.kind is hopeless):
        return other.kind is hopeless
    if preference == "PreemptionOverBorrowing":
        return (one.level, -one.kind) < (other.level, -other.kind)
    return (-one.kind, one.level) < (-other.kind, other.level)


def _goes_on(rating: Rating, queue: ClusterQueueView) -> bool:
    """Tell whether the search goes on to the next flavor."""
    if rating.kind in (Kind.NO_FIT, Kind.NO_CANDIDATES):
        return True
    if rating.kind is not Kind.FIT and queue.when_can_preempt == "TryNextFlavor":
        return True
    return rating.level > 0 and queue.when_can_borrow == "TryNextFlavor"
