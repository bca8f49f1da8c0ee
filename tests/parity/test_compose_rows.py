"""Rows about making one Workload of the pods of a group."""

import pytest

from podgroup.model.names import (
    FAST_ADMISSION,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    IS_GROUP_WORKLOAD,
    MANAGED_LABEL,
    MAX_EXEC_SECONDS,
    POD_INDEX,
    QUEUE_NAME,
    SERVING,
)
from podgroup.model.objects import OwnerRef
from podgroup.model.policy import Policy
from tests.support.toy import Toy

FAST = {FAST_ADMISSION: "true"}


def reasons(toy: Toy) -> set[str]:
    return {reason for _, reason, _ in toy.said}


def pair(toy: Toy, **more: object) -> None:
    toy.pod("p0", "g", 2, **more)  # type: ignore[arg-type] # passed on
    toy.pod("p1", "g", 2, **more)  # type: ignore[arg-type]


@pytest.mark.parity("C-13", "C-14", "I-24", "I-25")
@pytest.mark.parametrize("by", ["label", "annotation"])
def test_a_group_becomes_one_workload(by: str) -> None:
    toy = Toy(mode="kueue")
    notes = {GROUP_TOTAL_COUNT: "2"} | ({GROUP_NAME: "g"} if by == "annotation" else {})
    labels = {GROUP_NAME: "g"} if by == "label" else {}
    for name in ("p0", "p1"):
        toy.pod(name, labels=labels, annotations=notes)
    (workload,) = toy.workloads.values()
    assert workload.name == "g"
    assert workload.annotations == {IS_GROUP_WORKLOAD: "true"}
    assert [(p.name, p.count) for p in workload.pod_sets] == [("r1", 2)]
    assert [(o.name, o.controller) for o in workload.owners] == [("p0", False), ("p1", False)]
    assert [e for e in toy.said if e[1] == "CreatedWorkload"] == [
        ("p0", "CreatedWorkload", "Created Workload: ns/g")
    ]
    toy.admit("g")
    assert not toy.gated("p0") and not toy.gated("p1")


@pytest.mark.parity("E-28")
def test_a_group_name_longer_than_a_label_can_be() -> None:
    toy = Toy(mode="kueue")
    name = "a" * 50 + "." + "b" * 50
    for pod in ("p0", "p1"):
        toy.pod(pod, annotations={GROUP_NAME: name, GROUP_TOTAL_COUNT: "2"})
    toy.admit(name)
    assert not toy.gated("p0") and not toy.gated("p1")


@pytest.mark.parity("C-15", "I-12")
def test_fast_admission_makes_places_for_pods_to_come() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 3, annotations=FAST)
    workload = toy.workloads["g"]
    assert [p.count for p in workload.pod_sets] == [3]
    assert [o.name for o in workload.owners] == ["p0"]
    toy.admit("g")
    toy.pod("p1", "g", 3, annotations=FAST)
    assert not toy.gated("p1"), "started as it came"
    toy.pod("p2", "g", 3, annotations=FAST)
    toy.run("p0", "p1", "p2")
    toy.end("p0", "p1", "p2")
    assert toy.condition("g", "Finished")[2] == "Pods succeeded: 3/3."


@pytest.mark.parity("C-16")
def test_a_maximum_execution_time_is_in_the_workload() -> None:
    toy = Toy(mode="kueue")
    pair(toy, labels={MAX_EXEC_SECONDS: "10"})
    assert toy.workloads["g"].max_execution_s == 10


@pytest.mark.parity("C-17")
def test_a_changed_maximum_execution_time_is_followed_in_place() -> None:
    toy = Toy(mode="kueue")
    pair(toy, labels={MAX_EXEC_SECONDS: "5"})
    before = toy.workloads["g"].uid
    p0 = toy.named("p0")
    toy.change(p0.uid, labels={**p0.labels, MAX_EXEC_SECONDS: "10"})
    assert (toy.workloads["g"].uid, toy.workloads["g"].max_execution_s) == (before, 10)
    text = "Updated not matching Workload for suspended job: ns/g"
    assert ("p0", "UpdatedWorkload", text) in toy.said
    p0 = toy.named("p0")
    toy.change(p0.uid, labels={k: v for k, v in p0.labels.items() if k != MAX_EXEC_SECONDS})
    assert toy.workloads["g"].max_execution_s is None


