"""Members: an index of a group's pods that makes every question of the rules constant work.

Theory. The rules ask how many pods of a role are active, running, gated, and which few are to be
finalized or stopped. Members answers from counts per role and from small insertion-ordered sets,
updated by difference when one pod changes, so an event of one pod costs the same in a group of 10
and of 10,000. Only composing, releasing and ordering go over pods, once.

Invariant: `flags[uid]` is what `podgroup.fold.common.flags_of` gave for that pod, and counts and
sets agree with it.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Final, TypeVar

from podgroup.model.interning import intern

_T = TypeVar("_T")


class _Flags:
    """What a pod is, for counting. Terms as in the glossary of docs/concepts.md.

    Plain integers: an enum would cost more than everything else done with them. They are attributes
    of an object, which the interpreter finds twice as fast as attributes of a class.
    """

    def __init__(self) -> None:
        self.ACTIVE: Final = 1  # can still run, or succeeded
        self.INACTIVE: Final = 2  # failed, or deleted before it was bound
        self.GATED: Final = 4
        self.OPEN: Final = 8  # active and our gate is gone: takes a place
        self.OPENING: Final = 16  # gated, removal of the gate decided: takes a place too
        self.SOLID: Final = 32  # active and not on its way out
        self.RUNNING: Final = 64
        self.READY: Final = 128  # ready, or succeeded (B6: a success is as good as ready)
        self.SUCCEEDED: Final = 256
        self.FAILED: Final = 512
        self.TERMINATED: Final = 1024
        self.DELETING: Final = 2048
        self.HELD: Final = 4096  # carries our finalizer
        self.STOPPABLE: Final = 8192  # neither gated nor terminated nor deleting
        self.UNRETRIABLE: Final = 16384
        self.UNOWNED: Final = 32768  # active and not an owner of the Workload
        self.EXCESS: Final = 65536  # decided to be beyond the count: no other count has it
        self.BUSY: Final = (
            131072  # a decision about the pod is in flight, or was rejected at this version
        )
        self.LIVE: Final = 262144  # may run: past its gate, not ended, not gone; it is charged
        self.LARGER: Final = 524288  # asks for more than its role, for which quota is given
        self.HIDDEN: Final = 1048576  # out of the watch's sight, and may run
        self.REPORTED: Final = 2097152  # its condition says that it waits
        self.ABSURD: Final = 4194304  # is deleted with a grace period longer than is believed
        self.REFUSED: Final = 8388608  # the API server refuses a write of it, but for its ungating
        self.CUT: Final = 16777216  # its view lacks fields, since they take too much memory
        self.LONG: Final = 33554432  # is deleted with a longer grace period than victims have
        self.SHUT: Final = 67108864  # the API server refuses its ungating


Flag: Final = _Flags()

LISTED = (
    Flag.GATED
    | Flag.INACTIVE
    | Flag.DELETING
    | Flag.HELD
    | Flag.STOPPABLE
    | Flag.UNOWNED
    | Flag.EXCESS
    | Flag.LARGER
    | Flag.HIDDEN
    | Flag.REPORTED
    | Flag.ABSURD
    | Flag.REFUSED
    | Flag.CUT
    | Flag.LONG
    | Flag.SHUT
)
"""Flags whose pods are kept in sets, because a rule goes over just these pods."""

IDLE_ONLY = (
    Flag.GATED
    | Flag.DELETING
    | Flag.HELD
    | Flag.STOPPABLE
    | Flag.EXCESS
    | Flag.HIDDEN
    | Flag.ABSURD
    | Flag.LONG
)
"""Listed flags whose sets leave busy pods out: a rule that acts on a whole group once must not go
over the group again for each of the observations that follow."""

LEAST = Flag.REFUSED | Flag.SHUT | Flag.CUT
"""Listed flags of which a rule asks for the first pod, each time it runs."""

_BITS: tuple[int, ...] = tuple(1 << i for i in range(Flag.SHUT.bit_length()))
_LISTED_BITS: tuple[int, ...] = tuple(b for b in _BITS if b & LISTED)
_WIDTH: Final = 32
_MASK: Final = (1 << _WIDTH) - 1
_PLACES: dict[int, int] = {bit: place * _WIDTH for place, bit in enumerate(_BITS)}
"""Flag -> where its count is: all counts of a role are one number, 32 bits for each flag."""
_RUNNING: Final = _PLACES[Flag.RUNNING]
_READY: Final = _PLACES[Flag.READY]
_SUCCEEDED: Final = _PLACES[Flag.SUCCEEDED]
_UNRETRIABLE: Final = _PLACES[Flag.UNRETRIABLE]


_CHARGED = Flag.LIVE | Flag.DELETING
"""Flags that decide what a pod without an admission is charged."""

_UNCOUNTED = (
    Flag.UNOWNED
    | Flag.BUSY
    | Flag.LARGER
    | Flag.REPORTED
    | Flag.ABSURD
    | Flag.REFUSED
    | Flag.CUT
    | Flag.LONG
    | Flag.SHUT
)
"""Flags that have no count: no rule asks how many pods have them, and they change often."""


def _listed(flags: int) -> int:
    return flags & LISTED & ~IDLE_ONLY if flags & Flag.BUSY else flags & LISTED


_Stamp = tuple[datetime, str, str, str, str]
"""A pod's age, role, "1" if it has not failed, and then its queue and total count."""
_Move = tuple[int, tuple[tuple[int, bool], ...], int, bool]
_MOVES: dict[tuple[int, int], _Move] = {}
"""(old, new) flags -> what is added to the counts, which lists are entered or left, `new` itself,
one object for all pods, and whether a charge depends on it. A few hundred entries at most: flags
are not independent of each other."""


