"""Fair sharing, played: two teams, a cohort with quota of its own, shares decide who gives way."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from podgroup.model.policy import Policy
from tests.whatif.files import HEAD, jobs
from tests.whatif.logs import log_of
from tests.whatif.test_trace import refused, what_if

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


SHARING = f"queueing.fair_sharing={','.join(SHARES.fair_sharing)}"


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    path = tmp_path / "q.yaml"
    both = (TEAM.replace("WEIGHT", "1") + LINE).replace("TEAM", "{0}")
    path.write_text(FLAVOR + "".join(both.replace("{0}", team) for team in ("red", "blue")))
    return path


@pytest.fixture
def log(objects: Path, tmp_path: Path) -> Path:
    to = tmp_path / "log.jsonl.gz"
    log_of(jobs(tmp_path, JOBS), objects, to, SHARES)
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


def test_a_trace_is_played_with_shares(
    objects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a change, and as what the settings say; the same from CSV and from JSON."""
    rows = list(csv.DictReader(JOBS.splitlines()))
    lines = jobs(tmp_path, "\n".join(map(json.dumps, rows)), "jobs.jsonl")
    found = [
        what_if(capsys, "--trace", trace, "--objects", objects, "--set", SHARING)
        for trace in (jobs(tmp_path, JOBS), lines)
    ]
    for one in found:
        assert one["then"]["preempted"] == {"red": 1}  # of what is blue's own
        assert one["what_if"]["preempted"] == {"red": 2}
    assert found[0]["what_if"]["quota"] == found[1]["what_if"]["quota"]
    assert found[0]["what_if"]["waits"] == found[1]["what_if"]["waits"]
    config = tmp_path / "gatelog.toml"
    config.write_text(f"[queueing]\nfair_sharing = {json.dumps(SHARES.fair_sharing)}\n")
    shared = what_if(capsys, "--trace", lines, "--objects", objects, "--config", config)
    assert shared["then"] == found[1]["what_if"]
    said = refused(capsys, "--trace", lines, "--objects", objects, "--set", "nats.url=x")
    assert "write KIND/NAME:FIELD=VALUE, or queueing.SETTING=VALUE" in said


def test_a_log_is_played_with_and_without_shares(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (log, "--since", "2000-01-01", "--set")
    without = what_if(capsys, *given, "queueing.fair_sharing=")
    assert without["then"]["preempted"] == without["same"]["preempted"] == {"red": 2}
    assert without["what_if"]["preempted"] == {"red": 1}
    assert "what_if" not in what_if(capsys, *given, SHARING)


def test_a_queue_that_is_taken_away_leaves_its_quota_to_nobody(
    objects: Path, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red's groups wait for ever; blue runs on what is its own and the cohort's."""
    change = tmp_path / "less.yaml"
    change.write_text("kind: ClusterQueue\nmetadata: {name: red}\n$patch: delete\n")
    of_trace = ("--trace", jobs(tmp_path, JOBS), "--objects", objects)
    for given in ((log, "--since", "2000-01-01"), of_trace):
        found = what_if(capsys, *given, "--change", change)
        (blue,) = (row for row in found["what_if"]["waits"] if row["queue"] == "blue")
        (red,) = (row for row in found["what_if"]["waits"] if row["queue"] != "blue")
        assert (blue["count"], red["count"], red["waiting"]) == (4, 0, 4)
        assert found["what_if"]["preempted"] == {}
        assert {row["queue"] for row in found["then"]["quota"]} == {"red", "blue"}
        assert {row["queue"] for row in found["what_if"]["quota"]} == {"blue"}
    change.write_text("kind: ClusterQueue\nmetadata: {name: rad}\n$patch: delete\n")
    said = refused(capsys, *of_trace, "--change", change)
    assert "ClusterQueue rad cannot be deleted: there is ClusterQueue blue, ClusterQueue" in said
    assert "leave the object out" in refused(capsys, *of_trace[:2], "--objects", change)


def test_what_a_play_borrows_is_in_its_read_model_as_in_its_table(
    objects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queues reported once a minute, so shorter loans were in no row, and others began late."""
    text = HEAD + "".join(f"{100 * n},20,1,red/lq,0,red,5\n" for n in range(6))
    file = tmp_path / "played.sqlite3"
    trace = jobs(tmp_path, text)
    played = what_if(capsys, "--trace", trace, "--objects", objects, "--db", file)
    (wanted,) = (r["borrowed_hours"] for r in played["then"]["quota"] if r["queue"] == "red")
    with closing(sqlite3.connect(file)) as connection:
        query = """SELECT borrowed * (julianday(to_at) - julianday(from_at)) * 24 / 1000, from_at
                     FROM usage WHERE name = 'red' AND borrowed > 0 ORDER BY from_at"""
        loans = connection.execute(query).fetchall()
    assert wanted == pytest.approx(6 * 20 * 3 / 3600, abs=0.01)
    assert sum(hours for hours, _ in loans) == pytest.approx(wanted, abs=0.01)
    assert loans[0][1].startswith("2000-01-01T00:00:0")
