"""A group's story is looked up by the group, however long the log of its cluster is."""

import sqlite3
from contextlib import closing
from pathlib import Path

from gatelog.readmodel import statements
from gatelog.readmodel.model import ReadModel
from gatelog.serve.api import finding
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy


def test_a_group_is_found_by_its_pods_and_by_its_workload(url: str) -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.pod("alone")
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        for group, names in {"g": ("p0", "p1"), "alone": ()}.items():
            (known,) = model.groups("ns", group)
            assert known.workload_name
            for name in (*names, known.workload_name):
                assert [one.id for one in model.groups("ns", name)] == [known.id]
                found = finding.life(model, "ns", name)
                assert found is not None and found.id == known.id
                told = finding.history(model, found, name)
                assert name in names or len(told.entries) == len(model.entries(known.id))
        assert not model.groups("other", known.workload_name)


def test_no_part_of_a_story_reads_all_rows_of_the_cluster(tmp_path: Path) -> None:
    migrated(f"sqlite:///{tmp_path}/read-model.sqlite3")
    given = {"cluster": "test", "group_id": "one", "own_only": 0, "limit": 10}
    with closing(sqlite3.connect(tmp_path / "read-model.sqlite3")) as database:
        plan = database.execute(f"EXPLAIN QUERY PLAN {statements.story.ENTRIES}", given)
        steps = [str(row[3]) for row in plan]
    reads = [one for one in steps if one.startswith(("SEARCH", "SCAN"))]
    assert len(reads) == 10
    assert not [one for one in reads if one.startswith("SCAN") or one.endswith("(cluster=?)")]


def test_what_let_a_group_in_is_sought_in_its_message_alone(tmp_path: Path) -> None:
    migrated(f"sqlite:///{tmp_path}/read-model.sqlite3")
    given = {"cluster": "test", "group_id": "one", "limit": 10}
    with closing(sqlite3.connect(tmp_path / "read-model.sqlite3")) as database:
        plan = database.execute(f"EXPLAIN QUERY PLAN {statements.story.CAUSES['sqlite']}", given)
        steps = [str(row[3]).split(" USING ") for row in plan]
    reads = [(step[0].split()[1], step[1]) for step in steps if step[0].startswith("SEARCH")]
    # Of objects, standings and quotas there are as many as queues.
    of_cluster = {name for name, by in reads if by.endswith(("(cluster=?)", "shard=?)"))}
    assert {"a", "b", "g", "h", "w", "x"} <= {name for name, _ in reads}
    assert of_cluster <= {"s", "t", "q"}


def test_how_queues_stand_is_sought_among_rows_that_are_open(tmp_path: Path) -> None:
    """The ledger of a month has half a million rows of each queue; without these it was gone
    through for each admission of the cluster."""
    migrated(f"sqlite:///{tmp_path}/read-model.sqlite3")
    given = {"cluster": "test", "group_id": "one", "ids": '["one"]', "limit": 10}
    shared = statements.shared
    with closing(sqlite3.connect(tmp_path / "read-model.sqlite3")) as database:
        for query in (
            *(shared.SHORT, shared.SHORTAGES["sqlite"]),
            *(shared.POOLS, shared.BORROWERS["sqlite"]),
        ):
            plan = database.execute(f"EXPLAIN QUERY PLAN {query}", given)
            reads = [str(row[3]) for row in plan]
            assert not [one for one in reads if "autoindex_usage" in one or "ix_usage_at" in one]
            assert [one for one in reads if "ix_usage_standing" in one], query
