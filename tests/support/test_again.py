"""Which tests are played twice: those that are marked so, with a reason, and named afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

UNLUCKY = """
import time

import pytest
PLAYS = []


@pytest.fixture
def hangs():
    time.sleep(50)


{mark}
def test_unlucky():
    PLAYS.append(1)
    assert len(PLAYS) > 1
"""
HANGS = """
@pytest.mark.retried("it waits")
@pytest.mark.timeout(0.5)
@pytest.mark.usefixtures("hangs")
"""


@pytest.mark.parametrize(
    ("mark", "code", "said"),
    [
        ("", 1, "1 failed"),
        ('@pytest.mark.retried("it waits")', 0, "retried because it waits"),
        ("@pytest.mark.retried()", 1, "with a reason"),
        (HANGS, 1, "Timeout (>0.5s)"),
    ],
)
def test_only_what_says_why_is_played_twice(
    tmp_path: Path, mark: str, code: int, said: str
) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "conftest.py").write_text(
        "from tests.support.again import pytest_runtest_protocol, pytest_terminal_summary\n"
    )
    (tmp_path / "test_it.py").write_text(UNLUCKY.format(mark=mark))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = retried\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode != 0) is bool(code), done.stdout
    assert said in done.stdout + done.stderr
    if code == 0:
        assert "played twice: test_it.py::test_unlucky" in done.stdout
