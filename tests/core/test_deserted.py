"""All pods of a running group are deleted: it ends by itself if none comes back for long."""

import pytest

from podgroup.model.policy import Policy
from tests.support.toy import Toy

HOUR = Policy(deleted_group_timeout_s=3600)


def running(policy: Policy = HOUR, **more: object) -> Toy:
    """A group of two that runs, and a pod that waits for its quota."""
    toy = Toy(cpu=2, policy=policy, **more)  # type: ignore[arg-type]
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.pod("waits", cpu=2)
    return toy


@pytest.mark.parity("B35")
def test_a_group_ends_whose_every_pod_was_deleted_and_none_came_back() -> None:
    toy = running()
    toy.delete("p0")
    toy.wait(1800)
    toy.delete("p1")
    toy.wait(3599)
    assert toy.there() == {"p0", "p1", "waits"} and toy.gated("waits"), "others may come yet"
    toy.wait(1)
    assert toy.there() == {"waits"} and not toy.gated("waits")
    (ended,) = (one for one in toy.decisions if one.rule == "abandon")
    assert ended.reason == "Failed" and ended.command.reason == "Failed"  # type: ignore[union-attr]
    assert ended.message == (
        "Pods succeeded: 0/2. All others were deleted, and none came back within 3600 s "
        "(queueing.deleted_group_timeout_s)."
    )


def test_meanwhile_it_says_when_it_ends() -> None:
    toy = running()
    toy.delete("p0")
    toy.delete("p1")
    said = toy.group("g").explained.message
    assert said.endswith("all were deleted: without others it ends 3600 s later")


def test_what_succeeded_counts_and_need_not_be_deleted() -> None:
    toy = running()
    toy.end("p0")
    toy.delete("p1")
    toy.wait(3600)
    (ended,) = (one for one in toy.decisions if one.rule == "abandon")
    assert ended.message.startswith("Pods succeeded: 1/2. All others")


def test_an_hour_is_given_from_the_last_end_on() -> None:
    """A controller may wait for the end before it makes another."""
    toy = running()
    toy.slow = True
    toy.delete("p0")
    toy.delete("p1")
    toy.wait(7200)
    toy.end("p0", "p1", phase="Failed")
    toy.wait(3599)
    assert toy.gated("waits")
    toy.wait(1)
    assert not toy.gated("waits")


def test_a_replacement_keeps_it() -> None:
    toy = running()
    toy.delete("p0")
    toy.delete("p1")
    toy.wait(3000)
    toy.pod("again", "g", 2)
    toy.wait(7200)
    assert not toy.gated("again") and toy.gated("waits")
    toy.run("again")
    toy.delete("again")
    toy.wait(3599)
    assert toy.gated("waits"), "the time begins anew"
    toy.wait(1)
    assert not toy.gated("waits")


def test_a_pod_that_failed_and_was_not_deleted_keeps_it() -> None:
    toy = running()
    toy.delete("p0")
    toy.end("p1", phase="Failed")
    toy.wait(7200)
    assert toy.gated("waits")


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(deleted_group_timeout_s=3600, compatibility="kueue")]
)
def test_without_the_setting_and_as_kueue_it_is_kept(policy: Policy) -> None:
    toy = running(policy)
    toy.delete("p0")
    toy.delete("p1")
    toy.wait(30 * 86400)
    assert toy.gated("waits") and toy.there() == {"p0", "p1", "waits"}
    assert "all were deleted" not in toy.group("g").explained.message


def test_kueue_ends_its_own() -> None:
    toy = Toy(mode="kueue", policy=HOUR)
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.admit("g")
    toy.run("p0", "p1")
    toy.delete("p0")
    toy.delete("p1")
    toy.wait(7200)
    assert toy.there() == {"p0", "p1"}


def test_a_serving_group_is_left_alone() -> None:
    toy = Toy(cpu=2, policy=HOUR)
    serving = {"kueue.x-k8s.io/pod-group-serving": "true"}
    for name in ("p0", "p1"):
        toy.pod(name, "g", 2, annotations=serving)
    toy.run("p0", "p1")
    toy.delete("p0")
    toy.delete("p1")
    toy.wait(7200)
    assert "abandon" not in toy.rules()
