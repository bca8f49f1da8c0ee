"""A user of a cluster: makes gated pods and sees, through a watch, when their gate is gone."""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from typing import Any, Self

import msgspec
from msgspec import Raw, Struct, field

from podgroup.model.names import ADMISSION_GATE, MANAGED_LABEL, POD_FINALIZER
from tests.support.processes import Api, pod

PATIENCE_S = 60.0


def gated(name: str, group: str = "", total: int = 0, script: str = "") -> dict[str, Any]:
    """A pod as admission leaves it; the webhook's own time is no part of these figures."""
    body = pod(name, group, total, script=script)
    body["metadata"]["labels"][MANAGED_LABEL] = "true"
    body["metadata"]["finalizers"] = [POD_FINALIZER]
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


class Meta(Struct, frozen=True):
    """Who a pod is."""

    name: str = ""
    namespace: str = ""
    finalizers: tuple[str, ...] = ()


class Spec(Struct, frozen=True):
    """What holds it back."""

    gates: tuple[Raw, ...] = field(name="schedulingGates", default=())


class Status(Struct, frozen=True):
    """How it stands."""

    phase: str = ""


class SeenPod(Struct, frozen=True):
    """As much of a pod as those who look want to know."""

    metadata: Meta = Meta()
    spec: Spec = Spec()
    status: Status = Status()


class Line(Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: SeenPod


# Whoever looks runs on the same cores: it should take as little of them as it can.
_lines = msgspec.json.Decoder(Line)


class PodLines(ABC):
    """A watch on pods, read as long as the context lasts; `take` is told of each line."""

    def __init__(self, api: Api, path: str) -> None:
        self._api = api
        self._path = f"{api.url}{path}"
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0.2)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @abstractmethod
    def feed(self, line: Line) -> None:
        """See a line."""

    async def _watch(self) -> None:
        params = {"watch": "1", "resourceVersion": "0"}
        while True:
            async with self._api.http.get(self._path, params=params, timeout=None) as answer:
                async for line in answer.content:
                    self.feed(_lines.decode(line))


class Eyes(PodLines):
    """A watch on the pods of a namespace: when each was first seen ungated, and let go."""

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__(api, f"/api/v1/namespaces/{namespace}/pods")
        self._changed = asyncio.Event()
        self.ungated: dict[str, float] = {}
        self.let_go: dict[str, float] = {}

    def feed(self, line: Line) -> None:
        """Note when a pod is ungated and when it is let go."""
        now, pod = time.perf_counter(), line.object
        if not pod.spec.gates:
            self.ungated.setdefault(pod.metadata.name, now)
        if not pod.metadata.finalizers:
            self.let_go.setdefault(pod.metadata.name, now)
        self._changed.set()

    async def until(self, seen: dict[str, float], names: list[str]) -> None:
        """Wait until all names have been seen."""
        left = set(names) - seen.keys()
        async with asyncio.timeout(PATIENCE_S):
            while left:
                self._changed.clear()
                await self._changed.wait()
                left -= seen.keys()


async def ungate(api: Api, namespace: str, name: str) -> None:
    """Take the gate off a pod, if it is there: the bare write that admission comes down to."""
    gates = "/spec/schedulingGates"
    body = [
        {"op": "test", "path": gates, "value": [{"name": ADMISSION_GATE}]},
        {"op": "remove", "path": gates},
    ]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    await api.call("PATCH", path, body, kind="application/json-patch+json")
