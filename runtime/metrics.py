"""Metrics of this process for Prometheus; the only module that knows its client library.

Theory. A process has one `Metrics`, and it is what its `Checks` serve at /metrics: the parts find
it there (`of`) and declare their families in it, so one process shows one page whether it runs one
part or, as `gatelog up` does, all of them. What happens is counted where it happens; what *is*
(sizes, ages, quotas) is read when it is scraped, so it costs nothing in between and is never stale.
Counters begin at 0 with the process, as Prometheus expects.

Invariant: nothing is labelled by what users create without bound (pods, groups, namespaces): a
family that tries is refused when declared. Of any other label a bounded number of values is shown,
because some are words that others choose, such as reasons in conditions that anyone may write.
"""

import importlib.metadata
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)

from runtime.clock import CLOCK
from runtime.health import Checks
from runtime.settings import Settings

__all__ = ["Counter", "Family", "Histogram", "Metrics", "Series", "Words", "of"]

PREFIX: Final = "gatelog_"
NONE: Final = "none"
"""Label value without a word, such as the ClusterQueue of a pod whose queue is unknown."""
OTHER: Final = "other"
"""Label value that means all beyond the bound."""

FAST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bucket bounds in seconds for single requests and transactions."""
SLOW_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
"""Bucket bounds in seconds for what people wait for: up to about three hours."""

MAX_VALUES: Final = 100
"""Values of a label that are shown; further values are `OTHER`."""
MAX_QUEUES: Final = 1000
"""The same for the names of ClusterQueues."""
UNBOUNDED: Final = frozenset({"pod", "pod_name", "group", "namespace", "uid", "name", "node", "id"})
"""Labels that are refused: their values have no bound."""

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
Read = Callable[[], Mapping[Labels, float]]
"""Gives the samples of a family when it is scraped: label values in order -> value."""

_NAME = re.compile(r"gatelog_[a-z][a-z0-9]*(_[a-z0-9]+)*")


T = TypeVar("T", Counter, Histogram)


class Family(Struct, frozen=True):
    """A family of metrics as declared, for documentation and tests."""

    name: str
    kind: Kind
    help: str
    labels: Labels


class Metrics:
    """The registry of one process. Calling it gives the page, so it can be `Checks.metrics`.

    A part that is run again in one process declares its families again: counting goes on from the
    old values, and what `read` gives comes from the new run.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.families: dict[str, Family] = {}
        self._counters: dict[str, Series[Counter]] = {}
        self._histograms: dict[str, Series[Histogram]] = {}
        self._readers: dict[str, _Reader] = {}
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        about = settings or Settings()
        values = (importlib.metadata.version("gatelog"), about.cluster, about.mode)
        self.read(
            "gatelog_info",
            "Always 1: version of gatelog, cluster and mode.",
            ("version", "cluster", "mode"),
            read=lambda: {values: 1.0},
        )

    def counter(self, name: str, help: str, labels: Labels = ()) -> "Series[Counter]":
        """Declare a counter of events; `name` ends in `_total`.

        Raises:
            ValueError: the name, the help or a label is not as it should be.
        """
        if self._declare(Family(name, "counter", help, labels)):
            family = Counter(name, help, labels, registry=self._registry)
            self._counters[name] = Series(family, labels)
        return self._counters[name]

    def histogram(
        self, name: str, help: str, labels: Labels = (), *, buckets: Sequence[float] = FAST_S
    ) -> "Series[Histogram]":
        """Declare a distribution; `buckets` are upper bounds in the unit that `name` ends in.

        Raises:
            ValueError: see `counter`.
        """
        if self._declare(Family(name, "histogram", help, labels)):
            family = Histogram(name, help, labels, registry=self._registry, buckets=buckets)
            self._histograms[name] = Series(family, labels)
        return self._histograms[name]

    def read(
        self,
        name: str,
        help: str,
        labels: Labels = (),
        *,
        read: Read,
        kind: Literal["counter", "gauge"] = "gauge",
    ) -> None:
        """Declare a gauge or counter that `read` gives at each scrape.

        Raises:
            ValueError: see `counter`.
        """
        if self._declare(family := Family(name, kind, help, labels)):
            self._readers[name] = _Reader(family, read)
            self._registry.register(self._readers[name])
        self._readers[name].read = read

    def __call__(self) -> bytes:
        """Return all of it in the text format, version 0.0.4."""
        return generate_latest(_WithoutCreated(self._registry))

    def _declare(self, family: Family) -> bool:
        """Register a family; False if it exists already."""
        known = self.families.get(family.name)
        if known is not None:
            if known != family:
                raise ValueError(f"metric {family.name}: declared as {known} and as {family}")
            return False
        _check(family)
        self.families[family.name] = family
        return True


