"""Nothing stands still in silence: the quick part of the table, on two real replicas of each part.

The whole of it is `python -m tests.standstill`, on the stand-in or on a real control plane.
"""

from pathlib import Path

import pytest

from tests.standstill.faults import FAULTS
from tests.standstill.playing import CHANNELS, play
from tests.standstill.stack import running

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

PACE_S = 0.5


LONG = "a policy refuses each ungating"
"""It heals when the actuator tries again, which may be after half a minute."""


async def unsaid(tmp_path: Path, *, long: bool) -> list[str]:
    """Play the quick faults, those that heal late or the others; who did not say so in time."""
    wrong: list[str] = []
    async with running(tmp_path, PACE_S) as stack:
        for _ in range(6):
            assert await stack.scrape() == {}, "an alert fires in health"
        for fault in (one for one in FAULTS if one.quick and (one.name == LONG) is long):
            found = await play(stack, fault)
            late = [n for n in CHANNELS if found[n].wanted and found[n].at_s is None]
            wrong += [f"{fault.name}: {name}: {found[name].text[:500]}" for name in late]
    return wrong


@pytest.mark.timeout(400)
async def test_each_fault_is_said_by_everybody_who_must_say_it(tmp_path: Path) -> None:
    assert await unsaid(tmp_path, long=False) == []


@pytest.mark.slow(
    "it heals late; tests/standstill/test_answers.py and test_alerts.py have its words"
)
@pytest.mark.timeout(400)
async def test_a_refused_ungating_is_said_by_everybody_who_must_say_it(tmp_path: Path) -> None:
    assert await unsaid(tmp_path, long=True) == []