def _move(old: int, new: int) -> _Move:
    changed, relisted = (old ^ new) & ~_UNCOUNTED, _listed(old) ^ _listed(new)
    counted = sum((1 if new & b else -1) << _PLACES[b] for b in _BITS if changed & b)
    listed = tuple((bit, bool(_listed(new) & bit)) for bit in _LISTED_BITS if relisted & bit)
    charged = bool((old ^ new) & _CHARGED)
    move = _MOVES[(old, new)] = (counted, listed, intern(new), charged)
    return move


def _say(said: dict[str, _T], counted: Counter[_T], uid: str, value: _T) -> None:
    """Enter a pod's value, a false value for none; `counted` is how many pods have each value."""
    old = said.pop(uid, None)
    if old is not None:
        counted[old] -= 1
        if not counted[old]:
            del counted[old]
    if value:
        said[uid] = value
        counted[value] += 1


class Members:
    """The live pods of one group. Keys are pod uids, roles are role hashes."""

    __slots__ = (
        "_declaring",
        "_gated_by",
        "_kept",
        "_order",
        "_speaking",
        "charged_for",
        "counts",
        "flags",
        "gated_by",
        "kept",
        "moves",
        "owned",
        "pairs",
        "queues",
        "sets",
        "stamps",
        "totals",
        "troubled",
    )

    def __init__(self) -> None:
        self.flags: dict[str, int] = {}
        self.counts: dict[str, int] = {"": 0}
        """Role -> number of pods per flag (`_PLACES`); role "" is the whole group."""
        self.sets: dict[int, dict[str, None]] = {}
        """Listed flag -> its pods, while there are some: a dict that is emptied keeps its size."""
        self.totals: Counter[str] = Counter()
        self.queues: Counter[str] = Counter()
        self.stamps: dict[str, _Stamp] = {}
        self.moves = 0
        """Changes of what runs: a pod began or ended, was resized or asked to stop."""
        self.charged_for: object = None
        """The source of the last charge without an admission (`Charged.source`)."""
        self.owned: frozenset[str] = frozenset()
        """Uids of the Workload's owner references."""
        self.gated_by: Counter[str] = Counter()
        """Value of annotation admission-gated-by -> how many pods at their gate have it."""
        self._gated_by: dict[str, str] = {}
        self.kept: Counter[int] = Counter()
        """Times that a hidden pod's label was put back -> how many pods have that number."""
        self._kept: dict[str, int] = {}
        self.pairs: dict[str, tuple[tuple[datetime, str], str, str]] = {}
        """What is contradicted -> age of the second pod, first pod, second pod (`contradict`)."""
        self.troubled: dict[int, list[str]] = {}
        """Flag of `LEAST`, while pods have it -> a heap of its uids, with some that left."""
        self._order: list[tuple[datetime, str]] = []
        self._speaking: list[tuple[datetime, str]] = []
        self._declaring: list[tuple[datetime, str]] = []

    def put(
        self, uid: str, role: str, flags: int, created_at: datetime, queue: str, total: str
    ) -> None:
        """Add a pod or take over its new flags. `queue` is its queue, `total` its declaration."""
        old, age = self.flags.get(uid), (created_at, uid)
        if self.pairs:
            self._doubt(age)
        self._declare(age, role, queue, total, bool(flags & Flag.FAILED))
        if old is None:
            heapq.heappush(self._order, age)
            if role not in self.counts:
                self.counts[role] = 0
            self.move(uid, 0, flags)
        elif old != flags:
            self.move(uid, old, flags)

    def move(self, uid: str, old: int, flags: int) -> None:
        """Take over the new flags of a pod with an unchanged declaration; `old` are its flags."""
        counted, listed, kept, charged = _MOVES.get((old, flags)) or _move(old, flags)
        self.flags[uid] = kept
        if charged:
            self.moves += 1
        if counted:
            counts = self.counts
            counts[""] += counted
            counts[self.stamps[uid][1]] += counted
        for bit, enters in listed:
            if enters:
                self.sets.setdefault(bit, {})[uid] = None
                if bit & LEAST:
                    self._enter(bit, uid)
            else:
                left = self.sets[bit]
                del left[uid]
                if not left:
                    del self.sets[bit]
                    if bit & LEAST:
                        del self.troubled[bit]

    def _enter(self, bit: int, uid: str) -> None:
        heap = self.troubled.setdefault(bit, [])
        heapq.heappush(heap, uid)
        if len(heap) > 2 * len(self.sets[bit]) + 16:  # most have left, or came again and again
            self.troubled[bit] = sorted(self.sets[bit])

    def _declare(
        self, age: tuple[datetime, str], role: str, queue: str, total: str, failed: bool
    ) -> None:
        # Only pods that have not failed are compared: a failed pod does not speak for the future.
        created_at, uid = age
        new = (created_at, role, "", "", "") if failed else (created_at, role, "1", queue, total)
        old = self.stamps.get(uid)
        if old == new:
            return
        if old is not None and old[2]:
            self._uncount(old)
        if new[2]:
            if old is None or not old[2]:
                heapq.heappush(self._speaking, age)
            self.queues[queue] += 1
            self.totals[total] += 1
            if total and not total.startswith("total/"):
                heapq.heappush(self._declaring, age)
        self.stamps[uid] = intern(new)

    def _uncount(self, stamp: _Stamp) -> None:
        for counter, value in ((self.queues, stamp[3]), (self.totals, stamp[4])):
            counter[value] -= 1
            if not counter[value]:
                del counter[value]

    def gate(self, uid: str, text: str) -> None:
        """Enter who holds a gated pod's admission back, as its annotation says; "" without it."""
        if self._gated_by.get(uid, "") != text:
            _say(self._gated_by, self.gated_by, uid, intern(text))

    def keep(self, uid: str, times: int) -> None:
        """Enter how often a hidden pod's label was put back, 0 for a pod that is not hidden."""
        _say(self._kept, self.kept, uid, times)

    def drop(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self.gate(uid, "")
        self.keep(uid, 0)
        self.move(uid, self.flags[uid], 0)
        del self.flags[uid]
        stamp = self.stamps.pop(uid)
        if stamp[2]:
            self._uncount(stamp)
        if self.pairs:
            self._doubt((stamp[0], uid))

    def contradict(self, what: str, first: str, second: str) -> None:
        """Enter that `first` is the oldest pod with a value of `what`, `second` the next to differ.

        That stays so while younger pods come, until a pod as old as `second` is put or dropped.
        """
        self.pairs[what] = ((self.stamps[second][0], second), first, second)

    def _doubt(self, age: tuple[datetime, str]) -> None:
        for what in [what for what, known in self.pairs.items() if age <= known[0]]:
            del self.pairs[what]

    def count(self, flag: int, role: str = "") -> int:
        """Return how many pods (of a role; "" = all) have `flag`, which is counted. Constant."""
        return self.counts.get(role, 0) >> _PLACES[flag] & _MASK

    def standing(self) -> tuple[int, int, int, int]:
        """Return how many pods run, are ready, have succeeded, and are unretriable."""
        counts = self.counts[""]
        return (
            counts >> _RUNNING & _MASK,
            counts >> _READY & _MASK,
            counts >> _SUCCEEDED & _MASK,
            counts >> _UNRETRIABLE & _MASK,
        )

    def listed(self, flag: int, role: str = "") -> list[str]:
        """Return the uids (of a role) with one of the `LISTED` flags, sorted: restarts keep this.

        For flags of `IDLE_ONLY` pods that are not free (`Pod.free`) are left out.
        """
        found = self.sets.get(flag)
        if not found:
            return []
        return sorted([u for u in found if self.stamps[u][1] == role] if role else found)

    def least(self, flag: int) -> str | None:
        """Return the first pod that is `listed` with a flag of `LEAST`; None without such a pod."""
        found = self.sets.get(flag)
        if not found:
            return None
        heap = self.troubled[flag]
        while heap[0] not in found:
            heapq.heappop(heap)
        return heap[0]

    def with_flags(self, flags: int, role: str = "") -> Iterator[str]:
        """Go over all pods (of a role) that have all of `flags`: a pass, not for every event."""
        for uid, have in self.flags.items():
            if have & flags == flags and (not role or self.stamps[uid][1] == role):
                yield uid

    def first(self) -> str | None:
        """Return the pod that represents the group: the oldest, ties broken by uid.

        A failed pod does so only when all have failed: it does not speak for later pods.
        """
        while self._speaking:
            stamp = self.stamps.get(self._speaking[0][1])
            if stamp is not None and stamp[2]:
                return self._speaking[0][1]
            heapq.heappop(self._speaking)
        while self._order and self._order[0][1] not in self.flags:
            heapq.heappop(self._order)
        return self._order[0][1] if self._order else None

    def declaring(self) -> str | None:
        """Return the oldest pod, ties broken by uid, that declares more than a total count."""
        while self._declaring:
            stamp = self.stamps.get(self._declaring[0][1])
            if stamp is not None and stamp[4] and not stamp[4].startswith("total/"):
                return self._declaring[0][1]
            heapq.heappop(self._declaring)
        return None

    def __len__(self) -> int:
        return len(self.flags)

    def __contains__(self, uid: str) -> bool:
        return uid in self.flags
