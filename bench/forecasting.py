"""The accuracy of `gatelog forecast`, and its cost.

Theory. A load is made, played in simulated time by the rules that decide live, and written to a
read model as a projector writes it. At intervals `gatelog forecast` reads that read model, as it
would live; in the end every estimate is compared with the actual start. Loads differ in what makes
forecasts hard: widely spread runtimes, priorities that push back, cohorts, a backlog that grows.

Invariant: bounded; the same loads each time.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from bench.figures import Figure
from gatelog.forecast import estimates, refreshing
from gatelog.whatif import scenarios
from gatelog.whatif.arrivals import Scenario
from gatelog.whatif.objects import read_objects, with_namespaces
from gatelog.whatif.playing import Heard, Play
from gatelog.whatif.trace import Trace
from podgroup.state.world import World
from projector import tables
from projector.replay.sink import Sink
from projector.storage.database import writer
from projector.upkeep import migrate

EVERY = timedelta(hours=1)
"""Simulated time between two forecasts."""
WARM = timedelta(hours=6)
"""Simulated time before the first forecast: forecasts need history."""
BUDGET_S = 1.0
"""Processor time of a forecast here; the command takes 20 s by default."""


class Load(Struct, frozen=True):
    """A load: jobs a day of several shapes, on two ClusterQueues."""

    name: str
    hours: float = 18.0
    busy: float = 0.95
    """Part of the quota that jobs ask for in all."""
    spread: float = 0.6
    """Of the logarithm of runtimes, within a team and shape."""
    urgent: float = 0.0
    """Part of jobs of high priority."""
    cohort: bool = False
    preempt: bool = False
    waves: bool = False
    """Jobs come in working hours, and in batches."""
    gangs: bool = False
    """A job in thirty takes three quarters of a queue, all of it at once; the other jobs are small,
    and overtake it.
    """
    warm: timedelta = WARM
    every: timedelta = EVERY


LOADS = (
    Load("steady"),
    Load("wide", spread=1.3),
    Load("priorities", urgent=0.2, preempt=True),
    Load("cohort", cohort=True, urgent=0.1),
    Load("waves", waves=True, spread=0.9),
    Load("overloaded", busy=1.3),
    Load("gangs", hours=7 * 24, busy=0.9, spread=0.8, gangs=True, every=timedelta(hours=4)),
    Load(
        "gangs in the first hours",
        hours=8,
        gangs=True,
        spread=0.8,
        warm=timedelta(minutes=30),
        every=timedelta(minutes=20),
    ),
)
QUOTA = 40
WIDE = 30
"""Pods of a wide job, of one cpu each."""


async def run() -> AsyncIterator[Figure]:
    """Yield figures of every load."""
    for load in LOADS:
        with tempfile.TemporaryDirectory() as folder:
            came = measure(load, Path(folder))
        name = f"forecast.{load.name}"
        note = f"{came.forecasts} forecasts, up to {came.most_waiting} waiting"
        share = round(100 * came.inside, 1)
        yield Figure(name=f"{name}.inside", value=share, unit="%", samples=came.settled, note=note)
        if came.wide:
            share = round(100 * came.wide_inside, 1)
            note = f"{100 * came.wide_unbounded:.0f} % have no upper limit"
            name_of = f"{name}.inside.wide"
            yield Figure(name=name_of, value=share, unit="%", samples=came.wide, note=note)
        yield Figure(
            name=f"{name}.error",
            value=came.error_s,
            unit="s",
            limit=came.plain_s,
            limit_name="mean wait of the last day",
            samples=came.settled,
        )
        yield Figure(name=f"{name}.cost", value=came.longest_s, unit="s CPU", note="the longest")


def queues(load: Load) -> str:
    """Return the objects of a load."""
    text = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: f}\n"
    for team in ("red", "blue"):
        cohort = "  cohort: all\n" if load.cohort else ""
        preemption = "  preemption: {withinClusterQueue: LowerPriority}\n" if load.preempt else ""
        text += f"""---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: {team}}}
spec:
{cohort}{preemption}  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: f
      resources: [{{name: cpu, nominalQuota: {QUOTA}}}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: lq, namespace: {team}}}