@pytest.mark.parity("C-05", "C-06")
@pytest.mark.parametrize("serving", [False, True])
def test_the_queue_of_a_group_is_followed_unless_it_serves(serving: bool) -> None:
    toy = Toy(mode="kueue")
    pair(toy, annotations={SERVING: "true"} if serving else {})
    for name in ("p0", "p1"):
        pod = toy.named(name)
        toy.change(pod.uid, labels={**pod.labels, QUEUE_NAME: "other"})
    assert toy.workloads["g"].queue == ("lq" if serving else "other")


@pytest.mark.parity("C-18")
def test_a_group_that_matches_its_workload_is_left_alone() -> None:
    toy = Toy(mode="kueue")
    pair(toy)
    before = len(toy.decisions)
    workload = toy.workloads["g"]
    toy.put_workload(workload)
    toy.change(toy.named("p0").uid)
    assert len(toy.decisions) == before


@pytest.mark.parity("C-19", "C-20", "I-22", "H-01", "H-02")
@pytest.mark.parametrize("owner", [None, "Job"])
def test_a_foreign_workload_blocks_the_group_until_it_is_gone(owner: str | None) -> None:
    toy = Toy(mode="kueue")
    owners = (OwnerRef(kind="Job", name="j", uid="j", controller=True),) if owner else ()
    foreign = toy.workload("g", ("main", 1), owners=owners)
    pair(toy)
    toy.wait(6)
    assert toy.workloads["g"] == foreign
    assert toy.gated("p0") and toy.gated("p1")
    (told,) = {message for _, reason, message in toy.said if reason == "WorkloadNameConflict"}
    assert '"g" already exists' in told
    toy.delete("p1")
    assert toy.there() == {"p0"}, "a gated pod may go all the same"
    toy.pod("p2", "g", 2)
    toy.put_workload(_gone(toy))
    toy.settle()
    assert toy.workloads["g"].annotations == {IS_GROUP_WORKLOAD: "true"}


def _gone(toy: Toy):
    import msgspec

    return msgspec.structs.replace(toy.workloads["g"], finalizers=(), deleted_at=toy.now)


@pytest.mark.parity("C-53", "I-23")
def test_a_foreign_workload_is_no_business_of_pods_that_come_and_go() -> None:
    toy = Toy(mode="kueue")
    owner = OwnerRef(kind="Job", name="j", uid="j", controller=True)
    foreign = toy.workload("g", ("main", 1), owners=(owner,))
    toy.pod("stray", "g", 2, labels={MANAGED_LABEL: "false"}, finalizers=())
    toy.delete("stray")
    pair(toy)
    toy.delete("p0")
    toy.delete("p1")
    assert toy.workloads["g"] == foreign and not toy.pods


@pytest.mark.parity("C-28", "B1")
def test_different_queues_make_no_workload_and_are_told() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2, labels={QUEUE_NAME: "other"})
    toy.wait(6)
    assert not toy.workloads
    assert toy.group("g").explained.wait.reason == "DifferentQueues"
    assert {n for n, reason, _ in toy.said if reason == "ErrWorkloadCompose"} == {"p0", "p1"}


@pytest.mark.parity("C-38")
def test_a_group_that_is_over_needs_no_workload() -> None:
    toy = Toy(mode="kueue")
    toy.act = False
    pair(toy)
    for name in ("p0", "p1"):
        toy.change(toy.named(name).uid, gates=(), phase="Succeeded", settle=False)
    toy.queue = type(toy.queue)(d for d in toy.queue if d.rule != "compose")
    toy.act = True
    toy.settle()
    assert not toy.workloads
    assert not toy.held("p0") and not toy.held("p1")


@pytest.mark.parity("C-39")
def test_a_success_counts_towards_a_complete_group() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2, gated=False, phase="Succeeded")
    toy.pod("p1", "g", 2)
    assert [p.count for p in toy.workloads["g"].pod_sets] == [2]


