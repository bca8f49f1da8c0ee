"""`python -m bench real`: what a pod costs on a cluster that is there already, gatelog on it.

singles     pods at once, each a group of its own, from the first creation until a watch shows all
            without our gate; processor time and requests until their Workloads are there and say so
groups      the same for groups of some sizes
bare        beside each, by turns: as many pods that no queue sees, created and then ungated by this
            client, which is what admission comes down to

Of processes whose ids are given (on this machine) the processor time per pod is told as well; of
the API server, where it lets us read its metrics, the requests per pod, everybody's together.
"""

import argparse
import asyncio
import contextlib
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

from bench.cluster import GATE, UNGATED, PodWatch, WatchFailed, together, ungate
from bench.elsewhere import Cluster, Unusable, trust
from bench.figures import Figure, percentile, printed, show
from bench.processes import cpu_s, machine
from podgroup.model.names import ADMISSION_GATE, GROUP_NAME, GROUP_TOTAL_COUNT, QUEUE_NAME

MOST_PODS = 10_000
"""Pods of one round at most."""
REST_S = 2.0
"""Seconds of rest before each clock starts: nothing of what was before is in it."""
QUIET_S = 1.0
"""Seconds in which no Workload comes any more once all of a round are there."""
_COUNTED = re.compile(r"apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(resource|subresource|verb)="([^"]*)"')
_UNCOUNTED = frozenset({"LIST", "WATCH", "CONNECT"})


class Shape(Struct, frozen=True):
    """Pods to create at once: `groups` of `size` each; single pods where `size` is 0."""

    size: int
    groups: int

    @property
    def pods(self) -> int:
        """How many they are."""
        return max(1, self.size) * self.groups

    @property
    def name(self) -> str:
        """As figures call it."""
        if not self.size:
            return f"singles_{self.groups}"
        return f"groups_of_{self.size}" if self.groups > 1 else f"group_of_{self.size}"


class Taken(Struct, frozen=True):
    """What one round took: seconds, processor milliseconds per pod by process, requests."""

    wall_s: float
    cpu_ms: dict[str, float]
    requests: Counter[str]
    workloads: int
    """Workloads that were made for the pods."""


class Table:
    """The rounds of all shapes on one cluster."""

    def __init__(self, cluster: Cluster, pids: dict[str, int], at_once: int, timeout_s: float):
        self._cluster = cluster
        self._pids = pids
        self._at_once = at_once
        self._timeout_s = timeout_s
        self._rounds = 0

    async def measure(self, shape: Shape, rounds: int) -> list[Figure]:
        """Take some rounds of a shape, bare and through gatelog by turns; medians of both."""
        ours: list[Taken] = []
        bare: list[Taken] = []
        for _ in range(rounds):
            bare.append(await self._round(shape, bare=True))
            ours.append(await self._round(shape, bare=False))
        return list(self._figures(shape, ours, bare))

    async def _round(self, shape: Shape, *, bare: bool) -> Taken:
        self._rounds += 1
        prefix = f"r{self._rounds}"
        names = [f"{prefix}-{number}" for number in range(shape.pods)]
        bodies = [
            body(name, self._cluster.queue, *_place(prefix, shape, number), bare=bare)
            for number, name in enumerate(names)
        ]
        await asyncio.sleep(REST_S)
        async with PodWatch(self._cluster, self._cluster.namespace) as watch:
            requests, cpu = await self._requests(), self._cpu()
            begin = time.perf_counter()
            await together((self._create(one) for one in bodies), self._at_once)
            if bare:
                taken = (ungate(self._cluster, self._cluster.namespace, n, GATE) for n in names)
                await together(taken, self._at_once)
            last = await self._ungated(watch, names)
        now, workloads = (self._cpu(), 0) if bare else await self._written()
        spent = {name: (now[name] - cpu[name]) * 1000 for name in cpu}
        asked = await self._requests() - requests
        await self._cluster.clear()
        per_pod = {name: spent_ms / shape.pods for name, spent_ms in spent.items()}
        return Taken(last - begin, per_pod, asked, workloads)

    async def _ungated(self, watch: PodWatch, names: list[str]) -> float:
        """Wait until all pods have been seen ungated; return when the last was."""
        seen = watch.seen[UNGATED]
        try:
            await watch.until(UNGATED, names, self._timeout_s)
        except WatchFailed as error:
            raise Unusable(str(error)) from error
        except TimeoutError:
            left = set(names) - seen.keys()
            raise Unusable(
                f"{len(left)} of {len(names)} pods still have their gate after "
                f"{self._timeout_s:.0f} s, {min(left)} first: does gatelog run on this cluster, in "
                f"a mode that admits LocalQueue {self._cluster.queue}?"
            ) from None
        return max(seen[name] for name in names)

    async def _written(self) -> tuple[dict[str, float], int]:
        """Wait until Workloads are there and say admitted, and for `QUIET_S` none has come.

        Pods are ungated before what mirrors them is written. Returns the processor time as of when
        the last was seen, and how many they are.
        """
        end = time.monotonic() + self._timeout_s
        seen, cpu = -1, self._cpu()
        while True:
            now = self._cpu()
            count, unwritten = await self._cluster.workloads()
            if count == seen and not unwritten:
                return cpu, count
            if time.monotonic() > end:
                raise Unusable(
                    f"{unwritten} of {count} Workloads do not say Admitted after "
                    f"{self._timeout_s:.0f} s: does gatelog run on this cluster?"
                )
            seen, cpu = (-1 if unwritten else count), now
            await asyncio.sleep(QUIET_S)

    async def _create(self, wanted: dict[str, Any]) -> None:
        gates = await self._cluster.create(wanted)
        if not {ADMISSION_GATE, GATE} & set(gates):
            name = wanted["metadata"]["name"]
            raise Unusable(
                f"pod {self._cluster.namespace}/{name} was created without gate "
                f"{ADMISSION_GATE}: is gatelog's webhook or policy installed, and does it reach "
                "a new namespace?"
            )

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self._pids.items()}

    async def _requests(self) -> Counter[str]:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self._cluster.http.get(self._cluster.url + "/metrics") as answer:
                if answer.status == 200:
                    return requests_of(await answer.text())
        return Counter()

    def _figures(
        self, shape: Shape, ours: Sequence[Taken], bare: Sequence[Taken]
    ) -> Iterable[Figure]:
        def figure(what: str, unit: str, value: Callable[[Taken], float], note: str) -> Figure:
            mine, theirs = list(map(value, ours)), list(map(value, bare))
            return Figure(
                name=f"real.{shape.name}.{what}",
                value=percentile(mine, 50),
                unit=unit,
                limit=percentile(theirs, 50) or None,
                limit_name="one client that creates and ungates",
                samples=len(mine),
                note=note,
            )

        pods = f"{shape.pods} pods, {ours[-1].workloads} Workloads"
        every = ", ".join(f"{taken.wall_s:.2f}" for taken in ours)
        yield figure("wall", "s", lambda taken: taken.wall_s, f"{pods}; all: {every} s")
        for name in self._pids:
            every = ", ".join(f"{taken.cpu_ms[name]:.2f}" for taken in ours)
            note = f"{pods}; all: {every} ms"
            yield figure(f"cpu.{name}", "ms/pod", partial(_cpu_ms, name), note)
        if any(taken.requests for taken in ours):
            last = ours[-1].requests
            note = ", ".join(
                f"{count / shape.pods:.2f} {what}"
                for what, count in last.most_common()
                if count >= shape.pods / 100
            )
            yield figure("requests", "/pod", lambda t: t.requests.total() / shape.pods, note)


def _cpu_ms(name: str, taken: Taken) -> float:
    return taken.cpu_ms[name]


def _place(prefix: str, shape: Shape, number: int) -> tuple[str, int]:
    return (f"{prefix}-g{number // shape.size}", shape.size) if shape.size else ("", 0)


def body(name: str, queue: str, group: str, total: int, *, bare: bool) -> dict[str, Any]:
    """A pod that is bound where there is a scheduler, and whose container never starts."""
    meta: dict[str, Any] = {"name": name}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "none",
                "image": "none.invalid/none",
                "imagePullPolicy": "Never",
                "resources": {"requests": {"cpu": "1m"}},
            }
        ],
    }
    if bare:
        spec["schedulingGates"] = [{"name": GATE}]
    else:
        meta["labels"] = {QUEUE_NAME: queue}
        if group:
            meta["labels"][GROUP_NAME] = group
            meta["annotations"] = {GROUP_TOTAL_COUNT: str(total)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def requests_of(metrics: str) -> Counter[str]:
    """Requests that an API server has counted so far, by verb and resource; no lists or watches.

    Leases are left out: they are renewed by time, whatever pods do.
    """
    found: Counter[str] = Counter()
    for labels, count in _COUNTED.findall(metrics):
        said = dict(_LABEL.findall(labels))
        resource = said.get("resource", "")
        if said.get("verb") in _UNCOUNTED or resource in ("", "leases"):
            continue
        part = f"/{said['subresource']}" if said.get("subresource") else ""
        found[f"{said.get('verb', '')} {resource}{part}"] += int(float(count))
    return found


def shapes(singles: int, groups: str) -> list[Shape]:
    """Read what is asked for: `groups` is SIZExCOUNT, separated by commas.

    Raises:
        Unusable: it says something else, or asks for more than `MOST_PODS` at once.
    """
    found = [Shape(0, singles)] if singles else []
    for text in filter(None, groups.split(",")):
        match = re.fullmatch(r"([0-9]+)(?:x([0-9]+))?", text.strip())
        if match is None or not int(match[1]) or match[2] == "0":
            raise Unusable(f"--groups: {text!r} is not SIZE or SIZExCOUNT, such as 10x100")
        found.append(Shape(int(match[1]), int(match[2] or 1)))
    for shape in found:
        if shape.pods > MOST_PODS or shape.groups < 0:
            raise Unusable(f"{shape.name}: {shape.pods} pods at once, at most {MOST_PODS}")
    return found


def pids_of(text: str) -> dict[str, int]:
    """Read NAME=PID, separated by commas.

    Raises:
        Unusable: it says something else, or no such process is there.
    """
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if not name or not number.isdigit() or not Path(f"/proc/{number}").exists():
            raise Unusable(f"--pids: {part!r} is not NAME=PID of a process on this machine")
        found[name] = int(number)
    return found


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench real",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--server", required=True, help="https://host:port of the API server")
    parser.add_argument("--token", default="", help="bearer token; seen by others in `ps`")
    parser.add_argument("--token-file", default="", help="file with the bearer token")
    parser.add_argument("--ca", default="", help="CA bundle (PEM) of the server's certificate")
    parser.add_argument("--cert", default="", help="client certificate (PEM)")
    parser.add_argument("--key", default="", help="its key (PEM)")
    parser.add_argument("--insecure", action="store_true", help="believe any certificate")
    parser.add_argument("--pids", default="", help="api=PID,gatelog=PID: whose time to tell")
    parser.add_argument("--singles", type=int, default=500, help="single pods; 0: none")
    parser.add_argument("--groups", default="10x100,500,2000", help="SIZExCOUNT, ...")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each; medians are told")
    parser.add_argument("--at-once", type=int, default=20, help="requests of ours at once")
    parser.add_argument("--timeout-s", type=float, default=300, help="seconds for one round")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace) -> AsyncIterator[Figure]:
    """Measure every shape that is asked for; whatever happens, leave nothing behind.

    Raises:
        Unusable: the cluster, or an option, does not allow it.
    """
    wanted, pids = shapes(options.singles, options.groups), pids_of(options.pids)
    token = options.token
    if options.token_file:
        try:
            token = Path(options.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Unusable(f"--token-file: {error}") from error
    tls = trust(options.ca, options.cert, options.key, options.insecure)
    async with Cluster(options.server, token, tls) as cluster:
        try:
            await cluster.claim()
            at_once = max(1, min(options.at_once, 200))
            rounds = max(1, options.rounds)
            table = Table(cluster, pids, at_once, options.timeout_s)
            for shape in wanted:
                for figure in await table.measure(shape, rounds):
                    yield figure
        finally:
            await cluster.release()


async def _print(options: argparse.Namespace) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    show(await printed(run(options), machine()))


def main(arguments: Sequence[str]) -> int:
    """Measure; 2 when the cluster does not allow it."""
    try:
        asyncio.run(_print(_options(arguments)))
    except Unusable as error:
        first = error.__context__
        for one in (first, error) if isinstance(first, Unusable) else (error,):
            sys.stderr.write(f"bench real: {one}\n")
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("bench real: stopped; nothing is left behind\n")
        return 130
    return 0
