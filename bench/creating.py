"""How many pods a second an API server creates: with the policies, past them, and without them.

queued      pods of a group that never gets all its pods: they get their gate, and that is all
plain       pods that no queue sees: policies are asked, and let them pass
outside     pods that name a queue where no policy looks, in a namespace that is left out of them

By turns, in one run; each pod has a gate, so that nothing is placed on a node.

Invariant: pods outside of our namespace bear its name, and are gone at the end.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from bench.cluster import pods_of, together
from bench.elsewhere import Cluster, Unusable
from bench.figures import Figure, percentile
from bench.processes import cpu_s
from podgroup.model.names import ADMISSION_GATE

REST_S = 2.0
"""Seconds of rest before each clock starts."""
QUEUED, PLAIN, OUTSIDE = "queued", "plain", "outside"


class Made(Struct, frozen=True):
    """What it took to create some pods: how many a second, processor milliseconds per pod."""

    per_s: float
    cpu_ms: Mapping[str, float]


class Load(NamedTuple):
    """How many pods are created a round, how often, and how many at a time."""

    pods: int
    rounds: int
    at_once: int


async def creating(
    cluster: Cluster,
    bodies: Callable[[str], Mapping[str, Mapping[str, Any]]],
    outside: str,
    load: Load,
    pids: Mapping[str, int],
) -> AsyncIterator[Figure]:
    """Create pods of every kind by turns; medians of the rounds.

    `bodies` has them by kind, without names, for the name of a group; `outside` is the namespace
    for pods of that kind.

    Raises:
        Unusable: a pod could not be created, or policies are where they should not be or reverse.
    """
    pods, rounds, at_once = load
    found: dict[str, list[Made]] = {}
    for number in range(rounds):
        for kind, body in bodies(f"creates{number}").items():
            names = [f"{cluster.namespace}-{kind}{number}-{one}" for one in range(pods)]
            where = outside if kind == OUTSIDE else cluster.namespace
            await asyncio.sleep(REST_S)
            try:
                made = await _create(cluster, where, names, (kind, body), at_once, pids)
            finally:
                if kind == OUTSIDE:
                    await together((_remove(cluster, where, name) for name in names), at_once)
            found.setdefault(kind, []).append(made)
            await cluster.clear()
    best = found.get(OUTSIDE) or found[PLAIN]
    name = "no policy" if OUTSIDE in found else "pods that no queue sees"
    for kind, rows in found.items():
        every = ", ".join(f"{made.per_s:.0f}" for made in rows)
        yield Figure(
            name=f"real.creates.{kind}",
            value=percentile([made.per_s for made in rows], 50),
            unit="creates/s",
            limit=percentile([made.per_s for made in best], 50),
            limit_name=name,
            samples=rounds,
            note=f"{pods} pods; all: {every}",
        )
        for process in pids:
            yield Figure(
                name=f"real.creates.{kind}.cpu.{process}",
                value=percentile([made.cpu_ms[process] for made in rows], 50),
                unit="ms/pod",
                limit=percentile([made.cpu_ms[process] for made in best], 50) or None,
                limit_name=name,
                samples=rounds,
                note=", ".join(f"{made.cpu_ms[process]:.2f}" for made in rows),
            )


async def _create(
    cluster: Cluster,
    where: str,
    names: list[str],
    what: tuple[str, Mapping[str, Any]],
    at_once: int,
    pids: Mapping[str, int],
) -> Made:
    kind, body = what

    async def one(name: str) -> None:
        meta = {**body["metadata"], "name": name}
        gates = await cluster.create({**body, "metadata": meta}, where)
        if (ADMISSION_GATE in gates) is not (kind == QUEUED):
            raise Unusable(
                f"pod {name}, {kind}, was created with {len(gates)} gates: "
                + ("gatelog does not gate it" if kind == QUEUED else "gatelog gates it, too")
                + "; is --outside a namespace that its webhook or policies leave alone?"
            )

    before, begin = {name: cpu_s(pid) for name, pid in pids.items()}, time.perf_counter()
    await together((one(name) for name in names), at_once)
    took_s = time.perf_counter() - begin
    spent = {name: (cpu_s(pid) - before[name]) * 1000 / len(names) for name, pid in pids.items()}
    return Made(len(names) / took_s, spent)


async def _remove(cluster: Cluster, where: str, name: str) -> None:
    with contextlib.suppress(Unusable):
        await cluster.call("DELETE", f"{pods_of(where)}/{name}?gracePeriodSeconds=0")
