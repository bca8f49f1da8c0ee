"""Quota that succeeded pods gave up is not asked for again when their group was evicted."""

from typing import Any

import pytest

from podgroup.model.names import PRIORITY_CLASS
from tests.core.test_laws import reloaded
from tests.support.toy import Toy, taken

HIGH = {PRIORITY_CLASS: "high"}


def used(toy: Toy) -> int:
    return taken(toy.world, "cq").get(("f", "cpu"), 0)


def group(toy: Toy, name: str, size: int, first: int = 0, **more: Any) -> list[str]:
    names = [f"{name}{number}" for number in range(first, first + size)]
    for one in names:
        toy.pod(one, name, size + first if first else size, **more)
    return names


def test_an_evicted_group_asks_for_those_alone_that_have_not_succeeded() -> None:
    """Kueue's scheduler test of reclaimable pods: what ended needs no quota when it comes back."""
    toy = Toy(cpu=3)
    low = group(toy, "low", 3)
    toy.run(*low)
    toy.end("low0")
    assert used(toy) == 2000
    high = group(toy, "high", 3, labels=HIGH)
    assert toy.group("low").requeueing.evicted is not None
    toy.run(*high)
    assert used(toy) == 3000
    toy.end("high0")
    for number in (3, 4):
        toy.pod(f"low{number}", "low", 3)
    assert toy.gated("low3"), "1 of 2 is free"
    toy.end("high1")
    assert not toy.gated("low3") and not toy.gated("low4")
    assert used(toy) == 3000
    (given,) = toy.workloads["low"].assignments
    assert (given.count, given.usage) == (2, {"cpu": 2000})
    assert toy.workloads["low"].reclaimable == {given.name: 1}
    toy.run("low3", "low4")
    toy.end("low3")
    assert used(toy) == 2000
    toy.end("low4", "high2")
    assert used(toy) == 0
    assert toy.condition("low", "Finished")[:2] == ("True", "Succeeded")


@pytest.mark.parametrize("gone", [True, False])
def test_what_succeeded_and_was_deleted_needs_none_either(gone: bool) -> None:
    toy = Toy(cpu=3)
    low = group(toy, "low", 3)
    toy.run(*low)
    toy.end("low0")
    if gone:
        toy.delete("low0")
    high = group(toy, "high", 1, labels=HIGH, cpu=2)
    toy.run(*high)
    toy.end(*high)
    toy.pod("other", cpu=1)
    for number in (3, 4):
        toy.pod(f"low{number}", "low", 3)
    assert not toy.gated("low3") and not toy.gated("other")


def test_a_role_that_has_succeeded_as_a_whole_is_not_admitted_again() -> None:
    toy = Toy(cpu=4)
    toy.pod("driver", "g", 2, cpu=3, role="driver")
    toy.pod("worker", "g", 2, cpu=1, role="worker")
    toy.run("driver", "worker")
    toy.end("driver")
    toy.pod("high", cpu=4, labels=HIGH)
    toy.run("high")
    assert toy.group("g").requeueing.evicted is not None
    toy.pod("wide", cpu=3, labels=HIGH)
    toy.end("high")
    toy.run("wide")
    toy.pod("again", "g", 2, cpu=1, role="worker")
    assert not toy.gated("again")
    assert used(toy) == 4000
    toy.run("again")
    toy.end("again")
    assert toy.condition("g", "Finished")[:2] == ("True", "Succeeded")
    assert used(toy) == 3000


def test_a_serving_group_asks_for_all_of_it_again() -> None:
    toy = Toy(cpu=2)
    serving = {"kueue.x-k8s.io/pod-group-serving": "true"}
    for name in ("a", "b"):
        toy.pod(name, "g", 2, annotations=serving)
    toy.run("a", "b")
    toy.end("a")
    assert used(toy) == 2000


def test_the_books_are_the_same_after_a_restart() -> None:
    """Charges are made anew from what is stored."""
    toy = Toy(cpu=3)
    low = group(toy, "low", 3)
    toy.run(*low)
    toy.end("low0")
    high = group(toy, "high", 1, labels=HIGH, cpu=2)
    toy.run(*high)
    toy.end(*high)
    for number in (3, 4):
        toy.pod(f"low{number}", "low", 3)
    assert used(toy) == 2000
    again = reloaded(toy.world)
    assert taken(again, "cq").get(("f", "cpu"), 0) == 2000
