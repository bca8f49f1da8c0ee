"""A stormy day of three teams as a trace for `gatelog what-if`: `python -m bench.storm SEED DIR`.

Theory. Red and blue (BestEffortFIFO) and green (StrictFIFO) share a cohort of 26 cores and 104 GiB,
borrow, and preempt by priority. Jobs of one to eight pods come at random for a day and ask for
about all of the quota; one in seven is urgent. A day is drawn from its seed, so that every setting
is tried on the same jobs.

Invariant: a seed gives the same files everywhere.
"""

import csv
import random
import sys
from pathlib import Path
from typing import Final

DAY_S: Final = 24 * 3600
JOBS: Final = 400
TEAMS: Final = {"red": (12, 5), "blue": (8, 4), "green": (6, 3)}
"""Cores, and how often a job is of the team."""
FIELDS: Final = ("submit", "runtime", "size", "queue", "priority", "team", "cpu", "memory")

_CLASSES: Final = {"low": (0, 7), "mid": (100, 2), "urgent": (1000, 1.5)}
_QUEUE: Final = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: site
  queueingStrategy: {strategy}
  namespaceSelector: {{}}
  preemption:
    withinClusterQueue: LowerPriority
    reclaimWithinCohort: Any
    borrowWithinCohort: {{policy: LowerPriority, maxPriorityThreshold: 100}}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: default
      resources:
      - {{name: cpu, nominalQuota: {cores}}}
      - {{name: memory, nominalQuota: {memory}Gi}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: main, namespace: team-{name}}}
spec: {{clusterQueue: {name}}}
"""
_CLASS: Final = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {{name: {name}}}
value: {value}
"""
_HEAD: Final = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
"""


def jobs(seed: int) -> list[dict[str, object]]:
    """Return the jobs of a day, as rows of a trace, by time."""
    draw = random.Random(seed)
    found: list[dict[str, object]] = []
    for at in sorted(draw.uniform(0, DAY_S) for _ in range(JOBS)):
        team = draw.choices(list(TEAMS), [often for _, often in TEAMS.values()])[0]
        priority = draw.choices(list(_CLASSES), [often for _, often in _CLASSES.values()])[0]
        size = draw.choices([1, 2, 3, 5, 8], [8, 4, 3, 2, 1])[0]
        cpu = draw.choice([1, 1, 1, 2, 3]) if size < 5 else 1
        runtime = min(4 * 3600, 240 * draw.lognormvariate(1.6, 0.9))
        values = (round(at, 1), round(runtime, 1), size, f"team-{team}/main", priority, team)
        found.append(dict(zip(FIELDS, (*values, cpu, f"{cpu}Gi"), strict=True)))
    return found


def queues() -> str:
    """Return the queues that the teams have, as YAML."""
    text = _HEAD
    for name, (cores, _) in TEAMS.items():
        strategy = "StrictFIFO" if name == "green" else "BestEffortFIFO"
        text += _QUEUE.format(name=name, strategy=strategy, cores=cores, memory=4 * cores)
    for name, (value, _) in _CLASSES.items():
        text += _CLASS.format(name=name, value=value)
    return text


def main(arguments: list[str]) -> None:
    """Write jobs.csv and queues.yaml of a day into a directory."""
    seed, directory = int(arguments[0]), Path(arguments[1])
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "jobs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(jobs(seed))
    (directory / "queues.yaml").write_text(queues())


if __name__ == "__main__":
    main(sys.argv[1:])
