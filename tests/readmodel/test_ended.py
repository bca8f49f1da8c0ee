"""What ended is not what succeeded: word, mark and colour of each end. Both databases."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gatelog import cli
from gatelog.readmodel import grouplist, statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.model import ReadModel
from gatelog.serve.api import finding
from gatelog.serve.api.kinds import BY_PLURAL
from gatelog.serve.api.params import Listing
from gatelog.serve.api.selectors import Term
from gatelog.serve.api.table import rows
from gatelog.serve.console.group import group
from gatelog.serve.console.rendering import environment
from gatelog.serve.console.view import PageView
from podgroup.model.lifecycle import STATES
from podgroup.model.names import PRIORITY_CLASS
from projector.schema.ended import ENDED
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy

EXPECTED: Final = {
    "well": "Succeeded",
    "badly": "Failed",
    "taken": "Deleted",
    "never": "Deleted",
    "low": "Preempted",
    "high": "Admitted",
}


@pytest.fixture
def toy(url: str) -> Toy:
    toy = Toy(cpu=2)
    for name in ("well", "badly", "taken"):
        toy.pod(name)
        toy.run(name)
        if name != "taken":
            toy.end(name, phase="Succeeded" if name == "well" else "Failed")
    toy.delete("taken")
    toy.pod("never", cpu=9)
    toy.delete("never")
    toy.pod("low", cpu=2, labels={PRIORITY_CLASS: "low"})
    toy.run("low")
    toy.pod("high", cpu=2, labels={PRIORITY_CLASS: "high"})
    toy.delete("badly")  # that it was deleted afterwards does not make its failure another
    Writer(url).feed(toy.messages)
    return toy


def test_each_end_has_its_word_in_lists_pages_and_the_api(
    toy: Toy, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ReadModel(url, "test") as model:
        listed = {one.name: one.standing for one in model.listed("", gone=True, limit=100)}
        shown = {}
        for name, word in EXPECTED.items():
            page = str(
                group(Asked(model), PageView(at=None, query={}, now=toy.now), "ns", name).body
            )
            assert f"s-{word.lower()}" in page, name
            by_name = Listing(limit=1, fields=(Term("metadata.name", "in", (name,)),))
            (found,), _ = finding.groups_page(model, "ns", by_name)
            kind = BY_PLURAL["podgroups"]
            (row,) = rows(kind, found, "None")
            place = [column.name for column in kind.columns].index("State")
            shown[name] = row["cells"][place]
    assert (listed, shown) == (EXPECTED, EXPECTED)
    where = ["--db", url, "--cluster", "test", "--gone", "-o", "name"]
    assert cli.run(["list", "groups", "--state", "preempted", *where]) == 0
    assert capsys.readouterr().out == "ns/low\n"


def test_no_two_states_look_alike_but_those_that_mean_the_same() -> None:
    state = environment().from_string('{% from "parts.html" import state %}{{ state(word) }}')
    marks = {word: state.render(word=word) for word in (*STATES, *ENDED)}
    assert len(set(marks.values())) == len(marks)
    signs = {word: mark.partition("</span>")[0] for word, mark in marks.items()}
    good = {signs["Succeeded"], signs["Finished"], signs["Finishing"]}
    assert not good & {signs[word] for word in ("Failed", "Preempted", "Evicted", "Deleted")}


def test_a_state_that_is_none_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["list", "groups", "--state", "waiting", "--db", "sqlite:////nowhere"]) == 2
    assert "--state waiting: choose one of Composing, Queued" in capsys.readouterr().err
    assert cli.run(["top"]) == 2
    assert "kubectl gatelog" in capsys.readouterr().err


def work(database: sqlite3.Connection, query: str, given: dict[str, object]) -> int:
    """How many hundred steps SQLite takes for a statement: no clock, the same each time."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    database.set_progress_handler(count, 100)
    database.execute(query, {"cluster": "test", **given}).fetchall()
    database.set_progress_handler(None, 0)
    return steps


PAGE: Final = {"after_namespace": "", "after_name": "", "after_id": ""}
LISTED: Final = {"namespace": "", "queue": "", "gone": 1, "limit": 10}
ASKED: Final = {
    "why": (statements.groups.GROUPS, {"namespace": "ns", "name": "g1", "limit": 10}),
    "newest": (statements.groups.NEWEST_GROUP, {"namespace": "", "limit": 1}),
    "list": (statements.groups.LISTED_GROUPS, {**LISTED, "state": ""}),
    "list running": (statements.groups.LISTED_GROUPS, {**LISTED, "state": "Running"}),
    "console": (
        grouplist.page(False, (), "age"),
        {"namespace": "", "gone": 1, "resource": '$."cpu"', "until": "", "limit": 9, "offset": 0},
    ),
    "api": (statements.groups.group_page((), ()), {**PAGE, "limit": 10}),
    "api by label": (statements.groups.group_page((), ("x.labels <> ''",)), {**PAGE, "limit": 10}),
}


def copy(database: sqlite3.Connection, table: str, where: str, number: int, **new: str) -> None:
    """Put copies of a row beside it, with columns that follow from number `n`."""
    names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    database.execute(
        f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {number}) "
        f"INSERT INTO {table} SELECT {', '.join(new.get(name, f't.{name}') for name in names)} "
        f"FROM (SELECT * FROM {table} WHERE {where} LIMIT 1) t, c"
    )


@pytest.mark.parametrize("groups, pods", [(1, 1000), (300, 20)])
def test_killed_pods_are_read_once_and_only_of_the_groups_of_a_page(
    tmp_path: Path, groups: int, pods: int
) -> None:
    """Each pod failed after somebody had asked for its deletion, as of a group that is deleted."""
    made = f"sqlite:///{tmp_path}/read-model.sqlite3"
    toy = Toy()
    toy.slow = True
    toy.pod("p", "g0", 1)
    toy.run("p")
    toy.delete("p")
    toy.wait(5)
    toy.end("p", phase="Failed")
    migrated(made)
    Writer(made).feed(toy.messages)
    with closing(sqlite3.connect(tmp_path / "read-model.sqlite3")) as database:
        database.execute("UPDATE groups SET state = 'Gone', reason = 'Failed'")
        database.execute("UPDATE admissions SET release_reason = 'Gone'")
        whose = f"'g' || (n % {groups} + 1)"
        copy(database, "groups", "1 = 1", groups, id="'g' || n", name="'g' || n", folded="NULL")
        copy(database, "admissions", "1 = 1", groups, group_id="'g' || n")
        copy(database, "pods", "1 = 1", groups * pods, uid="'p' || n", group_id=whose)
        asked = {"pod_uid": "'p' || n", "group_id": whose, "ord": "1000 + n"}
        copy(database, "history", "kind = 'PodDeletionRequested'", groups * pods, **asked)
        took = {name: work(database, query, given) for name, (query, given) in ASKED.items()}
        database.row_factory = sqlite3.Row
        query, given = ASKED["list"]
        found = database.execute(query, {"cluster": "test", **given}).fetchall()
    assert len(found) == min(groups + 1, 10) and {row["ended"] for row in found} == {"Deleted"}
    assert max(took.values()) < 1_000, took
