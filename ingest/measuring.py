"""Usage of pods: samples of the metrics API, taken at an interval and reported to the log.

Theory. Namespace by namespace, one request at a time: metrics servers know no pages (a continue
token is followed all the same), so the size of an answer is bounded by its namespace, and an answer
beyond `MOST_BYTES` is not read. Samples are added up (`samples`) and go into the log when a pod
ends, when `measure_report_s` have passed and at the end of a session; the samples that a crashed
process had not reported are lost, at most of that interval.

Invariant: this optional source stops no other work. A problem is shown as a sentence, a log line
when it changes, and a metric; only an event log that cannot be written ends the measuring.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from ingest.metrics import IngestMetrics
from ingest.samples import ListMeta, Samples, read_samples
from podgroup.log.events import Event
from podgroup.model.objects import Kind
from runtime.kube_answer import HttpAnswer
from runtime.kube_errors import KubeError
from runtime.log import get_logger
from runtime.settings import IngestSettings

API = "/apis/metrics.k8s.io/v1beta1"
MOST_BYTES = 32 << 20
"""Bytes of an answer at most: some 50,000 pods of a namespace."""
PAGE = 500
"""Pods asked for at once, where a server knows pages."""

T = TypeVar("T")

log = get_logger("ingest")


class MeasureApi(Protocol):
    """The part of a client of the API server that measuring needs, such as
    `runtime.kube.KubeClient`.
    """

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        most_bytes: int | None = None,
    ) -> HttpAnswer:
        """Send a request and read the whole answer; `KubeError` for none or a too long one."""


class _Meta(Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    creation_timestamp: datetime


class _Pod(Struct):
    metadata: _Meta


class _Pods(Struct):
    metadata: ListMeta
    items: list[_Pod]


_pods = msgspec.json.Decoder(_Pods)


class Unasked(Exception):
    """The metrics API gave no samples; the text says why, and what to do."""


class Measuring:
    """Asks for samples of the pods that the watch shows.

    `put` takes reports into the log. `resumed`: the watch does not show pods that run already, so
    they are listed first. `problem` is the last problem, "" for none.
    """

    def __init__(
        self,
        api: MeasureApi,
        put: Callable[[Kind, Iterable[Event], str | None], Awaitable[None]],
        settings: IngestSettings,
        *,
        resumed: bool,
        metrics: IngestMetrics | None = None,
    ) -> None:
        self.samples = Samples()
        self.problem = ""
        self._api = api
        self._put = put
        self._selected = {"labelSelector": settings.selector} if settings.selector else {}
        self._interval_s = settings.measure_interval_s
        self._report_s = settings.measure_report_s
        self._unlisted = resumed
        self._metrics = metrics

    async def saw(self, events: tuple[Event, ...]) -> None:
        """Follow the watch of pods, before its events go into the log."""
        reports = self.samples.saw(events)
        if reports:
            await self._put("Pod", reports, None)

    async def report(self) -> None:
        """Put the sums into the log."""
        await self._put("Pod", self.samples.reports(), None)

    async def run(self) -> None:
        """Measure until cancelled."""
        due = time.monotonic() + self._report_s
        while True:
            began = time.monotonic()
            await self.round()
            if time.monotonic() >= due:
                due = time.monotonic() + self._report_s
                await self.report()
            took = time.monotonic() - began
            await asyncio.sleep(max(self._interval_s - took, self._interval_s / 10))

    async def round(self) -> None:
        """Request the usage of every pod once."""
        problem, new = "", 0
        try:
            if self._unlisted:
                await self._list()
                self._unlisted = False
            for namespace in self.samples.namespaces():
                new += await self._ask(namespace)
        except (KubeError, Unasked) as error:
            problem = str(error)
        if problem and problem != self.problem:
            log.warning("not_measured", problem=problem)
        self.problem = problem
        if self._metrics:
            self._metrics.measured(new, failed=bool(problem))

    async def _ask(self, namespace: str) -> int:
        path, new = f"{API}/namespaces/{namespace}/pods", 0
        async for samples in self._pages(path, read_samples, explain_refusal):
            new += self.samples.add(samples)
        return new

    async def _list(self) -> None:
        """Learn which pods run: the log has them, and the watch will not repeat them."""
        path = "/api/v1/pods"
        running = {"fieldSelector": "status.phase=Running"}
        async for pods in self._pages(path, _read_pods, lambda a: f"{path}: {a.status}", running):
            for meta in (pod.metadata for pod in pods):
                self.samples.learn(meta.namespace, meta.name, meta.uid, meta.creation_timestamp)

    async def _pages(
        self,
        path: str,
        read: Callable[[bytes], tuple[list[T], str]],
        why: Callable[[HttpAnswer], str],
        more: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[list[T]]:
        """Yield the items of each page of a list; `why` gives the meaning of a refusal."""
        params = {"limit": str(PAGE), **self._selected, **(more or {})}
        while True:
            answer = await self._api.request("GET", path, params=params, most_bytes=MOST_BYTES)
            if answer.status != 200:
                raise Unasked(why(answer))
            try:
                found, token = read(answer.body)
            except ValueError as error:
                raise Unasked(f"{path}: the answer cannot be read: {error}") from None
            yield found
            if not token:
                return
            params["continue"] = token


def _read_pods(body: bytes) -> tuple[list[_Pod], str]:
    page = _pods.decode(body)
    return page.items, page.metadata.token


def explain_refusal(answer: HttpAnswer) -> str:
    """Say what the metrics API's status means, and what to do."""
    match answer.status:
        case 404:
            return (
                "the cluster has no metrics API (metrics.k8s.io): install metrics-server, or set "
                "ingest.measure_interval_s = 0"
            )
        case 401 | 403:
            return (
                "ingest may not list pods of metrics.k8s.io: add deploy/components/measure "
                "(chart: settings.ingest.measure_interval_s)"
            )
        case status:
            return (
                f"the metrics API answers with status {status}: is metrics-server up? "
                "kubectl get apiservice v1beta1.metrics.k8s.io"
            )
