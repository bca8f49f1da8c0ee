"""The short form of `make chaos`: the faults that take least time, one after another in one lab.

What must hold is what the long form looks at: quota and gates at every event of the watch, the
audit of a cluster at rest, one decision and one outcome for each target, and a clean replay.
"""

import subprocess
import sys

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.lab import lab
from tests.chaos.running import suffer, watched

SHORT = ("watches gone (410)", "undecodable messages", "EVENTS deleted")
SEED = 20261121


@pytest.mark.timeout(180)
async def test_a_busy_cluster_takes_the_cheapest_faults() -> None:
    async with lab("sqlite") as one, watched(one) as eyes:
        for name in SHORT:
            found = await suffer(one, FAULTS[name], SEED)
            logs = "\n".join(child.tail(10) for child in one.children.values())
            assert not found.wrong, f"{found}\n{logs}"
            assert found.injected
            assert found.pods > 20
            assert not found.ended, f"a process ended by itself: {found}\n{logs}"
        assert eyes.most["busy"] > 5, "the quota was hardly used"


def test_faults_are_named_and_unknown_ones_refused() -> None:
    command = [sys.executable, "-m", "tests.chaos"]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == list(FAULTS)
    refused = subprocess.run([*command, "no such"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "no such fault: no such" in refused.stderr
