"""Rows about places: missing pods, replacements, surplus."""

from datetime import timedelta
from typing import Any

import pytest

from podgroup.model.names import (
    FAST_ADMISSION,
    GROUP_TOTAL_COUNT,
    POD_FINALIZER,
    SERVING,
)
from podgroup.model.objects import ContainerEnd
from tests.parity.groups import NO_RETRY, SHORT, admitted, owners, placed
from tests.support.toy import Toy


@pytest.mark.parity("C-30")
def test_more_places_than_pods_start_the_replacement_and_hold_the_failed_one() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 2), short="PodsFailed")
    toy.pod("p0", "g", 1, gated=False, phase="Failed", node="n")
    toy.pod("again", "g", 1)
    assert not toy.gated("again")
    assert toy.held("p0")
    assert toy.condition("g", SHORT) == ("True", "PodsFailed", "as it was")


@pytest.mark.parity("C-31")
def test_a_replacement_releases_the_failed_pod_and_becomes_an_owner() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, 3)
    toy.end("p1", phase="Failed")
    toy.end("p2")
    toy.pod("again", "g", 3)
    assert not toy.held("p1") and toy.held("p2")
    assert not toy.gated("again") and "again" in owners(toy)
    assert toy.workloads["g"].reclaimable == {"r1": 1}
    assert ("g", "OwnerReferencesAdded", "Added 1 owner reference(s)") in toy.said


@pytest.mark.parity("C-36")
def test_pods_that_were_deleted_before_they_were_bound_are_held_until_replaced() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    toy.delete("p0")
    toy.delete("p1")
    assert toy.held("p0") and toy.held("p1")
    assert toy.workloads["g"].cluster_queue == "cq"


@pytest.mark.parity("C-37")
def test_a_role_without_pods_does_not_cost_the_workload() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 1), ("r2", 1))
    toy.pod("p0", "g", 2, gated=False, deleted_at=toy.now)
    assert toy.workloads["g"].cluster_queue == "cq" and toy.held("p0")


@pytest.mark.parity("C-44", "I-16")
def test_surplus_before_the_workload_goes_youngest_first() -> None:
    toy = Toy(mode="kueue")
    toy.pod("other", "g", 3)
    toy.now += timedelta(seconds=1)
    toy.pod("young", "g", 3)
    for name in ("other", "young"):
        pod = toy.named(name)
        toy.change(pod.uid, annotations={**pod.annotations, GROUP_TOTAL_COUNT: "1"})
    assert toy.there() == {"other"}
    assert [(p.name, p.count) for p in toy.workloads["g"].pod_sets] == [("r1", 1)]
    assert owners(toy) == {"other"}
    assert ("young", "ExcessPodDeleted", "Excess pod deleted") in toy.said


@pytest.mark.parity("C-45", "C-48", "I-16")
@pytest.mark.parametrize("same_age", [False, True])
def test_surplus_of_a_waiting_or_running_group_goes(same_age: bool) -> None:
    toy = Toy(mode="kueue")
    for name in ("p0", "p1"):
        toy.pod(name, "g", 2)
    before = toy.workloads["g"]
    if same_age:
        toy.admit("g")
    else:
        toy.now += timedelta(seconds=1)
    created = toy.named("p0").created_at if same_age else toy.now
    toy.pod("a-late", "g", 2, created_at=created)
    assert toy.there() == {"p0", "p1"}
    assert toy.workloads["g"].owners == before.owners


@pytest.mark.parity("C-46")
def test_surplus_of_one_role_does_not_make_up_for_another() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 1), ("r2", 1), short="PodsFailed")
    toy.pod("p0", "g", 2, gated=False, phase="Running", node="n")
    toy.pod("p1", "g", 2)
    assert toy.there() == {"p0"}
    assert toy.condition("g", SHORT)[0] == "True"


@pytest.mark.parity("C-47", "C-61", "B18")
def test_what_is_decided_and_not_yet_seen_is_not_decided_again() -> None:
    """Kueue forgets this with a restart and stands still meanwhile; here only the place waits."""
    toy = Toy(mode="kueue")
    admitted(toy, 3)
    toy.end("p0", phase="Failed")
    toy.end("p1", phase="Failed")
    toy.act = False
    toy.pod("again", "g", 3)
    toy.act = True
    while toy.queue and toy.queue[0].rule != "replace":
        toy.execute(toy.queue.popleft())
    toy.act = False
    for _ in range(3):
        toy.change(toy.named("p2").uid)
        toy.change(toy.named("p1").uid)
    assert [d.command.target.name for d in toy.decisions if d.rule == "replace"] == ["p0"]
    toy.pod("surplus", "g", 3)
    toy.pod("surplus2", "g", 3)
    toy.change(toy.named("p2").uid)
    removed = [d.command.target.name for d in toy.decisions if d.rule in ("replace", "excess")]
    assert sorted(removed) == ["p0", "surplus2"], "p1 follows once its successor is an owner"
    toy.act = True
    toy.settle()
    assert not toy.held("p0") and not toy.held("p1")


@pytest.mark.parity("C-57")
def test_one_replacement_for_two_missing_pods_releases_none_of_them() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 3))
    toy.pod("failed", "g", 3, gated=False, phase="Failed", node="n", finalizers=())
    toy.pod("deleted", "g", 3, gated=False, deleted_at=toy.now)
    toy.pod("again", "g", 3, gated=False, phase="Running", node="n")
    assert toy.held("deleted") and "again" in owners(toy)


