"""The demo as a person runs it, what can be asked of its database, and `gatelog replay` on it."""

import json
import re
import shlex
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gatelog.demo.stories import STORIES
from tests.support.forking import GATELOG, ran

README = Path(__file__).parents[2] / "README.md"


def shown(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page that are shown with what they print, and that."""
    return re.findall(r"^```\n\$ (gatelog .+?)\n(.+?)^```", page, re.MULTILINE | re.DOTALL)


def shape(text: str) -> set[str]:
    """Return the words of an answer without what each run says anew: times, and who came first.

    Whether pods of a group arrive apart, so that the first waits for the others, is chance.
    """
    text = re.sub(
        r"^.*WaitingForPods.*\n(?: {40,}.*\n)*|\bComposing\b", "", text, flags=re.MULTILINE
    )
    without = re.sub(r"\d+(\.\d+)? (ms|s|min|h)\b|[\d-]{8,}|[\d:]{8}|tuning-\d|[·━]+", "", text)
    return {word.rstrip(",") for word in without.split() if not re.search(r"^\+?[\d.]+$", word)}


pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")


TABLES = 17
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "COLUMNS": "100"}
GROUPS = sorted(name for story in STORIES for name in story.groups)
DECISION = re.compile(r"^seq (\d+)  (then|now )  team-a/(\S+)  (\w+): (\w+) ")


class Demo:
    """A demo that has ended, in a folder of its own, and how long it took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / ".gatelog/demo/read-model.sqlite3"
        began = time.monotonic()
        self.done = self.ask("demo")
        self.took_s = time.monotonic() - began

    def ask(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the folder, as its user would."""
        return ran([GATELOG, *words], ENVIRONMENT, self.folder, cwd=self.folder, timeout_s=150)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command on what the demo left."""
        return self.ask(*words, "--state-dir", ".gatelog/demo")

    def rows(self, query: str, file: Path | None = None) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(file or self.file)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    one = Demo(tmp_path_factory.mktemp("demo"))
    assert one.done.returncode == 0, one.done.stdout[-3000:] + one.done.stderr
    return one


@pytest.mark.timeout(240)
def test_the_demo_plays_every_story_and_leaves_the_answers(demo: Demo) -> None:
    done, run = demo.done, demo.ask
    assert demo.took_s < 100, "half a minute where nothing else runs"
    for story in STORIES:
        assert f"✓ {story.title}" in done.stderr
        assert f"── {story.title} ──" in done.stdout
    assert f"{len(STORIES)} of {len(STORIES)} stories as they should be" in done.stdout
    groups = [name for story in STORIES for name in story.groups]
    for name in groups:
        assert re.search(
            rf"^team-a/{name}  (single pod|group of \d pods), .*Succeeded", done.stdout, re.M
        )
        assert re.search(rf"^team-a/{name} +Finished +\d+\.\d\d s ", done.stdout, re.M)
    text = " ".join(done.stdout.split())
    for words in (
        "WaitingForPods: needs 3 pods; fewer are there",
        "WaitingForQuota: ",
        "replace: ",
        "delete excess pair-extra",
        "preempt: preempted by team-a/urgent",
        "yield: ",
    ):
        assert re.search(words, text), words
    assert "Traceback" not in done.stderr and '"level"' not in done.stderr

    database = demo.file
    commands = re.findall(r"^  (\S*gatelog (?:history|why|sql) .*)$", done.stdout, re.M)
    assert len(commands) == 3
    for command in commands:
        asked = run(*shlex.split(command)[1:])
        assert asked.returncode == 0 and "Succeeded" in asked.stdout, asked
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT name, state FROM groups ORDER BY created_seq").fetchall()
        twice = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM decisions GROUP BY as_of_seq, group_id, rule, "
            "target HAVING count(*) > 1)"
        ).fetchone()
    assert rows == [(name, "Finished") for name in groups]
    assert twice == (0,)

    examples = shown(README.read_text())
    assert examples
    for command, wanted in examples:
        asked = run(*shlex.split(command)[1:])
        assert asked.returncode == 0, asked.stderr
        assert shape(asked.stdout) == shape(wanted), asked.stdout
    for query in re.findall(r"```sql\n(.+?)```", README.read_text(), re.DOTALL):
        assert run("sql", query, "--db", str(database)).returncode == 0

    night = json.loads(run("history", "team-a/night", "--json", "--db", str(database)).stdout)
    assert night[0]["group"]["pods_replaced"] == 2
    again = run("demo", "--state-dir", str(demo.folder))
    assert again.returncode == 1 and "no earlier demo made it" in again.stderr


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
    assert "switched over at position" in done.stdout
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
        labels = re.findall(r"^    labels: (.*) then, (.*) now$", done.stdout, re.M)
        assert len(labels) == len(groups)
        assert all(f"{label} " in now and label not in then for then, now in labels)
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
        assert not {"Finished", "Succeeded"} & set(asked.stdout.split())


@pytest.mark.timeout(240)
def test_one_group_step_by_step_into_a_pipe(demo: Demo) -> None:
    done = demo.run("replay", "--group", "team-a/night")
    assert done.returncode == 0, done.stderr
    steps = re.findall(r"^\[(\d+)/(\d+)\] seq (\d+)  \S+ \S+  (\w+)$", done.stdout, re.M)
    assert [int(n) for n, *_ in steps] == list(range(1, len(steps) + 1))
    assert {int(count) for _, count, *_ in steps} == {len(steps)}
    assert [int(seq) for *_, seq, _ in steps] == sorted({int(seq) for *_, seq, _ in steps})
    states = [state for *_, state in steps]
    assert states[-1] == "Finished" and "Evicted" in states
    # Whether its pods come in one message is chance; if so, the group is complete at once.
    (missing,) = demo.rows(
        "SELECT g.total_count - count(*) FROM history h JOIN groups g ON g.id = h.group_id"
        " WHERE g.name = 'night' AND h.kind = 'PodSeen' GROUP BY h.seq ORDER BY h.seq LIMIT 1"
    )[0]
    assert (states[0] == "Composing") == (missing > 0)
    made = demo.rows("SELECT count(*) FROM decisions WHERE name = 'night'")[0][0]
    assert len(re.findall(r"^  decided ", done.stdout, re.M)) == made
    done = demo.run("replay", "--group", "team-a/nobody")
    assert done.returncode == 1 and "the log says nothing of team-a/nobody" in done.stderr
