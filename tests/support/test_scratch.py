"""Files of a run are in memory where there is room, and gone after it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import scratch

ROOT = Path(__file__).parents[2]
TAKE = """
import sys, tempfile
from pathlib import Path
from tests.support import scratch
found = scratch.take()
print(found, tempfile.gettempdir())
if found and "leave" in sys.argv:
    Path(found, "file").write_text("x")
    scratch.leave(found)
"""


def took(*words: str, **env: str) -> tuple[str, str]:
    """Where a process of its own was given a place, and where its temporary files went."""
    given = {name: value for name, value in os.environ.items() if name != "TMPDIR"} | env
    command = [sys.executable, "-c", TAKE, *words]
    said = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=True)
    place, temporary = said.stdout.split()
    return place, temporary


def test_files_stay_where_tmpdir_says(tmp_path: Path) -> None:
    assert took(TMPDIR=str(tmp_path)) == ("None", str(tmp_path))


def test_a_place_in_memory_goes_with_its_run_or_at_the_next() -> None:
    if scratch.free_bytes() < scratch.ENOUGH_BYTES:
        pytest.skip("no room in memory")
    killed, temporary = took()
    assert temporary == killed and Path(killed).is_dir()
    left, _ = took("leave")
    assert not Path(left).exists(), "the end takes it away"
    assert not Path(killed).exists(), "the next begin takes away what a killed run left"
    mine = Path(tempfile.gettempdir())
    assert mine.exists(), "a run that goes on keeps its own"
