"""What runs is charged, from when it may run until it has ended or is gone, whoever wrote what."""

from datetime import timedelta

import pytest

from podgroup.log import events as e
from podgroup.model.commands import DeletePod, KeepPod, StopPod
from podgroup.model.names import (
    MANAGED_LABEL,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    SERVING,
    workload_name,
)
from podgroup.model.policy import Policy
from tests.support.toy import Toy, taken

CPU = ("f", "cpu")


def used(toy: Toy) -> int:
    """CPUs that are charged, in thousandths."""
    return taken(toy.world, "cq").get(CPU, 0)


def kept(toy: Toy) -> list[str]:
    return [d.command.target.name for d in toy.decisions if isinstance(d.command, KeepPod)]


def stops(toy: Toy) -> list[tuple[str, int | None]]:
    found = [d.command for d in toy.decisions if isinstance(d.command, StopPod | DeletePod)]
    return [(command.target.name, command.grace_s) for command in found]


def last_message(toy: Toy, name: str) -> str:
    return toy.group(name).explained.message


@pytest.mark.parametrize("group", ["", "g"])
def test_a_running_pod_that_loses_the_label_is_charged_and_gets_it_back(group: str) -> None:
    toy = Toy(cpu=1)
    toy.pod("p0", group, 1 if group else 0)
    toy.run("p0")
    toy.act = False
    toy.unlabel("p0")
    title = group or "p0"
    assert used(toy) == 1000 and toy.held("p0")
    assert "taken off pods that run" in last_message(toy, title)
    toy.pod("next")
    assert toy.gated("next"), "there is no room"
    toy.act = True
    toy.settle()
    assert kept(toy) == ["p0"] and toy.named("p0").labels[MANAGED_LABEL] == "true"
    assert toy.group(title).explained.state == "Running" and "taken off" not in last_message(
        toy, title
    )
    assert [what for on, what, _ in toy.said if on == "p0"].count("LabelPutBack") == 1
    toy.end("p0")
    assert not toy.gated("next")


def test_a_fight_over_the_label_is_paced_and_named() -> None:
    toy = Toy(cpu=1)
    toy.pod("p0")
    toy.run("p0")
    begun = toy.now
    for _ in range(8):
        while MANAGED_LABEL not in toy.named("p0").labels:
            toy.wait(1)
        toy.unlabel("p0")
    assert toy.now - begun > timedelta(seconds=60)
    assert used(toy) == 1000 and "(put back 7 times" in last_message(toy, "p0")
    while MANAGED_LABEL not in toy.named("p0").labels:
        toy.wait(1)
    toy.wait(700)
    toy.unlabel("p0")
    assert MANAGED_LABEL in toy.named("p0").labels, "after a while of peace it comes back at once"


def test_a_pod_that_ends_out_of_sight_is_found_out() -> None:
    toy = Toy(cpu=1)
    toy.pod("p0")
    toy.run("p0")
    toy.act = False
    toy.unlabel("p0")
    gone = toy.named("p0")
    del toy.pods[gone.uid]
    toy.act = True
    toy.settle()
    assert gone.uid not in toy.world.pods and not used(toy)
    assert toy.world.journal.pods is not None
    (note,) = [n for n in toy.world.journal.notes if n.kind == "PodGone"]
    assert "found out" in note.message


def test_a_pod_that_is_not_in_a_list_may_have_lost_the_label() -> None:
    toy = Toy(cpu=1)
    toy.pod("p0")
    toy.run("p0")
    toy.do(
        e.RelistStarted(kind="Pod", relist="again"),
        e.RelistCompleted(kind="Pod", relist="again", resource_version=toy.bump(), filtered=True),
    )
    assert kept(toy) == ["p0"] and used(toy) == 1000
    assert toy.group("p0").explained.state == "Running"


def test_a_list_without_a_selector_shows_what_is_gone() -> None:
    toy = Toy(cpu=1)
    toy.pod("p0")
    toy.run("p0")
    toy.pods.clear()
    toy.do(
        e.RelistStarted(kind="Pod", relist="again"),
        e.RelistCompleted(kind="Pod", relist="again", resource_version=toy.bump()),
    )
    assert not kept(toy) and not used(toy)


def test_without_a_selector_a_pod_that_loses_its_labels_stays_where_it_is() -> None:
    toy = Toy(cpu=1)
    toy.pod("p0", "g", 1)
    toy.run("p0")
    toy.change(toy.named("p0").uid, labels={})
    assert used(toy) == 1000 and toy.group("g").explained.state == "Running" and not kept(toy)
    toy.end("p0")
    assert not used(toy)


