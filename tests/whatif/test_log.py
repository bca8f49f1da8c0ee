"""`gatelog what-if` of a log: nothing changed is what happened, a change what must follow."""

import asyncio
import json
import sqlite3
from array import array
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from gatelog import cli
from gatelog.whatif.arrivals import Arrival
from gatelog.whatif.history import Spread
from gatelog.whatif.trace import Trace
from projector.replay.files import Export, FileLog
from projector.storage.database import reader
from tests.readmodel.stories import Story
from tests.replay.questions import SCOPE, answer, asked
from tests.support.recordings import FOLDER, exported
from tests.whatif.files import HEAD, jobs, queues
from tests.whatif.logs import log_of, log_of_toy
from tests.whatif.test_trace import refused, what_if

GOLDEN = Path(__file__).parents[1] / "golden"


def mixed(count: int = 80, seed: int = 5) -> str:
    """Jobs of one to four pods of two teams, now and then one that preempts."""
    random = Random(seed)
    return HEAD + "".join(
        f"{n * 15 + random.randint(0, 9)},{random.randint(20, 200)},{random.choice([1, 1, 2, 4])},"
        f"team-a/lq,{random.choice([0, 0, 0, 5])},{random.choice(['red', 'blue'])},1\n"
        for n in range(count)
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("past")
    to = folder / "past.jsonl.gz"
    assert log_of(jobs(folder, mixed()), queues(folder, 10), to) > 1000
    return to


def test_with_nothing_changed_it_comes_to_what_happened(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = what_if(capsys, log, "--since", "2000-01-01")
    calibration = found["calibration"]
    assert calibration["both"] == calibration["in_order"] >= 75
    assert calibration["only_then"] == calibration["only_now"] == 0
    assert calibration["p50_s"] == calibration["p99_s"] == 0
    assert found["then"]["preempted"]["research"] > 1
    for part in ("waits", "waits_by_team", "quota", "preempted"):
        assert found["same"][part] == found["then"][part]
    assert "what_if" not in found


def test_what_a_busy_actuator_takes_is_played_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quota is held from the decision on: who is let in late keeps others waiting as long."""
    log = tmp_path / "late.jsonl.gz"
    text = mixed(40).replace(",5,red", ",0,red").replace(",5,blue", ",0,blue")
    log_of(jobs(tmp_path, text), queues(tmp_path, 6), log, lags_s=(3.5,))
    found = what_if(capsys, log, "--since", "2000-01-01")
    calibration = found["calibration"]
    assert found["then"]["waits"][0]["total_s"] > 100
    assert calibration["both"] == calibration["in_order"] == 40
    assert calibration["p50_s"] == calibration["p99_s"] == 0


def reproduced(found: dict[str, Any]) -> None:
    """The four figures of each queue: same groups, 99 % in order, waits to 2 %, quota to 1 %."""
    for one in found["calibration"]["queues"]:
        assert one["only_then"] == one["only_now"] == 0, one
        assert one["in_order"] >= 0.99 * one["both"] > 0, one
        assert one["wait_s"] == pytest.approx(one["wait_then_s"], rel=0.02, abs=1), one
        assert one["used_off"] <= 0.01, one


def test_victims_of_a_busy_actuator_come_again_as_they_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who is evicted before its gate was off is not stopped, and keeps its place."""
    log = tmp_path / "late.jsonl.gz"
    log_of(jobs(tmp_path, mixed(150, 7)), queues(tmp_path, 10), log, lags_s=(3.5,))
    found = what_if(capsys, log, "--since", "2000-01-01")
    assert found["then"]["preempted"]["research"] > 30
    assert found["same"]["preempted"] == found["then"]["preempted"]
    reproduced(found)
    assert found["calibration"]["trust"].endswith("of quota used beyond 1 %")


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 23])
def test_what_users_delete_is_deleted_again(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pods and Workloads, in cohorts, with victims that take long to stop, and an open end.

    In story 5, with compatibility=kueue, some are admitted, evicted and admitted on one message; in
    23 one ends by itself while it is being asked to stop.
    """
    log = tmp_path / "story.jsonl.gz"
    story = Story(seed)
    (*_, toy) = story.moments(150)
    log_of_toy(toy, log)
    assert any(command.reason == "WorkloadDeleted" for command in toy.decisions)
    found = what_if(capsys, log, "--since", "2000-01-01")
    assert sum(found["then"]["preempted"].values()) > 1
    reproduced(found)
    assert found["same"]["preempted"] == found["then"]["preempted"]


def test_who_ends_while_it_is_asked_to_stop_ends_so_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each pod is stopped as late as it was then, those too that had ended by that time."""
    log = tmp_path / "late.jsonl.gz"
    lags = (0.5, 0.5, 0.5, 25.0, 0.5)
    log_of(jobs(tmp_path, mixed(100, 5)), queues(tmp_path, 6), log, lags_s=lags)
    found = what_if(capsys, log, "--since", "2000-01-01")
    assert found["same"]["preempted"] == found["then"]["preempted"]
    reproduced(found)


class _Uneven(Trace):
    """Jobs of which the second pod runs twice as long as the first, the third three times."""

    def arrivals(self) -> Iterator[Arrival]:
        for number, one in enumerate(super().arrivals(), 1):
            yield replace(one, life=replace(one.life, run_s=one.life.run_s * number))


def test_what_pods_give_back_that_end_before_their_group_was_given_back_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three pods of a core run 100, 200 and 300 s: 600 core-seconds are used and not 900."""
    source = _Uneven(jobs(tmp_path, HEAD + "0,100,3,team-a/lq,0,red,1\n"))
    log = tmp_path / "uneven.jsonl.gz"
    log_of(source, queues(tmp_path, 10), log)
    found = what_if(capsys, log, "--since", "2000-01-01")
    assert found["same"]["quota"] == found["then"]["quota"]
    assert found["then"]["quota"][0]["used_hours"] == pytest.approx(600 / 3600, abs=1e-6)


@pytest.mark.parametrize("preempts", [False, True])
def test_of_a_log_follows_what_follows_of_its_trace(
    preempts: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log knows all that the trace knows: of a victim from what came in its place."""
    text = "".join(
        line.replace(",5,red", f",{5 * preempts},red").replace(",5,blue", f",{5 * preempts},blue")
        + "\n"
        for line in mixed(40).splitlines()
    )
    trace, there = jobs(tmp_path, text), queues(tmp_path, 6)
    log = tmp_path / "past.jsonl.gz"
    log_of(trace, there, log)
    change = ("--set", "clusterqueue/research:cpu=9")
    of_log = what_if(capsys, log, "--since", "2000-01-01", *change)
    of_trace = what_if(capsys, "--trace", trace, "--objects", there, *change)
    assert bool(of_log["then"]["preempted"]) is preempts
    assert of_log["then"]["waits"] == of_trace["then"]["waits"]
    assert of_log["what_if"]["waits"] == of_trace["what_if"]["waits"]
    assert of_log["what_if"]["preempted"] == of_trace["what_if"]["preempted"]
    total = "total_s"
    assert of_log["what_if"]["waits"][0][total] < of_log["then"]["waits"][0][total]
    if not preempts:  # who comes again is a new group, of another id in each
        assert of_log["moved"]["gain_most"] == of_trace["moved"]["gain_most"]


@pytest.mark.parametrize(
    "change, preempted, core_s, waits_s",
    [
        ("clusterqueue/research:cpu=4", 0, 310, 0),
        ("workloadpriorityclass/priority-5:value=5", 1, 330, 60),
    ],
    ids=["admitted", "preempted"],
)
def test_what_is_decided_on_the_message_on_which_a_group_leaves_is_carried_out(
    change: str,
    preempted: int,
    core_s: int,
    waits_s: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Gates come off on it, and who is preempted on it stops, and comes again.

    On two cores of 100 s from 0 on, of 50 s from 10 on; later on a third is there as it was.
    """
    there = queues(tmp_path, 2)
    named = PRIORITY.replace("NAME", "priority-5").replace("VALUE", "0")
    there.write_text(there.read_text() + named)
    text = "0,100,2,team-a/lq,0,red,1\n10,50,2,team-a/lq,5,blue,1\n200,10,1,team-a/lq,0,red,1\n"
    log = tmp_path / "past.jsonl.gz"
    log_of(jobs(tmp_path, HEAD + text), there, log)
    found = what_if(capsys, log, "--since", "2000-01-01", "--set", change)
    assert found["then"]["quota"][0]["used_hours"] == pytest.approx(310 / 3600, abs=1e-3)
    assert [one["name"] for one in found["record"]["departures"][:1]] == ["team-a/job-3"]
    assert sum(found["what_if"]["preempted"].values()) == preempted
    assert found["what_if"]["quota"][0]["used_hours"] == pytest.approx(core_s / 3600, abs=1e-3)
    total_s = sum(one["total_s"] for one in found["what_if"]["waits"])
    assert total_s == pytest.approx(waits_s, abs=1), "from its place in the queue"
    assert sum(one["waiting"] for one in found["what_if"]["waits"]) == 0
    assert "team-a/job-4" not in {one["name"] for one in found["record"]["departures"]}


def test_the_alternative_has_a_read_model(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "other.sqlite3"
    change = ("--set", "clusterqueue/research:cpu=400", "--db", database)
    found = what_if(capsys, log, "--since", "2000-01-01", *change)
    (total,) = {row["total_s"] for row in found["what_if"]["waits"]}
    assert total == 0
    assert not found["what_if"]["preempted"]
    with closing(sqlite3.connect(database)) as connection:
        (reported,) = connection.execute("SELECT max(used) FROM usage").fetchone()
        waited, count = connection.execute(
            "SELECT sum(queue_seconds), count(*) FROM v_admission_latency WHERE cluster = 'what-if'"
        ).fetchone()
    engine = reader(f"sqlite:///{database}")
    scope = replace(SCOPE, cluster="what-if", since=datetime(1999, 1, 1, tzinfo=UTC))
    scope = replace(scope, until=datetime(2001, 1, 1, tzinfo=UTC))
    told = [answer(engine, query) for _, query in asked("sqlite", scope)]
    engine.dispose()
    assert sum(said.count("\n") > 1 for said in told) >= 5
    assert reported and reported > 10_000
    assert (waited, count) == (0, sum(row["count"] for row in found["what_if"]["waits"]))
    assert "holds a read model already" in refused(capsys, log, *change)


def test_only_what_is_asked_for_is_counted(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = what_if(capsys, log, "--since", "2000-01-01")
    part = what_if(capsys, log, "--since", "2000-01-01T00:10:00Z", "--until", "2000-01-01T00:20Z")
    assert part["since"] == "2000-01-01T00:10:00Z"
    shorter = what_if(capsys, log, "--since", "2000-01-01", "--runtime", "0.1")
    both = (shorter["then"]["quota"][0], shorter["what_if"]["quota"][0])
    assert both[0]["nominal_hours"] == pytest.approx(both[1]["nominal_hours"])
    assert both[0]["used_hours"] > 5 * both[1]["used_hours"]
    counts = [sum(row["count"] for row in each["then"]["waits"]) for each in (whole, part)]
    assert 0 < counts[1] < counts[0] / 2
    (quota,) = part["then"]["quota"]
    assert quota["nominal_hours"] == pytest.approx(10 * 10 / 60, rel=0.03)
    assert part["calibration"]["p99_s"] == 0


def test_a_golden_log_comes_to_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    """Every story of `gatelog demo`, with outcomes that took their time and a preemption."""
    found = what_if(capsys, GOLDEN / "v1" / "demo.jsonl.gz", "--since", "2020-01-01")
    calibration = found["calibration"]
    assert calibration["both"] >= 8
    assert calibration["both"] == calibration["in_order"]
    assert calibration["only_then"] == calibration["only_now"] == 0
    assert calibration["p99_s"] < 0.5
    assert found["same"]["preempted"] == found["then"]["preempted"]


def test_what_a_person_deactivates_waits_as_long_as_it_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """U7. An hour until a user activates it again; before, a play went on as if nothing were."""
    name = "eviction-rows-a-group-that-a-person-deactivated-is-kept.jsonl.gz"
    found = what_if(capsys, GOLDEN / "v1" / name, "--since", "2020-01-01")
    (queue,) = found["calibration"]["queues"]
    assert queue["wait_then_s"] > 3600
    assert queue["wait_s"] == pytest.approx(queue["wait_then_s"], abs=0.5)
    assert queue["used_off"] < 0.05


def test_a_kept_log_with_cohorts_and_shares_comes_to_what_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Borrowing over two levels, and all three reasons to give way."""
    log, database = GOLDEN / "v1" / "sharing.jsonl.gz", tmp_path / "same.sqlite3"
    found = what_if(capsys, log, "--since", "2000-01-01", "--db", database)
    calibration = found["calibration"]
    assert calibration["both"] == calibration["in_order"] > 40
    assert calibration["only_then"] == calibration["only_now"] == calibration["p99_s"] == 0
    assert found["same"] == found["then"]
    borrowed = {row["queue"] for row in found["then"]["quota"] if row["borrowed_hours"] > 0}
    assert borrowed == {"red", "blue", "green"}
    with closing(sqlite3.connect(database)) as connection:
        reasons = connection.execute("SELECT DISTINCT policy FROM preemptions ORDER BY 1")
        assert [reason for (reason,) in reasons] == [
            "InClusterQueue",
            "InCohortFairSharing",
            "InCohortReclamation",
        ]


RECORDED = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: lab-flavor}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq-NAME}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: lab-flavor, resources: [{name: cpu, nominalQuota: 10}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: NAME}
spec: {clusterQueue: cq-NAME}
"""
"""What the namespace of a recording had of queues: recordings do not say it."""


def test_a_recording_of_a_real_control_plane_comes_to_about_what_kueue_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two groups of ten cores on ten: the second starts when the first has ended."""
    recording = exported(FOLDER / "queue_full_then_admitted.jsonl.gz", tmp_path / "log.jsonl.gz")
    objects = tmp_path / "queues.yaml"
    objects.write_text(RECORDED.replace("NAME", "t-queue-full-then-admitted-c4ff"))
    given = ("--since", "2020-01-01", "--objects", objects)
    twice = ("--set", "clusterqueue/cq-t-queue-full-then-admitted-c4ff:cpu=20")
    found = what_if(capsys, recording, *given, *twice)
    calibration = found["calibration"]
    assert calibration["both"] == calibration["in_order"] == 2
    assert calibration["only_then"] == calibration["only_now"] == 0
    assert calibration["p99_s"] < 2
    (waits,) = found["what_if"]["waits"]
    assert (waits["count"], waits["total_s"]) == (2, 0)
    assert "no ClusterQueue" in refused(capsys, recording, *given[:2], *twice)
    assert "--objects goes with --trace or FILE" in refused(capsys, *given)


