"""Numbers of this process for Prometheus; the only module that knows its client library.

Theory. A process has one `Metrics`, and it is what its `Checks` serve at /metrics: the parts find
it there (`of`) and declare their families in it, so one process shows one page whether it runs one
part or, as `gatelog up` does, all of them. What happens is counted where it happens; what *is*
(sizes, ages, quotas) is read when somebody asks, so it costs nothing in between and cannot go stale.
Counters begin at 0 with the process, as Prometheus expects.

Invariant: nothing is labelled by what users create without bound (pods, groups, namespaces). A
family that tries is refused when it is declared, and values that others choose pass through `Words`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)

from podgroup.runtime.health import Checks

__all__ = [
    "FAST_S",
    "NONE",
    "OTHER",
    "SLOW_S",
    "Counter",
    "Family",
    "Histogram",
    "Metrics",
    "Words",
]

PREFIX: Final = "gatelog_"
NONE: Final = "none"
"""Label value where there is none, such as the ClusterQueue of a pod whose queue is unknown."""
OTHER: Final = "other"
"""Label value that stands for all beyond the bound."""

FAST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bucket bounds in seconds for single requests and transactions."""
SLOW_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
"""Bucket bounds in seconds for what people wait for: up to about three hours."""

UNBOUNDED: Final = frozenset({"pod", "pod_name", "group", "namespace", "uid", "name", "node", "id"})
"""Labels that are refused: their values have no bound."""

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
Read = Callable[[], Mapping[Labels, float]]
"""Gives the samples of a family when it is scraped: label values in order -> value."""

_NAME = re.compile(r"gatelog_[a-z][a-z0-9]*(_[a-z0-9]+)*")


class Family(Struct, frozen=True):
    """A family of metrics as declared: what documentation and tests go by."""

    name: str
    kind: Kind
    help: str
    labels: Labels


class Metrics:
    """The registry of one process. Calling it gives the page, so it can be `Checks.metrics`."""

    def __init__(self) -> None:
        self.families: list[Family] = []
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)

    def counter(self, name: str, help: str, labels: Labels = ()) -> Counter:
        """Declare something that is counted as it happens; `name` ends in `_total`.

        Raises:
            ValueError: the name or a label is not as it should be.
        """
        self._declare(name, "counter", help, labels)
        return Counter(name, help, labels, registry=self._registry)

    def histogram(
        self, name: str, help: str, labels: Labels = (), *, buckets: Sequence[float] = FAST_S
    ) -> Histogram:
        """Declare a distribution; `buckets` are upper bounds in the unit that `name` ends in.

        Raises:
            ValueError: see `counter`.
        """
        self._declare(name, "histogram", help, labels)
        return Histogram(name, help, labels, registry=self._registry, buckets=buckets)

    def read(
        self,
        name: str,
        help: str,
        labels: Labels = (),
        *,
        read: Read,
        kind: Literal["counter", "gauge"] = "gauge",
    ) -> None:
        """Declare something that is known elsewhere and read by `read` at each scrape.

        Raises:
            ValueError: see `counter`.
        """
        self._declare(name, kind, help, labels)
        self._registry.register(_Reader(self.families[-1], read))

    def __call__(self) -> bytes:
        """Return all of it in the text format, version 0.0.4."""
        return generate_latest(_WithoutCreated(self._registry))

    def _declare(self, name: str, kind: Kind, help: str, labels: Labels) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"metric {name}: a name is {PREFIX} and words of a-z, 0-9 with _")
        if (kind == "counter") != name.endswith("_total"):
            raise ValueError(f"metric {name}: names of counters, and only those, end in _total")
        refused = UNBOUNDED.intersection(labels)
        if refused:
            raise ValueError(f"metric {name}: no bound on the values of {', '.join(refused)}")
        if not help.endswith("."):
            raise ValueError(f"metric {name}: its help must be a sentence")
        self.families.append(Family(name, kind, help, labels))


def of(checks: Checks | None) -> Metrics:
    """Return the metrics that `checks` serve, which are new ones if it served none yet.

    Without `checks` nobody can ask for them; they are counted all the same.
    """
    if checks is None:
        return Metrics()
    if not isinstance(checks.metrics, Metrics):
        checks.metrics = Metrics()
    return checks.metrics


class Words:
    """Keeps the values of one label within bounds: the first `limit` of them, the rest is `OTHER`.

    For words that others choose: names of ClusterQueues, reasons in conditions anyone may write.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, word: str) -> str:
        """Return the label value for `word`; `NONE` for an empty one."""
        if word in self._known:
            return word
        if not word:
            return NONE
        if len(self._known) >= self._limit or len(word) > 253:
            return OTHER
        self._known.add(word)
        return word


class _Reader:
    """Turns what `read` gives into samples."""

    def __init__(self, family: Family, read: Read) -> None:
        self._family = family
        self._read = read

    def describe(self) -> list[Metric]:
        """Tell the registry the name, so that it is not given twice."""
        return [self._empty()]

    def collect(self) -> Iterator[Metric]:
        """Read."""
        found = self._empty()
        for values, value in self._read().items():
            labels = dict(zip(self._family.labels, values, strict=True))
            found.add_sample(self._family.name, labels, value)
        yield found

    def _empty(self) -> Metric:
        family = self._family
        return Metric(family.name.removesuffix("_total"), family.help, family.kind)


class _WithoutCreated:
    """The registry without `_created` series: a second series per counter that nothing here uses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Any]:
        """Collect."""
        for family in self._registry.collect():
            created = family.name + "_created"
            family.samples = [s for s in family.samples if s.name != created]
            yield family
