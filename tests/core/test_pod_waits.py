"""What pods wait for that were let go, as intervals: none is open of a pod that left."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model.objects import Condition, PodView
from tests.support.toy import Toy

UNSCHEDULABLE = Condition(type="PodScheduled", status="False", reason="Unschedulable")


def waiting() -> tuple[Toy, PodView]:
    """A pod was let go and fits no node."""
    toy = Toy()
    toy.pod("a")
    toy.change(toy.named("a").uid, conditions=(UNSCHEDULABLE,))
    assert opened(toy) == ["Unschedulable"]
    return toy, toy.named("a")


def opened(toy: Toy) -> list[str]:
    """Return the reasons of the intervals that are open."""
    return [row.reason for row in toy.world.journal.pod_waits.values() if row.to_at is None]


def relist(toy: Toy, _: PodView) -> None:
    """A relist does not list it."""
    toy.act = False
    toy.do(
        e.RelistStarted(kind="Pod", relist="again"),
        e.RelistCompleted(kind="Pod", relist="again", resource_version=toy.bump()),
    )


def leave_us(toy: Toy, view: PodView) -> None:
    """It is there without the label."""
    toy.act = False
    toy.do(e.PodDeleted(pod=replace(view, resource_version=toy.bump())))


def be_gone_unseen(toy: Toy, view: PodView) -> None:
    """It lost its label and then went, which the write that puts the label back finds out."""
    toy.act = False
    toy.unlabel("a")
    del toy.pods[view.uid]
    toy.act = True
    toy.settle()


def go_as_the_fold_fails(toy: Toy, view: PodView) -> None:
    """A state that cannot be stands in for a bug of ours."""
    toy.world.pods[view.uid].role = "unknown"
    del toy.pods[view.uid]
    toy.do(e.PodDeleted(pod=replace(view, resource_version=toy.bump(), deleted_at=toy.now)))
    assert toy.world.journal.parked


def run_as_the_fold_fails(toy: Toy, view: PodView) -> None:
    """It runs by a view that cannot be, which stands in for a bug of ours."""
    odd: Any = (None,)
    fields = {"node": "n", "phase": "Running", "conditions": (), "ends": odd}
    toy.do(e.PodApplied(pod=replace(view, resource_version=toy.bump(), **fields)))
    assert toy.world.journal.parked


WAYS = (relist, leave_us, be_gone_unseen, go_as_the_fold_fails, run_as_the_fold_fails)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_wait_ends_whichever_way_the_pod_goes(way: Callable[[Toy, PodView], None]) -> None:
    toy, view = waiting()
    way(toy, view)
    assert way is run_as_the_fold_fails or view.uid not in toy.world.pods
    assert opened(toy) == []


def test_a_pod_that_comes_back_waits_once() -> None:
    toy, view = waiting()
    relist(toy, view)
    toy.do(e.PodApplied(pod=replace(view, resource_version=toy.bump())))
    assert opened(toy) == ["Unschedulable"]
    assert len(toy.world.journal.pod_waits) > 1
