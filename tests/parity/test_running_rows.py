"""Rows about groups that run and end: successes, failures, deletions, what is left over."""

from typing import Any

import msgspec
import pytest

from podgroup.model.names import (
    SERVING,
)
from podgroup.model.objects import Condition
from tests.parity.groups import MARK, NO_RETRY, admitted, placed
from tests.support.toy import Toy


@pytest.mark.parity("C-23", "C-24")
def test_successes_free_their_places_and_the_last_one_ends_the_group() -> None:
    toy = Toy(mode="kueue")
    admitted(toy)
    toy.end("p0")
    assert toy.workloads["g"].reclaimable == {"r1": 1}
    assert toy.condition("g", "Finished") == ("", "", "") and toy.held("p0")
    toy.end("p1")
    assert toy.condition("g", "Finished") == ("True", "Succeeded", "Pods succeeded: 2/2.")
    assert not toy.held("p0") and not toy.held("p1")
    assert "FinishedWorkload" in {reason for _, reason, _ in toy.said}


@pytest.mark.parity("C-25")
def test_a_pod_that_vanished_leaves_the_workload_as_it_is() -> None:
    toy = Toy(mode="kueue")
    admitted(toy)
    toy.end("p0", phase="Failed")
    before = toy.workloads["g"]
    toy.change(toy.named("p0").uid, finalizers=(), deleted_at=toy.now)
    after = toy.workloads["g"]
    assert toy.there() == {"p1"}
    assert after.conditions == before.conditions and after.cluster_queue == "cq"
    assert after.pod_sets == before.pod_sets


@pytest.mark.parity("C-27", "C-55")
def test_what_is_left_of_a_finished_group_is_released() -> None:
    toy = Toy(mode="kueue")
    admitted(toy)
    toy.change(toy.named("p0").uid, finalizers=(), deleted_at=toy.now, phase="Failed")
    toy.say("g", Condition(type="Finished", status="True", reason="Succeeded", message="x"))
    assert not toy.held("p1")
    assert toy.workloads["g"].finalizers == ()
    assert ("p1", "FinishedWorkload", "Workload 'ns/g' is declared finished") in toy.said


@pytest.mark.parity("C-29")
def test_a_deleted_workload_takes_every_pod_along() -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    admitted(toy, 3)
    toy.end("p0")
    toy.delete_workload("g")
    stopped = {n for n, reason, text in toy.said if reason == "Stopped"}
    assert stopped == {"p0", "p1", "p2"}
    assert {text for _, reason, text in toy.said if reason == "Stopped"} == {"Workload is deleted"}
    assert all(p.deleted_at is not None and not p.finalizers for p in toy.pods.values())
    assert "g" not in toy.workloads


@pytest.mark.parity("C-32")
def test_a_group_with_all_its_successes_is_over_whatever_else_failed() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, 2)
    toy.end("p0", phase="Failed")
    toy.pod("again", "g", 2)
    toy.run("again")
    toy.end("p1", "again")
    assert toy.condition("g", "Finished")[2] == "Pods succeeded: 2/2."
    assert not any(toy.held(n) for n in ("p0", "p1", "again"))


@pytest.mark.parity("C-41", "B5")
def test_an_unretriable_group_ends_when_nothing_runs_and_says_failed() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 3), short="PodsFailed")
    more: dict[str, Any] = {"gated": False, "node": "n"}
    toy.pod("p1", "g", 3, phase="Succeeded", **more)
    toy.pod("p2", "g", 3, role="odd", phase="Failed", **more)
    toy.pod("p0", "g", 3, annotations=NO_RETRY, phase="Failed", **more)
    assert toy.condition("g", "Finished") == ("True", "Failed", "Pods succeeded: 1/3, failed: 2.")
    assert not toy.held("p0") and not toy.held("p2"), "the one of an unknown role as well"


@pytest.mark.parity("C-42", "C-43", "I-20")
@pytest.mark.parametrize("serving", [False, True])
def test_only_successes_are_reclaimable_and_none_of_a_serving_group(serving: bool) -> None:
    toy = Toy(mode="kueue")
    notes = {SERVING: "true"} if serving else {}
    toy.pod("a0", "g", 3, annotations=notes)
    toy.pod("a1", "g", 3, annotations=notes)
    toy.pod("b0", "g", 3, cpu=2, annotations=notes)
    toy.admit("g")
    toy.run("a0", "a1", "b0")
    toy.end("a0", phase="Failed")
    toy.end("b0")
    assert toy.workloads["g"].reclaimable == ({} if serving else {"r2": 1})
    assert toy.held("a0")


@pytest.mark.parity("I-17")
def test_seven_successes_that_are_deleted_at_once_all_go() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, 7)
    toy.act = False
    for i in range(7):
        toy.end(f"p{i}")
        toy.delete(f"p{i}")
    toy.act = True
    toy.settle()
    assert not toy.pods and not toy.workloads and not toy.world.groups


@pytest.mark.parity("I-18", "C-55", "H-03")
def test_a_group_whose_pods_are_gone_lets_its_workload_go() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    for name in ("p0", "p1"):
        toy.change(toy.named(name).uid, finalizers=(), deleted_at=toy.now)
    assert not toy.pods and not toy.workloads and not toy.world.groups
    assert "Finished" not in {d.reason for d in toy.decisions}
    released = [d for d in toy.decisions if type(d.command).__name__ == "FinalizeWorkload"]
    assert len(released) == 1, "looked at, and released, once"


@pytest.mark.parity("C-55", "C-56")
@pytest.mark.parametrize("marked", [True, False])
def test_a_workload_that_outlived_its_pods_before_we_looked_is_released(marked: bool) -> None:
    from podgroup.model.objects import OwnerRef

    toy = Toy(mode="kueue")
    view = toy.workload(
        "g",
        ("r1", 1),
        annotations=MARK if marked else {},
        owners=(OwnerRef(kind="Pod", name="p", uid="long-gone"),),
    )
    assert toy.workloads["g"].finalizers, "garbage collection decides that nobody owns it"
    toy.put_workload(msgspec.structs.replace(view, deleted_at=toy.now))
    toy.settle()
    assert not toy.workloads and not toy.world.groups


@pytest.mark.parity("C-53")
def test_a_workload_of_a_job_is_left_to_it_even_when_it_goes() -> None:
    from podgroup.model.objects import OwnerRef

    toy = Toy(mode="kueue")
    job = OwnerRef(kind="Job", name="j", uid="j", controller=True)
    view = toy.workload("g", ("main", 1), owners=(job,))
    toy.put_workload(msgspec.structs.replace(view, deleted_at=toy.now))
    toy.settle()
    assert toy.workloads["g"].finalizers == view.finalizers and not toy.decisions
