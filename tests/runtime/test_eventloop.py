"""The choice of the event loop, and that a process does not need the faster one."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from runtime import eventloop

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def mine() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_the_loop_is_the_faster_one() -> None:
    assert issubclass(eventloop.run(mine()), uvloop.Loop)


def test_a_result_and_an_error_come_out_as_they_are() -> None:
    async def fails() -> None:
        raise LookupError("as it is")

    assert eventloop.run(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError, match="as it is"):
        eventloop.run(fails())


PART = """
import asyncio
from runtime.service import run_part
async def part(settings, stop, *, checks):
    print(type(asyncio.get_running_loop()).__module__, flush=True)
run_part(part, name="part")
"""


def without_uvloop(place: Path) -> "subprocess.CompletedProcess[str]":
    """Run a part where importing uvloop fails as it does on a platform without it."""
    (place / "uvloop.py").write_text("raise ImportError('no wheel for this platform')\n")
    path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {k: v for k, v in os.environ.items() if not k.startswith("GATELOG_")}
    env |= {"PYTHONPATH": path, "GATELOG_LOG_FORMAT": "json"}
    return subprocess.run(
        [sys.executable, "-c", PART],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_platform_without_uvloop_runs_on_asyncio(tmp_path: Path) -> None:
    found = without_uvloop(tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("asyncio.")
