"""`gatelog what-if --trace`: plays whose outcome is known by hand, and what is refused."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gatelog import cli
from gatelog.whatif.arrivals import Arrival, Scenario
from gatelog.whatif.objects import read_objects, with_namespaces
from gatelog.whatif.scenarios import play
from gatelog.whatif.trace import Trace
from tests.whatif.files import HEAD, QUEUES, jobs, queues


def what_if(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert cli.run(["what-if", *map(str, words), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert cli.run(["what-if", *map(str, words)]) in (1, 2)
    return capsys.readouterr().err


def test_memory_is_counted_in_gib_hours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its hours were those of bytes: 6,442,450,944.00 where 6.00 GiB-h are meant."""
    objects = tmp_path / "memory.yaml"
    more = "      - {name: cpu, nominalQuota: 2}\n      - {name: memory, nominalQuota: 8Gi}"
    text = QUEUES.replace("[cpu]", "[cpu, memory]")
    objects.write_text(text.replace("      - {name: cpu, nominalQuota: CPU}", more))
    trace = jobs(tmp_path, "submit,runtime,size,queue,cpu,memory\n0,3600,2,team-a/lq,1,3Gi\n")
    words = ("--trace", trace, "--objects", objects)
    cpu, memory = what_if(capsys, *words)["then"]["quota"]
    assert (cpu["unit"], cpu["used_hours"]) == ("core-h", pytest.approx(2))
    assert (memory["unit"], memory["used_hours"]) == ("GiB-h", pytest.approx(6))
    assert cli.run(["what-if", *map(str, words), "--sweep", "queueing.least_run_s=0,10"]) == 0
    out = capsys.readouterr().out
    assert "idle memory GiB-h" in out and "lost cpu core-h" in out


def test_a_queue_of_two_cores_takes_ten_jobs_two_by_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = what_if(capsys, "--trace", jobs(tmp_path), "--objects", queues(tmp_path))["then"]
    (waits,) = found["waits"]
    assert (waits["queue"], waits["priority"], waits["count"]) == ("research", "0", 10)
    assert (waits["p50_s"], waits["p90_s"], waits["p99_s"]) == (200, 400, 400)
    assert waits["total_s"] == 2 * (0 + 100 + 200 + 300 + 400)
    assert {row["team"]: row["count"] for row in found["waits_by_team"]} == {"red": 5, "blue": 5}
    (quota,) = found["quota"]
    assert quota["used_hours"] == pytest.approx(1000 / 3600, abs=1e-5)
    assert quota["nominal_hours"] == quota["used_hours"]
    assert quota["idle_hours"] == quota["borrowed_hours"] == quota["lent_hours"] == 0
    assert not found["preempted"]


def test_twice_the_quota_halves_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--trace", jobs(tmp_path), "--objects", queues(tmp_path, 2))
    found = what_if(capsys, *files, "--set", "clusterqueue/research:cpu=4")
    (then,), (other,) = found["then"]["waits"], found["what_if"]["waits"]
    assert then["total_s"] == 2000
    assert other["total_s"] == 4 * 0 + 4 * 100 + 2 * 200
    assert found["moved"]["earlier"] == 8
    assert found["moved"]["later"] == 0
    assert found["moved"]["gain_most"][0]["later_s"] == -200
    changed = queues(tmp_path, 4, "changed.yaml")
    by_file = what_if(capsys, *files, "--change", changed)
    assert by_file["what_if"] == found["what_if"]


def test_a_higher_priority_preempts_and_the_victim_runs_again_from_its_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + "0,100,2,team-a/lq,0,red,1\n50,30,1,team-a/lq,5,blue,2\n"
    database = tmp_path / "played.sqlite3"
    found = what_if(
        capsys,
        *("--trace", jobs(tmp_path, text), "--objects", queues(tmp_path), "--db", database),
    )["then"]
    assert found["preempted"] == {"research": 1}
    low, high = found["waits"]
    assert (low["priority"], low["count"]) == ("0", 2)
    assert (high["priority"], high["count"], high["total_s"]) == ("5", 1, 0)
    (quota,) = found["quota"]
    assert quota["used_hours"] == pytest.approx((50 + 30 + 100) * 2 / 3600, abs=0.001)
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT name, state, (SELECT count(*) FROM admissions a WHERE a.group_id = g.id) "
            "FROM groups g ORDER BY name"
        ).fetchall()
    assert rows == [("job-2", "Gone", 2), ("job-3", "Gone", 1)]


