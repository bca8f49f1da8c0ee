"""Quotas: which groups hold how much of which ClusterQueue, which wait, and what has changed.

Theory. An account kept by difference: the groups that are charged for quota, and the groups that
wait; for every queue their number and usage, so that they need not be counted; and `deciding`, the
scheduler into which all of it is entered before it decides (`fold.account`). Changes that are to be
entered are noted here, so one event never causes everything to be worked out anew.

Invariant: tallies are the sums of `charges`, and a waiting group is charged only for pods that run
without ever having been gated.
"""

from collections import Counter
from datetime import datetime

from msgspec import Struct, field

from podgroup.admission import Scheduler
from podgroup.admission.topology.tenants import Tenants

FlavorResource = tuple[str, str]
QueueKey = tuple[str, str, str]
"""Kind, namespace and name of a ClusterQueue, Cohort or LocalQueue."""
Places = tuple[QueueKey, QueueKey]
"""A LocalQueue and its ClusterQueue."""


def places(local_queue: tuple[str, str], cluster_queue: str) -> Places:
    """Return the queues that a group is counted in; `local_queue` is namespace and name."""
    return ("LocalQueue", *local_queue), ("ClusterQueue", "", cluster_queue)


class Charge(Struct, frozen=True, gc=False):
    """Quota charged to one group, with what preemption orders by."""

    cluster_queue: str
    usage: dict[FlavorResource, int]
    priority: int
    at: datetime
    local_queue: tuple[str, str] = ("", "")
    holds: bool = False
    """The charge is of an admission, and not of pods that run without an admission."""
    admitted: bool = False
    started: bool = False
    """The group was admitted once, to this ClusterQueue."""

    @property
    def unadmitted(self) -> bool:
        """The charge is of pods that never had quota."""
        return not (self.holds or self.started)

    @property
    def places(self) -> Places:
        """The queues in which the charge is counted."""
        return places(self.local_queue, self.cluster_queue)

    def like(self, other: "Charge") -> bool:
        """Tell whether another charge of the group counts in the same way, but for its amounts."""
        return (
            self.holds == other.holds
            and self.admitted == other.admitted
            and self.started == other.started
            and self.cluster_queue == other.cluster_queue
            and self.local_queue == other.local_queue
        )


class Tally(Struct):
    """Counts of a queue: groups, what they hold, and what runs without ever being admitted."""

    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[FlavorResource] = field(default_factory=Counter)
    used: Counter[FlavorResource] = field(default_factory=Counter)
    unadmitted: Counter[FlavorResource] = field(default_factory=Counter)

    @property
    def empty(self) -> bool:
        """Nothing is counted: amounts of 0 are taken out (`_enter`)."""
        groups = self.pending or self.reserving or self.admitted
        return not (groups or self.reserved or self.used or self.unadmitted)


class Deciding:
    """The scheduler, with the account as it was entered last; times in seconds.

    A cache, no fact: the fold enters the world's changes (`fold.account`), and its own decisions
    change it (`Scheduler.settle`), though rules write nothing else.

    `tenants`: groups with places on nodes. `ill`: groups that could not be entered, and why, until
    they are parked.
    """

    __slots__ = ("ill", "scheduler", "tenants")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.tenants = Tenants()
        self.ill: dict[str, Exception] = {}


