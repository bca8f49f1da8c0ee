"""What a hostile namespace costs a calm one: from creation to ungated, alone and beside each act.

tolerations 12 pods with 4,500 tolerations each, which the API server compares quadratically at
            each update; they come, are let start, and are deleted, again and again
churn       2,000 pods created and deleted in a loop
toggles     5,000 changes of label kueue.x-k8s.io/managed, off and on, of ten pods
waiting     1,000 single pods that find no quota
evictions   200 pods that run and are evicted at once by `stopPolicy: HoldAndDrain`

Beside each sample a bare pod is created and ungated by the client itself: what the API server gets
slower. On the stand-in, or on the cluster that GATELOG_TEST_KUBECONFIG names (an administrator's).
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any

import aiohttp
from msgspec import Struct

from bench import processes
from bench.cluster import GATE, PATIENCE_S, UNGATED, PodWatch, pods_of, together, ungate
from bench.figures import Figure, percentile
from podgroup.model.names import MANAGED_LABEL
from tests.support import realcluster
from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.stack import running_stack

SAMPLES, WARM_UP = 150, 10
PAUSE_S = 0.05
LONGEST_S = 30.0
"""Seconds after which no further sample is taken; one that never comes counts as a minute. As long
an act has to be gone, so that all ends in a few minutes."""
HEAD_START_S = 1.0
"""Seconds that an act has run before the first sample is taken."""
PER_S, SCRIPT_AT_ONCE = 100, 20
"""Requests of the hostile namespace per second and at once: what one script does without effort.
More would measure whose two cores these are."""
SLOW_PODS, TOLERATIONS = 12, 4_500
CHURN, TOGGLES, TOGGLED, WAITING, EVICTED = 2_000, 5_000, 10, 1_000, 200
MORE_THAN_THERE_IS = "2000"
_STRATEGIC = "application/strategic-merge-patch+json"


class Hostile:
    """A tenant with rights in a namespace of its own, and its acts. Each runs until cancelled."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        self._path = pods_of(namespace)
        self._made = 0

    async def tolerations(self) -> None:
        """Have pods let start that are slow to update, and delete them."""
        many = [
            {"key": f"k{n}", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
            for n in range(TOLERATIONS)
        ]
        while True:
            names = [await self._create(tolerations=many) for _ in range(SLOW_PODS)]
            await asyncio.sleep(3.0)
            await _paced(map(self._delete, names))

    async def churn(self) -> None:
        """Create and delete."""

        async def come_and_go() -> None:
            await self._delete(await self._create())

        while True:
            await _paced(come_and_go() for _ in range(CHURN))

    async def toggles(self) -> None:
        """Take pods out of sight and put them back."""
        names = [await self._create(script="run=50ms,succeed") for _ in range(TOGGLED)]
        await asyncio.sleep(HEAD_START_S)  # what has ended is its owner's to label

        async def toggle(number: int) -> None:
            value = None if number // TOGGLED % 2 == 0 else "true"
            body = {"metadata": {"labels": {MANAGED_LABEL: value}}}
            await self._patch(names[number % TOGGLED], body)

        while True:
            await _paced(toggle(number) for number in range(TOGGLES))

    async def waiting(self) -> None:
        """Ask for more than there is."""
        await _paced(self._create(cpu=MORE_THAN_THERE_IS) for _ in range(WAITING))
        await asyncio.Event().wait()

    async def evictions(self) -> None:
        """Have running pods evicted, all at once, and again."""
        queue = f"{KUEUE}/clusterqueues/cq-{self.namespace}"
        await _paced(self._create() for _ in range(EVICTED))
        while True:
            for policy in ("HoldAndDrain", "None"):
                await asyncio.sleep(2.0)
                await self._api.merge(queue, {"spec": {"stopPolicy": policy}}, ok=())
            await _paced(self._create() for _ in range(EVICTED))

    async def leave(self) -> None:
        """Delete what is there."""
        body = {"gracePeriodSeconds": 0}
        with contextlib.suppress(AssertionError):
            await self._api.merge(
                f"{KUEUE}/clusterqueues/cq-{self.namespace}", {"spec": {"stopPolicy": "None"}}
            )
        await self._api.call("DELETE", self._path, body, ok=())

    async def _create(self, *, cpu: str = "1m", script: str = "run=forever", **spec: Any) -> str:
        self._made += 1
        name = f"h-{self._made}"
        body = pod(name, cpu=cpu, script=script)
        body["spec"] |= spec
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            await self._api.call("POST", self._path, body, ok=())  # refused is not in the way
        return name

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            body = {"gracePeriodSeconds": 0}
            await self._api.call("DELETE", f"{self._path}/{name}", body, ok=())

    async def _patch(self, name: str, body: Any) -> None:
        await self._api.call("PATCH", f"{self._path}/{name}", body, kind=_STRATEGIC, ok=())


ACTS: dict[str, Callable[[Hostile], Awaitable[None]]] = {
    "tolerations": Hostile.tolerations,
    "churn": Hostile.churn,
    "toggles": Hostile.toggles,
    "waiting": Hostile.waiting,
    "evictions": Hostile.evictions,
}


class Taken(Struct):
    """Milliseconds from creation to ungated, and of a bare pod that the client ungates."""

    queued: list[float]
    bare: list[float]


class Tenant:
    """A user with one pod at a time, and one beside that no queue sees."""

    def __init__(self, api: Api, namespace: str, bare: str) -> None:
        self._api = api
        self._namespace = namespace
        self._bare = bare
        self._watch = PodWatch(api, namespace)
        self._bare_watch = PodWatch(api, bare)
        self._made = 0

    async def __aenter__(self) -> "Tenant":
        """Begin to watch."""
        await self._watch.__aenter__()
        await self._bare_watch.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop watching."""
        await self._bare_watch.__aexit__(*exc)
        await self._watch.__aexit__(*exc)

    async def sample(self, count: int) -> Taken:
        """Create pods one after the other; each is deleted when it was seen without its gate."""
        taken, end = Taken([], []), time.monotonic() + LONGEST_S
        for _ in range(count):
            if time.monotonic() > end:
                break
            taken.queued.append(await self._one(self._namespace, self._watch))
            taken.bare.append(await self._one(self._bare, self._bare_watch))
            await asyncio.sleep(PAUSE_S)
        return taken

    async def _one(self, namespace: str, watch: PodWatch) -> float:
        self._made += 1
        name, path = f"calm-{self._made}", pods_of(namespace)
        body = pod(name, cpu="1m", script="run=forever")
        if namespace == self._bare:
            del body["metadata"]["labels"]
            body["spec"]["schedulingGates"] = [{"name": GATE}]
        begin = time.perf_counter()
        while (await self._api.call("POST", path, body, ok=())).get("kind") != "Pod":
            if time.perf_counter() - begin > PATIENCE_S:
                return PATIENCE_S * 1000
        if namespace == self._bare:
            with contextlib.suppress(AssertionError):
                await ungate(self._api, namespace, name, GATE)
        with contextlib.suppress(TimeoutError):
            await watch.until(UNGATED, [name])
        took_s = watch.seen[UNGATED].get(name, begin + PATIENCE_S) - begin
        await self._api.call("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0}, ok=())
        return took_s * 1000


async def _paced(work: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Do all of it as one script does."""
    await together(work, SCRIPT_AT_ONCE, PER_S)


async def run() -> AsyncIterator[Figure]:
    """The calm tenant alone, then beside each act; a gatelog of its own for all."""
    real = realcluster.kubeconfig() is not None
    with processes.folder() as place:
        # The stand-in reads policies in Python, which would be most of what is measured.
        stack = running_stack(place, install="policy" if real else "webhook")
        started = await asyncio.to_thread(stack.__enter__)
        try:
            async with started.api() as api:
                async for figure in _all(api, "real" if real else "standin"):
                    yield figure
        finally:
            await asyncio.to_thread(stack.__exit__, None, None, None)


async def _all(api: Api, where: str) -> AsyncIterator[Figure]:
    mark = secrets.token_hex(3)
    calm, bare = f"calm-{mark}", f"bare-{mark}"
    for namespace in (calm, bare):
        await make_queue(api, namespace, cpu="1000000")
    async with Tenant(api, calm, bare) as tenant:
        await tenant.sample(WARM_UP)
        alone = await tenant.sample(SAMPLES)
        for act, perform in ACTS.items():
            hostile = Hostile(api, f"hostile-{act}-{mark}")
            await make_queue(api, hostile.namespace, cpu="1000")
            beside = await _beside(tenant, hostile, perform)
            for figure in _figures(f"isolation.{where}.{act}", alone, beside):
                yield figure
            await _until_quiet(api, hostile)
    for namespace in (calm, bare):
        await api.call("DELETE", pods_of(namespace), ok=())


async def _beside(
    tenant: Tenant, hostile: Hostile, act: Callable[[Hostile], Awaitable[None]]
) -> Taken:
    async def perform() -> None:
        await act(hostile)

    work: Coroutine[Any, Any, None] = perform()
    task = asyncio.create_task(work)
    try:
        await asyncio.sleep(HEAD_START_S)
        taken = await tenant.sample(SAMPLES)
        if task.done():
            task.result()
        return taken
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until_quiet(api: Api, hostile: Hostile) -> None:
    """Let go of what the act made, for `LONGEST_S` at most; what is left is slow for itself."""
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        await hostile.leave()
        if not await api.pods(hostile.namespace):
            return
        await asyncio.sleep(1.0)


def _figures(name: str, alone: Taken, beside: Taken) -> list[Figure]:
    return [
        Figure(
            name=f"{name}.p{percent}",
            value=percentile(beside.queued, percent),
            unit="ms",
            limit=percentile(alone.queued, percent),
            limit_name="the calm tenant alone",
            samples=len(beside.queued),
            note=f"a bare pod: {percentile(beside.bare, percent):.0f} ms, alone "
            f"{percentile(alone.bare, percent):.0f} ms; slower by "
            f"{percentile(beside.queued, percent) / percentile(alone.queued, percent):.1f}, it by "
            f"{percentile(beside.bare, percent) / percentile(alone.bare, percent):.1f}",
        )
        for percent in (50, 99)
    ]
