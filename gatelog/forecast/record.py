"""The track record: how long groups waited for quota that were like one that waits now.

Theory. A wide group waits until much is free at once, and smaller ones that come later start
meanwhile. In some plays that goes on for as long as they are played, so the plays have no upper
limit of it; those that were like it have started all the same. Like it is who waited in its
ClusterQueue and asked for as much (`of_its_size`), of its priority where enough of these were seen.
Those that wait still count as longer (`spans`), and of a group that has waited for an hour only
waits of more than an hour say something.

Invariant: nothing is said by fewer than `ENOUGH` waits that are over.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gatelog.forecast.spans import ENOUGH, Spans
from gatelog.readmodel.overtaking import of_its_size


class Asked(Struct, frozen=True):
    """Who waits or waited: its ClusterQueue, its priority, and what all its pods ask for."""

    cluster_queue: str
    priority: int
    amounts: tuple[tuple[str, int], ...]
    """Resource and amount, in order of names."""

    def like(self, other: "Asked") -> bool:
        """Tell whether another one asks for as much of everything that this one asks for."""
        theirs: Mapping[str, int] = dict(other.amounts)
        return all(of_its_size(amount, theirs.get(name, 0)) for name, amount in self.amounts)


class Waited(Struct, frozen=True):
    """How long one waited, in seconds, and whether that is over."""

    asked: Asked
    seconds: float
    over: bool


class Waits:
    """The waits of groups, by ClusterQueue."""

    def __init__(self, waits: Iterable[Waited] = ()) -> None:
        self._of: dict[str, list[Waited]] = {}
        for one in waits:
            self._of.setdefault(one.asked.cluster_queue, []).append(one)
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
        like = [one for one in self._of.get(asked.cluster_queue, ()) if asked.like(one.asked)]
        equal = [one for one in like if one.asked.priority == asked.priority]
        for some in (equal, like):
            over = [one.seconds for one in some if one.over]
            if len(over) >= ENOUGH:
                return Spans(over, (one.seconds for one in some if not one.over))
        return None
