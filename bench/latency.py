"""Latency and requests: three processes of gatelog on the stand-in, seen by a user's watch.

idle        one pod at a time: from the moment its creation is sent until the watch shows it
            without our gate; bare: the same, and the client itself takes the gate off
group       2,000 pods: from the creation of the last until the watch shows all ungated; bare: one
            client takes 2,000 gates off, as many requests at once as the actuator may have
singles     1,000 pods at once, each a group of its own: from the first creation until the watch
            shows all ungated; bare: one client creates them and takes their gates off
requests    what the API server was asked by gatelog from creation to the finished Workload
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import processes
from bench.cluster import (
    AT_ONCE,
    LET_GO,
    PATIENCE_S,
    UNGATED,
    PodWatch,
    gated,
    pods_of,
    together,
    ungate,
)
from bench.figures import Figure, percentile
from tests.support.processes import Api, make_queue

NAMESPACE, BARE = "bench", "bare"
SAMPLES, WARM_UP = 200, 10
GROUP, GROUPS = 2000, 3
LARGE, KNOWN_S = 10_000, 5.0
"""Pods of the group of `behind`, and seconds until those created so far are known."""
AT_ONCE_SINGLES, ROUNDS = 1000, 3
COUNTED = {"single_pod": (20, 0, 0), "group_of_100": (1, 100, 0), "group_of_10": (5, 10, 100)}
"""How many single pods or groups, of how many pods, and how many ms each runs longer than the one
before; 0: all end at once.
"""
PAUSE_S = 0.06
QUIET_S = 1.5
FOREVER, SHORT = "start=2ms,run=forever", "start=2ms,run=20ms,succeed"


@asynccontextmanager
async def gatelog(*namespaces: str) -> AsyncIterator[Api]:
    """Three processes of gatelog on a stand-in of their own, with a queue in each namespace."""
    async with processes.gatelog() as running:
        for namespace in namespaces:
            await make_queue(running.api, namespace, cpu="1000000")
        yield running.api


async def run() -> AsyncIterator[Figure]:
    """All figures of a running gatelog."""
    async with (
        gatelog(NAMESPACE, BARE) as api,
        PodWatch(api, NAMESPACE) as ours,
        PodWatch(api, BARE) as bare,
    ):
        for figure in await idle(api, ours, bare):
            yield figure
        yield await group(api, ours, bare)
        yield await singles(api, ours, bare)
        for figure in await requests(api, ours):
            yield figure


async def create(api: Api, namespace: str, name: str, group: str = "", total: int = 0) -> None:
    """Create a gated pod that runs until it is deleted."""
    body = gated(name, group, total, FOREVER)
    if namespace == BARE:  # gatelog does not see it
        del body["metadata"]["labels"], body["metadata"]["finalizers"]
    await api.call("POST", pods_of(namespace), body)


async def idle(api: Api, queued: PodWatch, bare: PodWatch) -> list[Figure]:
    """One pod at a time, p50 and p99 of `SAMPLES` after `WARM_UP`."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(WARM_UP + SAMPLES):
        for namespace, watch, taken in ((NAMESPACE, queued, ours), (BARE, bare, theirs)):
            name = f"idle-{number}"
            begin = time.perf_counter()
            await create(api, namespace, name)
            if namespace == BARE:
                await ungate(api, namespace, name)
            await watch.until(UNGATED, [name])
            if number >= WARM_UP:
                taken.append((watch.seen[UNGATED][name] - begin) * 1000)
            await asyncio.sleep(PAUSE_S)
    return [
        Figure(
            name=f"latency.idle_pod.p{percent}",
            value=percentile(ours, percent),
            unit="ms",
            limit=percentile(theirs, percent),
            limit_name="one client that creates and ungates",
            target=target,
            samples=SAMPLES,
            note="three processes, every log write synced, SQLite",
        )
        for percent, target in ((50, 12), (99, 15))
    ]


