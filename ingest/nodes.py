"""Nodes, and requests of pods not placed by topology: watched while a flavor names a Topology.

Theory. Two watches: of nodes, and of all pods that are bound and not over. A node's heartbeats
change nothing that is decided on, so a node goes into the log when its view has changed
(`NodeView`, without its version). Pods do not go into the log: their requests are summed by node,
and changed sums follow each `SUM_S` (`NodesTaken`). These watches are never resumed: each start
lists anew, pods before nodes, so that the frame of the nodes ends with all their sums.

The watch of flavors shows which flavors name a Topology; where this watch was resumed, flavors are
listed once. A flavor that the watch shows for the first time causes a new list of nodes: the fold
may have forgotten the nodes, since the log was behind the list of flavors.

Invariant: the log has the nodes as they were seen, sums late by `SUM_S` at most; while no flavor
names a Topology, no request goes to the API server.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from ingest.calls import WatchApi, WatchOptions
from ingest.kinds import Watched, bound_pods, node_kind
from ingest.lastseen import LastSeen
from ingest.metrics import IngestMetrics
from ingest.states import Start
from ingest.translate.items import read_page
from ingest.watcher import Emit, Observers, Watcher
from podgroup.log.events import (
    Event,
    NodesTaken,
    ObjectApplied,
    ObjectDeleted,
    PodApplied,
    PodDeleted,
    RelistCompleted,
    RelistStarted,
)
from podgroup.model.interning import intern
from podgroup.model.objects import FlavorView, Kind, PodView
from runtime.backoff import Backoff
from runtime.kube_errors import KubeError
from runtime.log import get_logger

SUM_S = 5.0
"""Seconds between two looks at changed sums."""
AT_ONCE = 500
"""Nodes in one event."""

log = get_logger("ingest")

Amounts = Mapping[str, int]


class Sums:
    """Sums of the requests of pods by node; resource `pods` counts the pods."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Amounts]] = {}
        self._sums: dict[str, dict[str, int]] = {}
        self._listed: set[str] | None = None
        self.changed: set[str] = set()
        """Nodes whose sum may have changed since the last read of this set."""

    def __len__(self) -> int:
        """Return how many pods take amounts of nodes."""
        return len(self._pods)

    def of(self, node: str) -> dict[str, int]:
        """Return the sums of a node."""
        return dict(sorted(self._sums.get(node, {}).items()))

    def saw(self, events: Iterable[Event]) -> None:
        """Follow the watch of bound pods."""
        for event in events:
            match event:
                case PodApplied(pod=pod):
                    self._set(pod)
                    if self._listed is not None:
                        self._listed.add(pod.uid)
                case PodDeleted(pod=pod):
                    self._drop(pod.uid)
                case RelistStarted():
                    self._listed = set()
                case RelistCompleted():
                    for uid in self._pods.keys() - (self._listed or set()):
                        self._drop(uid)
                    self._listed = None
                case _:
                    pass

    def _set(self, pod: PodView) -> None:
        if self._pods.get(pod.uid, ("", {})) == (pod.node, pod.requests):
            return
        self._drop(pod.uid)
        if pod.node:
            self._pods[pod.uid] = (intern(pod.node), pod.requests)
            self._add(pod.node, pod.requests, 1)

    def _drop(self, uid: str) -> None:
        known = self._pods.pop(uid, None)
        if known is not None:
            self._add(*known, -1)

    def _add(self, node: str, requests: Amounts, sign: int) -> None:
        sums = self._sums.setdefault(intern(node), {})
        for name, amount in (*requests.items(), ("pods", 1)):
            sums[name] = sums.get(name, 0) + sign * amount
            if not sums[name]:
                del sums[name]
        if not sums:
            del self._sums[node]
        self.changed.add(node)


