"""A day of three teams that share: a tree of cohorts, weights, priorities, and who gives way.

Invariant: the same each time.
"""

from random import Random

from podgroup.model.policy import Policy

POLICY = Policy(fair_sharing=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))
_FLAVORS = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: steady}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: lab}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 6}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: science}
spec: {parentName: lab, fairSharing: {weight: 2}}
"""
_TEAM = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: TEAM}
spec:
  cohortName: COHORT
  fairSharing: {weight: WEIGHT}
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: steady, resources: [{name: cpu, nominalQuota: 2}]}
    - {name: spot, resources: [{name: cpu, nominalQuota: 2, borrowingLimit: 8}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: TEAM}
spec: {clusterQueue: TEAM}
"""
_TEAMS = (("red", "science", "1"), ("blue", "science", "3"), ("green", "lab", "1"))


def objects() -> str:
    """Return the queues as YAML."""
    teams = (
        _TEAM.replace("TEAM", team).replace("COHORT", cohort).replace("WEIGHT", weight)
        for team, cohort, weight in _TEAMS
    )
    return _FLAVORS + "".join(teams)


def jobs(count: int = 36) -> str:
    """Return the jobs as CSV: green comes first and takes all, then the others."""
    random = Random(11)
    lines = ["submit,runtime,size,queue,priority,team,cpu"]
    for number in range(count):
        team = "green" if number < count // 4 else random.choice(("red", "blue", "green"))
        priority = 100 if random.random() < 0.15 else 0
        lines.append(
            f"{number * 20},{random.randint(60, 400)},{random.choice((1, 1, 2))},{team}/lq,"
            f"{priority},{team},{random.choice((1, 1, 2))}"
        )
    return "\n".join(lines) + "\n"