def test_json_lines_in_any_order_play_as_csv_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(7)
    rows = [
        {
            "submit": n * 13,
            "runtime": random.randint(10, 300),
            "size": random.choice([1, 1, 2]),
            "queue": "team-a/lq",
            "priority": random.choice([0, 5]),
            "id": f"j_{n}",
            "team": "red",
            "cpu": "500m",
        }
        for n in range(60)
    ]
    head = ",".join(rows[0])
    lines = [",".join(str(value) for value in row.values()) for row in rows]
    csv = jobs(tmp_path, "\n".join([head, *lines]) + "\n")
    random.shuffle(rows)
    other = jobs(tmp_path, "\n".join(map(json.dumps, rows)), "jobs.jsonl")
    first = what_if(capsys, "--trace", csv, "--objects", queues(tmp_path))
    second = what_if(capsys, "--trace", other, "--objects", queues(tmp_path))
    assert first["then"] == second["then"]
    assert first["then"]["admissions"] >= 60


def test_nothing_is_left_when_a_play_is_over(tmp_path: Path) -> None:
    """What is kept does not grow with what was played: pods that ended are gone."""
    random = Random(3)
    text = HEAD + "".join(
        f"{n * 20},{random.randint(1, 200)},{random.choice([1, 2, 3])},team-a/lq,"
        f"{random.choice([0, 0, 5])},red,1\n"
        for n in range(150)
    )
    trace = Trace(jobs(tmp_path, text))
    objects = read_objects([queues(tmp_path, 6)])
    objects = with_namespaces(objects + trace.classes(objects), trace.namespaces)
    scenario = Scenario(source=trace, objects=objects, begin=trace.begin)
    first, events = play(scenario)
    second, again = play(scenario)
    assert first == second
    assert events == again
    assert sum(len(waits) for waits in first.waits.values()) >= 150
    assert not first.waiting
    quota = next(iter(first.quota.values()))
    assert quota.used - quota.borrowed + quota.idle == pytest.approx(quota.nominal)


def test_pods_of_a_job_come_as_one_group(tmp_path: Path) -> None:
    text = HEAD + "5,10,3,team-a/lq,0,red,2\n"
    found = list(Trace(jobs(tmp_path, text)).arrivals())
    assert [type(one) for one in found] == [Arrival] * 3
    assert {one.pod.labels["kueue.x-k8s.io/pod-group-name"] for one in found} == {"job-2"}
    assert len({one.pod.uid for one in found}) == 3
    assert found[0].pod.requests == {"cpu": 2000}
    assert found[0].life.run_s == 10


