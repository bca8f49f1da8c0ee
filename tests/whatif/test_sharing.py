"""Fair sharing, played: two teams, a cohort with quota of its own, shares decide who gives way."""

from pathlib import Path

import pytest

from podgroup.policy import Policy
from tests.whatif.files import HEAD
from tests.whatif.logs import log_of
from tests.whatif.test_trace import what_if

FLAVOR = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: lab}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]
"""
TEAM = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: TEAM}
spec:
  cohortName: lab
  fairSharing: {weight: WEIGHT}
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 2}]}]
"""
LINE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: TEAM}
spec: {clusterQueue: TEAM}
"""
JOBS = (
    HEAD
    + "".join(f"{n},1000,2,red/lq,0,red,1\n" for n in range(4))
    + "".join(f"{100 + n},1000,2,blue/lq,0,blue,1\n" for n in range(4))
)
"""Red takes all eight cores with four groups of two, then blue comes with four of its own."""
SHARES = Policy(fair_sharing=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    objects, trace, to = (tmp_path / name for name in ("q.yaml", "jobs.csv", "log.jsonl.gz"))
    both = (TEAM.replace("WEIGHT", "1") + LINE).replace("TEAM", "{0}")
    objects.write_text(FLAVOR + "".join(both.replace("{0}", team) for team in ("red", "blue")))
    trace.write_text(JOBS)
    log_of(trace, objects, to, SHARES)
    return to


def test_shares_decide_in_a_play_as_they_did(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blue comes to half of what is shared: two of red's groups give way, no more."""
    found = what_if(capsys, log, "--since", "2000-01-01")
    calibration = found["calibration"]
    assert calibration["both"] == calibration["in_order"] == 8
    assert calibration["only_then"] == calibration["only_now"] == calibration["p99_s"] == 0
    assert found["then"]["preempted"] == found["same"]["preempted"] == {"red": 2}


def test_another_weight_is_another_share(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blue weighs more than red: it comes to three of four groups, as nominal quota allows."""
    change = tmp_path / "weight.yaml"
    change.write_text(TEAM.replace("WEIGHT", "100").replace("TEAM", "blue")[4:])
    found = what_if(capsys, log, "--since", "2000-01-01", "--change", change)
    assert found["then"]["preempted"] == {"red": 2}
    assert found["what_if"]["preempted"] == {"red": 3}

    def blue(play: str) -> float:
        return sum(r["total_s"] for r in found[play]["waits"] if r["queue"] == "blue")

    assert blue("what_if") < blue("then")