spec: {{clusterQueue: {team}}}
"""
    return text


def jobs(load: Load, seed: int = 3) -> str:
    """Return the jobs of a load as CSV."""
    random = Random(seed)
    kinds = [(1, 1, 900.0), (1, 4, 2400.0), (4, 1, 1800.0), (2, 4, 5400.0), (8, 1, 600.0)]
    weights = [8.0, 3.0, 3.0, 1.0, 2.0]
    if load.gangs:
        kinds, weights = [(1, 1, 900.0), (1, 4, 2400.0), (WIDE, 1, 1800.0)], [16.0, 12.0, 1.0]
    mean = sum(
        w * n * c * s * 2.718 ** (load.spread**2 / 2)
        for w, (n, c, s) in zip(weights, kinds, strict=True)
    ) / sum(weights)
    count = int(2 * QUOTA * load.hours * 3600 * load.busy / mean)
    lines = []
    for _ in range(count):
        size, cpu, seconds = random.choices(kinds, weights)[0]
        team = random.choice(("red", "blue"))
        at = random.random() * load.hours * 3600
        if load.waves:
            at = (int(at / 14_400) + random.betavariate(2, 6)) * 14_400
        run = seconds * random.lognormvariate(0, load.spread)
        priority = 100 if random.random() < load.urgent else 0
        lines.append((at, f"{at:.1f},{run:.1f},{size},{team}/lq,{priority},{team},{cpu}"))
    head = "submit,runtime,size,queue,priority,team,cpu\n"
    return head + "\n".join(text for _, text in sorted(lines)) + "\n"


class Came(Struct):
    """The results of a load's estimates."""

    settled: int
    inside: float
    wide: int
    wide_inside: float
    """Of wide jobs alone."""
    wide_unbounded: float
    """Part of the estimates of wide jobs that say no upper limit."""
    error_s: float
    plain_s: float
    longest_s: float
    forecasts: int
    most_waiting: int


def measure(load: Load, folder: Path, seed: int = 3) -> Came:
    """Play a load with forecasts on the way, and return their results."""
    objects, trace = folder / f"{load.name}.yaml", folder / f"{load.name}.csv"
    objects.write_text(queues(load))
    trace.write_text(jobs(load, seed))
    source = Trace(trace)
    found = read_objects([objects])
    found = with_namespaces(found + source.classes(found), source.namespaces)
    url = f"sqlite:///{folder / load.name}.sqlite3"
    migrate.upgrade(url)
    sink = Sink(url, scenarios.CLUSTER, "builtin")  # forecasts read its rows meanwhile
    next_at = source.begin + load.warm
    longest, forecasts, most = 0.0, 0, 0

    def pause(world: World, events: int) -> None:
        nonlocal next_at, longest, forecasts, most
        if world.at is None or world.at < next_at:
            return
        next_at = world.at + load.every
        sink.write(world, world.at, [])
        sink.written()
        begin = time.process_time()
        effort = refreshing.Effort(BUDGET_S)
        made = refreshing.refresh(url, scenarios.CLUSTER, world.at, label="team", effort=effort)
        longest = max(longest, time.process_time() - begin)
        forecasts += 1
        most = max(most, len(made.forecast.estimates)) if made is not None else most

    scenario = Scenario(source=source, objects=found, begin=source.begin)
    play = Play(scenario, Heard(lambda w, d: None, pause, lambda a, e: None))
    end = play.run()
    sink.write(play.world, end, [])
    sink.close()
    return _came(url, end, longest, forecasts, most)


def _came(url: str, end: datetime, longest: float, forecasts: int, most: int) -> Came:
    engine = writer(url)
    table = tables.estimates
    try:
        with engine.begin() as connection:
            estimates.enter_outcomes(connection, scenarios.CLUSTER, end)
            rows = list(connection.execute(sa.select(table)).mappings())
            query = sa.select(tables.groups.c.id).where(tables.groups.c.total_count >= WIDE)
            gangs = set(connection.scalars(query))
    finally:
        engine.dispose()
    came = [row for row in rows if row["came"] == "started" and not row["never"]]
    wide = [row for row in came if row["group_id"] in gangs]
    known = [row for row in came if row["expected_at"] is not None]
    plain = [row for row in known if row["plain_at"] is not None]
    return Came(
        settled=len(came),
        inside=_inside(came),
        wide=len(wide),
        wide_inside=_inside(wide),
        wide_unbounded=_part(row["latest_at"] is None for row in wide),
        error_s=_error(row["expected_at"] - row["came_at"] for row in plain),
        plain_s=_error(row["plain_at"] - row["came_at"] for row in plain),
        longest_s=longest,
        forecasts=forecasts,
        most_waiting=most,
    )


def _inside(rows: list[Any]) -> float:
    return _part(row["came_at"] <= row["latest_at"] for row in rows if row["latest_at"])


def _part(found: Iterator[bool]) -> float:
    all_of = list(found)
    return sum(all_of) / len(all_of) if all_of else 0.0


def _error(spans: Iterator[timedelta]) -> float:
    return median([abs(span.total_seconds()) for span in spans] or [0.0])
