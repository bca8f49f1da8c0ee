"""Condition Preempted says by which policy, in Kueue's words, and names Workloads by their uid."""

import pytest

from podgroup.model import commands as c
from podgroup.model.names import PRIORITY_CLASS, QUEUE_NAME
from podgroup.model.policy import Policy
from tests.core.test_shared_quota import team
from tests.support.toy import Toy

HIGH = {PRIORITY_CLASS: "high"}


def test_a_preemption_within_the_queue_says_so() -> None:
    toy = Toy(cpu=1)
    toy.pod("low", "low", 1)
    toy.pod("high", "high", 1, labels=HIGH)
    status, reason, message = toy.condition("low", "Preempted")
    assert (status, reason) == ("True", "InClusterQueue")
    assert "due to prioritization in the ClusterQueue" in message
    assert toy.group("high").id not in message


@pytest.mark.parametrize(
    ("sharing", "reasons"),
    [
        ((), {"InCohortReclamation"}),
        (
            ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
            {"InCohortReclamation", "InCohortFairSharing"},
        ),
    ],
)
def test_who_takes_back_what_was_borrowed_says_so(
    sharing: tuple[str, ...], reasons: set[str]
) -> None:
    """Its own quota is reclaimed; with fair sharing a share of what belongs to neither is taken."""
    toy = Toy(policy=Policy(fair_sharing=sharing))
    for name, cpu in (("red", 1), ("blue", 1), ("spare", 2)):
        team(toy, name, cpu)
    for number in range(4):
        toy.pod(f"r{number}", f"r{number}", 1, labels={QUEUE_NAME: "red"})
    for number in range(2):
        toy.pod(f"b{number}", f"b{number}", 1, labels={QUEUE_NAME: "blue"})
    said = {n: toy.condition(n, "Preempted") for n in toy.workloads}
    said = {name: one for name, one in said.items() if one[0] == "True"}
    assert {reason for _, reason, _ in said.values()} == reasons
    rights = {
        "InCohortReclamation": "reclaims nominal quota for ClusterQueue blue",
        "InCohortFairSharing": "by Fair Sharing, for ClusterQueue blue",
    }
    evicted = [d.command for d in toy.decisions if isinstance(d.command, c.EvictGroup)]
    for command in evicted:
        assert command.preemption is not None
        assert f" ({rights[command.preemption.policy]}) — " in command.message
    assert {one.preemption.policy for one in evicted if one.preemption} == reasons
    for _, _, message in said.values():
        assert not any(group in message for group in toy.world.groups)


def test_a_preemptor_whose_workload_is_there_is_named_by_its_uid() -> None:
    toy = Toy(cpu=2)
    toy.pod("low", "low", 1)
    toy.pod("first", "first", 1, labels=HIGH)
    toy.pod("big", "big", 1, cpu=2, labels=HIGH)
    assert toy.condition("low", "Preempted")[0] == ""
    toy.run("first")
    toy.end("first")
    message = toy.condition("low", "Preempted")[2]
    assert f"(UID: {toy.workloads['big'].uid}, " in message
