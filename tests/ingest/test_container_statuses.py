"""Real containers that ended in many ways, as a kubelet told it (`tests.node.record`)."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gatelog import cli

RECORDING = Path(__file__).parents[1] / "recordings" / "node" / "containers.jsonl.gz"
ASKED = (
    "SELECT p.name, f.container, f.reason, f.exit_code, f.restarts "
    "FROM failures f JOIN pods p ON p.uid = f.pod_uid ORDER BY p.name, f.seq"
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """Container, reason, exit code and restarts of what failed, by pod."""
    database = f"sqlite:///{tmp_path_factory.mktemp('node')}/model.db"
    assert cli.run(["import", str(RECORDING), "--to", database]) in (0, None)
    out = database.removeprefix("sqlite:///")
    with sqlite3.connect(out) as connection:
        rows = connection.execute(ASKED).fetchall()
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, *row in rows:
        found.setdefault(name, []).append(tuple(row))
    return found


def test_each_end_is_told_once_and_as_it_was(told: dict[str, list[tuple[Any, ...]]]) -> None:
    assert "succeeds" not in told
    assert told["fails"] == [("main", "Error", 7, 0)]
    assert told["oom"] == [("main", "OOMKilled", 137, 0)]
    assert ("", "DeadlineExceeded", 0, 0) in told["late"]
    assert ("", "EvictionByEvictionAPI", 0, 0) in told["evicted"]


def test_a_crash_loop_counts_each_crash_once(told: dict[str, list[tuple[Any, ...]]]) -> None:
    crashes = [row for row in told["loop"] if row[0]]
    assert len(crashes) >= 3
    assert {(row[1], row[2]) for row in crashes} == {("Error", 3)}
    assert [row[3] for row in crashes] == sorted({row[3] for row in crashes}), "none twice"
