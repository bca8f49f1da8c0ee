"""Rows about groups that were admitted: start, success, failure, replacement, surplus, end."""

from datetime import timedelta

import msgspec
import pytest

from podgroup.names import (
    FAST_ADMISSION,
    GROUP_TOTAL_COUNT,
    IS_GROUP_WORKLOAD,
    POD_FINALIZER,
    RETRIABLE_IN_GROUP,
    SERVING,
)
from podgroup.objects import Condition, ContainerEnd
from tests.support.toy import Toy

NO_RETRY = {RETRIABLE_IN_GROUP: "false"}
MARK = {IS_GROUP_WORKLOAD: "true"}
SHORT = "WaitingForReplacementPods"


def admitted(toy: Toy, count: int = 2, *, run: bool = True, **more: object) -> None:
    """A group `g` of pods p0.. of one role, admitted by Kueue and running."""
    names = [f"p{i}" for i in range(count)]
    for name in names:
        toy.pod(name, "g", count, **more)  # type: ignore[arg-type] # passed on
    toy.admit("g")
    if run:
        toy.run(*names)


def placed(toy: Toy, *pod_sets: tuple[str, int], short: str = "") -> None:
    """A group Workload as somebody else left it, admitted, before any pod is seen."""
    toy.workload("g", *pod_sets, annotations=MARK)
    if short:
        toy.say("g", Condition(type=SHORT, status="True", reason=short, message="as it was"))
    toy.admit("g")


def owners(toy: Toy) -> set[str]:
    return {o.name for o in toy.workloads["g"].owners}


@pytest.mark.parity("C-22")
def test_every_pod_of_an_admitted_group_starts() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    for name in ("p0", "p1"):
        assert not toy.gated(name) and toy.named(name).node_selector == {"pool": "a"}
    started = [e for e in toy.said if e[1] == "Started"]
    assert started == [(n, "Started", "Admitted by clusterQueue cq") for n in ("p0", "p1")]


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


@pytest.mark.parity("C-41", "B5")
def test_an_unretriable_group_ends_when_nothing_runs_and_says_failed() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 3), short="PodsFailed")
    more = {"gated": False, "node": "n"}
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


@pytest.mark.parity("C-44", "I-16")
def test_surplus_before_the_workload_goes_youngest_first() -> None:
    toy = Toy(mode="kueue")
    toy.pod("other", "g", 3)
    toy.now += timedelta(seconds=1)
    toy.pod("young", "g", 3)
    for name in ("other", "young"):
        pod = toy.named(name)
        toy.change(pod.uid, annotations=pod.annotations | {GROUP_TOTAL_COUNT: "1"})
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
    ended("deleted", 3, deleted_at=at - timedelta(minutes=4))
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
    more = {"gated": False, "node": "n"}
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


@pytest.mark.parity("C-89", "C-90", "C-91")
def test_a_group_is_ready_when_all_its_pods_are() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, 3, run=False)
    assert toy.condition("g", "PodsReady")[:2] == ("False", "WaitForStart")
    toy.run("p0", "p1")
    assert toy.condition("g", "PodsReady")[0] == "False"
    toy.run("p2")
    assert toy.condition("g", "PodsReady")[:2] == ("True", "Started")
    toy.change(toy.named("p1").uid, conditions=(Condition(type="Ready", status="False"),))
    assert toy.condition("g", "PodsReady")[:2] == ("False", "WaitForRecovery")
    toy.change(toy.named("p1").uid, conditions=(Condition(type="Ready", status="True"),))
    assert toy.condition("g", "PodsReady")[:2] == ("True", "Recovered")
    toy.change(toy.named("p1").uid, finalizers=(), deleted_at=toy.now, phase="Failed")
    assert toy.condition("g", "PodsReady")[:2] == ("False", "WaitForRecovery")


@pytest.mark.parity("C-92", "C-93")
@pytest.mark.parametrize("total", [None, "many"])
def test_without_a_total_count_nothing_is_ever_ready(total: str | None) -> None:
    """Kueue asks the pods for the total again; here it was fixed with the Workload."""
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    for name in ("p0", "p1"):
        notes = {k: v for k, v in toy.named(name).annotations.items() if k != GROUP_TOTAL_COUNT}
        if total is not None:
            notes[GROUP_TOTAL_COUNT] = total
        toy.change(toy.named(name).uid, annotations=notes)
    toy.run("p0")
    assert toy.condition("g", "PodsReady")[0] == "False"
    bad = Toy(mode="kueue")
    bad.pod("p0", "g", annotations={GROUP_TOTAL_COUNT: total or ""})
    assert not bad.workloads, "and none is made without one"


@pytest.mark.parity("B6")
def test_a_success_is_as_good_as_ready() -> None:
    toy = Toy(mode="kueue")
    admitted(toy)
    toy.end("p0")
    assert toy.condition("g", "PodsReady")[:2] == ("True", "Started")


@pytest.mark.parity("U-13", "U-14", "U-15")
@pytest.mark.parametrize(("phase", "ended"), [("Failed", 1), ("Succeeded", 1), ("Running", 0)])
def test_what_has_ended(phase: str, ended: int) -> None:
    from podgroup.members import Flag

    toy = Toy()
    toy.pod("p0", "g", 2, gated=False, phase=phase, node="n")
    toy.pod("p1", "g", 2)
    members = toy.world.members[toy.group("g").id]
    assert members.count(Flag.TERMINATED) == ended


