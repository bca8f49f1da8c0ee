"""A stand-in cluster, an ingester and a reader of what it publishes, for end-to-end tests.

`Reader` folds EVENTS the way any consumer must: frames replace, deltas update, and what was not in
a frame is gone. The test then compares that with what the cluster really holds.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ingest.bootstrap import run_ingest
from podgroup.log import codec, subjects
from podgroup.log.events import (
    Batch,
    ClusterRestored,
    DeltaRefused,
    Event,
    ObjectApplied,
    ObjectDeleted,
    PodApplied,
    PodDeleted,
    RelistCompleted,
    RelistStarted,
    Undecodable,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.model.objects import WATCHED_KINDS
from runtime.health import Checks
from runtime.jetstream import Bus, Reader
from runtime.settings import IngestSettings, KubernetesSettings, NatsSettings, Settings
from simcluster.client import Client
from tests.support.standin import SimCluster

LABELS = {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "q"}


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": LABELS | labels},
        "spec": {
            "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
            "containers": [
                {"name": "c", "image": "job", "resources": {"requests": {"cpu": "100m"}}}
            ],
        },
    }


def settings_for(
    sim: SimCluster, nats: NatsSettings, cluster: str, folder: Path, **ingest: Any
) -> Settings:
    kubeconfig = sim.kubeconfig(folder / "kubeconfig")
    return Settings(
        cluster=cluster,
        nats=nats,
        kubernetes=KubernetesSettings(kubeconfig=str(kubeconfig)),
        ingest=IngestSettings(**ingest),
        state_dir=str(folder / "state"),
    )


class Ingester:
    """`run_ingest` as a task. `stop` is graceful, `crash` is not."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.checks = Checks()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._stop.clear()
        run = run_ingest(self.settings, self._stop, checks=self.checks)
        self._task = asyncio.create_task(run)
        await asyncio.sleep(0)

    async def stop(self) -> None:
        assert self._task
        self._stop.set()
        await asyncio.wait_for(self._task, 20)

    async def crash(self) -> None:
        assert self._task
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until_ready(self) -> None:
        await until(self._ready, "the ingester is ready")

    async def problem(self) -> str:
        """Why it is not ready."""
        await self.checks.readiness()
        return self.checks.problems.get("ingest", "")

    async def _ready(self) -> bool:
        assert self._task
        if self._task.done():
            self._task.result()
        return not await self.checks.readiness()


@asynccontextmanager
async def ingesting(settings: Settings) -> AsyncIterator[Ingester]:
    ingester = Ingester(settings)
    await ingester.start()
    try:
        yield ingester
    finally:
        await ingester.crash()


class Log:
    """Everything published for a cluster, folded as it is read."""

    def __init__(self, bus: Bus, cluster: str, start: int = 1) -> None:
        self.events: list[Event] = []
        self.batches: list[Batch] = []
        self.alive: dict[str, dict[str, str]] = {kind: {} for kind in WATCHED_KINDS}
        self._frames: dict[str, set[str]] = {}
        self._reader: Reader = bus.read(subjects.EVENTS, subjects.events(cluster, "watch"), start)

    async def read(self, timeout_s: float = 0.05) -> None:
        while messages := await self._reader.next(timeout_s):
            for message in messages:
                batch = codec.decode_batch(message.body)
                self.batches.append(batch)
                for event in batch.events:
                    assert not isinstance(event, Undecodable)
                    self.events.append(event)
                    self._fold(event)

    async def close(self) -> None:
        await self._reader.close()

    @property
    def relists(self) -> list[RelistStarted]:
        return [e for e in self.events if isinstance(e, RelistStarted)]

    @property
    def restores(self) -> list[ClusterRestored]:
        return [e for e in self.events if isinstance(e, ClusterRestored)]

    @property
    def completed(self) -> dict[str, RelistCompleted]:
        return {e.kind: e for e in self.events if isinstance(e, RelistCompleted)}

    def pods(self) -> dict[str, str]:
        """uid -> resource version of pods that are there."""
        return self.alive["Pod"]

    def _fold(self, event: Event) -> None:
        match event:
            case PodApplied(pod=view):
                self._seen("Pod", view.uid, view.resource_version)
            case WorkloadApplied(workload=view):
                self._seen("Workload", view.uid, view.resource_version)
            case ObjectApplied(object=view):
                self._seen(type(view).__name__, view.uid, view.resource_version)
            case PodDeleted(pod=view):
                self.alive["Pod"].pop(view.uid, None)
            case WorkloadDeleted(workload=view):
                self.alive["Workload"].pop(view.uid, None)
            case ObjectDeleted() | DeltaRefused():
                pass
            case ClusterRestored():
                self.alive = {kind: {} for kind in WATCHED_KINDS}
                self._frames = {}
            case RelistStarted(kind=kind):
                self._frames[kind] = set()
            case RelistCompleted(kind=kind):
                seen = self._frames.pop(kind)
                if kind in ("Pod", "Workload"):
                    for uid in set(self.alive[kind]) - seen:
                        del self.alive[kind][uid]
            case _:
                pass

    def _seen(self, kind: str, uid: str, version: str) -> None:
        known = self.alive.setdefault(kind, {})
        if int(version) >= int(known.get(uid, "0")):
            known[uid] = version
        if kind in self._frames:
            self._frames[kind].add(uid)


def truth(sim: SimCluster) -> dict[str, str]:
    """uid -> resource version of the managed pods the cluster holds."""
    return {
        o["metadata"]["uid"]: o["metadata"]["resourceVersion"]
        for o in sim.objects("", "pods")
        if o["metadata"].get("labels", {}).get("kueue.x-k8s.io/managed") == "true"
    }


async def caught_up(log: Log, sim: SimCluster, timeout_s: float = 60) -> None:
    async def same() -> bool:
        await log.read()
        return log.pods() == truth(sim)

    await until(same, "the log shows the pods of the cluster", timeout_s)


async def until(
    condition: Callable[[], Awaitable[bool] | bool], what: str, timeout_s: float = 60
) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                found = condition()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s} s: {what}") from None


def client(sim: SimCluster) -> Client:
    return Client(sim.url, sim.token)
