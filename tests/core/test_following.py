"""What changes on pods is followed by their Workload and by the queue, as far as that may be."""

import pytest

from podgroup.model.names import PRIORITY_CLASS, QUEUE_NAME
from tests.support.toy import Toy


def relabel(toy: Toy, name: str, **labels: str) -> None:
    pod = toy.named(name)
    toy.change(pod.uid, labels={**pod.labels, **labels})


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_another_priority_class_is_followed_while_waiting(mode: str) -> None:
    toy = Toy(cpu=0, mode=mode)
    toy.pod("foo")
    (name,) = toy.workloads
    relabel(toy, "foo", **{PRIORITY_CLASS: "high"})
    workload = toy.workloads[name]
    assert (workload.priority, workload.priority_class) == (1000, "high")
    text = f"Updated workload priority class: ns/{name}"
    assert ("foo", "UpdatedWorkload", text) in toy.said
    relabel(toy, "foo", **{PRIORITY_CLASS: "low"})
    assert toy.workloads[name].priority == 1
    relabel(toy, "foo", **{PRIORITY_CLASS: "nowhere"})
    assert toy.workloads[name].priority == 1, "a class that does not exist changes nothing"


def test_a_group_that_is_given_priority_moves_up_in_the_queue() -> None:
    toy = Toy(cpu=1)
    toy.pod("hog", labels={PRIORITY_CLASS: "high"})
    toy.run("hog")
    toy.pod("first")
    toy.pod("second")
    relabel(toy, "second", **{PRIORITY_CLASS: "high"})
    toy.end("hog")
    assert not toy.gated("second") and toy.gated("first")


@pytest.mark.parametrize("has", [True, False])
def test_while_quota_is_reserved_a_class_may_change_but_not_appear(has: bool) -> None:
    toy = Toy()
    toy.pod("foo", labels={PRIORITY_CLASS: "low"} if has else {})
    toy.run("foo")
    (name,) = toy.workloads
    relabel(toy, "foo", **{PRIORITY_CLASS: "high"})
    assert toy.workloads[name].priority == (1000 if has else 0)
    charge = toy.world.quotas.charges[toy.group("foo").id]
    assert charge.priority == (1000 if has else 0), "preemption judges by the new one"


def test_an_admitted_group_keeps_its_queue() -> None:
    toy = Toy(cpu=4)
    toy.pod("foo")
    (name,) = toy.workloads
    relabel(toy, "foo", **{QUEUE_NAME: "other"})
    assert toy.workloads[name].queue == "lq" and toy.group("foo").spec.queue == "lq"


def test_a_waiting_group_is_admitted_from_its_new_queue() -> None:
    toy = Toy()
    toy.pod("foo", labels={QUEUE_NAME: "nowhere"})
    assert toy.gated("foo")
    relabel(toy, "foo", **{QUEUE_NAME: "lq"})
    (workload,) = toy.workloads.values()
    assert not toy.gated("foo") and workload.queue == "lq"
