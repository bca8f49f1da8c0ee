"""Pods that run, and whose Workload is gone from under them, are taken over and not stopped."""

from typing import Any

import msgspec
import pytest

from podgroup.log.events import (
    ObjectApplied,
    ObjectDeleted,
    RelistCompleted,
    RelistStarted,
    WorkloadDeleted,
)
from podgroup.model.names import IS_GROUP_WORKLOAD, POD_FINALIZER
from podgroup.model.objects import Assignment, Condition
from tests.support.toy import Toy, taken


def swept_away(toy: Toy, *names: str, relist: bool) -> None:
    """Workloads go as with their kind: the finalizer taken off by somebody, nobody saw them go."""
    gone = [toy.workloads.pop(name) for name in names]
    if relist:
        toy.do(RelistStarted(kind="Workload", relist="again"))
        for view in toy.workloads.values():
            toy.put_workload(view)
        toy.do(RelistCompleted(kind="Workload", relist="again", resource_version=toy.bump()))
    else:
        for view in gone:
            last = msgspec.structs.replace(view, finalizers=(), resource_version=toy.bump())
            toy.do(WorkloadDeleted(workload=last))


def in_use(toy: Toy) -> int:
    return taken(toy.world, "cq")["f", "cpu"]


def running(toy: Toy, size: int) -> list[str]:
    if size == 1:
        toy.pod("foo")
        toy.run("foo")
        return ["foo"]
    names = [f"p{i}" for i in range(size)]
    for name in names:
        toy.pod(name, "g", size)
    toy.run(*names)
    return names