@pytest.mark.parity("C-40")
def test_a_failed_pod_of_an_incomplete_group_is_released() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2, gated=False, phase="Failed")
    assert not toy.held("p1") and toy.held("p0") and not toy.workloads
    toy.wait(6)
    theirs = "'g' group has fewer runnable pods than expected (total count 2)"
    text = f"needs 2 pods; fewer are there — {theirs}"
    assert ("p0", "ErrWorkloadCompose", text) in toy.said


@pytest.mark.parity("C-49")
def test_a_pod_that_a_foreign_finalizer_keeps_is_left_to_it() -> None:
    """Kueue makes the dying pod an owner as well, which has no effect."""
    toy = Toy(mode="kueue")
    dying = toy.pod("p1", "g", 1, gated=False, finalizers=("example.com/hold",), deleted_at=toy.now)
    toy.pod("p0", "g", 1)
    assert [p.count for p in toy.workloads["g"].pod_sets] == [1]
    assert "p0" in {o.name for o in toy.workloads["g"].owners}
    assert toy.named("p1") == dying


@pytest.mark.parity("C-50")
def test_deleted_pods_of_an_incomplete_group_go() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 3)
    toy.pod("p1", "g", 3)
    toy.delete("p0")
    toy.delete("p1")
    assert not toy.pods and not toy.workloads and not toy.world.groups


@pytest.mark.parity("C-95", "C-96")
@pytest.mark.parametrize("roles", [18, 19])
def test_eighteen_roles_and_no_more(roles: int) -> None:
    toy = Toy(mode="kueue")
    for i in range(roles):
        toy.pod(f"p{i:02d}", "g", roles, role=f"role{i:02d}")
    assert ("g" in toy.workloads) == (roles == 18)
    if roles == 18:
        names = [p.name for p in toy.workloads["g"].pod_sets]
        assert names == sorted(names) and len(names) == 18


@pytest.mark.parity("C-65", "C-66", "U-09", "U-10", "U-11", "U-12")
@pytest.mark.parametrize(
    ("index", "made"),
    [("0", True), ("1", True), ("2", False), ("-1", False), ("x", False), ("+1", False)],
)
def test_the_index_of_the_first_pod_must_be_below_the_total(index: str, made: bool) -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2, labels={POD_INDEX: index})
    toy.pod("p1", "g", 2)
    assert bool(toy.workloads) == made
    if not made:
        toy.wait(6)
        wait = toy.group("g").explained.wait
        assert wait.reason == "BadPodIndex" and "'p0'" not in wait.message
        assert "pod p0" in wait.message and repr(index) in wait.message


@pytest.mark.parity("U-08")
def test_no_index_is_no_problem() -> None:
    toy = Toy(mode="kueue")
    pair(toy)
    assert toy.workloads


COPY = Policy(label_keys_to_copy=("team", "app"))


@pytest.mark.parity("C-63")
def test_chosen_labels_of_a_single_pod_are_in_its_workload() -> None:
    toy = Toy(mode="kueue", policy=COPY)
    toy.pod("foo", labels={"team": "a", "other": "x"})
    (workload,) = toy.workloads.values()
    assert workload.labels["team"] == "a" and "other" not in workload.labels


@pytest.mark.parity("C-64")
def test_chosen_labels_of_all_pods_are_in_the_groups_workload() -> None:
    toy = Toy(mode="kueue", policy=COPY)
    toy.pod("p0", "g", 2, labels={"team": "a"})
    toy.pod("p1", "g", 2, labels={"team": "a", "app": "b"})
    assert toy.workloads["g"].labels == {"team": "a", "app": "b"}


@pytest.mark.parity("C-67", "B1")
def test_pods_that_differ_in_a_chosen_label_block_the_group() -> None:
    toy = Toy(mode="kueue", policy=COPY)
    toy.pod("p0", "g", 2, labels={"team": "a"})
    toy.pod("p1", "g", 2, labels={"team": "b"})
    assert not toy.workloads
    toy.wait(6)
    told = {message for _, reason, message in toy.said if reason == "ErrWorkloadCompose"}
    assert told == {"pods 'p0' and 'p1' have different 'team' values: a and b"}


NOTES = Policy(annotation_keys_to_copy=("example.com/team", "example.com/app"))