PRIORITY = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: NAME}
value: VALUE
"""


@pytest.mark.parametrize(
    "name, namespace, cores, groups, preempted",
    [
        ("preempted_and_resumed", "t-preempted-and-resumed-53e1", 10, 2, 1),
        ("busy_namespace", "t-busy-namespace-0e5a", 20, 25, 1),
    ],
)
def test_recordings_with_priorities_come_to_about_what_kueue_did(
    name: str,
    namespace: str,
    cores: int,
    groups: int,
    preempted: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Kueue took some tenths of a second for what a play does at once; so the order is not all."""
    objects = tmp_path / "queues.yaml"
    text = RECORDED.replace("NAME", namespace).replace("Quota: 10", f"Quota: {cores}")
    text = text.replace("{}\n", "{}\n  preemption: {withinClusterQueue: LowerPriority}\n")
    for each, value in (("low", 1), ("high", 100)):
        text += PRIORITY.replace("NAME", each).replace("VALUE", str(value))
    objects.write_text(text)
    recording = exported(FOLDER / f"{name}.jsonl.gz", tmp_path / "log.jsonl.gz")
    found = what_if(capsys, recording, "--since", "2020-01-01", "--objects", objects)
    calibration = found["calibration"]
    assert (calibration["both"], calibration["only_then"]) == (groups, 0)
    assert calibration["in_order"] >= 0.85 * groups
    assert calibration["p50_s"] < 0.2
    assert calibration["p99_s"] < 5
    assert sum(found["then"]["preempted"].values()) == preempted