@pytest.mark.parametrize("relist", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_what_was_admitted_runs_on_with_a_new_workload(size: int, relist: bool) -> None:
    toy = Toy(cpu=4)
    names = running(toy, size)
    (workload,) = toy.workloads
    before = toy.workloads[workload]
    swept_away(toy, workload, relist=relist)
    assert toy.there() == set(names) and not any(toy.stopped(name)[0] for name in names)
    after = toy.workloads[workload]
    assert after.uid != before.uid and after.cluster_queue == "cq"
    assert {"QuotaReserved", "Admitted"} <= toy.true(workload)
    assert after.pod_sets == before.pod_sets and in_use(toy) == size * 1000
    assert [n.kind for n in toy.world.journal.notes].count("QuotaReleased") == 0
    toy.end(*names)
    assert toy.condition(workload, "Finished")[:2] == ("True", "Succeeded")
    assert not any(toy.held(name) for name in names if name in toy.there())


def test_a_workload_that_somebody_deletes_still_takes_its_pods_along() -> None:
    toy = Toy()
    names = running(toy, 2)
    toy.delete_workload("g")
    assert {toy.stopped(name)[0] for name in names} == {"WorkloadDeleted"}


def test_what_waits_is_composed_anew() -> None:
    toy = Toy(cpu=0)
    toy.pod("foo")
    (workload,) = toy.workloads
    swept_away(toy, workload, relist=True)
    assert toy.gated("foo") and set(toy.workloads) == {workload}


def test_under_kueue_pods_run_on_while_the_new_workload_waits_for_quota() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.admit("g")
    toy.wait(2)
    toy.run("p0", "p1")
    swept_away(toy, "g", relist=True)
    toy.wait(60)
    assert not toy.stopped("p0")[0] and not toy.true("g")
    toy.admit("g")
    assert toy.group("g").explained.state == "Running"
    toy.evict("g")
    assert toy.stopped("p0")[0].startswith("WorkloadEvicted"), "from then on it is as any other"


def test_a_prebuilt_workload_that_went_stops_nothing() -> None:
    toy = Toy()
    toy.workload("mine", ("main", 1))
    toy.pod("foo", labels={"kueue.x-k8s.io/prebuilt-workload-name": "mine"})
    toy.run("foo")
    swept_away(toy, "mine", relist=True)
    assert not toy.stopped("foo")[0] and in_use(toy) == 1000
    toy.end("foo")
    assert not toy.held("foo") and in_use(toy) == 0


def without_log(toy: Toy, cpu: int, *, finalizer: bool = True) -> Toy:
    """The same pods before a gatelog that knows nothing: log, read model, Workloads are gone."""
    again = Toy(ready=False)
    again.version, again.pods, again._uid = toy.version + 100, toy.pods, toy._uid
    again.setup(cpu, "BestEffortFIFO", "LowerPriority")
    for uid in list(again.pods):
        again.change(uid, finalizers=(POD_FINALIZER,) if finalizer else (), settle=False)
    again.settle()
    return again


@pytest.mark.parametrize("finalizer", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_what_was_started_before_the_log_began_holds_quota_again(
    size: int, finalizer: bool
) -> None:
    old = Toy(cpu=4)
    names = running(old, size)
    toy = without_log(old, 4, finalizer=finalizer)
    assert toy.there() == set(names) and not any(toy.stopped(name)[0] for name in names)
    (workload,) = toy.workloads
    assert {"QuotaReserved", "Admitted"} <= toy.true(workload) and in_use(toy) == size * 1000
    assert "takeover" in toy.rules() and "admit" not in toy.rules()
    toy.pod("big", cpu=4)
    assert toy.gated("big"), "what runs is charged"
    toy.end(*names)
    assert not toy.gated("big")


def test_what_runs_counts_though_the_quota_is_smaller_than_it_was() -> None:
    old = Toy(cpu=4)
    running(old, 3)
    toy = without_log(old, 1)
    assert toy.there() == {"p0", "p1", "p2"} and in_use(toy) == 3000
    toy.wait(60)
    assert not any(toy.stopped(name)[0] for name in toy.there())


def test_pods_without_the_marks_of_a_start_are_no_admission() -> None:
    toy = Toy()
    toy.pod("wild", gated=False, node="n", phase="Running")
    assert toy.group("wild").explained.wait.reason == "RunningUnadmitted"
    assert not toy.workloads and not toy.stopped("wild")[0]


def test_the_marks_are_of_no_use_to_a_pod_that_was_seen_at_its_gate() -> None:
    toy = Toy(cpu=0)
    foo = toy.pod("foo")
    marked = {**foo.labels, "kueue.x-k8s.io/podset": "main"}
    toy.change(foo.uid, gates=(), labels=marked, node="n", phase="Running")
    assert toy.stopped("foo")[0] == "NotAdmitted"


def forge(toy: Toy, name: str, role: str, count: int = 1, **more: Any) -> None:
    """Make a Workload that says it is admitted, as any user may who can write Workloads."""
    admitted = Condition(type="Admitted", status="True", reason="Admitted", at=toy.now)
    usage = Assignment(name=role, flavors={"cpu": "f"}, usage={"cpu": 1000 * count}, count=count)
    forged = {"conditions": (admitted,), "cluster_queue": "cq", "assignments": (usage,)}
    toy.workload(name, (role, count), **forged, **more)


PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


@pytest.mark.parametrize("way", ["prebuilt", "group", "prebuilt, seen later"])
def test_a_workload_that_says_admitted_lets_nobody_in_who_waits(way: str) -> None:
    """Any user may make one, and write its status; the pods were never started."""
    toy = Toy(cpu=1)
    toy.pod("hog")
    toy.run("hog")
    if way == "group":
        forge(toy, "g", "r1", annotations={IS_GROUP_WORKLOAD: "true"})
        toy.pod("sly", "g", 1)
    elif way == "prebuilt":
        forge(toy, "mine", "main")
        toy.pod("sly", labels={PREBUILT: "mine"})
    else:
        toy.pod("sly", labels={PREBUILT: "mine"})
        forge(toy, "mine", "main")
    assert toy.gated("sly") and in_use(toy) == 1000
    toy.end("hog")
    assert not toy.gated("sly") and in_use(toy) == 1000


def test_no_forged_admission_outlives_the_settings_that_come_after_the_first_lists() -> None:
    toy = Toy(ready=False)
    toy.setup(1, "BestEffortFIFO", "LowerPriority", settled=False)
    for name in ("a", "b", "c"):
        forge(toy, f"of-{name}", "main")
        toy.pod(name, labels={PREBUILT: f"of-{name}"})
    assert all(map(toy.gated, "abc"))
    toy.do(toy.settings())
    assert [*map(toy.gated, "abc")].count(False) == 1 and in_use(toy) == 1000


def test_one_pod_past_its_gate_lets_no_others_in_on_a_forged_admission() -> None:
    toy = Toy(cpu=2)
    toy.pod("wild", "g", 3, gated=False, node="n", phase="Running")
    forge(toy, "g", "r1", 3, annotations={IS_GROUP_WORKLOAD: "true"})
    toy.pod("p1", "g", 3)
    toy.pod("p2", "g", 3)
    assert toy.gated("p1") and toy.gated("p2") and in_use(toy) <= 2000


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_runs_is_charged_where_it_was_started_whatever_becomes_of_its_queue(
    elsewhere: bool,
) -> None:
    """A namespace goes: its LocalQueue and Workload at once, its pods when they have ended."""
    toy = Toy(cpu=1)
    toy.slow = True
    (foo,) = running(toy, 1)
    (workload,) = toy.workloads
    local = toy.world.local_queues["ns", "lq"]
    gone = {"namespace": "ns", "name": "lq", "uid": local.uid, "resource_version": toy.bump()}
    toy.do(ObjectDeleted(kind="LocalQueue", **gone))
    if elsewhere:
        queue = toy.world.cluster_queues["cq"]
        other = msgspec.structs.replace(queue, uid="o", name="o", resource_version=toy.bump())
        again = {"uid": "again", "cluster_queue": "o", "resource_version": toy.bump()}
        toy.do(ObjectApplied(object=other))
        toy.do(ObjectApplied(object=msgspec.structs.replace(local, **again)))
    toy.delete_workload(workload)
    assert foo in toy.there() and workload not in toy.workloads and in_use(toy) == 1000
    toy.end(foo)
    assert in_use(toy) == 0
