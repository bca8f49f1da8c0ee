"""A session: all watchers and the publisher, from one look at the log to the next failure.

Watchers follow the API server for ever and survive everything it does. A session ends with trouble
of the log: a publish that failed for good, another stream than we wrote to, another ingester that
publishes. It also ends with an API server of another history than the log (`lookout`), which is
looked at before anything is watched. Everything not acknowledged is forgotten then, and the next
session begins from what the log has. So the way to start is also the way to recover.

First lists run one after the other in the order of `kinds_watched`, pods last, so that a consumer
knows the queues before the pods that wait in them; watches run at once.

Invariant: within a session events are published in the order they were put in; between sessions
the positions go back, never forward.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from ingest import resume
from ingest.calls import WatchApi, WatchOptions
from ingest.change_buffer import ChangeBuffer
from ingest.kinds import Watched, watched_kinds
from ingest.lastseen import LastSeen
from ingest.lookout import PATIENCE_S, LookApi, Lookout
from ingest.measuring import MeasureApi, Measuring
from ingest.metrics import IngestMetrics
from ingest.nodes import NodeWatch
from ingest.publisher import EventPublisher, PublishOptions, Sink
from ingest.resume import Known, Log, Resume
from ingest.states import Start, Watching
from ingest.unlabelled import UnlabelledPods
from ingest.watcher import Observers, Watcher
from podgroup.log.events import ClusterRestored, Event
from podgroup.model.objects import Kind, kinds_watched
from runtime.backoff import Backoff
from runtime.jetstream import BusClosed, BusUnavailable
from runtime.kube_answer import HttpAnswer
from runtime.log import get_logger
from runtime.settings import Settings
from runtime.unlabelled import ListApi

PUBLISH_INTERVAL_S = 0.005
"""Seconds between messages of the log; a full message, or a message after a pause, goes at once."""
DRAIN_S = 5.0
"""Seconds allowed at the end to store events that were seen; other events are seen again."""

log = get_logger("ingest")


class EventLog(Log, Sink, Protocol):
    """The part of the log that a session needs, such as `runtime.jetstream.Bus`."""

    @property
    def on_reconnect(self) -> list[Callable[[], object]]:
        """Functions to call when a lost connection is back."""


class SessionApi(ListApi, MeasureApi, WatchApi, LookApi, Protocol):
    """The part of a client of the API server that a session needs, such as
    `runtime.kube.KubeClient`.
    """

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        accept: str = "",
        most_bytes: int | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> HttpAnswer:
        """Send a request and read the whole answer, whatever its status."""


class Changed(Exception):
    """The log can no longer be continued; the text says why."""


class Session:
    """One run of all watchers. `watchers` know the state of each kind."""

    def __init__(
        self,
        settings: Settings,
        bus: EventLog,
        api: SessionApi,
        begin: Resume,
        metrics: IngestMetrics | None = None,
    ) -> None:
        self._bus = bus
        self._begin = begin
        self.publisher = EventPublisher(
            bus,
            PublishOptions(
                cluster=settings.cluster,
                batch_bytes=settings.ingest.batch_bytes,
                interval_s=PUBLISH_INTERVAL_S,
                mirrored=settings.mode == "builtin",
                incarnation=begin.incarnation,
                cluster_uid=begin.cluster_uid,
            ),
            positions=begin.positions,
            last=begin.last,
            metrics=metrics,
        )
        self._metrics = metrics
        self.pods = ChangeBuffer(
            self.publisher.put,
            settings.ingest.pod_change_interval_s,
            settings.ingest.namespace_changes_per_s,
            begin.positions.get("Pod"),
            metrics,
        )
        self.measuring = self._make_measuring(settings, api)
        self.unlabelled = self._make_look(settings, api)
        self.nodes: NodeWatch | None = None
        specs = watched_kinds(
            settings.ingest.selector,
            settings.ingest.role_hash,
            annotated_names=settings.ingest.workload_identifier_annotations,
            copied=settings.queueing.annotation_keys_to_copy,
            kinds=kinds_watched(settings.mode, settings.queueing),
        )
        self._sets = LastSeen()
        self.lookout = Lookout(api, specs, begin, self.publisher.identify)
        self.watchers = self._make_watchers(settings, api, specs)
        self._reconnected = asyncio.Event()

    @property
    def known(self) -> Known:
        """The messages that are certain to be stored."""
        return Known(
            created=self._begin.created,
            last_sequence=self._begin.last_sequence,
            acked_sequence=self.publisher.acked_sequence,
            acked_msg_id=self.publisher.acked_msg_id,
        )

    @property
    def problem(self) -> str:
        """Why not every kind is followed now, "" when they are."""
        problems = [w.problem for w in self.watchers]
        if self.nodes is not None:
            problems.append(self.nodes.problem)
        if not self.lookout.begun.is_set():
            problems.insert(0, self.lookout.problem)
        found = "; ".join(one for one in problems if one)
        return f"{self._begin.reason}, and is listed anew: {found}" if self._anew(found) else found

    def _anew(self, problem: str) -> bool:
        return self._begin.restored is not None and bool(problem)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`; then store the events seen and return.

        Raises:
            BusError: publishing failed for good; as `runtime.jetstream.Overtaken`,
                because another ingester publishes.
            Changed: the stream is another than we wrote to.
            Restored: the API server has another history than the log.
        """
        said = self._begin.restored
        await self.publisher.claim(() if said is None else (said,))
        on_reconnect = self._reconnected.set
        self._bus.on_reconnect.append(on_reconnect)
        pump = asyncio.create_task(self.publisher.run())
        checker = asyncio.create_task(self._check_after_reconnects())
        releasing = asyncio.create_task(self.pods.run())
        followers = [
            *self.watchers,
            *(one for one in (self.measuring, self.unlabelled, self.nodes) if one),
        ]
        watching = [asyncio.create_task(self._once_known(one.run)) for one in followers]
        watching.insert(0, asyncio.create_task(self.lookout.run()))
        stopping = asyncio.create_task(stop.wait())
        try:
            everyone = [pump, checker, releasing, stopping, *watching]
            done, _ = await asyncio.wait(everyone, return_when=asyncio.FIRST_COMPLETED)
            # A broken publisher breaks the tasks that put into it: name the cause, not the effect.
            for task in sorted(done, key=everyone.index):
                if task is not stopping:
                    task.result()
            if self.measuring is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(DRAIN_S):
                        await self.measuring.report()
        finally:
            self._bus.on_reconnect.remove(on_reconnect)
            await _cancel([stopping, checker, releasing, *watching, pump])
        try:
            async with asyncio.timeout(DRAIN_S):
                await self.publisher.drain()
        except TimeoutError:
            log.info("events_not_stored", note="they will be seen again at the next start")

    async def _once_known(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Call `follow` once log and API server are known to have one history."""
        await self.lookout.begun.wait()
        await follow()

    async def _check_after_reconnects(self) -> None:
        """A reconnect may lead to a server with another past.

        Servers that elect a leader do not answer for seconds, which is no reason to list again: the
        question is repeated until a server answers.
        """
        backoff = Backoff(first_s=0.1, ceiling_s=2.0)
        while True:
            await self._reconnected.wait()
            self._reconnected.clear()
            try:
                changed = await resume.lost(self._bus, self.known)
            except BusClosed:
                raise
            except BusUnavailable as error:
                log.info("continuation_unknown", error=str(error))
                await asyncio.sleep(next(backoff))
                self._reconnected.set()
                continue
            backoff.reset()
            if changed:
                raise Changed(changed)

    def _make_watchers(
        self, settings: Settings, api: SessionApi, specs: Sequence[Watched]
    ) -> list[Watcher]:
        options = WatchOptions(
            page_size=settings.ingest.page_size,
            watch_timeout_s=settings.ingest.watch_timeout_s,
            idle_grace_s=settings.ingest.idle_grace_s,
            stream=settings.ingest.use_watch_list,
        )
        watchers: list[Watcher] = []
        for spec in specs:
            if spec.kind == "ResourceFlavor" and settings.mode == "builtin":
                self.nodes = NodeWatch(
                    *(api, self.publisher.put, spec, options),
                    resumed=spec.kind in self._begin.positions,
                    metrics=self._metrics,
                )
            watcher = self._make_watcher(api, spec, options)
            if watchers:
                watcher.after = watchers[-1].listed
            watchers.append(watcher)
        return watchers

    def _make_measuring(self, settings: Settings, api: SessionApi) -> Measuring | None:
        ingest = settings.ingest
        if not ingest.measure_interval_s:
            return None
        return Measuring(
            api,
            self.publisher.put,
            ingest,
            resumed="Pod" in self._begin.positions,
            metrics=self._metrics,
        )

    def _make_look(self, settings: Settings, api: SessionApi) -> UnlabelledPods | None:
        interval_s = settings.ingest.unlabelled_look_s
        if not interval_s or not settings.ingest.selector:
            return None  # without a selector the watch shows every pod
        return UnlabelledPods(
            api,
            self.publisher.put,
            interval_s,
            topology=settings.mode == "builtin",
            metrics=self._metrics,
        )

    async def _put_pods(self, kind: Kind, events: tuple[Event, ...], position: str | None) -> None:
        if self.measuring is not None:
            await self.measuring.saw(events)
        await self.pods.put(kind, events, position)

    async def _put_flavors(
        self, kind: Kind, events: tuple[Event, ...], position: str | None
    ) -> None:
        await self.publisher.put(kind, events, position)
        if self.nodes is not None:
            self.nodes.saw(events)

    async def _put_sets(self, kind: Kind, events: tuple[Event, ...], position: str | None) -> None:
        await self.publisher.put(kind, self._sets.news(events), position)

    def _make_watcher(self, api: SessionApi, spec: Watched, options: WatchOptions) -> Watcher:
        since = self._begin.positions.get(spec.kind)
        emits = {
            "Pod": self._put_pods,
            "ResourceFlavor": self._put_flavors,
            "StatefulSet": self._put_sets,
        }
        put = emits.get(spec.kind, self.publisher.put)

        async def emit(kind: Kind, events: tuple[Event, ...], position: str | None) -> None:
            self.lookout.saw(kind, events, position)
            await put(kind, events, position)

        return Watcher(
            api,
            spec,
            emit,
            Start(self._begin.reason) if since is None else Watching(since),
            options,
            Observers(self._metrics, self.lookout),
        )


async def begin(
    settings: Settings,
    bus: Log,
    known: Known | None,
    cause: str,
    *,
    afresh: bool = False,
    restored: ClusterRestored | None = None,
) -> Resume:
    """Return where the next session goes on; `cause` ended the last one ("" at the start).

    `afresh`: everything is listed again, whatever the log has. `restored`: versions begin again,
    and this event comes first.

    Raises:
        BusError: ask again.
    """
    found = await resume.from_log(bus, settings.cluster)
    if restored is not None:
        return Resume(
            {},
            f"the cluster was restored: {restored.reason}",
            found.created,
            found.last_sequence,
            found.last,
            cluster_uid=restored.cluster_uid,
            incarnation=restored.incarnation,
            restored=restored,
        )
    if known is None:
        return found
    changed = await resume.lost(bus, known)
    reason = changed or f"the list was interrupted: {cause}"
    positions = {} if changed or afresh else found.positions
    return msgspec.structs.replace(found, positions=positions, reason=reason)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
