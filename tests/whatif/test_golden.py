"""What-if beside a change that changes nothing comes to what happened, to the last figure.

On every golden log, those of earlier rules too, and on days of a real API server.
"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatelog.whatif import reading, replaying, reporting
from podgroup.engine import due_timers
from podgroup.model.objects import CheckView
from tests.core.test_checks import group, says, with_checks
from tests.golden.rows import logs
from tests.support.recordings import FOLDER, OUTCOMES, exported
from tests.support.toy import Toy
from tests.whatif.logs import log_of_toy
from tests.whatif.test_trace import what_if
from tests.whatif.unchanged import beside_nothing, change, exact, played, read

DAY = next(iter(logs("teams43")))
"""Of a real API server, with 60 preemptions and people who do not always send again."""


@pytest.mark.parametrize("path", logs("v1"), ids=lambda path: path.name.partition(".")[0])
def test_a_golden_log_is_followed_to_its_end(path: Path, tmp_path: Path) -> None:
    """In many today's rules conclude otherwise than those of then: the record holds."""
    past, found = beside_nothing(path, tmp_path)
    if past.mode == "builtin":
        exact(past, found)
    else:
        assert found.departures is None, "what Kueue decided is not followed where gatelog decides"


def test_the_logs_have_something_to_come_to() -> None:
    """Also for the baseline: rules of then that differ from today's."""
    pasts = [read(path) for path in logs("v1")]
    assert sum(len(past.then.starts or ()) for past in pasts) > 100
    assert sum(bool(past.then.starts) for past in pasts) > 35
    builtin = [past for past in pasts if past.mode == "builtin"]
    differing = [asyncio.run(reading.baseline(past, 0)).differing for past in builtin]
    assert sum(map(bool, differing)) == 0, "up to the beginning nothing is asked"
    differing = [asyncio.run(reading.baseline(past, 1 << 60)).differing for past in builtin]
    assert sum(map(bool, differing)) > 15


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_kueue_did_on_a_real_control_plane_is_as_it_was(name: str, tmp_path: Path) -> None:
    log = exported(FOLDER / f"{name}.jsonl.gz", tmp_path / "log.jsonl.gz")
    past, found = played(log, change())
    assert found.departures == [] and found.other is None
    assert found.same is past.then
    assert any("its admissions are as they were" in text for text in found.cannot_know)


def test_a_day_of_a_real_api_server_is_followed_to_its_end(tmp_path: Path) -> None:
    """Before, 220 of 316 came in order, 33 more were admitted, and quota used was 73 % off."""
    past, found = beside_nothing(DAY, tmp_path)
    assert past.then.admissions == 347
    exact(past, found)


@pytest.mark.parametrize(
    "small",
    [
        ("clusterqueue/red:cpu=12",),
        ("clusterqueue/blue:cpu=14", "clusterqueue/green:cohort=site"),
        ("workloadpriorityclass/mid:value=100",),
    ],
)
def test_what_is_set_to_what_it_is_is_no_change(small: tuple[str, ...]) -> None:
    past, found = played(DAY, change(*small))
    assert found.other is None and found.departures == []
    assert found.same is past.then


def test_a_larger_quota_says_in_json_who_left(capsys: pytest.CaptureFixture[str]) -> None:
    change = ("--set", "clusterqueue/red:cpu=20")
    found = what_if(capsys, DAY, "--since", "2020-01-01", *change)
    record = found["record"]
    assert record["follows"] and record["groups"] == 317
    assert 100 < record["left"] == len(record["departures"]) < record["groups"]
    assert record["departures"][0] | {"because": ""} == {
        "group": record["departures"][0]["group"],
        "name": "team-blue/job-14-0",
        "queue": "main",
        "at": record["departures"][0]["at"],
        "position": record["departures"][0]["position"],
        "because": "",
        "concluded": "AdmitGroup",
        "recorded": "",
    }
    assert found["what_if"] != found["then"] == found["same"]