class Quotas(Struct):
    """Groups that are charged for quota and groups that wait, by ClusterQueue and LocalQueue."""

    charges: dict[str, Charge] = field(default_factory=dict)
    waiting: dict[str, Places] = field(default_factory=dict)
    news: dict[str, None] = field(default_factory=dict)
    """Groups that may have changed in a field that admission reads."""
    objects: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """(kind, namespace, name) of objects that may have changed in such a field."""
    charged: dict[str, None] = field(default_factory=dict)
    """Groups whose charge changed, or whose wait ended: entered when a group waits (`admit`)."""
    tallies: dict[QueueKey, Tally] = field(default_factory=dict)
    marked: dict[QueueKey, None] = field(default_factory=dict)
    """Queues whose standing may differ from the last report."""
    unsure: bool = True
    """All standings may differ: an object changed, or the account was made anew."""
    moved: bool = True
    """`marked` or `unsure` changed since the last look, or it is time to look again."""
    overdue: bool = False
    """A group may have waited too long."""
    deciding: Deciding | None = None
    """The scheduler; None before the first entry, and where Kueue decides."""

    @property
    def entered(self) -> Deciding:
        """The scheduler and its account, once they were entered."""
        assert self.deciding is not None, "nothing is entered yet"
        return self.deciding

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler, once the account was entered."""
        return self.entered.scheduler

    def enqueue(self, group: str, where: Places) -> None:
        """Let `group` wait in queues, or have its request looked at again."""
        self.wait(group, where)
        self.news[group] = None

    def wait(self, group: str, where: Places) -> None:
        """Enter that `group` waits in queues."""
        known = self.waiting.get(group)
        self.waiting[group] = where
        if known != where:
            if known is not None:
                self._pending(known, -1)
            self._pending(where, 1)

    def dequeue(self, group: str) -> None:
        """End the wait of `group`, if it waits."""
        where = self.waiting.pop(group, None)
        if where is not None:
            self._pending(where, -1)
            self.charged[group] = None

    def tally(self, queue: QueueKey) -> Tally:
        """Return the counts of a queue."""
        return self.tallies.get(queue) or Tally()

    def counted(self, *, reported: bool) -> None:
        """Note that standings were looked at; `reported`: and reported."""
        self.moved = False
        if reported:
            for queue in self.marked:
                tally = self.tallies.get(queue)
                if tally is not None and tally.empty:
                    del self.tallies[queue]
            self.marked.clear()
            self.unsure = False

    def mark(self, queue: QueueKey) -> None:
        """Have a queue looked at whose standing may differ from the last report."""
        self.marked[queue] = None
        self.moved = True

    def mark_all(self) -> None:
        """Have every queue looked at, since any standing may differ from the last report."""
        self.unsure = self.moved = True

    def bounded(self, group: str) -> None:
        """Have the time entered again by which a group gives its quota back."""
        if group in self.charges:
            self.charged[group] = None

    def recall(self) -> None:
        """Have every waiting group looked at again."""
        self.news.update(dict.fromkeys(self.waiting))

    def forget(self) -> None:
        """Have everything entered anew, since the last entry may be wrong."""
        self.deciding = None
        self.recall()

    def reported(self) -> None:
        """Note that all changes of groups and objects were entered."""
        self.news.clear()
        self.objects.clear()

    def read(self) -> None:
        """Note that all changes were entered, those of charges among them."""
        self.reported()
        self.charged.clear()
        self.overdue = False

    def charge(self, group: str, charge: Charge) -> None:
        """Charge quota to `group`, in place of what it was charged before."""
        old = self.charges.get(group)
        if old == charge:
            return
        self.charges[group] = charge
        self.charged[group] = None
        if old is not None and old.like(charge):
            # A pod of the group succeeded: to enter the difference costs half of both charges.
            more = dict(charge.usage)
            for key, amount in old.usage.items():
                more[key] = more.get(key, 0) - amount
            self._enter(charge, more, 1, 0)
            return
        if old is not None:
            self._enter(old, old.usage, -1, -1)
        self._enter(charge, charge.usage, 1, 1)

    def discharge(self, group: str) -> None:
        """Give back what `group` was charged."""
        old = self.charges.pop(group, None)
        if old is not None:
            self._enter(old, old.usage, -1, -1)
            self.charged[group] = None

    def _enter(
        self, charge: Charge, amounts: dict[FlavorResource, int], sign: int, groups: int
    ) -> None:
        """Enter amounts of a charge, and `groups` more."""
        totals: list[Counter[FlavorResource]] = []
        unadmitted, used = charge.unadmitted, charge.admitted or not charge.holds
        for place in charge.places:
            tally = self._tally(place)
            tally.reserving += groups * charge.holds
            tally.admitted += groups * charge.admitted
            if unadmitted:
                totals.append(tally.unadmitted)
                continue
            totals.append(tally.reserved)
            if used:
                totals.append(tally.used)
        for key, amount in amounts.items():
            more = sign * amount
            for total in totals:
                if left := total.get(key, 0) + more:
                    total[key] = left
                else:
                    total.pop(key, None)

    def _pending(self, where: Places, sign: int) -> None:
        for place in where:
            self._tally(place).pending += sign

    def _tally(self, place: QueueKey) -> Tally:
        self.mark(place)
        tally = self.tallies.get(place)
        if tally is None:
            tally = self.tallies[place] = Tally()
        return tally
