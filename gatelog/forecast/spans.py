"""Runtimes sampled from history.

Theory. Some spans have ended; others still last, so that only a lower bound is known. The
product-limit estimate (Kaplan and Meier, 1958) takes both: at each seen end, the share of longer
spans falls by the factor 1 - 1/k, for k spans that lasted until then. One more span than was seen
counts as longer than all: after n spans, the next is the longest with a chance of 1 in n + 1.
Beyond the longest the tail is a power law.

The rest of a span that already lasts is drawn from longer spans.

Invariant: a draw is longer than the span it is drawn beyond.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from random import Random

ENOUGH = 5
"""Ends seen of a kind before the kind counts apart from more general kinds."""
GUESS_S = 600.0
"""The duration of something without any data."""
_TAIL = 1.5
"""Exponent of the tail; the longest draw is `_LONGEST` times as long as the span it is drawn
beyond.
"""
_LONGEST = 30.0
_ROUNDING = 1e-9
"""Tolerance for shares, which are products of fractions."""


class Spans:
    """A distribution of spans, in seconds."""

    __slots__ = ("_beyond", "_ends", "count")

    def __init__(self, ended: Iterable[float], lasting: Iterable[float] = ()) -> None:
        seen = sorted([(span, 0) for span in ended] + [(span, 1) for span in lasting])
        self.count = sum(not lasts for _, lasts in seen)
        self._ends: list[float] = []
        self._beyond: list[float] = []
        """The share that lasts longer than the end of the same place."""
        left, share = len(seen) + 1, 1.0
        for span, lasts in seen:
            if not lasts:
                share *= 1 - 1 / left
                self._ends.append(span)
                self._beyond.append(-share)  # rising, for bisect
            left -= 1

    def draw(self, random: Random, beyond_s: float = 0.0) -> float:
        """Return a span longer than `beyond_s`."""
        at, share = self._longer(beyond_s)
        place = bisect_left(self._beyond, -share * random.random(), at)
        if place < len(self._ends):
            return self._ends[place]
        return self._tail(beyond_s, 1 - random.random())

    def within(self, part: float, beyond_s: float = 0.0) -> float:
        """Return the span within which `part` of the spans longer than `beyond_s` end."""
        at, share = self._longer(beyond_s)
        left = share * (1 - part)
        place = bisect_left(self._beyond, -left - _ROUNDING, at)
        if place < len(self._ends):
            return self._ends[place]
        longer = -self._beyond[-1] if at < len(self._ends) else share
        return self._tail(beyond_s, left / longer)

    def _longer(self, beyond_s: float) -> tuple[int, float]:
        """Return the place of the first end that is longer, and the share that lasts longer."""
        at = bisect_right(self._ends, beyond_s)
        return at, -self._beyond[at - 1] if at else 1.0

    def _tail(self, beyond_s: float, share: float) -> float:
        """Return the span that a share of the spans beyond all seen spans exceeds."""
        longest = max(beyond_s, self._ends[-1] if self._ends else GUESS_S)
        return longest * min(_LONGEST, math.pow(share, -1 / _TAIL))


class Run:
    """How long quota was held by a kind `key`, and whether that is over."""

    __slots__ = ("held_s", "key", "over")

    def __init__(self, key: "Key", held_s: float, over: bool) -> None:
        self.key = key
        self.held_s = held_s
        self.over = over


Key = tuple[tuple[str, str, str], str, tuple[tuple[int, tuple[tuple[str, int], ...]], ...]]
"""(ClusterQueue, namespace and LocalQueue), value of the label, and shape: per role count and
requests of a pod."""


def kinds_of(key: Key) -> tuple[tuple[object, ...], ...]:
    """Return the kinds that something is of, from its own to that of everything."""
    queue, label, shape = key
    return (queue, label, shape), (queue, shape), (queue, label), (queue,), (queue[0],), ()


class Runtimes:
    """How long quota is held, by kind. `count`: of how many the end was seen."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.count = 0
        ended: dict[tuple[object, ...], list[float]] = {}
        lasting: dict[tuple[object, ...], list[float]] = {}
        for run in runs:
            self.count += run.over
            into = ended if run.over else lasting
            for kind in kinds_of(run.key):
                into.setdefault(kind, []).append(run.held_s)
        self._known = {
            kind: Spans(spans, lasting.get(kind, ()))
            for kind, spans in ended.items()
            if len(spans) >= ENOUGH or not kind
        }
        self._none = Spans((), lasting.get((), ()))
        self._found: dict[Key, Spans] = {}

    def of(self, key: Key) -> Spans:
        """Return the spans of the narrowest kind with enough seen ends."""
        found = self._found.get(key)
        if found is None:
            known = (self._known.get(kind) for kind in kinds_of(key))
            found = self._found[key] = next((one for one in known if one is not None), self._none)
        return found
