"""The track record: past waits for quota of groups that are like a waiting group.

Theory. A wide group waits until much is free at once, and smaller groups that come later start
meanwhile. In some plays that goes on to their end, so the plays give no upper limit; but groups
like it have started in the past. A group is like it if it waited in the same ClusterQueue and asked
for as much (`of_its_size`), with the same priority where enough of these were seen. Groups that
still wait count as longer (`spans`), and for a group that has waited for an hour only waits of more
than an hour count.

Invariant: fewer than `ENOUGH` waits that are over give no value.
"""

from collections.abc import Iterable

from msgspec import Struct

from gatelog.forecast.spans import ENOUGH, Key, Spans
from gatelog.readmodel.overtaking import of_its_size


class Asked(Struct, frozen=True):
    """A group that waits or waited: its ClusterQueue, its priority, and the requests of all its
    pods.
    """

    cluster_queue: str
    priority: int
    amounts: tuple[tuple[str, int], ...]
    """Resource and amount, in order of names."""

    @classmethod
    def of(cls, key: Key, priority: int) -> "Asked":
        """Return a group by the key of its runs."""
        (cluster_queue, *_), _, shape = key
        found: dict[str, int] = {}
        for count, requests in shape:
            for resource, amount in requests:
                found[resource] = found.get(resource, 0) + count * amount
        return cls(cluster_queue, priority, tuple(sorted(found.items())))

    def like(self, other: "Asked") -> bool:
        """Return whether another group asks for as much of every resource of this group."""
        theirs = dict(other.amounts)
        return all(of_its_size(amount, theirs.get(name, 0)) for name, amount in self.amounts)


class Waited(Struct, frozen=True):
    """How long one waited, in seconds, and whether that is over."""

    asked: Asked
    seconds: float
    over: bool


class Waits:
    """The waits of groups, by ClusterQueue."""

    def __init__(self, waits: Iterable[Waited] = ()) -> None:
        self._of: dict[str, dict[Asked, list[Waited]]] = {}
        """By ClusterQueue, and what asked for the same together: many are alike."""
        for one in waits:
            queue = self._of.setdefault(one.asked.cluster_queue, {})
            queue.setdefault(one.asked, []).append(one)
        self._found: dict[Asked, Spans | None] = {}

    def within(self, asked: Asked, part: float, waited_s: float) -> float | None:
        """Return within how many seconds from now `part` of those start that are like `asked`.

        `waited_s`: how long it waits already. None: too few of these are known.
        """
        if asked not in self._found:
            self._found[asked] = self._spans(asked)
        spans = self._found[asked]
        return None if spans is None else spans.within(part, waited_s) - waited_s

    def _spans(self, asked: Asked) -> Spans | None:
        known = self._of.get(asked.cluster_queue, {})
        like = [one for other, some in known.items() if asked.like(other) for one in some]
        equal = [one for one in like if one.asked.priority == asked.priority]
        for some in (equal, like):
            over = [one.seconds for one in some if one.over]
            if len(over) >= ENOUGH:
                return Spans(over, (one.seconds for one in some if not one.over))
        return None