@pytest.mark.parity("C-68", "I-41")
def test_chosen_annotations_of_a_single_pod_are_in_its_workload() -> None:
    toy = Toy(mode="kueue", policy=NOTES)
    toy.pod("foo", annotations={"example.com/team": "a", "example.com/other": "x"})
    (workload,) = toy.workloads.values()
    assert workload.annotations == {"example.com/team": "a"}


@pytest.mark.parity("C-69", "I-42")
def test_chosen_annotations_of_all_pods_are_in_the_groups_workload() -> None:
    toy = Toy(mode="kueue", policy=NOTES)
    toy.pod("p0", "g", 2, annotations={"example.com/team": "a", "example.com/other": "x"})
    toy.pod("p1", "g", 2, annotations={"example.com/team": "a", "example.com/app": "b"})
    copied = {"example.com/team": "a", "example.com/app": "b"}
    assert toy.workloads["g"].annotations == copied | {IS_GROUP_WORKLOAD: "true"}


@pytest.mark.parity("C-71", "I-43", "B1")
def test_pods_that_differ_in_a_chosen_annotation_block_the_group() -> None:
    toy = Toy(mode="kueue", policy=NOTES)
    toy.pod("p0", "g", 2, annotations={"example.com/team": "a"})
    toy.pod("p1", "g", 2, annotations={"example.com/team": "b"})
    assert not toy.workloads
    toy.wait(6)
    told = {message for _, reason, message in toy.said if reason == "ErrWorkloadCompose"}
    assert told == {"pods 'p0' and 'p1' have different 'example.com/team' values: a and b"}
    assert toy.group("g").explained.reason == "DifferentAnnotations"
    toy.change(toy.named("p1").uid, annotations=toy.named("p0").annotations)
    assert "g" in toy.workloads


@pytest.mark.parity("C-70", "C-72", "I-44")
def test_no_annotation_is_copied_or_compared_unless_it_is_chosen() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2, annotations={"example.com/team": "a"})
    toy.pod("p1", "g", 2, annotations={"example.com/team": "b"})
    assert toy.workloads["g"].annotations == {IS_GROUP_WORKLOAD: "true"}


@pytest.mark.parity("C-35")
def test_a_workload_without_a_place_for_anybody_is_made_anew() -> None:
    toy = Toy(mode="kueue")
    toy.act = False
    pair(toy)
    owners = tuple(OwnerRef(kind="Pod", name=p.name, uid=p.uid) for p in toy.pods.values())
    toy.workload("g", ("wrong", 2), owners=owners, annotations={IS_GROUP_WORKLOAD: "true"})
    for name in ("p0", "p1"):
        toy.change(toy.named(name).uid, gates=(), node="n", deleted_at=toy.now)
    toy.act = True
    toy.settle()
    toy.wait(31)
    assert [(p.name, p.count) for p in toy.workloads["g"].pod_sets] == [("r1", 2)]
    assert "DeletedWorkload" in reasons(toy)
    assert toy.held("p0") and toy.held("p1")


def test_a_workload_that_was_there_before_its_pods_were_seen_is_adopted() -> None:
    """A cluster is taken over, or lists arrive Workloads first."""
    toy = Toy(mode="kueue")
    mark = {IS_GROUP_WORKLOAD: "true"}
    workload = toy.workload("g", ("r1", 2), annotations=mark)
    pair(toy)
    assert toy.workloads["g"].uid == workload.uid
    assert {o.name for o in toy.workloads["g"].owners} == {"p0", "p1"}
    assert not toy.world.workloads
    toy.admit("g")
    assert not toy.gated("p0")


def test_a_dying_workload_of_somebody_else_in_the_way_of_a_group_is_left_to_them() -> None:
    import msgspec

    toy = Toy(mode="kueue")
    owner = OwnerRef(kind="Pod", name="x", uid="not-ours")
    view = toy.workload("g", ("main", 1), owners=(owner,))
    pair(toy)
    assert toy.group("g").quota.reason[0] == "WorkloadNameConflict"
    toy.put_workload(msgspec.structs.replace(view, deleted_at=toy.now))
    toy.settle()
    assert toy.workloads["g"].finalizers == view.finalizers
    toy.put_workload(_gone(toy))
    toy.settle()
    assert toy.workloads["g"].annotations == {IS_GROUP_WORKLOAD: "true"}
