"""Several values of a setting or field, played on jobs whose outcome is known by hand."""

from pathlib import Path

import pytest

from gatelog.shell.errors import UsageFailed
from gatelog.whatif.sweeping import read
from tests.whatif.files import HEAD, jobs, queues
from tests.whatif.test_trace import what_if

OVERTAKEN = HEAD + "0,1000,1,team-a/lq,0,red,1\n100,100,1,team-a/lq,1000,blue,1\n"
"""One core: a job of 1,000 s runs, and after 100 s a more important one of 100 s comes."""


def test_least_run_times_cost_waits_and_save_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 0 s 100 core-seconds are lost, at 600 s six times as many, at 1,000 s none."""
    given = ("--trace", jobs(tmp_path, OVERTAKEN), "--objects", queues(tmp_path, 1))
    found = what_if(capsys, *given, "--sweep", "queueing.least_run_s=0,600,1000")
    assert found["sweep"] == "queueing.least_run_s"
    rows = found["values"]
    assert [row["value"] for row in rows] == ["0", "600", "1000"]
    assert [row["preempted"] for row in rows] == [1, 1, 0]
    lost = [[one["lost"] for one in row["hours"] if one["resource"] == "cpu"] for row in rows]
    assert lost == [[pytest.approx(100 / 3600)], [pytest.approx(600 / 3600)], [0.0]]
    assert rows[0]["waiting"] == 0 and rows[2]["mean_s"] == pytest.approx(450)
    assert rows[1]["longest_s"] >= 500 and rows[2]["longest_s"] == pytest.approx(900)


def test_fields_of_objects_are_swept_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--trace", jobs(tmp_path), "--objects", queues(tmp_path, 2))
    found = what_if(capsys, *given, "--sweep", "clusterqueue/research:cpu=2,5,10")
    assert [row["longest_s"] for row in found["values"]] == [400, 100, 0]


@pytest.mark.parametrize("text", ["queueing.least_run_s", "=1,2", "queueing.least_run_s=5"])
def test_what_is_no_sweep_is_refused_with_what_one_is(text: str) -> None:
    with pytest.raises(UsageFailed, match="write what --set takes with 2 to 20 values"):
        read(text)


def test_values_with_commas_are_separated_by_semicolons() -> None:
    found = read("queueing.least_run_by_reason=InClusterQueue=5,InCohortReclamation=0;a=1")
    assert found.name == "queueing.least_run_by_reason"
    assert found.values == ("InClusterQueue=5,InCohortReclamation=0", "a=1")
