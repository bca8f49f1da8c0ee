"""`python -m bench.soak`: mixed load on three processes of gatelog, and whether anything grew.

nats-server, the stand-in cluster and gatelog's ingest, project and actuate run as processes on
loopback, with SQLite. Users make jobs at a steady rate (`users`); every few seconds memory, open
files, unacknowledged messages and open work are sampled (`growth`). At the end all jobs are seen
through, and nothing may be left: no pod, no finalizer, no message.

Each namespace has quota for a third of the pods that there are at most: some jobs wait for others,
and none for ever.

Invariant: bounded: it runs the minutes it was asked for, a few more to see the end, and stops.
"""

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench import processes
from bench.cluster import PodWatch
from bench.soak import growth
from bench.soak.growth import Judged, Sample
from bench.soak.users import URGENT, Load, Users
from runtime import eventloop
from runtime.jetstream import Bus, connect
from tests.support.processes import GATELOG, KUEUE, Api, Child, make_queue

RESULTS = Path(__file__).parents[1] / "soak.json"
NAMESPACES = ["team-a", "team-b", "team-c"]
DRAIN_S = 180.0
EXPORT_S = 900.0
TELL_S = 30.0
"""Seconds between two lines on how it goes."""
EVENT_TTL_S = 60
"""Seconds the stand-in keeps Kubernetes Events, so that its own memory has a bound in an hour."""


class Soak:
    """The running processes, and the samples taken."""

    def __init__(self, running: processes.Running, bus: Bus) -> None:
        self.running = running
        self.samples: list[Sample] = []
        self.begin = time.monotonic()
        self._bus = bus
        self._pids = {each.name: each.process.pid for each in running.parts if each.process}
        self._pids["nats-server"] = running.server.pid or 0

    async def ready(self) -> None:
        """Wait until the actuator has its consumer, the last thing to come up."""
        async with asyncio.timeout(60):
            while True:
                if await self._bus.taken("DECISIONS", "actuator-bench") is not None:
                    return
                await asyncio.sleep(0.2)

    async def unacknowledged(self) -> dict[str, float]:
        """Decisions delivered and not settled, and not delivered yet."""
        found = await self._bus.taken("DECISIONS", "actuator-bench")
        assert found is not None
        return {"messages unacknowledged": float(found.held), "messages": float(found.waiting)}

    async def sample(self, users: Users) -> None:
        """Take one sample."""
        values: dict[str, float] = {"jobs under way": float(users.under_way)}
        for name, pid in self._pids.items():
            values |= growth.of_process(name, pid)
        values |= await self.unacknowledged()
        self.samples.append(Sample(round(time.monotonic() - self.begin, 1), values))


async def _left(api: Api) -> dict[str, int]:
    """Return what is left: pods, finalizers of ours on them, Workloads."""
    pods = (await api.call("GET", "/api/v1/pods"))["items"]
    path = "/apis/kueue.x-k8s.io/v1beta2/workloads"
    workloads = (await api.call("GET", path))["items"]
    held = sum(bool(pod["metadata"].get("finalizers")) for pod in pods)
    return {"pods": len(pods), "finalizers": held, "workloads": len(workloads)}


