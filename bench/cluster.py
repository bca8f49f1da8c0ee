"""A user of a cluster: makes gated pods and sees, through a watch, when their gate is gone."""

import asyncio
import contextlib
import time
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from podgroup.names import ADMISSION_GATE, MANAGED_LABEL, POD_FINALIZER
from tests.support.processes import Api, pod

PATIENCE_S = 60.0


def gated(name: str, group: str = "", total: int = 0, script: str = "") -> dict[str, Any]:
    """A pod as admission leaves it; the webhook's own time is no part of these figures."""
    body = pod(name, group, total, script=script)
    body["metadata"]["labels"][MANAGED_LABEL] = "true"
    body["metadata"]["finalizers"] = [POD_FINALIZER]
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


class _Meta(Struct, frozen=True):
    name: str = ""
    finalizers: tuple[str, ...] = ()


class _Spec(Struct, frozen=True):
    gates: tuple[Raw, ...] = field(name="schedulingGates", default=())


class _Pod(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _Line(Struct, frozen=True):
    object: _Pod


# Whoever looks runs on the same cores: it should take as little of them as it can.
_lines = msgspec.json.Decoder(_Line)


class Eyes:
    """A watch on the pods of a namespace: when each was first seen ungated, and let go."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"{api.url}/api/v1/namespaces/{namespace}/pods"
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.ungated: dict[str, float] = {}
        self.let_go: dict[str, float] = {}

    async def __aenter__(self) -> "Eyes":
        """Begin to watch."""
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0.1)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        params = {"watch": "1", "resourceVersion": "0"}
        async with self._api.http.get(self._path, params=params, timeout=None) as answer:
            async for line in answer.content:
                now = time.perf_counter()
                found = _lines.decode(line).object
                name = found.metadata.name
                if not found.spec.gates:
                    self.ungated.setdefault(name, now)
                if not found.metadata.finalizers:
                    self.let_go.setdefault(name, now)
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
