"""Days of three teams with storms, with and without reserved starts: `python -m bench.stormy 1 2`.

Theory. Three ClusterQueues of one cohort, of which one is StrictFIFO; jobs of one pod up to all of
their queue's quota, some urgent, a quarter without a bound on running, the others with a generous
bound. Each day, drawn from its seed, is played by `gatelog what-if --trace` twice; the result is
read from the play's read model.

`python -m bench.stormy plain` writes another day for that command: one queue, no priorities.

Invariant: the same seed gives the same jobs.
"""

import csv
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HOURS, JOBS_A_MINUTE = 24, 0.36
STORM_EVERY_S, STORM_S = 21_600, 5_400
QUEUES = (("red", 12, "BestEffortFIFO"), ("blue", 8, "BestEffortFIFO"), ("green", 6, "StrictFIFO"))
BOUND = "label:kueue.x-k8s.io/max-exec-time-seconds"
SIZES = ("1 pod", "2-3", "5", "whole")
_QUEUE = """
---
apiVersion: v1
kind: Namespace
metadata: {{name: team-{name}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: site
  queueingStrategy: {strategy}
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: "{cpu}"}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: main, namespace: team-{name}}}
spec: {{clusterQueue: {name}}}
"""
_FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: default}"
_WAITS = """
SELECT g.total_count, coalesce(min(a.admitted_at), (SELECT at FROM v_clock)) AS until, a.queued_at,
       g.queued_at
  FROM groups g LEFT JOIN admissions a ON a.cluster = g.cluster AND a.group_id = g.id
 WHERE g.queued_at IS NOT NULL OR a.queued_at IS NOT NULL
 GROUP BY g.id
"""
_HOURS = "(julianday(coalesce(to_at, (SELECT at FROM v_clock))) - julianday(from_at)) * 24"


def write(seed: int, jobs: Path, objects: Path) -> None:
    """Write the jobs of a day, and the queues."""
    draw, at = random.Random(seed), 0.0
    with jobs.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["submit", "runtime", "size", "queue", "priority", "team", "cpu", BOUND])
        while at < HOURS * 3600:
            storm = at % STORM_EVERY_S < STORM_S
            at += draw.expovariate(JOBS_A_MINUTE / 60 * (2.5 if storm else 0.6))
            team = draw.choices(["red", "blue", "green"], [5, 4, 3])[0]
            priority = draw.choices([0, 100, 1000], [7, 2, 1.5])[0]
            whole = next(cpu for name, cpu, _ in QUEUES if name == team)
            size = draw.choices([1, 2, 3, 5, whole], [8, 4, 3, 2, 0.7])[0]
            cpu = draw.choice([1, 1, 1, 2, 3]) if size < 5 else 1
            runs_s = min(7200.0, 60 * draw.lognormvariate(2.2, 0.9))
            bound = "" if draw.random() < 0.25 else int(runs_s * draw.choice([1.2, 2, 4])) + 60
            row = [f"{at:.1f}", f"{runs_s:.0f}", size, f"team-{team}/main", priority, team, cpu]
            out.writerow([*row, bound])
    queues = [_QUEUE.format(name=name, cpu=cpu, strategy=how) for name, cpu, how in QUEUES]
    objects.write_text(_FLAVOR + "".join(queues))


def write_plain(jobs: Path, objects: Path) -> None:
    """Write twelve hours of one queue without priorities: small jobs, and six that fill it."""
    draw, at = random.Random(7), 0.0
    rows: list[tuple[float, float, int, int]] = [
        (hour * 3600.0 + 600, 1200.0, 12, 1) for hour in range(0, 12, 2)
    ]
    while at < 12 * 3600:
        at += draw.expovariate(1 / 150)
        runs_s = min(3600.0, 60 * draw.lognormvariate(2.2, 0.6))
        rows.append((at, runs_s, 1, draw.choice([1, 1, 2, 3])))
    with jobs.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["submit", "runtime", "size", "queue", "priority", "cpu", BOUND])
        for at, runs_s, size, cpu in sorted(rows):
            bound = int(runs_s * draw.choice([1.2, 2])) + 60
            out.writerow([f"{at:.0f}", f"{runs_s:.0f}", size, "team-red/main", 0, cpu, bound])
    queue = _QUEUE.format(name="red", cpu=12, strategy="BestEffortFIFO")
    objects.write_text(_FLAVOR + queue)


def play(seed: int, longest_wait_s: int, folder: Path) -> Path:
    """Play a day, and return its read model."""
    jobs, objects = folder / f"{seed}.csv", folder / "queues.yaml"
    write(seed, jobs, objects)
    made = folder / f"{seed}-{longest_wait_s}.sqlite3"
    command = [sys.executable, "-m", "gatelog", "what-if", "--trace", str(jobs)]
    subprocess.run(
        [*command, "--objects", str(objects), "--db", f"sqlite:///{made}"],
        env={**os.environ, "GATELOG_QUEUEING_LONGEST_WAIT_S": str(longest_wait_s)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return made


def measured(path: Path) -> dict[str, float]:
    """Return hours: the longest wait until a first start, mean waits by size, idle quota."""
    model = sqlite3.connect(path)
    waits: dict[str, list[float]] = defaultdict(list)
    for size, until, first, last in model.execute(_WAITS):
        (hours,) = model.execute(
            "SELECT (julianday(?) - julianday(?)) * 24", (until, first or last)
        ).fetchone()
        waits[{1: "1 pod", 2: "2-3", 3: "2-3", 5: "5"}.get(size, "whole")].append(hours)
    (idle,) = model.execute(
        f"SELECT sum((nominal - reserved) / 1000.0 * {_HOURS}) FROM usage "
        "WHERE kind = 'ClusterQueue'"
    ).fetchone()
    (kept,) = model.execute(
        f"SELECT coalesce(sum(amount / 1000.0 * {_HOURS}), 0) FROM v_reserved_idle"
    ).fetchone()
    (starts,) = model.execute(
        "SELECT count(DISTINCT group_id) FROM reserved_starts WHERE ended = 'Admitted'"
    ).fetchone()
    model.close()
    means = {name: sum(found) / len(found) for name, found in waits.items()}
    longest = {f"longest {name}": max(waits.get(name, [0.0])) for name in SIZES}
    by_size = {f"mean {name}": means.get(name, 0.0) for name in SIZES}
    return {**longest, **by_size, "idle": idle, "kept": kept, "starts": starts}


def main(seeds: list[int]) -> None:
    """Print a line for each day and setting."""
    with tempfile.TemporaryDirectory() as place:
        for seed in seeds:
            for longest_wait_s in (0, 3600):
                found = measured(play(seed, longest_wait_s, Path(place)))
                values = " | ".join(f"{name} {value:.2f}" for name, value in found.items())
                print(f"day {seed} | longest_wait_s {longest_wait_s} | {values}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["plain"]:
        write_plain(Path("plain.csv"), Path("plain.yaml"))
    else:
        main([int(one) for one in sys.argv[1:]])
