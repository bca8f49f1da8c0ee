"""Annotation admission-gated-by: another controller holds a group's admission back (KEP-6915)."""

import pytest
from msgspec.structs import replace

from podgroup.model.names import ADMISSION_GATED_BY as BY
from podgroup.model.names import PREBUILT_WORKLOAD, PRIORITY_CLASS, QUEUE_NAME
from tests.support.toy import Toy


def annotate(toy: Toy, name: str, text: str | None) -> None:
    pod = toy.named(name)
    rest = {key: value for key, value in pod.annotations.items() if key != BY}
    toy.change(pod.uid, annotations=rest if text is None else {**rest, BY: text})


def test_a_pod_waits_for_those_that_gate_it_and_no_longer() -> None:
    toy = Toy()
    toy.pod("p", annotations={BY: "a.io/budget,b.io/sizes"})
    assert toy.gated("p")
    wait = toy.group("p").explained.wait
    assert wait is not None
    assert wait.reason == "AdmissionGated"
    assert wait.message == "admission is gated by a.io/budget, b.io/sizes"
    assert toy.group("p").explained.state == "Queued"
    annotate(toy, "p", "b.io/sizes")
    wait = toy.group("p").explained.wait
    assert toy.gated("p") and wait is not None
    assert wait.message == "admission is gated by b.io/sizes"
    (workload,) = toy.workloads.values()
    assert workload.annotations[BY] == "b.io/sizes", "the mirror says who is left"
    annotate(toy, "p", None)
    assert not toy.gated("p")
    (workload,) = toy.workloads.values()
    assert BY not in workload.annotations


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_annotation_holds_nothing_back(text: str | None) -> None:
    toy = Toy()
    toy.pod("p", annotations={} if text is None else {BY: text})
    assert not toy.gated("p")


def test_blanks_hold_back_as_with_kueue() -> None:
    toy = Toy()
    toy.pod("p", annotations={BY: " "})
    wait = toy.group("p").explained.wait
    assert toy.gated("p") and wait is not None
    assert wait.message == "admission is gated by a controller without a name"


@pytest.mark.parity("B28")
def test_any_member_at_its_gate_holds_its_group_back() -> None:
    toy = Toy()
    toy.pod("a", "g", 3)
    toy.pod("b", "g", 3, annotations={BY: "b.io/x"})
    toy.pod("c", "g", 3, annotations={BY: "a.io/y, b.io/x"})
    assert all(map(toy.gated, "abc"))
    wait = toy.group("g").explained.wait
    assert wait is not None and wait.message == "admission is gated by a.io/y, b.io/x"
    annotate(toy, "c", None)
    assert all(map(toy.gated, "abc"))
    toy.delete("b")
    toy.pod("d", "g", 3)
    assert not any(map(toy.gated, "acd")), "who is gone holds nothing back"


def test_a_gated_pod_lets_others_of_its_queue_pass() -> None:
    toy = Toy(cpu=1, strategy="StrictFIFO")
    toy.pod("first", annotations={BY: "a.io/x"})
    toy.pod("second")
    assert toy.gated("first") and not toy.gated("second")


def test_what_holds_quota_is_held_back_by_nobody() -> None:
    toy = Toy()
    toy.pod("a", "g", 2)
    toy.pod("b", "g", 2)
    toy.run("a", "b")
    toy.end("b", phase="Failed")
    toy.pod("c", "g", 2, annotations={BY: "a.io/x"})
    assert not toy.gated("c"), "its place is admitted"
    toy.run("c")
    annotate(toy, "a", "a.io/x")
    assert toy.group("g").explained.state == "Running"


def test_a_gate_that_comes_late_counts_until_there_is_quota() -> None:
    toy = Toy(cpu=1)
    toy.pod("hog")
    toy.run("hog")
    toy.pod("p")
    annotate(toy, "p", "a.io/x")
    toy.end("hog")
    assert toy.gated("p")
    annotate(toy, "p", None)
    assert not toy.gated("p")


def test_the_pods_of_an_evicted_group_may_be_gated_anew() -> None:
    toy = Toy(cpu=2)
    for name in "ab":
        toy.pod(name, "g", 2, labels={PRIORITY_CLASS: "low"})
    toy.run("a", "b")
    toy.pod("urgent", cpu=2, labels={PRIORITY_CLASS: "high"})
    toy.run("urgent")
    toy.end("urgent")
    for name in "cd":
        toy.pod(name, "g", 2, labels={PRIORITY_CLASS: "low"}, annotations={BY: "a.io/x"})
    wait = toy.group("g").explained.wait
    assert toy.gated("c") and toy.gated("d") and wait is not None
    assert wait.reason == "AdmissionGated"
    annotate(toy, "c", None)
    annotate(toy, "d", None)
    assert not toy.gated("c") and not toy.gated("d")


def test_beside_kueue_the_workload_says_so_and_follows_with_fewer() -> None:
    toy = Toy(mode="kueue")
    toy.pod("a", "g", 2, annotations={BY: "a.io/x,b.io/y"})
    toy.pod("b", "g", 2, annotations={BY: "c.io/z"})
    assert toy.workloads["g"].annotations[BY] == "a.io/x,b.io/y,c.io/z"
    annotate(toy, "a", "b.io/y")
    assert toy.workloads["g"].annotations[BY] == "b.io/y,c.io/z"
    annotate(toy, "b", "c.io/z,d.io/more")
    assert toy.workloads["g"].annotations[BY] == "b.io/y,c.io/z", "Kueue refuses more"
    annotate(toy, "a", None)
    annotate(toy, "b", None)
    assert BY not in toy.workloads["g"].annotations
    decided = [d for d in toy.decisions if d.rule == "follow"]
    assert len(decided) == 3 and decided[-1].message == 'Updated workload AdmissionGatedBy to ""'


def test_a_prebuilt_workload_speaks_for_itself() -> None:
    maker = Toy(mode="kueue")
    maker.pod("p", annotations={BY: "a.io/x"})
    (made,) = maker.workloads.values()
    toy = Toy()
    toy.put_workload(replace(made, name="pre", uid="wp", owners=(), conditions=()))
    toy.pod("q", labels={PREBUILT_WORKLOAD: "pre", QUEUE_NAME: "lq"})
    wait = toy.group("q").explained.wait
    assert toy.gated("q") and wait is not None and wait.reason == "AdmissionGated"
    toy.put_workload(replace(toy.workloads["pre"], annotations={}))
    toy.settle()
    assert not toy.gated("q")