def busy(folder: Path) -> tuple[str | Path, ...]:
    """Return the words that ask of a recording of Kueue with priorities and its queues."""
    objects = folder / "queues.yaml"
    text = RECORDED.replace("NAME", BUSY).replace("Quota: 10", "Quota: 20")
    text = text.replace("{}\n", "{}\n  preemption: {withinClusterQueue: LowerPriority}\n")
    for each, value in (("low", 1), ("high", 100)):
        text += PRIORITY.replace("NAME", each).replace("VALUE", str(value))
    objects.write_text(text)
    recording = exported(FOLDER / "busy_namespace.jsonl.gz", folder / "log.jsonl.gz")
    return recording, "--since", "2020-01-01", "--objects", objects


BUSY = "t-busy-namespace-0e5a"


def test_a_long_log_of_kueue_is_measured_in_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where gatelog's own decisions are compared, and played for that as they were, too."""
    words = (*busy(tmp_path), "--set", f"clusterqueue/cq-{BUSY}:cpu=30")
    whole = what_if(capsys, *words, "--calibrate", 0)
    part = what_if(capsys, *words, "--calibrate", 250)
    assert part["what_if"] == whole["what_if"]
    assert 0 < part["calibration"]["both"] < whole["calibration"]["both"] / 1.5
    assert part["calibration"]["until"] < part["until"] == whole["calibration"]["until"]
    assert part["record"]["follows"] is False
    assert cli.run(["what-if", *map(str, words), "--calibrate", "250"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("calibration, with nothing changed, up to 2026-")
    assert lines[2].split()[:3] == ["queue", "admitted", "again"]
    assert any(line.startswith("  trust a difference of waits beyond ") for line in lines[3:7])


def test_people_are_told_first_who_leaves_the_record(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["what-if", str(log), "--since", "2000-01-01", "--set", "clusterqueue/research:cpu=20"]
    assert cli.run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    left = what_if(capsys, *words[1:])["record"]
    assert left["follows"] and 0 < left["left"] < left["groups"]
    first = left["departures"][0]
    assert lines[1] == (
        f"{left['left']} of {left['groups']} groups leave the record, the first at "
        f"2000-01-01 {first['at'][11:19]}; the others are as they were"
    )
    assert lines[2] == f"  {first['at'][11:19]} {first['name']}: {first['because']}"
    assert lines[12] == f"  ... and {left['left'] - 10} more (--json: all)"
    assert any("were stopped by gatelog" in line for line in lines[13:18])


@pytest.mark.parametrize(
    "words, said",
    [
        (["--since", "someday"], "--since someday: give a span like 7d"),
        (["--trace", "x.csv"], "leave FILE, --since and --until out"),
        (["--runtime", "0"], "--runtime 0: give a factor above 0"),
        (["--set", "clusterqueue/none:cpu=1"], "no ClusterQueue none; there is research"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], said: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, log, *words)


def test_of_a_later_epoch_it_is_said_that_something_was_before(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = tmp_path / "later.jsonl.gz"

    async def copy() -> None:
        found = FileLog(log)
        with Export(later, replace(found.header, epoch=2)) as export:
            async for entry in found.entries():
                export.add(entry)

    asyncio.run(copy())

    def told(path: Path, since: str) -> list[str]:
        said = what_if(capsys, path, "--since", since)["cannot_know"]
        return [text for text in said if "epoch" in text]

    (text,) = told(later, "1999-12-01")
    assert text.startswith("the log begins with epoch 2, 2000-01-01 00:00 UTC: what was before")
    assert told(log, "1999-12-01") == told(later, "2000-01-01T00:10:00Z") == []


def test_json_is_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["what-if", str(log), "--since", "1d", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(found)[:3] == ["record", "calibration", "cannot_know"]
    assert found["record"]["follows"] and found["record"]["departures"] == []


def test_what_is_drawn_is_spread_as_what_was_seen() -> None:
    """By the middle one a group of many pods would stop, and come again, sooner than groups did."""
    spread = Spread(array("d", (1.0, 2.0, 9.0)))
    drawn = [spread.drawn(f"stop pod-{number}") for number in range(3000)]
    assert drawn == [spread.drawn(f"stop pod-{number}") for number in range(3000)]
    assert all(900 < drawn.count(seen) < 1100 for seen in spread.spans)
    assert {spread.drawn(f"pod-{number}", 1.0) for number in range(100)} == {2.0, 9.0}
    assert spread.drawn("pod", 9.0) is None
    assert Spread().drawn("pod") is None