@pytest.mark.parity("I-11", "I-30", "E-05")
def test_a_group_of_two_roles_from_creation_to_release() -> None:
    toy = Toy(mode="kueue")
    for name, cpu in (("b0", 2), ("a0", 1), ("a1", 1), ("b1", 2)):
        toy.pod(name, "g", 4, cpu=cpu)
    assert [(p.name, p.count) for p in toy.workloads["g"].pod_sets] == [("r1", 2), ("r2", 2)]
    toy.admit("g")
    names = ("a0", "a1", "b0", "b1")
    assert not any(toy.gated(n) for n in names)
    assert {toy.named(n).labels["kueue.x-k8s.io/podset"] for n in names} == {"r1", "r2"}
    toy.run(*names)
    toy.end(*names)
    assert toy.condition("g", "Finished")[:2] == ("True", "Succeeded")
    assert not any(toy.held(n) for n in names)
    for name in names:
        toy.delete(name)
    assert not toy.pods and not toy.workloads and not toy.world.groups


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
    from podgroup.objects import OwnerRef

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
    from podgroup.objects import OwnerRef

    toy = Toy(mode="kueue")
    job = OwnerRef(kind="Job", name="j", uid="j", controller=True)
    view = toy.workload("g", ("main", 1), owners=(job,))
    toy.put_workload(msgspec.structs.replace(view, deleted_at=toy.now))
    toy.settle()
    assert toy.workloads["g"].finalizers == view.finalizers and not toy.decisions


@pytest.mark.parity("S-13", "S-18", "S-19")
@pytest.mark.parametrize(
    "has",
    [
        {"node_selector": {"pool": "b"}},
        {"labels": {"kueue.x-k8s.io/podset": "other"}},
        {"annotations": {"kueue.x-k8s.io/workload": "other"}},
    ],
    ids=["selector", "label", "annotation"],
)
def test_an_admission_that_contradicts_a_pod_ends_the_group(has: dict[str, dict[str, str]]) -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2, **has)  # type: ignore[arg-type] # passed on
    toy.admit("g")
    assert toy.condition("g", "Finished")[:2] == ("True", "FailedToStart")
    assert toy.gated("p1") and not toy.held("p1"), "never started, and free to be deleted"


@pytest.mark.parity("S-04")
def test_a_flavor_nobody_knows_yet_is_waited_for() -> None:
    from podgroup.events import ObjectApplied
    from podgroup.objects import FlavorView

    toy = Toy(mode="kueue")
    toy.pod("foo")
    (name,) = toy.workloads
    toy.reserve(name)
    (assignment,) = toy.workloads[name].assignments
    new = msgspec.structs.replace(assignment, flavors={"cpu": "new"})
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), assignments=(new,))
    assert toy.gated("foo")
    flavor = FlavorView(uid="n", name="new", resource_version=toy.bump(), node_labels={"pool": "n"})
    toy.do(ObjectApplied(object=flavor))
    assert not toy.gated("foo") and toy.named("foo").node_selector == {"pool": "n"}


@pytest.mark.parity("S-01", "S-02", "S-03", "S-05")
def test_flavors_are_merged_each_once() -> None:
    from podgroup.events import ObjectApplied
    from podgroup.objects import FlavorView, Toleration

    toy = Toy(mode="kueue")
    for name, key in (("f", "spot"), ("gpu", "gpu")):
        flavor = FlavorView(
            uid=name,
            name=name,
            resource_version=toy.bump(),
            node_labels={key: "yes"},
            tolerations=(Toleration(key=key, operator="Exists"),),
        )
        toy.do(ObjectApplied(object=flavor))
    toy.pod("foo")
    (name,) = toy.workloads
    toy.reserve(name)
    (assignment,) = toy.workloads[name].assignments
    several = msgspec.structs.replace(
        assignment, flavors={"cpu": "f", "memory": "f", "nvidia.com/gpu": "gpu"}, count=0
    )
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), assignments=(several,))
    foo = toy.named("foo")
    assert foo.node_selector == {"spot": "yes", "gpu": "yes"}
    assert [t.key for t in foo.tolerations] == ["spot", "gpu"]


@pytest.mark.parity("S-06", "S-20", "S-21", "S-22", "E-14")
@pytest.mark.parametrize("topology", [True, False])
def test_the_topology_gate_stays_only_for_who_assigned_one(topology: bool) -> None:
    from podgroup.names import ADMISSION_GATE, TOPOLOGY_GATE

    toy = Toy(mode="kueue")
    foo = toy.pod("foo")
    toy.change(foo.uid, gates=("example.com/hold", ADMISSION_GATE, TOPOLOGY_GATE))
    (name,) = toy.workloads
    toy.reserve(name)
    (assignment,) = toy.workloads[name].assignments
    given = msgspec.structs.replace(assignment, topology=topology)
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), assignments=(given,))
    left = ("example.com/hold", TOPOLOGY_GATE) if topology else ("example.com/hold",)
    assert toy.named("foo").gates == left


@pytest.mark.parity("I-29")
def test_a_queue_that_appears_later_starts_what_waits_for_it() -> None:
    from podgroup.events import ObjectApplied, ObjectDeleted
    from podgroup.objects import LocalQueueView

    toy = Toy()
    queue = toy.world.local_queues[("ns", "lq")]
    toy.do(
        ObjectDeleted(
            kind="LocalQueue",
            namespace="ns",
            name="lq",
            uid=queue.uid,
            resource_version=toy.bump(),
        )
    )
    toy.pod("foo")
    assert toy.gated("foo") and toy.group("foo").wait.reason == "LocalQueueNotFound"
    again = LocalQueueView(
        uid="again", namespace="ns", name="lq", resource_version=toy.bump(), cluster_queue="cq"
    )
    toy.do(ObjectApplied(object=again))
    assert not toy.gated("foo") and toy.named("foo").node_selector == {"pool": "a"}


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