@pytest.mark.parity("C-60", "B20")
def test_those_that_ended_first_are_released_first() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 4))
    at = toy.now

    def ended(name: str, minutes: int, **more: object) -> None:
        end = ContainerEnd(name="c", exit_code=1, finished_at=at - timedelta(minutes=minutes))
        toy.pod(name, "g", 4, gated=False, phase="Failed", node="n", ends=(end,), **more)  # type: ignore[arg-type] # passed on

    ended("last", 3)
    ended("deleted", 4, deleted_at=at - timedelta(minutes=9))
    ended("first", 5)
    for name in ("p0", "p1", "p2"):
        toy.pod(name, "g", 4, gated=False, phase="Running", node="n")
    assert not toy.held("first") and toy.held("last")
    assert "deleted" not in toy.there()
    assert {"p0", "p1", "p2"} <= owners(toy)


@pytest.mark.parity("C-62")
def test_a_failed_pod_without_finalizer_uses_up_the_replacement() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 4))
    more: dict[str, Any] = {"gated": False, "node": "n"}
    for name in ("p0", "p1"):
        toy.pod(name, "g", 4, phase="Running", **more)
    toy.pod("loose", "g", 4, phase="Failed", finalizers=(), **more)
    toy.pod("failed", "g", 4, phase="Failed", **more)
    toy.pod("again", "g", 4)
    assert toy.held("failed") and "again" in owners(toy)


@pytest.mark.parity("C-75", "E-04")
def test_an_ungated_pod_that_was_never_bound_is_replaced() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    toy.run("p0")
    toy.delete("p1")
    assert toy.held("p1"), "it has a place until another one takes it"
    toy.pod("again", "g", 2)
    assert toy.there() == {"p0", "again"} and not toy.gated("again")
    assert "again" in owners(toy)


@pytest.mark.parity("C-76")
def test_pods_that_are_only_pending_are_not_missing() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    assert toy.condition("g", SHORT) == ("", "", "")


@pytest.mark.parity("C-77", "C-78", "C-82")
@pytest.mark.parametrize("how", ["failed", "deleted unbound"])
def test_a_missing_pod_is_told_until_it_is_replaced(how: str) -> None:
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    toy.run("p0")
    if how == "failed":
        toy.run("p1")
        toy.end("p1", phase="Failed")
    else:
        toy.delete("p1")
    assert toy.condition("g", SHORT) == ("True", "PodsFailed", "Some Failed pods need replacement")
    assert toy.workloads["g"].cluster_queue == "cq", "the admission is not touched"
    toy.pod("again", "g", 2)
    assert toy.condition("g", SHORT) == ("False", "PodsReady", "No pods need replacement")


@pytest.mark.parity("I-14")
def test_a_group_of_one_may_be_replaced_again_and_again() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, 1)
    uid = toy.workloads["g"].uid
    seen = []
    for i in range(2):
        toy.end(f"p{i}", phase="Failed")
        seen.append(toy.condition("g", SHORT)[0])
        toy.pod(f"p{i + 1}", "g", 1)
        toy.run(f"p{i + 1}")
        seen.append(toy.condition("g", SHORT)[0])
        assert not toy.held(f"p{i}")
    assert seen == ["True", "False", "True", "False"]
    assert toy.workloads["g"].uid == uid


@pytest.mark.parity("I-15", "B5")
def test_an_unretriable_replacement_ends_the_group() -> None:
    toy = Toy(mode="kueue")
    admitted(toy)
    toy.end("p0")
    toy.end("p1", phase="Failed")
    assert toy.condition("g", "Finished") == ("", "", "")
    toy.pod("again", "g", 2, annotations=NO_RETRY)
    assert not toy.held("p1")
    toy.run("again")
    toy.end("again", phase="Failed")
    assert toy.condition("g", "Finished")[1] == "Failed"
    assert not any(toy.held(p.name) for p in toy.pods.values())


@pytest.mark.parity("B3", "I-20")
def test_a_serving_group_takes_the_successor_of_a_pod_that_is_going() -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    notes = {SERVING: "true", FAST_ADMISSION: "true"}
    admitted(toy, annotations=notes)
    toy.end("p0")
    toy.delete("p1")
    toy.pod("p0-again", "g", 2, annotations=notes)
    toy.pod("p1-again", "g", 2, annotations=notes)
    assert {"p0-again", "p1-again"} <= toy.there()
    assert not toy.gated("p0-again") and not toy.held("p0")
    assert POD_FINALIZER in toy.named("p0-again").finalizers


def test_a_serving_pod_whose_place_is_taken_is_let_go_of_when_it_has_ended() -> None:
    toy = Toy()
    toy.slow = True
    toy.pod("old", "g", 1, annotations={SERVING: "true", FAST_ADMISSION: "true"})
    toy.run("old")
    toy.delete("old")
    toy.pod("new", "g", 1, annotations={SERVING: "true", FAST_ADMISSION: "true"})
    assert toy.held("old"), "it runs, and is charged"
    toy.end("old", phase="Failed")
    assert toy.there() == {"new"}