def test_what_differs_leaves_and_says_when_and_why() -> None:
    """Twenty cores in place of twelve: before the first group for which they matter all follow."""
    past, found = played(DAY, change("clusterqueue/red:cpu=20"))
    assert found.departures is not None and found.other is not None
    first = found.departures[0]
    assert first.name == "team-blue/job-14-0"
    assert (first.concluded, first.recorded) == ("AdmitGroup", "")
    assert "fits the quota of ClusterQueue blue" in first.because
    assert 100 < len(found.departures) < past.groups
    assert [one.position for one in found.departures] == sorted(
        one.position for one in found.departures
    )
    then, now = past.then.starts, found.other.starts
    assert then is not None and now is not None
    same = {key for key, start in then.items() if start.at < first.at}
    assert len(same) > 5
    assert all(now[key] == then[key] for key in same)
    left = {one.group for one in found.departures}
    others = then.keys() - left
    assert len(others) > 100
    assert all(now[key].at == then[key].at for key in others), "the others are as they were"


def test_fewer_cores_of_one_cohort_leave_the_other_queues_alone(tmp_path: Path) -> None:
    """What is in no cohort with it follows the record, whatever it is."""
    objects = tmp_path / "apart.yaml"
    objects.write_text("")
    past, found = played(DAY, change("clusterqueue/green:cohort=apart"))
    assert found.departures
    values = reporting.as_values(past.then)
    assert values != reporting.as_values(found.other or past.then)


@pytest.mark.parametrize(
    "other",
    [
        change("workloadpriorityclass/mid:value=2000"),
        change(fair_sharing=("LessThanInitialShare",)),
        change(factor=0.5),
    ],
    ids=["priority", "fair sharing", "run times"],
)
def test_alternatives_of_a_day_end(other: replaying.Change) -> None:
    """Nothing is left in the air: who was admitted in the alternative ends in it, or holds."""
    past, found = played(DAY, other)
    assert found.departures and found.other is not None
    assert found.other.admissions > 300
    used = {key: quota.used for key, quota in found.other.quota.items()}
    for key, quota in past.then.quota.items():
        assert used[key] < 1.5 * quota.used


def after(toy: Toy, seconds: float) -> None:
    """Let time pass, and what falls due in it happen."""
    toy.now += timedelta(seconds=seconds)
    toy.do(*due_timers(toy.world, toy.now))


def with_verdicts(path: Path) -> None:
    """A check agrees after 40 s, wants it again, agrees after 20 s; another group waits for it."""
    toy = with_checks("prov")
    group(toy)
    toy.pod("late", cpu=2)
    after(toy, 40)
    says(toy, "prov", "Ready")
    toy.run("g-a", "g-b")
    after(toy, 10)
    says(toy, "prov", "Retry", requeue_after_s=30)
    for name in ("g-c", "g-d"):
        toy.pod(name, "g", 2)
    after(toy, 31)
    workload = next(w for w in toy.workloads.values() if w.name != "g")
    after(toy, 20)
    toy.put_workload(replace(workload, checks=(CheckView(name="prov", state="Ready"),)))
    toy.settle()
    toy.run("late")
    after(toy, 100)
    toy.end("late")
    after(toy, 5)
    says(toy, "prov", "Ready")
    toy.run("g-c", "g-d")
    after(toy, 50)
    toy.end("g-c", "g-d")
    log_of_toy(toy, path)


def test_checks_agree_when_they_did_then(tmp_path: Path) -> None:
    with_verdicts(log := tmp_path / "log.jsonl.gz")
    past, found = beside_nothing(log, tmp_path)
    assert past.then.admissions == 3
    exact(past, found)


def test_a_check_takes_as_long_where_quota_is_reserved_earlier(tmp_path: Path) -> None:
    with_verdicts(log := tmp_path / "log.jsonl.gz")
    past, found = played(log, change("clusterqueue/cq:cpu=4"))
    waits = [
        next(start.wait_s for start in tally.starts.values() if start.title == "ns/late")
        for tally in (past.then, found.other)
        if tally is not None and tally.starts is not None
    ]
    assert waits[0] > 91
    assert waits[1] == pytest.approx(51, abs=0.5)


def test_with_a_change_gatelog_admits_itself_and_says_so(tmp_path: Path) -> None:
    """The measure beside it is gatelog's own admission, too."""
    log = exported(FOLDER / "preempted_and_resumed.jsonl.gz", tmp_path / "log.jsonl.gz")
    _, found = played(log, change(factor=0.5))
    assert any("what is played is gatelog's own admission" in text for text in found.cannot_know)
    assert found.calibration.only_then > 0, "the recording says nothing of queues"
