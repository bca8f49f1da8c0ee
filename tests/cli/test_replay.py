"""`gatelog replay` as a person uses it: on what a demo left, and beside a running `gatelog up`."""

import json
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gatelog.demo.stories import STORIES
from tests.support.forking import GATELOG, ran
from tests.support.processes import make_queue
from tests.support.stack import running_stack, runs_to_its_end

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

TABLES = 15
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "COLUMNS": "100"}
GROUPS = sorted(name for story in STORIES for name in story.groups)
DECISION = re.compile(r"^seq (\d+)  (then|now )  team-a/(\S+)  (\w+): (\w+) ")


class Demo:
    """A demo that has ended, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "state/read-model.sqlite3"

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [GATELOG, *words, "--state-dir", "state"]
        return ran(argv, ENVIRONMENT, self.folder, cwd=self.folder, timeout_s=150)

    def rows(self, query: str, file: Path | None = None) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(file or self.file)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    one = Demo(tmp_path_factory.mktemp("demo"))
    done = one.run("demo")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return one


@pytest.mark.timeout(240)
def test_what_the_demo_left_is_what_its_log_says(demo: Demo) -> None:
    done = demo.run("replay", "--verify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" equal") == TABLES and "DIFFERENT" not in done.stdout
    done = demo.run("replay", "--redecide")
    assert done.returncode == 0 and "no decisions differ" in done.stdout


@pytest.mark.timeout(240)
def test_what_if_reads_the_streams_and_comes_to_about_what_happened(demo: Demo) -> None:
    """Live settings, no export: the log server is that of the state directory."""
    done = demo.run("what-if", "--since", "7d", "--until", "1s", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    calibration = found["calibration"]
    ((admitted,),) = demo.rows("SELECT count(DISTINCT group_id) FROM admissions")
    assert calibration["both"] + calibration["only_then"] == admitted
    # What took its time on a busy machine may have come in another order.
    assert calibration["both"] >= 0.8 * admitted
    assert calibration["in_order"] >= 0.6 * admitted


@pytest.mark.timeout(240)
def test_rows_that_were_spoilt_are_good_after_a_rebuild(demo: Demo) -> None:
    everything = "SELECT * FROM history ORDER BY seq, ord"
    before = demo.rows(everything)
    with closing(sqlite3.connect(demo.file)) as connection, connection:
        connection.execute("UPDATE pods SET node = 'nowhere'")
        connection.execute("DELETE FROM waits")
        connection.execute("DELETE FROM history WHERE seq > 50")
    assert demo.run("replay", "--verify").returncode == 1
    done = demo.run("replay", "--rebuild")
    assert done.returncode == 0, done.stderr
    assert re.search(r"[1-9]\d* rows of the read model changed", done.stdout)
    done = demo.run("replay", "--verify")
    assert done.returncode == 0, done.stdout
    assert demo.rows(everything) == before


@pytest.mark.timeout(240)
def test_a_changed_rule_is_found_with_its_decisions_and_nothing_else(demo: Demo) -> None:
    """Labels copied to Workloads: a setting by which just one rule writes something else."""
    for label, groups in (
        ("kueue.x-k8s.io/priority-class", ["night", "urgent"]),
        ("kueue.x-k8s.io/managed", GROUPS),
        ("team-of-nobody", []),
    ):
        done = demo.run("replay", "--redecide", "--set", f"queueing.label_keys_to_copy={label}")
        found = [m.groups() for m in map(DECISION.match, done.stdout.splitlines()) if m]
        made = dict(demo.rows("SELECT name, as_of_seq FROM decisions WHERE rule = 'compose'"))
        wanted = {
            (str(made[name]), mark, name, "compose", "CreateWorkload")
            for name in groups
            for mark in ("then", "now ")
        }
        assert set(found) == wanted and len(found) == 2 * len(groups), done.stdout
        assert done.returncode == (1 if groups else 0)
        assert done.stdout.count(f'"{label}":') == len(groups)
        assert f"{2 * len(groups) or 'no'} decisions differ" in done.stdout


@pytest.mark.timeout(240)
def test_as_it_was_at_a_position_and_at_a_time(demo: Demo, tmp_path: Path) -> None:
    ((seq, at),) = demo.rows(
        "SELECT h.seq, h.at FROM history h JOIN groups g ON g.id = h.group_id "
        "WHERE g.name = 'tuning' AND h.kind = 'GroupAdmitted'"
    )
    for number, moment in enumerate((str(seq), at)):
        then = tmp_path / f"{number}.sqlite3"
        done = demo.run("replay", "--at", moment, "--to", str(then))
        assert done.returncode == 0, done.stderr
        states = dict(demo.rows("SELECT name, state FROM groups", then))
        assert states["tuning"] == "Admitted" and states["foo"] == "Finished"
        assert "urgent" not in states
        argv = [GATELOG, "history", "team-a/tuning", "--db", str(then)]
        asked = ran(argv, ENVIRONMENT, demo.folder, cwd=demo.folder)
        assert asked.returncode == 0 and "admitted" in asked.stdout, asked.stderr
        assert "Finished" not in asked.stdout


@pytest.mark.timeout(240)
def test_one_group_step_by_step_into_a_pipe(demo: Demo) -> None:
    done = demo.run("replay", "--group", "team-a/night", "--step")
    assert done.returncode == 0, done.stderr
    steps = re.findall(r"^\[(\d+)/(\d+)\] seq (\d+)  \S+ \S+  (\w+)$", done.stdout, re.M)
    assert [int(n) for n, *_ in steps] == list(range(1, len(steps) + 1))
    assert {int(count) for _, count, *_ in steps} == {len(steps)}
    assert [int(seq) for *_, seq, _ in steps] == sorted({int(seq) for *_, seq, _ in steps})
    states = [state for *_, state in steps]
    assert states[0] == "Composing" and states[-1] == "Finished" and "Evicted" in states
    made = demo.rows("SELECT count(*) FROM decisions WHERE name = 'night'")[0][0]
    assert len(re.findall(r"^  decided ", done.stdout, re.M)) == made
    done = demo.run("replay", "--group", "team-a/nobody")
    assert done.returncode == 1 and "the log says nothing of team-a/nobody" in done.stderr


@pytest.mark.timeout(180)
async def test_gatelog_up_goes_on_in_the_rebuilt_read_model(tmp_path: Path) -> None:
    with running_stack(tmp_path) as stack:
        async with stack.api() as api:
            await make_queue(api, "ns")
            await runs_to_its_end(stack, api, "ns")
            done = stack.command("replay", "--rebuild")
            assert done.returncode == 0, done.stderr
            assert "0 rows of the read model changed" in done.stdout
            await runs_to_its_end(stack, api, "ns")
            assert len(stack.log_lines("read_model_replaced")) == 1
            done = stack.command("replay", "--verify")
            assert done.returncode == 0, done.stdout
        stack.up.stop()
        done = stack.command("replay", "--rebuild")
        assert done.returncode == 0, done.stderr
        assert stack.command("replay", "--verify").returncode == 0
