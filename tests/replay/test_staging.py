"""A stage in a process of its own does what it would do here, and ends when its caller does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from podgroup.folding import drain_journal
from projector.replay.staging import open_stage, pack, unpack
from projector.storage.database import DatabaseError
from projector.upkeep import migrate
from projector.writing.rows import build
from projector.writing.values import Json
from tests.projector.support import busy_toy
from tests.replay.conftest import Ran
from tests.replay.support import Played
from tests.replay.test_rebuild import everything

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")


def test_rows_come_back_as_they_went() -> None:
    toy = busy_toy()
    rows = build(toy.world, drain_journal(toy.world)).tables
    assert rows["pods"] and rows["history"]
    found = unpack(pack(rows))
    assert found == rows
    kinds = [[type(cell) for cell in row] for row in rows["pods"]]
    assert [[type(cell) for cell in row] for row in found["pods"]] == kinds
    assert Json in kinds[0]


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_a_rebuild_of_a_long_log_by_processes_of_its_own(
    gatelog: Callable[..., Ran], played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(played.url)
    opened = []

    def watched(*args: str, apart: bool) -> object:
        opened.append(apart)
        return open_stage(*args, apart=apart)

    monkeypatch.setattr("projector.replay.fetching.FAR_MESSAGES", 1)
    monkeypatch.setattr("gatelog.replay.rebuilding.open_stage", watched)
    code, out, _ = gatelog("replay", "--rebuild", *played.options)
    assert (code, opened) == (0, [True]), out
    assert everything(played.url) == before


def test_one_that_dies_says_so_and_can_be_made_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/live.db"
    migrate.upgrade(url)
    stage = open_stage(url, "test", apart=True)
    with pytest.raises(DatabaseError, match="another rebuild is at work"):
        open_stage(url, "test", apart=True)
    os.kill(process_of(stage), signal.SIGKILL)
    with pytest.raises(DatabaseError, match="ended: nothing was put in place"):
        stage.prepare()
    with pytest.raises(DatabaseError, match="ended: nothing"):
        stage.close()
    again = open_stage(url, "test", apart=True)
    assert "live.db.rebuild" in again.left_over
    again.close()


CALLER = """
import os, sys, time
from projector.replay.staging import open_stage

if __name__ == "__main__":
    stage = open_stage(sys.argv[1], "test", apart=True)
    print(stage._pool.submit(os.getpid).result(), flush=True)
    time.sleep(60)
"""


def test_it_ends_with_its_caller(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/live.db", tmp_path / "caller.py"
    migrate.upgrade(url)
    file.write_text(CALLER)
    caller = subprocess.Popen([sys.executable, str(file), url], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    os.kill(int(caller.stdout.readline()), 0)
    with pytest.raises(DatabaseError, match="another rebuild is at work"):
        open_stage(url, "test")
    caller.kill()
    caller.wait()
    caller.stdout.close()
    until = time.monotonic() + 60
    while True:  # until it has let go of its file
        try:
            open_stage(url, "test").close()
            break
        except DatabaseError:
            assert time.monotonic() < until
            time.sleep(0.05)


def process_of(stage: object) -> int:
    pid: int = stage._pool.submit(os.getpid).result()  # type: ignore[attr-defined]
    return pid
