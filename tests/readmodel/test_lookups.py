"""A group's story is looked up by the group, however long the log of its cluster is."""

import sqlite3
from pathlib import Path

from gatelog.readmodel import statements
from projector.upkeep import migrate


def test_no_part_of_a_story_reads_all_rows_of_the_cluster(tmp_path: Path) -> None:
    migrate.upgrade(f"sqlite:///{tmp_path}/read-model.sqlite3")
    given = {"cluster": "test", "group_id": "one", "own_only": 0, "limit": 10}
    with sqlite3.connect(tmp_path / "read-model.sqlite3") as database:
        plan = database.execute(f"EXPLAIN QUERY PLAN {statements.ENTRIES}", given)
        steps = [str(row[3]) for row in plan]
    reads = [one for one in steps if one.startswith(("SEARCH", "SCAN"))]
    assert len(reads) == 8
    assert not [one for one in reads if one.startswith("SCAN") or one.endswith("(cluster=?)")]
