"""How many functions are called for one pod's delta, from `pod_applied` to its end."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from podgroup.fold.pods import pod_applied
from podgroup.model.objects import Condition
from tests.support.toy import Toy

_READY: Final = (Condition(type="Ready", status="True"),)
_MOST: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "is bound to a node": (17, {"node": "node-1"}),
    "begins to run": (18, {"phase": "Running", "conditions": _READY}),
    "succeeds": (21, {"phase": "Succeeded", "conditions": ()}),
}
"""What a pod of an admitted group goes through -> the calls that this takes at most."""


def _counted(work: Callable[[], object]) -> list[str]:
    """Return the functions that are called, in order, while `pod_applied` works."""
    called: list[str] = []
    within: list[FrameType] = []

    def profiler(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (within or frame.f_code is pod_applied.__code__):
            within.append(frame)
            called.append(frame.f_code.co_qualname)
        elif event == "return" and within:
            within.pop()

    sys.setprofile(profiler)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


def test_what_a_pod_goes_through_takes_few_calls() -> None:
    toy = Toy(cpu=10)
    uids = [toy.pod(f"p{n}", group="g", total=4).uid for n in range(4)]
    taken = {}
    for what, (_, fields) in _MOST.items():
        toy.change(uids[0], **fields)  # the first one, as well as the last, changes its group
        taken[what] = _counted(lambda fields=fields: toy.change(uids[1], **fields))
    for what, (most, _) in _MOST.items():
        calls = taken[what]
        assert calls[:1] == ["pod_applied"]
        assert len(calls) <= most, f"{what}: {len(calls)} calls: {', '.join(calls)}"