async def group(api: Api, queued: PodWatch, bare: PodWatch) -> Figure:
    """The median of `GROUPS` groups of `GROUP` pods."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(GROUPS):
        names = [f"big{number}-{i:03d}" for i in range(GROUP)]
        for namespace in (NAMESPACE, BARE):
            await together(create(api, namespace, n, f"big{number}", GROUP) for n in names[:-1])
        await asyncio.sleep(1.0)  # the pods created so far are known and decided on
        await create(api, NAMESPACE, names[-1], f"big{number}", GROUP)
        begin = time.perf_counter()
        ours.append(await all_ungated(queued, names, begin))
        await asyncio.sleep(1.0)  # their start is not in the way of the next measurement
        await create(api, BARE, names[-1])
        begin = time.perf_counter()
        await together(ungate(api, BARE, n) for n in names)
        theirs.append(await all_ungated(bare, names, begin))
    limit_name = f"one client that takes {GROUP} gates off, {AT_ONCE} at once"
    return median(f"latency.group_of_{GROUP}", ours, theirs, limit_name)


def median(name: str, ours: list[float], theirs: list[float], limit_name: str) -> Figure:
    """The median of some rounds beside that of the same by hand, in milliseconds."""
    return Figure(
        name=name,
        value=percentile(ours, 50),
        unit="ms",
        limit=percentile(theirs, 50),
        limit_name=limit_name,
        samples=len(ours),
        note="all: " + ", ".join(f"{value:.0f}" for value in ours) + " ms",
    )


async def all_ungated(watch: PodWatch, names: list[str], begin: float) -> float:
    """Wait until all are ungated; milliseconds from `begin` to the last of them."""
    await watch.until(UNGATED, names)
    return (max(watch.seen[UNGATED][name] for name in names) - begin) * 1000


async def singles(api: Api, queued: PodWatch, bare: PodWatch) -> Figure:
    """The median of `ROUNDS` rounds of `AT_ONCE_SINGLES` single pods."""

    async def by_hand(name: str) -> None:
        await create(api, BARE, name)
        await ungate(api, BARE, name)

    ours: list[float] = []
    theirs: list[float] = []
    for number in range(ROUNDS):
        names = [f"many{number}-{i:04d}" for i in range(AT_ONCE_SINGLES)]
        await asyncio.sleep(5.0)  # work of the last round is over
        begin = time.perf_counter()
        await together(create(api, NAMESPACE, name) for name in names)
        ours.append(await all_ungated(queued, names, begin))
        await asyncio.sleep(5.0)
        begin = time.perf_counter()
        await together(by_hand(name) for name in names)
        theirs.append(await all_ungated(bare, names, begin))
    limit_name = f"one client that creates and ungates {AT_ONCE_SINGLES}, {AT_ONCE} at once"
    return median(f"latency.singles_{AT_ONCE_SINGLES}", ours, theirs, limit_name)


async def asked(api: Api) -> Counter[str]:
    """Requests that the API server had so far, by verb and resource.

    Leases are left out: they are renewed per process and time, whatever the pods do.
    """
    found: Counter[str] = Counter()
    for one in (await api.call("GET", "/_sim/stats"))["requests"]:
        if one["resource"] != "leases":
            found[f"{one['verb']} {one['resource']}"] += one["count"]
    return found


async def settled(api: Api) -> Counter[str]:
    """The requests once no more come: Events go out behind all others."""
    before = await asked(api)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await asyncio.sleep(QUIET_S)
            now = await asked(api)
            if now == before:
                return now
            before = now


async def behind() -> AsyncIterator[Figure]:
    """Fairness: a single pod that comes in the same moment as the last of a large group.

    Each round has a gatelog and a group of its own, of pods that run on.
    """
    waited: list[float] = []
    notes: list[str] = []
    for number in range(GROUPS):
        async with gatelog(NAMESPACE) as api, PodWatch(api, NAMESPACE) as watch:
            names = [f"big{number}-{i:05d}" for i in range(LARGE)]
            await create(api, NAMESPACE, "first")
            await watch.until(UNGATED, ["first"])
            await together(create(api, NAMESPACE, n, f"big{number}", LARGE) for n in names[:-1])
            await asyncio.sleep(KNOWN_S)
            begin = time.perf_counter()
            await create(api, NAMESPACE, names[-1], f"big{number}", LARGE)
            await create(api, NAMESPACE, "single")
            waited.append(await all_ungated(watch, ["single"], begin))
            group_ms = await all_ungated(watch, names, begin)
            notes.append(f"{waited[-1]:.0f} ms, the group {group_ms:.0f} ms")
    yield Figure(
        name=f"latency.single_behind_{LARGE}",
        value=percentile(waited, 50),
        unit="ms",
        samples=GROUPS,
        note="; ".join(notes),
    )


async def requests(api: Api, queued: PodWatch) -> list[Figure]:
    """Requests per pod, for single pods and for groups, from creation to the end."""
    figures = []
    for what, (many, size, apart_ms) in COUNTED.items():
        before = await settled(api)
        name, count = what.replace("_", "-"), many * max(size, 1)
        names = [f"{name}-{number}" for number in range(count)]
        for number, pod in enumerate(names):
            group = f"{name}s-{number // size}" if size else ""
            script = f"start=2ms,run={apart_ms * (number % size)}ms,succeed" if apart_ms else SHORT
            body = gated(pod, group, size, script)
            await api.call("POST", pods_of(NAMESPACE), body)
        await queued.until(LET_GO, names)
        used = _without_own(await settled(api) - before, count)
        parts = ", ".join(f"{n / count:.2f} {k}" for k, n in used.most_common())
        figures.append(
            Figure(
                name=f"requests.{what}",
                value=used.total() / count,
                unit="requests/pod",
                limit=2.0,
                limit_name="one patch to ungate, one to take the finalizer off",
                samples=count,
                note=parts,
            )
        )
    return figures


def _without_own(used: Counter[str], count: int) -> Counter[str]:
    own = Counter({"create pods": count, "POST pods": count})
    return Counter({key: n for key, n in (used - own).items() if "_sim" not in key})