class NodeWatch:
    """Watches nodes while a flavor names a Topology. `put` takes events into the log.

    `resumed`: the watch of flavors goes on from what the log has, and does not list them. `problem`
    says why nodes are not followed, "" if they are, or need not be.
    """

    def __init__(
        self,
        api: WatchApi,
        put: Emit,
        flavors: Watched,
        options: WatchOptions,
        *,
        resumed: bool,
        metrics: IngestMetrics | None = None,
    ) -> None:
        self.watchers: Sequence[Watcher] = ()
        self.sums = Sums()
        self._api = api
        self._put = put
        self._flavors = flavors
        self._options = options
        self._metrics = metrics
        self._unlisted = resumed
        self._naming: set[str] = set()
        self._listing: set[str] | None = None
        self._shown: set[str] = set()
        self._turned = asyncio.Event()
        self._times = 0
        self._seen = LastSeen()
        self._nodes: set[str] = set()
        self._said: dict[str, Amounts] = {}

    @property
    def problem(self) -> str:
        """Why not all that is needed is followed."""
        return "; ".join(w.problem for w in self.watchers if w.problem)

    def saw(self, events: Iterable[Event]) -> None:
        """Follow the watch of flavors, after its events went into the log."""
        for event in events:
            match event:
                case ObjectApplied(object=FlavorView() as flavor):
                    self._named(flavor)
                    if flavor.name in self._naming - self._shown:
                        self._shown.add(flavor.name)
                        self._times += 1
                case ObjectDeleted(name=name):
                    self._naming.discard(name)
                    self._shown.discard(name)
                case RelistStarted():
                    self._listing = set()
                case RelistCompleted() if self._listing is not None:
                    self._naming, self._listing = self._listing, None
                    self._shown &= self._naming
                    self._unlisted = False
                case _:
                    pass
        self._turned.set()

    async def run(self) -> None:
        """Watch whenever it is needed, until cancelled."""
        backoff = Backoff(first_s=0.5, ceiling_s=30.0)
        for wait_s in backoff:
            if not self._unlisted or await self._list():
                break
            await asyncio.sleep(wait_s)
        while True:
            while not self._naming:
                await self._turn()
            await self._watch(self._times)

    async def _watch(self, times: int) -> None:
        """Watch until that is not needed any more, or has to begin anew."""
        pods = self._watcher(bound_pods(), self._saw_pods, None)
        nodes = self._watcher(node_kind(), self._saw_nodes, self._metrics)
        nodes.after = pods.listed
        self.sums, self.watchers = Sums(), (pods, nodes)
        running = [asyncio.create_task(one) for one in (pods.run(), nodes.run(), self._sum())]
        try:
            while self._naming and self._times == times:
                turn = asyncio.create_task(self._turn())
                running.append(turn)
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                running.remove(turn)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self.sums, self.watchers = Sums(), ()
            self._seen = LastSeen()
            self._nodes.clear()
            self._said.clear()

    def _watcher(self, spec: Watched, emit: Emit, metrics: IngestMetrics | None) -> Watcher:
        begin = Start("a ResourceFlavor names a Topology")
        return Watcher(self._api, spec, emit, begin, self._options, Observers(metrics))

    async def _turn(self) -> None:
        """Wait for news of flavors."""
        await self._turned.wait()
        self._turned.clear()

    def _named(self, flavor: FlavorView) -> None:
        for names in (self._naming, self._listing):
            if flavor.topology and names is not None:
                names.add(flavor.name)
        if not flavor.topology:
            self._naming.discard(flavor.name)
            self._shown.discard(flavor.name)

    async def _list(self) -> bool:
        """Learn which flavors name a Topology: the log has them, the watch will not repeat them."""
        for path in self._flavors.paths:
            with suppress(KubeError, msgspec.MsgspecError):
                answer = await self._api.request("GET", path)
                if answer.status == 404:
                    continue
                if answer.status == 200 and self._unlisted:
                    for raw in read_page(answer.body).items:
                        listed = self._flavors.translator.listed(bytes(raw), "")
                        if isinstance(listed, ObjectApplied) and isinstance(
                            listed.object, FlavorView
                        ):
                            self._named(listed.object)
                    self._unlisted = False
            return not self._unlisted
        return True  # no flavors are served, so none names one

    async def _saw_pods(self, _: Kind, events: tuple[Event, ...], __: str | None) -> None:
        self.sums.saw(events)

    async def _saw_nodes(self, _: Kind, events: tuple[Event, ...], __: str | None) -> None:
        await self._put("Node", tuple(self._news(events)), None)

    def _news(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in self._seen.news(events):
            if isinstance(event, RelistCompleted):
                yield from self._taken(sorted(self._nodes), all_of_them=True)
            yield event
            match event:
                case ObjectApplied(object=view, relist=relist):
                    new = view.name not in self._nodes
                    self._nodes.add(view.name)
                    if new and not relist:
                        yield from self._taken([view.name])
                case ObjectDeleted(name=name):
                    self._nodes.discard(name)
                    self._said.pop(name, None)
                case RelistStarted():
                    self._nodes.clear()
                    self._said.clear()
                case _:
                    pass

    async def _sum(self) -> None:
        while True:
            await asyncio.sleep(SUM_S)
            changed, self.sums.changed = sorted(self.sums.changed), set()
            news = self._taken(name for name in changed if name in self._said)
            await self._put("Node", tuple(news), None)

    def _taken(self, nodes: Iterable[str], *, all_of_them: bool = False) -> Iterator[Event]:
        """Yield the sums of nodes that differ from the last event, or of all of them."""
        news = {}
        for name in nodes:
            taken = self.sums.of(name)
            if all_of_them or self._said.get(name, {}) != taken:
                news[name] = taken
            self._said[name] = taken
        named = list(news)
        for first in range(0, len(named), AT_ONCE):
            some = {name: news[name] for name in named[first : first + AT_ONCE]}
            yield NodesTaken(at=datetime.now(UTC), taken=some)
