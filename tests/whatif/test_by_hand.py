"""Changes whose outcome is known by hand, on queues of two teams that share a cohort or do not."""

from pathlib import Path

import pytest

from tests.whatif.files import HEAD, jobs, queues
from tests.whatif.test_trace import what_if

TWO = """apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: f}
"""
TEAM = """---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: TEAM}
spec:
  COHORT
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: f
      resources: [{name: cpu, nominalQuota: CPU}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: lq, namespace: TEAM}
spec: {clusterQueue: TEAM}
"""
REDS = HEAD + "".join("0,100,1,red/lq,0,red,1\n" for _ in range(8)) + "0,100,1,blue/lq,0,blue,1\n"
"""Eight jobs of red and one of blue, all at once, 100 s and a core each."""


def teams(folder: Path, red: int, blue: int, cohort: str = "") -> Path:
    path = folder / "teams.yaml"
    told = f"cohort: {cohort}" if cohort else ""
    path.write_text(
        TWO
        + "".join(
            TEAM.replace("TEAM", team).replace("CPU", str(cpu)).replace("COHORT", told)
            for team, cpu in (("red", red), ("blue", blue))
        )
    )
    return path


def total(found: dict, play: str, queue: str) -> float:
    return sum(row["total_s"] for row in found[play]["waits"] if row["queue"] == queue)


def test_twice_the_quota(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten jobs of 100 s, two at a time: 2 x (0 + 100 + 200 + 300 + 400) s; four at a time: less."""
    given = ("--trace", jobs(tmp_path), "--objects", queues(tmp_path, 2))
    found = what_if(capsys, *given, "--set", "clusterqueue/research:cpu=4")
    assert total(found, "then", "research") == 2000
    assert total(found, "what_if", "research") == 4 * 100 + 2 * 200


def test_quota_of_one_team_moved_to_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red waits 2 x (100 + 200 + 300) s on two cores; with one of blue's three 100 and 200 s."""
    given = ("--trace", jobs(tmp_path, REDS), "--objects", teams(tmp_path, 2, 3))
    move = ("--set", "clusterqueue/red:cpu=3", "--set", "clusterqueue/blue:cpu=2")
    found = what_if(capsys, *given, *move)
    assert total(found, "then", "red") == 1200
    assert total(found, "what_if", "red") == 3 * 100 + 2 * 200
    assert total(found, "then", "blue") == total(found, "what_if", "blue") == 0


def test_a_cohort_borrows_and_lends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Red takes blue's two idle cores as well: four at a time and a fifth when blue has ended."""
    given = ("--trace", jobs(tmp_path, REDS), "--objects", teams(tmp_path, 2, 3))
    both = ("--set", "clusterqueue/red:cohort=all", "--set", "clusterqueue/blue:cohort=all")
    found = what_if(capsys, *given, *both)
    assert total(found, "what_if", "red") == 4 * 100
    then, other = (
        {row["queue"]: row for row in found[play]["quota"]} for play in ("then", "what_if")
    )
    assert then["red"]["borrowed_hours"] == then["blue"]["lent_hours"] == 0
    hours = 2 * 2 * 100 / 3600
    assert other["red"]["borrowed_hours"] == pytest.approx(hours, abs=1e-5)
    assert other["blue"]["lent_hours"] == pytest.approx(hours, abs=1e-5)
    for row in (*then.values(), *other.values()):
        nominal = row["used_hours"] - row["borrowed_hours"] + row["idle_hours"]
        assert nominal == pytest.approx(row["nominal_hours"], abs=1e-5)