async def _run(minutes: float, load: Load, every_s: float, export: Path | None) -> dict[str, Any]:
    seconds = minutes * 60
    async with processes.gatelog("--event-ttl", str(EVENT_TTL_S)) as running:
        bus = await connect(running.server.settings(), "soak", deadline_s=20)
        for namespace in NAMESPACES:
            await make_queue(running.api, namespace, cpu=str(load.cpu))
        body = {"metadata": {"name": URGENT}, "value": 1000}
        body |= {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        await running.api.call("POST", f"{KUEUE}/workloadpriorityclasses", body, ok=(201,))
        soak = Soak(running, bus)
        await soak.ready()
        found = await _soak(soak, running.api, seconds, load, every_s)
        await bus.close()
        if export is not None:
            for name, words in (("log.jsonl.gz", []), ("days", ["--format=parquet"])):
                place = running.place
                await _gatelog(place, running.env, "export", str(export / name), *words)
            found["database_bytes"] = running.database.stat().st_size
        return found


async def _gatelog(place: Path, env: dict[str, str], *words: str) -> None:
    """Run a command to its end."""
    child = Child(words[0], [GATELOG, *words], env, place)
    child.start()
    assert child.process is not None
    try:
        assert await asyncio.to_thread(child.process.wait, EXPORT_S) == 0, child.tail()
    finally:
        child.stop()


async def _soak(
    soak: Soak,
    api: Api,
    seconds: float,
    load: Load,
    every_s: float,
) -> dict[str, Any]:
    async with PodWatch(api) as watch:
        users = Users(api, watch, NAMESPACES, load)
        working = asyncio.create_task(users.work(seconds))
        # Work in progress is equal at each of the three, so it makes no difference.
        thirds: list[tuple[dict[str, int], int]] = []
        start, began, cpu = time.perf_counter(), time.monotonic(), soak.running.cpu_s()
        told = began
        while not working.done():
            await asyncio.wait([working], timeout=every_s)
            await soak.sample(users)
            if time.monotonic() - told >= TELL_S:
                told = time.monotonic()
                _tell(soak, users, seconds)
            if working.done() or time.monotonic() - began >= seconds * (len(thirds) + 1) / 3:
                rows = await asyncio.to_thread(growth.rows, soak.running.database)
                thirds.append((rows, users.counts["pods"]))
        await working
        loaded_s = time.monotonic() - began
        used = {name: soak.running.cpu_s()[name] - at for name, at in cpu.items()}
        await users.finish(DRAIN_S)
        await asyncio.sleep(3)
        left = await _left(api)
        left |= {k: int(v) for k, v in (await soak.unacknowledged()).items()}
        rows = await asyncio.to_thread(growth.rows, soak.running.database)
        pods = users.counts["pods"]
        judged = growth.judge(soak.samples)
        judged += growth.per_pod(*thirds[-3:]) if len(thirds) >= 3 else []
        early = users.waits(start, start + seconds / 2)
        late = users.waits(start + seconds / 2, start + seconds)
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": processes.machine(),
            "seconds": round(loaded_s, 1),
            "pods": pods,
            "pods_per_s": round(pods / loaded_s, 1),
            "asked_pods_per_s": load.pods_per_s,
            "urgent": load.urgent,
            "held_back_s": round(users.held_back_s, 1),
            "seed": load.seed,
            "jobs": dict(sorted(users.counts.items())),
            "wait_ms": {"first half": early, "second half": late},
            "cpu_ms_per_pod": {k: round(v / pods * 1000, 3) for k, v in used.items()},
            "rows": rows,
            "left": left,
            "stuck": users.stuck,
            "ended_early": [child.name for child in soak.running.parts if not child.running],
            "measures": judged,
        }


def _tell(soak: Soak, users: Users, seconds: float) -> None:
    last = soak.samples[-1]
    memory = ", ".join(
        f"{name.removesuffix(' memory')} {value:.0f} MB"
        for name, value in last.values.items()
        if name.endswith(" memory")
    )
    sys.stderr.write(
        f"soak: {last.at_s:.0f} of {seconds:.0f} s, {users.counts['pods']} pods, "
        f"{users.under_way} jobs under way; {memory}\n"
    )
    sys.stderr.flush()


def _show(found: dict[str, Any], console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("measure", "early", "late", "allowed", "unit", ""):
        justify = "left" if name in ("measure", "unit", "") else "right"
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for one in found["measures"]:
        verdict = "[green]ok[/]" if one.good else "[red]grew[/]"
        cells = (f"{value:,g}" for value in (one.early, one.late, one.allowed))
        table.add_row(one.name, *cells, one.unit, verdict)
    console.print(table)
    for name in (
        "seconds",
        "pods",
        "pods_per_s",
        "held_back_s",
        "jobs",
        "wait_ms",
        "cpu_ms_per_pod",
        "left",
    ):
        console.print(f"{name}: {found[name]}", highlight=False)
    if found["stuck"] or found["ended_early"]:
        console.print(f"stuck: {found['stuck']}; ended early: {found['ended_early']}", style="red")


def wrong(found: dict[str, Any]) -> list[str]:
    """Return the failed judgements, in words."""
    measures: list[Judged] = found["measures"]
    said = [f"{m.name}: {m.early} then {m.late}" for m in measures if not m.good]
    said += [f"{count} {what} left" for what, count in found["left"].items() if count]
    said += [f"stuck: {job}" for job in found["stuck"]]
    said += [f"{name} ended early" for name in found["ended_early"]]
    return said


def main() -> int:
    """Run, print, keep; exit code 1 if something grew or was left."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=200, help="pods a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--urgent", type=float, default=0, help="part of jobs that preempt others")
    parser.add_argument("--longest", type=float, default=2.0, help="seconds that a pod runs")
    parser.add_argument("--quota", type=int, default=0, help="cores of a namespace")
    parser.add_argument("--every", type=float, default=10, help="seconds between samples")
    parser.add_argument("--keep", type=Path, default=RESULTS, help="where the summary is kept")
    parser.add_argument(
        "--export", type=Path, help="existing folder for the log, to be played, and as Parquet"
    )
    asked = parser.parse_args()
    load = Load(asked.rate, asked.seed, asked.urgent, asked.longest, asked.quota)
    found = eventloop.run(_run(asked.minutes, load, asked.every, asked.export))
    _show(found, Console(width=None if sys.stdout.isatty() else 140))
    asked.keep.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    said = wrong(found)
    sys.stdout.write("".join(f"soak: {line}\n" for line in said) or "soak: nothing grew\n")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
