"""Samples of the usage of pods, summed per pod until a report is due.

Theory. The metrics API (metrics.k8s.io/v1beta1, kind PodMetrics) names pods and gives no uid, and a
sample is of the pod that had the name when the sample was taken. So this follows the watch of pods,
which shows the pod that has a name now; a sample from before the pod's creation is not counted. A
metrics server looks at its nodes at its own pace and gives the same sample until then: a sample
that is not newer than the last is not counted again.

Invariant: memory grows with the pods that run, not with samples; each sample is in one report of
one pod.
"""

from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction

import msgspec
from msgspec import Struct, field

from podgroup.log.events import Event, PodApplied, PodDeleted, PodMeasured, RelistStarted
from podgroup.model.objects import PodView
from podgroup.model.quantities import MAX_INT64, QuantityError, parse

RESOURCES = {"cpu": 1000, "memory": 1}
"""The resources of the metrics API, and how many of our units one of its units is."""


class _Meta(Struct):
    name: str = ""
    namespace: str = ""


class _Container(Struct):
    usage: dict[str, str] = {}


class _PodMetrics(Struct):
    metadata: _Meta
    timestamp: datetime
    containers: list[_Container] = []


class ListMeta(Struct, rename={"token": "continue"}):
    """Where the next page of a list begins; "" after the last."""

    token: str = ""


class _Page(Struct):
    items: list[_PodMetrics]
    metadata: ListMeta = field(default_factory=ListMeta)


_page = msgspec.json.Decoder(_Page)


class Sample(Struct, frozen=True):
    """What all containers of a pod used together at a time, in the units of requests."""

    namespace: str
    name: str
    at: datetime
    used: dict[str, int]


def read_samples(body: bytes) -> tuple[list[Sample], str]:
    """Return the samples of a PodMetricsList, and the token of its next page ("": the last).

    Raises:
        ValueError: the body is no such list; the message says where.
    """
    page = _page.decode(body)
    return [_sample(one) for one in page.items], page.metadata.token


def _sample(found: _PodMetrics) -> Sample:
    meta = found.metadata
    if found.timestamp.tzinfo is None:
        raise ValueError(f"pod {meta.namespace}/{meta.name}: {found.timestamp} has no time zone")
    used: dict[str, int] = {}
    for resource, unit in RESOURCES.items():
        try:
            said = [c.usage[resource] for c in found.containers if resource in c.usage]
            amount = sum((parse(text) for text in said), Fraction(0))
        except QuantityError as error:
            where = f"pod {meta.namespace}/{meta.name}: {resource}"
            raise ValueError(f"{where}: {error}") from None
        if said:
            used[resource] = min(MAX_INT64, max(0, round(amount * unit)))
    return Sample(meta.namespace, meta.name, found.timestamp, used)


class _Running(Struct):
    uid: str
    created_at: datetime
    last_at: datetime | None = None
    from_at: datetime | None = None
    samples: int = 0
    total: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)


class Samples:
    """Sums and peaks of pods that may run, by namespace and name."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], _Running] = {}

    def __len__(self) -> int:
        """Return how many pods may run."""
        return len(self._pods)

    def namespaces(self) -> list[str]:
        """Return the namespaces with pods that may run, in order."""
        return sorted({namespace for namespace, _ in self._pods})

    def learn(self, namespace: str, name: str, uid: str, created_at: datetime) -> None:
        """Take over a pod that runs, unless the watch reported one of that name."""
        self._pods.setdefault((namespace, name), _Running(uid, created_at))

    def saw(self, events: Iterable[Event]) -> list[PodMeasured]:
        """Follow the watch of pods; returns reports of pods that ended or became unknown.

        To be called before the events go on: a report has to come before the end of its pod.
        """
        found: list[PodMeasured] = []
        for event in events:
            match event:
                case PodApplied(pod=pod) if pod.node and not pod.ended:
                    self._bears(pod, found)
                case PodApplied(pod=pod) | PodDeleted(pod=pod):
                    known = self._pods.get((pod.namespace, pod.name))
                    if known is not None and known.uid == pod.uid:
                        del self._pods[pod.namespace, pod.name]
                        found += _report(pod.namespace, known)
                case RelistStarted():
                    found += self.reports()
                    self._pods.clear()
                case _:
                    pass
        return found

    def add(self, samples: Iterable[Sample]) -> int:
        """Count samples; returns how many were new, and of pods that are known."""
        new = 0
        for sample in samples:
            pod = self._pods.get((sample.namespace, sample.name))
            if pod is None or sample.at <= (pod.last_at or pod.created_at):
                continue
            new += 1
            pod.last_at = sample.at
            pod.from_at = pod.from_at or sample.at
            pod.samples += 1
            for resource, amount in sample.used.items():
                pod.total[resource] = pod.total.get(resource, 0) + amount
                pod.peak[resource] = max(pod.peak.get(resource, 0), amount)
        return new

    def reports(self) -> list[PodMeasured]:
        """Return the sums since the last report of each pod, and begin anew."""
        return [one for (space, _), pod in self._pods.items() for one in _report(space, pod)]

    def _bears(self, view: PodView, found: list[PodMeasured]) -> None:
        key = (view.namespace, view.name)
        known = self._pods.get(key)
        if known is None or known.uid != view.uid:
            if known is not None:
                found += _report(view.namespace, known)
            self._pods[key] = _Running(view.uid, view.created_at)


def _report(namespace: str, pod: _Running) -> list[PodMeasured]:
    if not pod.samples or pod.from_at is None or pod.last_at is None:
        return []
    found = PodMeasured(
        namespace=namespace,
        uid=pod.uid,
        from_at=pod.from_at,
        to_at=pod.last_at,
        samples=pod.samples,
        total=pod.total,
        peak=pod.peak,
    )
    pod.from_at, pod.samples, pod.total, pod.peak = None, 0, {}, {}
    return [found]