@pytest.mark.parametrize("group", ["", "g"])
def test_a_pod_that_lets_itself_in_is_stopped_soon_and_charged_until_it_has_ended(
    group: str,
) -> None:
    toy = Toy(cpu=1)
    toy.slow = True
    toy.pod("hog")
    toy.run("hog")
    toy.pod("p0", group, 1 if group else 0)
    toy.act = False
    toy.change(toy.named("p0").uid, gates=())
    toy.run("p0")
    toy.act = True
    toy.settle()
    assert stops(toy) == [("p0", 2)], "whatever grace period it asks for"
    assert toy.named("p0").deleted_at is not None and toy.held("p0")
    assert used(toy) == 2000
    toy.end("hog")
    toy.pod("next")
    assert toy.gated("next"), "what runs on is charged"
    assert toy.group(group or "p0").ending.finish is None
    toy.end("p0")
    assert not toy.gated("next")


def test_a_pod_that_lets_itself_in_before_its_group_is_complete_is_stopped() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.change(toy.named("p0").uid, gates=())
    assert stops(toy) == [("p0", 2)]


def test_a_long_grace_period_does_not_help_who_let_himself_in() -> None:
    toy = Toy(cpu=0)
    toy.slow = True
    toy.pod("p0")
    toy.act = False
    uid = toy.named("p0").uid
    toy.change(uid, gates=())
    toy.run("p0")
    toy.queue.clear()
    year = timedelta(days=365)
    toy.change(uid, deleted_at=toy.now + year, grace_s=int(year.total_seconds()))
    toy.wait(31)  # what was decided before has come to nothing
    assert stops(toy)[-1] == ("p0", 2)
    assert used(toy) == 1000


@pytest.mark.parametrize("how", ["preempted", "deleted"])
def test_a_single_pod_holds_its_quota_until_it_has_ended(how: str) -> None:
    toy = Toy(cpu=1)
    toy.slow = True
    toy.pod("p0")
    toy.run("p0")
    if how == "preempted":
        toy.pod("urgent", labels={PRIORITY_CLASS: "high"})
    else:
        toy.delete("p0")
        toy.pod("urgent")
    assert toy.named("p0").deleted_at is not None and toy.held("p0")
    assert toy.gated("urgent") and used(toy) == 1000
    assert toy.group("p0").ending.finish is None
    toy.end("p0", phase="Failed")
    assert not toy.gated("urgent")
    assert "p0" not in {p.name for p in toy.pods.values()}


def test_with_quick_release_it_does_not_hold_its_quota_so_long() -> None:
    toy = Toy(cpu=1, policy=Policy(fast_quota_release=True))
    toy.slow = True
    toy.pod("p0")
    toy.run("p0")
    toy.pod("urgent", labels={PRIORITY_CLASS: "high"})
    assert toy.named("p0").phase == "Running" and not toy.gated("urgent")


@pytest.mark.parametrize("group", ["", "g"])
def test_a_resized_pod_is_charged_for_what_it_takes(group: str) -> None:
    toy = Toy(cpu=10)
    toy.pod("p0", group, 1 if group else 0)
    toy.run("p0")
    uid = toy.named("p0").uid
    toy.change(uid, requests={"cpu": 9500})
    assert used(toy) == 9500
    toy.pod("next")
    assert toy.gated("next")
    toy.change(uid, requests={"cpu": 39_000})
    assert used(toy) == 39_000, "above the quota too"
    assert "it takes 38 cpu of f more" in last_message(toy, group or "p0")
    toy.change(uid, requests={"cpu": 500})
    assert used(toy) == 2000 and not toy.gated("next"), "it keeps what it was given"
    toy.end("p0")
    assert used(toy) == 1000


def test_a_waiting_pod_that_is_resized_asks_for_what_it_wants_now() -> None:
    toy = Toy(cpu=2)
    toy.pod("hog", cpu=2)
    toy.pod("p0")
    toy.change(toy.named("p0").uid, requests={"cpu": 5000})
    toy.end("hog")
    assert toy.gated("p0") and toy.group("p0").explained.reason == "ExceedsMaxQuota"