@pytest.mark.parametrize(
    "line, said",
    [
        ("x,100,1,team-a/lq,0,red,1", "line 3, column 1 (submit): 'x' is neither seconds nor"),
        ("0,-1,1,team-a/lq,0,red,1", "line 3, column 2 (runtime): -1 is not between 0 and"),
        ("0,,1,team-a/lq,0,red,1", "line 3, column 2 (runtime): is missing"),
        ("0,100,0,team-a/lq,0,red,1", "line 3, column 3 (size): 0 is not between 1 and 10000"),
        ("0,100,1,,0,red,1", "line 3, column 4 (queue): is missing"),
        ("0,100,1,team-a/lq,0,red,lots", "line 3, column 7 (cpu): "),
        ("0,100,1,team-a/lq,0,red", "line 3: has 6 values, the header line has 7"),
        ("nan,100,1,team-a/lq,0,red,1", "line 3, column 1 (submit): nan is not between"),
        (
            "0,100,1,team-a/lp,0,red,1",
            "line 3, column 4 (queue): there is no LocalQueue team-a/lp in --objects; there is "
            "team-a/lq",
        ),
    ],
)
def test_a_bad_line_is_named(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = jobs(tmp_path, HEAD + "0,1,1,team-a/lq,0,red,1\n" + line + "\n")
    assert f"{trace}, {said}" in refused(capsys, "--trace", trace, "--objects", queues(tmp_path))


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("nominalQuota: CPU", "nominalQuota: much", "line 17, column"),
        ("kind: LocalQueue", "kind: Deployment", "line 20, column 1: kind 'Deployment'"),
        ("spec: {clusterQueue: research}", "spec: {clusterQueue: [}", "line 22, column"),
        ("metadata: {name: f}", "metadata: {}", "line 3, column 1: metadata.name is missing"),
        (
            "nominalQuota: CPU",
            "nominalQuota: 1, borowingLimit: 2",
            "line 17, column 38: ClusterQueue research: spec.resourceGroups[0].flavors[0]"
            ".resources[0].borowingLimit: there is no such field; there is borrowingLimit, "
            "lendingLimit, name, nominalQuota",
        ),
        ("spec: {cluster", "specs: {cluster", "line 22, column 1: LocalQueue lq: specs: there"),
        ("{name: f}", "{name: f, label: {}}", "line 3, column 21: ResourceFlavor f: metadata.la"),
        (
            "metadata: {name: lq, namespace: team-a}",
            "metadata: {name: lq}\n---\n",
            "line 24, column 1: kind",
        ),
    ],
)
def test_a_bad_object_is_named(
    before: str, after: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(QUEUES.replace(before, after).replace("CPU", "1"))
    error = refused(capsys, "--trace", jobs(tmp_path), "--objects", path)
    assert f"{path}, {said}" in error


@pytest.mark.parametrize(
    "change, said",
    [
        ("research:cpu=60", "write it as KIND/NAME:FIELD=VALUE"),
        ("clusterqueue/reserch:cpu=60", "no ClusterQueue reserch; there is research"),
        ("clusterqueue/research:gpu=6", "gpu is not there: ClusterQueue research has f/cpu"),
        ("clusterqueue/research:cpu=lots", "clusterqueue/research:cpu=lots: "),
    ],
)
def test_a_bad_change_is_named(
    change: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--trace", jobs(tmp_path), "--objects", queues(tmp_path))
    assert said in refused(capsys, *files, "--set", change)


def test_a_table_for_people_says_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--trace", str(jobs(tmp_path)), "--objects", str(queues(tmp_path))]
    assert cli.run(["what-if", *files, "--set", "clusterqueue/research:f/cpu=4"]) == 0
    out = capsys.readouterr().out
    assert "3 m 20 s → 1 m 40 s" in out
    assert "8 start earlier" in out


SWF = """; Version: 2.2
; Computer: made up
    1    0   5   100   1  -1 -1  1  200     -1 1 7 3 1 4 -1 -1 -1
    2    0   5   100   1  -1 -1 -1  200 524288 1 7 3 1 4 -1 -1 -1
    3   10  -1    -1  -1  -1 -1  4  200     -1 5 8 3 1 4 -1 -1 -1
    4   20   0    50   2  -1 -1  2   60     -1 1 9 4 1 4 -1 -1 -1
"""


def test_the_standard_workload_format_plays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = jobs(tmp_path, SWF, "archive.swf")
    words = ("--trace", trace, "--queue", "team-a/lq", "--objects", queues(tmp_path))
    found = what_if(capsys, *words)
    assert (found["jobs"], found["never_ran"]) == (3, 1)
    (waits,) = found["then"]["waits"]
    assert (waits["count"], waits["total_s"]) == (2, 80)
    assert waits["waiting"] == 1  # it asks for memory, of which there is no quota
    assert {row["team"]: row["count"] for row in found["then"]["waits_by_team"]} == {
        "team-3": 1,
        "team-4": 1,
    }
    second = next(one for one in Trace(trace, queue="a/q{queue}").arrivals() if "2" in one.pod.name)
    assert second.pod.requests == {"cpu": 1000, "memory": 524288 * 1024}
    assert second.pod.labels["kueue.x-k8s.io/queue-name"] == "q4"
    assert "line 3, field queue: is missing" in refused(capsys, *words[:2], *words[4:])
    trace.write_text(SWF + "5 60\n")
    assert "line 7: has 2 values" in refused(capsys, *words)
