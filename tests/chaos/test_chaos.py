"""The short form of `make chaos`: the faults that take least time, one after another in one lab.

What must hold is what the long form looks at: quota and gates at every event of the watch, the
audit of a cluster at rest, one decision and one outcome for each target, and a clean replay.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.lab import lab
from tests.chaos.running import suffer, watched
from tests.chaos.watching import Eyes
from tests.support.forking import PYTHON, ran
from tests.support.processes import TOKEN, Api, Simulator, make_queue, pod

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

SHORT = ("watches gone (410)", "undecodable messages", "EVENTS deleted")
SEED = 20261121


@pytest.mark.slow("faults under load, a minute")
@pytest.mark.timeout(180)
async def test_a_busy_cluster_takes_the_cheapest_faults() -> None:
    async with lab("sqlite") as one, watched(one) as eyes:
        for name in SHORT:
            found = await suffer(one, FAULTS[name], SEED)
            logs = "\n".join(child.tail(10) for child in one.parts)
            assert not found.wrong, f"{found}\n{logs}"
            assert found.injected
            assert found.pods > 20
            assert not found.ended, f"a process ended by itself: {found}\n{logs}"
        assert eyes.most["busy"] > 5, "the quota was hardly used"
        # EVENTS was made anew: what is from before cannot be folded, and the command says so.
        asked = one.parts.beside("verify", "replay")
        asked.argv.append("--verify")
        asked.start()
        assert asked.process is not None
        assert await asyncio.to_thread(asked.process.wait, 60) == 0, asked.text()
        await asyncio.to_thread(asked.wait_for, "the log before epoch 2 is lost")


async def test_a_broken_promise_is_seen(tmp_path: Path) -> None:
    simulator = Simulator(tmp_path, "--kubelet", "scripted")
    simulator.start()
    try:
        async with Api(simulator.url, TOKEN) as api:
            await make_queue(api, "busy")
            async with Eyes(api, {"busy": 2}) as eyes:
                for i in range(3):
                    body = pod(f"p{i}", "group", 4, script="run=forever")
                    await api.call("POST", "/api/v1/namespaces/busy/pods", body)
                assert await eyes.until(lambda: len(eyes.pods) == 3, 60)
                found = set(eyes.wrong)
    finally:
        simulator.stop()
    assert "busy: 3 cpu past the gate, quota 2" in found
    assert any(text.startswith("busy/group: ungated with ") for text in found), found


def test_faults_are_named_and_unknown_ones_refused(tmp_path: Path) -> None:
    command = [PYTHON, "-m", "tests.chaos"]
    listed = ran([*command, "--list"], os.environ, tmp_path)
    assert listed.returncode == 0 and listed.stdout.splitlines() == list(FAULTS)
    refused = ran([*command, "no such"], os.environ, tmp_path)
    assert refused.returncode == 2
    assert "no such fault: no such" in refused.stderr
