"""Real containers that ended in many ways, as a kubelet told it (`tests.node.record`)."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gatelog import cli
from tests.support.recordings import FOLDER, exported

ASKED = (
    "SELECT p.name, f.container, f.reason, f.exit_code, f.restarts "
    "FROM failures f JOIN pods p ON p.uid = f.pod_uid ORDER BY p.name, f.seq"
)
Rows = list[tuple[Any, ...]]


def imported(name: str, folder: Path, query: str) -> Rows:
    """Rows of what a recording becomes."""
    file = folder / f"{name}.db"
    if not file.exists():
        log = exported(FOLDER / "node" / f"{name}.jsonl.gz", folder / f"{name}.jsonl.gz")
        assert cli.run(["import", str(log), "--to", f"sqlite:///{file}"]) in (0, None)
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def by_pod(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for name, *row in rows:
        found.setdefault(name, []).append(tuple(row))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Rows]:
    """Container, reason, exit code and restarts of what failed, by pod."""
    return by_pod(imported("containers", folder, ASKED))


def test_what_nodes_do_to_pods_is_told_once(folder: Path) -> None:
    """A kubelet preempts, a Node is deleted: its pod was called failed before it had ended."""
    told = by_pod(imported("nodes", folder, ASKED))
    (preempted,) = [row for row in told["preempted"] if not row[0]]
    assert preempted[1] in ("Preempting", "TerminationByKubelet")
    assert ("main", "Error", 137, 0) in told["preempted"]
    assert [row[1] for row in told["collected"] if not row[0]] == ["DeletionByPodGC"]
    assert ("main", "Error", 137, 0) in told["collected"], "said after it was called failed"
    assert "resized" not in told


def test_a_resize_is_charged_from_the_moment_it_is_asked_for(folder: Path) -> None:
    ((requests,),) = imported("nodes", folder, "SELECT requests FROM pods WHERE name = 'resized'")
    assert json.loads(requests)["cpu"] == 200


def test_each_end_is_told_once_and_as_it_was(told: dict[str, Rows]) -> None:
    assert "succeeds" not in told
    assert told["fails"] == [("main", "Error", 7, 0)]
    assert told["oom"] == [("main", "OOMKilled", 137, 0)]
    assert ("", "DeadlineExceeded", 0, 0) in told["late"]
    assert ("", "EvictionByEvictionAPI", 0, 0) in told["evicted"]


def test_a_crash_loop_counts_each_crash_once(told: dict[str, Rows]) -> None:
    crashes = [row for row in told["loop"] if row[0]]
    assert len(crashes) >= 3
    assert {(row[1], row[2]) for row in crashes} == {("Error", 3)}
    assert [row[3] for row in crashes] == sorted({row[3] for row in crashes}), "none twice"