def _check(family: Family) -> None:
    name = family.name
    if not _NAME.fullmatch(name):
        raise ValueError(f"metric {name}: a name is {PREFIX} and words of a-z, 0-9 with _")
    if (family.kind == "counter") != name.endswith("_total"):
        raise ValueError(f"metric {name}: names of counters, and only those, end in _total")
    refused = UNBOUNDED.intersection(family.labels)
    if refused:
        raise ValueError(f"metric {name}: no bound on the values of {', '.join(refused)}")
    if not family.help.endswith("."):
        raise ValueError(f"metric {name}: its help must be a sentence")


def of(checks: Checks | None, settings: Settings) -> Metrics:
    """Return the metrics that `checks` serve, new metrics if `checks` served none yet.

    Without `checks` the metrics are counted, but cannot be scraped.
    """
    if checks is None:
        return Metrics(settings)
    if not isinstance(checks.metrics, Metrics):
        checks.metrics = made = Metrics(settings)
        made.read(
            "gatelog_ready",
            "1 if this replica could do its work; /readyz says why not.",
            ("part",),
            read=lambda: {(part,): float(not said) for part, said in checks.problems.items()},
        )
        made.read(
            "gatelog_clock_skew_seconds",
            "Least distance of this replica's clock from the API server's, in either direction.",
            read=lambda: {(): abs(CLOCK.ahead_s)},
        )
    return checks.metrics


class Words:
    """Bounds the values of a label: the first words are shown, later words as `OTHER`."""

    def __init__(self, label: str) -> None:
        self._limit = MAX_QUEUES if label == "cluster_queue" else MAX_VALUES
        self._known: set[str] = set()

    def __call__(self, word: str) -> str:
        """Return the label value for `word`; `NONE` for ""."""
        if word in self._known:
            return word
        if not word:
            return NONE
        if len(self._known) >= self._limit or len(word) > 253:
            return OTHER
        self._known.add(word)
        return word


class Series(Generic[T]):
    """The members of a counter or histogram family. A call with label values gives a member."""

    def __init__(self, family: T, labels: Labels) -> None:
        self._family: T = family
        self._words = tuple(Words(label) for label in labels)
        self._members: dict[Labels, T] = {}

    def __call__(self, *values: str) -> T:
        """Return the member for these label values, in the order of the labels."""
        found = self._members.get(values)
        return found if found is not None else self._make(values)

    def _make(self, values: Labels) -> T:
        shown = tuple(word(value) for word, value in zip(self._words, values, strict=True))
        found = self._members.get(shown)
        if found is None:
            found = self._family.labels(*shown) if shown else self._family
            self._members[shown] = found
        return found


class _Reader:
    """Turns what `read` gives into samples."""

    def __init__(self, family: Family, read: Read) -> None:
        self._family = family
        self.read = read
        self._words = tuple(Words(label) for label in family.labels)

    def describe(self) -> list[Metric]:
        """Tell the registry the name, so that it is not given twice."""
        return [self._empty()]

    def collect(self) -> Iterator[Metric]:
        """Read."""
        found = self._empty()
        shown: dict[Labels, float] = {}
        for values, value in self.read().items():
            key = tuple(word(value) for word, value in zip(self._words, values, strict=True))
            shown[key] = shown.get(key, 0.0) + value
        for key, total in shown.items():
            labels = dict(zip(self._family.labels, key, strict=True))
            found.add_sample(self._family.name, labels, total)
        yield found

    def _empty(self) -> Metric:
        family = self._family
        return Metric(family.name.removesuffix("_total"), family.help, family.kind)


class _WithoutCreated:
    """The registry less `_created`: one more series per counter, of no use to Prometheus."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Any]:
        """Collect."""
        for family in self._registry.collect():
            created = family.name + "_created"
            family.samples = [s for s in family.samples if s.name != created]
            yield family
