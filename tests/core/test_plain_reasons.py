"""Why a group waits is said in plain words first, and in Kueue's after them."""

import pytest

from podgroup.model import commands as c
from podgroup.model.names import (
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_WAITING_FOR_QUOTA,
    POD_GROUP_ROLE,
    PRIORITY_CLASS,
)
from podgroup.model.shortage import NOMINAL, Shortage
from podgroup.model.wording import NEVER, NOT_SELECTED, first, joined, kueues, needs, short_of
from podgroup.rules.helpers.plainly import kueue_plainly
from tests.core.test_shared_quota import of, team
from tests.support.toy import Toy


def test_what_is_needed_and_what_is_free_where_comes_first() -> None:
    toy = Toy(cpu=10)
    toy.pod("first", cpu=6)
    toy.pod("waits", cpu=6)
    wait = toy.group("waits").explained.wait
    assert first(wait.message) == "needs 6 cpu; 4 are free in ClusterQueue cq (flavor f)"
    assert kueues(wait.message) == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, "
        "2 more needed"
    )
    toy.wait(6)
    reports = [d.command for d in toy.decisions if isinstance(d.command, c.ReportPod)]
    report = next(one for one in reports if one.target.name == "waits")
    workload = next(w for w in toy.workloads.values() if "waits" in w.name)
    reserved = next(one for one in workload.conditions if one.type == "QuotaReserved")
    assert report.message == report.events[0].message == reserved.message == wait.message


def test_more_than_there_ever_is() -> None:
    toy = Toy(cpu=20)
    toy.pod("huge", cpu=50)
    wait = toy.group("huge").explained.wait
    assert first(wait.message) == (
        "can never start: needs 50 cpu; ClusterQueue cq can have 20 at most (flavor f): its "
        "nominalQuota, which administrators of ClusterQueues may raise"
    )


def test_what_never_fits_names_the_limit_and_who_may_change_it() -> None:
    toy = Toy()
    team(toy, "red", 4, borrows=4)
    team(toy, "blue", 8, lends=6)
    toy.pod("borrower", cpu=9, labels=of("red"))
    said = first(toy.group("borrower").explained.wait.message)
    assert said == (
        "can never start: needs 9 cpu; ClusterQueue red can have 8 at most (flavor f): its "
        "nominalQuota and borrowingLimit, which administrators of ClusterQueues may raise; without "
        "borrowing limits it could have 10"
    )
    team(toy, "green", 4)
    toy.pod("kept", cpu=15, labels=of("green"))
    assert "the lendingLimit of blue, which administrators of ClusterQueues may raise; if " in (
        first(toy.group("kept").explained.wait.message)
    )
    toy.pod("all", cpu=60, labels=of("green"))
    assert "Cohort lab can have 14 at most (flavor f): the nominalQuota of all that is in it" in (
        first(toy.group("all").explained.wait.message)
    )


def test_what_no_flavor_is_for_can_never_start_either() -> None:
    toy = Toy()
    toy.pod("p", requests={"cpu": 1000, "example.com/gpu": 1})
    said = first(toy.group("p").explained.wait.message)
    assert said == (
        "can never start: its ClusterQueue has no quota for example.com/gpu; administrators of "
        "ClusterQueues may add one"
    )


def test_what_fits_another_flavor_later_is_not_said_to_be_hopeless() -> None:
    never = Shortage("f", "cpu", "cq", False, 6000, 1000, NOMINAL, 1000, ever=True)
    later = Shortage("g", "cpu", "cq", False, 6000, 1000, NOMINAL, 1000)
    said = short_of(PENDING_WAITING_FOR_QUOTA, (never, later))
    assert not any(one.startswith(NEVER) for one in said)
    assert short_of(PENDING_EXCEEDS_MAX_QUOTA, (never, never))[0].startswith(NEVER)


def test_who_is_missing_of_a_group() -> None:
    toy = Toy()
    toy.pod("p0", "gang", 4)
    wait = toy.group("gang").explained.wait
    assert first(wait.message) == "needs 4 pods; fewer are there"
    assert "fewer runnable pods than expected" in kueues(wait.message)


