"""`gatelog replay` beside a running `gatelog up`; on what a demo left: test_demo.py."""

from pathlib import Path

import pytest

from tests.support.processes import make_queue
from tests.support.stack import running_stack, runs_to_its_end

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


@pytest.mark.timeout(180)
async def test_gatelog_up_goes_on_in_the_rebuilt_read_model(tmp_path: Path) -> None:
    with running_stack(tmp_path) as stack:
        async with stack.api() as api:
            await make_queue(api, "ns")
            await runs_to_its_end(stack, api, "ns")
            done = stack.command("replay", "--rebuild")
            assert done.returncode == 0, done.stderr
            assert "rows written" in done.stdout
            await runs_to_its_end(stack, api, "ns")
            assert len(stack.log_lines("read_model_replaced")) == 1
            done = stack.command("replay", "--verify")
            assert done.returncode == 0, done.stdout
        stack.up.stop()
        done = stack.command("replay", "--rebuild")
        assert done.returncode == 0, done.stderr
        assert stack.command("replay", "--verify").returncode == 0