def test_pods_of_a_serving_group_that_terminate_are_charged_and_their_successors_wait() -> None:
    toy = Toy(cpu=10)
    toy.slow = True
    for name in ("s0", "s1"):
        toy.pod(name, "g", 2, annotations={SERVING: "true"})
    toy.run("s0", "s1")
    toy.delete("s0")
    toy.pod("s2", "g", 2, annotations={SERVING: "true"})
    assert toy.gated("s2") and used(toy) == 2000
    toy.end("s0")
    toy.run("s2")
    assert used(toy) == 2000


def test_what_outlives_its_group_is_charged() -> None:
    toy = Toy(cpu=10)
    toy.slow = True
    for name in ("p0", "p1"):
        toy.pod(name, "g", 2)
    toy.run("p0", "p1")
    toy.delete_workload("g")
    assert used(toy) == 2000 and toy.held("p0")
    toy.end("p0")
    toy.end("p1")
    assert not used(toy)


def test_a_workload_that_writes_do_not_find_is_gone() -> None:
    """Two pods name it, and the news of its end reaches one of them only."""
    toy = Toy()
    toy.pod("p0", "g", 1)
    toy.run("p0")
    toy.act = False
    toy.end("p0")
    del toy.workloads["g"]
    toy.act = True
    toy.settle()
    toy.wait(31)
    tries = len(toy.decisions)
    toy.wait(300)
    assert len(toy.decisions) == tries, "no write is tried for ever"
    assert toy.world.groups == {} or toy.group("g").mirror.workload is None


def test_who_started_is_not_told_what_holds_for_a_stranger_in_its_group() -> None:
    toy = Toy(cpu=0)
    driver = toy.pod("driver", "g", 1)
    toy.wait(6)
    assert toy.world.pods[driver.uid].reported is not None, "it waits, and is told so"
    stranger = toy.pod("stranger", "g", 1, role="other")
    toy.do(e.ObjectApplied(object=toy.cluster_queue(10)))
    assert not toy.gated("driver") and toy.gated("stranger")
    assert toy.world.pods[driver.uid].reported is None
    toy.wait(6)
    assert toy.world.pods[stranger.uid].reported is not None
    assert toy.world.pods[driver.uid].reported is None


def test_a_group_that_is_gone_holds_nothing() -> None:
    toy = Toy(cpu=1)
    toy.pod("p0", "g", 1)
    toy.run("p0")
    group = toy.group("g")
    toy.act = False
    toy.workloads.clear()
    group.mirror.workload = None
    toy.pods.clear()
    toy.do(
        e.RelistStarted(kind="Pod", relist="again"),
        e.RelistCompleted(kind="Pod", relist="again", resource_version=toy.bump()),
    )
    toy.act = True
    toy.settle()
    toy.wait(31)
    rows = [row for row in toy.world.journal.admissions.values() if row.group == group.id]
    assert group.ending.gone_at is not None and rows[-1].released_at is not None


@pytest.mark.parametrize("first", ["victim", "thief"])
def test_nobody_runs_on_the_admission_of_somebody_elses_workload(first: str) -> None:
    toy = Toy(cpu=1)
    if first == "thief":  # it names what will be made for the victim, whose uid it guesses
        name = workload_name("victim", "u0002")
        toy.pod("thief", labels={PREBUILT_WORKLOAD: name})
    toy.pod("victim")
    toy.run("victim")
    (name,) = toy.workloads
    if first == "victim":
        toy.pod("thief", labels={PREBUILT_WORKLOAD: name})
    assert toy.gated("thief") and used(toy) == 1000
    assert toy.group("thief").explained.reason == "PrebuiltWorkloadNotFound"
    toy.end("victim")
    toy.delete("victim")
    toy.delete("thief")
    toy.wait(120)
    assert not toy.pods and not toy.workloads and not toy.world.groups
    assert not toy.world.by_workload and not toy.world.rivals


def test_a_pod_resized_beyond_its_admission_is_warned_of_once() -> None:
    toy = Toy(cpu=4)
    toy.pod("grows", cpu=1)
    toy.run("grows")
    uid = toy.named("grows").uid
    toy.change(uid, requests={"cpu": 3000})
    toy.change(uid, labels={**toy.named("grows").labels, "any": "change"})
    warned = [one for one in toy.said if one[1] == "LargerThanAdmitted"]
    more = "it takes 2 cpu of f more than it was given, which is charged too"
    assert [one[2] for one in warned] == [f"admitted by ClusterQueue cq; {more}"]
    toy.change(uid, requests={"cpu": 1000})
    toy.pod("next", cpu=3)
    assert not toy.gated("next")
    assert len([one for one in toy.said if one[1] == "LargerThanAdmitted"]) == 1