def test_who_gave_way_reads_for_whom_and_by_which_priority() -> None:
    toy = Toy(cpu=4)
    low, high = ({PRIORITY_CLASS: name} for name in ("low", "high"))
    toy.pod("victim", cpu=4, labels=low)
    toy.run("victim")
    toy.pod("urgent", cpu=4, labels=high)
    evicted = next(d for d in toy.decisions if isinstance(d.command, c.EvictGroup))
    command = evicted.command
    assert isinstance(command, c.EvictGroup)
    over = "(priority 1000 over 1)"
    assert first(command.message) == f"preempted by ns/urgent {over}"
    assert kueues(command.message).startswith("Preempted to accommodate a workload (UID:")
    assert evicted.message.startswith("preempted by ns/urgent (group ")


def test_who_gave_way_to_an_older_group_of_its_own_priority_reads_so() -> None:
    toy = Toy(cpu=4, within="LowerOrNewerEqualPriority")
    for name, cpu in (("first", 1), ("older", 4), ("newer", 3)):
        toy.pod(name, cpu=cpu)
        toy.wait(5)
    toy.run("first", "newer")
    toy.end("first")
    (evicted,) = (d.command for d in toy.decisions if isinstance(d.command, c.EvictGroup))
    assert first(evicted.message) == "preempted by ns/older (priority 0 both, and queued earlier)"


def test_who_must_end_first_is_counted() -> None:
    toy = Toy()
    team(toy, "red", 4)
    team(toy, "blue", 4)
    toy.slow = True
    for number in range(8):
        toy.pod(f"b{number}", labels=of("blue"))
        toy.run(f"b{number}")
    toy.pod("r", cpu=4, labels=of("red"))
    said = first(toy.group("r").explained.wait.message)
    assert "needs 4 cpu" in said and "4 groups give way for it and must end first" in said


def test_pod_sets_are_named_as_people_know_them() -> None:
    toy = Toy(cpu=10)
    toy.pod("driver", "gang", 3, labels={POD_GROUP_ROLE: "driver"})
    for name in ("w-0", "w-1"):
        toy.pod(name, "gang", 3, cpu=2, role="6daa1c11")
    said = next(d.message for d in toy.decisions if d.rule == "admit")
    assert "1 pod of role driver in f" in said
    assert "2 pods like w-0 in f" in said
    toy.pod("w-2", "gang", 3, cpu=2, role="6daa1c11")
    beyond = next(d.message for d in toy.decisions if d.rule == "excess")
    assert beyond == "pod w-2: the group has no more than 2 pods like w-0"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "couldn't assign flavors to pod set 6daa1c11: insufficient unused quota for cpu in "
            "flavor default, 2 more needed",
            "short of 2 cpu (flavor default)",
        ),
        (
            "couldn't assign flavors to pod set a: insufficient quota for cpu in flavor default, "
            "previously considered podsets requests (0) + current podset request (50) > maximum "
            "capacity (20)",
            "can never start: needs 50 cpu; the queue can have 20 at most (flavor default): its "
            "quota, which administrators of ClusterQueues may raise",
        ),
    ],
)
def test_what_kueue_wrote_itself_is_said_plainly_too(message: str, said: str) -> None:
    assert kueue_plainly(message) == joined(said, message)
    assert kueues(kueue_plainly(message)) == message
    assert kueue_plainly(NOT_SELECTED) == NOT_SELECTED


def test_words_are_not_put_before_words() -> None:
    short = Shortage("f", "cpu", "cq", False, 6000, 1000, NOMINAL, 1000)
    once = joined(needs(short), "Kueue's")
    assert joined(needs(short), once) == once
    assert first(once) == "needs 6 cpu; 1 is free in ClusterQueue cq (flavor f)"


def test_no_hash_is_shown_of_a_group_that_is_composed() -> None:
    toy = Toy(cpu=10)
    for name in ("w-0", "w-1"):
        toy.pod(name, "gang", 2, cpu=2, role="6daa1c11")
    said = " ".join(d.message for d in toy.decisions if d.rule in ("compose", "admit"))
    assert "2 pods like w-0" in said and "6daa1c11" not in said
