"""The demo as a person runs it, and what can be asked of the database it leaves."""

import json
import re
import shlex
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from gatelog.demo.stories import STORIES
from gatelog.demo.teams import TEAMS
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


@pytest.mark.timeout(180)
def test_the_demo_plays_every_story_and_leaves_the_answers(tmp_path: Path) -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": "/usr/bin:/bin", "COLUMNS": "100"}
        return ran([GATELOG, *args], env, tmp_path, cwd=tmp_path, timeout_s=120)

    began = time.monotonic()
    done = run("demo")
    took_s = time.monotonic() - began
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert took_s < 100, "half a minute where nothing else runs"
    for story in STORIES:
        assert f"✓ {story.title}" in done.stderr
        assert f"── {story.title} ──" in done.stdout
    assert f"{len(STORIES)} of {len(STORIES)} stories as they should be" in done.stdout
    groups = [name for story in STORIES for name in story.groups]
    for name in groups:
        assert re.search(
            rf"^team-a/{name}  (single pod|group of \d pods), .*Finished", done.stdout, re.M
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

    database = tmp_path / ".gatelog/demo/read-model.sqlite3"
    commands = re.findall(r"^  (\S*gatelog (?:history|why|sql) .*)$", done.stdout, re.M)
    assert len(commands) == 3
    for command in commands:
        asked = run(*shlex.split(command)[1:])
        assert asked.returncode == 0 and "Finished" in asked.stdout, asked
    with sqlite3.connect(database) as connection:
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
    again = run("demo", "--state-dir", str(tmp_path))
    assert again.returncode == 1 and "no earlier demo made it" in again.stderr


SLOW = pytest.mark.slow("the same stories on the other database, in their own time")


@pytest.mark.slow(
    "half a minute of waiting; tests/oracle and tests/core/test_shared_quota.py have its laws"
)
@pytest.mark.timeout(180)
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=SLOW)])
def test_two_teams_lend_borrow_take_back_and_share(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_database") if database == "postgresql" else ""
    where = ["--db", url] if url else []

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": "/usr/bin:/bin", "COLUMNS": "200"}
        return ran([GATELOG, *args], env, tmp_path, cwd=tmp_path, timeout_s=120)

    done = run("demo", "--story", "two-teams", *where)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    for story in TEAMS.stories:
        assert f"✓ {story.title}" in done.stderr
        for name in story.groups:
            assert re.search(rf"^{name}  group of 2 pods, .*Finished", done.stdout, re.M)
    for command in re.findall(r"^  (\S*gatelog (?:history|why|sql) .*)$", done.stdout, re.M):
        asked = run(*shlex.split(command)[1:])
        assert asked.returncode == 0 and "Finished" in asked.stdout, asked
    asked = run("replay", "--verify", "--state-dir", ".gatelog/demo", *where)
    assert asked.returncode == 0 and "differ" not in asked.stdout, asked
    for table in ("usage", "shortages", "preemptions"):
        assert re.search(rf"^{table} +[1-9]\d* rows +equal$", asked.stdout, re.M), asked.stdout
    told = run("history", "team-red/sweep-4", "--state-dir", ".gatelog/demo", *where).stdout
    history = " ".join(told.split())
    words = (
        "borrowing from its cohort",
        "preempted by team-blue/train-1",
        "reclamation within the cohort",
        "WaitingForReplacementPods",
        "created sweep-4-0-again, sweep-4-1-again",
        "finished: Succeeded",
    )
    places = [history.find(one) for one in words]
    assert -1 not in places and places == sorted(places), history
    asked = run(
        *("sql", "--json", "--state-dir", ".gatelog/demo", *where),
        "SELECT name, max(borrowed) AS most FROM usage WHERE kind = 'ClusterQueue' "
        "GROUP BY name ORDER BY name",
    )
    query = "SELECT policy, victim_name, preemptor_name FROM preemptions ORDER BY seq"
    told = run("sql", "--json", "--state-dir", ".gatelog/demo", *where, query).stdout
    assert [tuple(row.values()) for row in json.loads(told)] == [
        ("InCohortReclamation", "sweep-4", "train-1"),
        ("InCohortFairSharing", "sweep-3", "train-2"),
    ]
    most = {row["name"]: int(row["most"]) for row in json.loads(asked.stdout)}
    assert most == {"team-blue": 2000, "team-red": 6000}, asked
