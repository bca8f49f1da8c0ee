"""Patches of pods, checked by applying them with the stand-in server's own patch engine."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuator import patches
from podgroup.model import names
from podgroup.model.commands import StopPod, UngatePod
from podgroup.model.objects import Toleration
from simcluster.patches import PatchConflict, json_patch, strategic
from tests.actuator.commands import NOW, live_pod, pod_ref, ungate

OTHER_GATE = "example.com/hold"


def planned(command: UngatePod, pod: dict[str, Any]) -> dict[str, Any]:
    plan = patches.ungate(command, pod)
    assert isinstance(plan, patches.Patch), plan
    before = deepcopy(pod)
    after = json_patch(pod, plan.operations)
    assert pod == before
    return after


def gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def gated(*names_: str, **spec: Any) -> dict[str, Any]:
    return live_pod(schedulingGates=[{"name": name} for name in names_], **spec)


@pytest.mark.parametrize(
    ("live", "wanted", "left"),
    [
        ((names.ADMISSION_GATE,), (names.ADMISSION_GATE,), []),
        ((OTHER_GATE, names.ADMISSION_GATE), (names.ADMISSION_GATE,), [OTHER_GATE]),
        (
            (names.ADMISSION_GATE, OTHER_GATE, names.TOPOLOGY_GATE),
            (names.ADMISSION_GATE, names.TOPOLOGY_GATE),
            [OTHER_GATE],
        ),
        ((names.ADMISSION_GATE,), (names.ADMISSION_GATE, names.TOPOLOGY_GATE), []),
    ],
)
@pytest.mark.parity("S-20", "S-21", "S-22")
def test_removes_the_gates_named_and_no_others(
    live: tuple[str, ...], wanted: tuple[str, ...], left: list[str]
) -> None:
    after = planned(ungate(pod_ref(), gates=wanted), gated(*live))
    assert gates(after) == left


@pytest.mark.parity("S-09")
def test_merges_selector_labels_annotations_and_tolerations_in_the_same_patch() -> None:
    command = ungate(
        pod_ref(),
        node_selector={"pool": "a/b~c"},
        annotations={names.WORKLOAD_ANNOTATION: "w"},
        tolerations=(Toleration(key="spot", operator="Exists", seconds=0),),
    )
    after = planned(command, live_pod())
    assert after["spec"]["nodeSelector"] == {"pool": "a/b~c"}
    assert after["metadata"]["labels"] == {
        names.MANAGED_LABEL: "true",
        names.QUEUE_NAME: "queue",
        names.PODSET_LABEL: "main",
    }
    assert after["metadata"]["annotations"] == {names.WORKLOAD_ANNOTATION: "w"}
    assert after["spec"]["tolerations"] == [
        {"key": "spot", "operator": "Exists", "tolerationSeconds": 0}
    ]


@pytest.mark.parity("S-08")
def test_a_second_look_finds_nothing_to_do() -> None:
    command = ungate(pod_ref(), node_selector={"pool": "a"})
    assert patches.ungate(command, planned(command, live_pod())) == patches.Unchanged()


def test_an_ungated_pod_is_left_alone_even_if_its_labels_differ() -> None:
    pod = gated(nodeSelector={"pool": "b"})
    assert patches.ungate(ungate(pod_ref(), node_selector={"pool": "a"}), pod) == (
        patches.Unchanged()
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ({"node_selector": {"pool": "a"}}, ["spec.nodeSelector['pool']", "'b'", "'a'"]),
        ({"labels": {names.QUEUE_NAME: "x"}}, ["metadata.labels", "'queue'", "'x'"]),
        (
            {"labels": {names.QUEUE_NAME: "x"}, "node_selector": {"pool": "a"}},
            ["metadata.labels", "spec.nodeSelector"],
        ),
    ],
)
@pytest.mark.parity("S-13", "S-14", "S-19")
def test_another_value_of_a_key_is_a_conflict_that_names_both(
    command: dict[str, Any], words: list[str]
) -> None:
    plan = patches.ungate(ungate(pod_ref(), **command), live_pod(nodeSelector={"pool": "b"}))
    assert isinstance(plan, patches.Conflict)
    for word in words:
        assert word in plan.message


@pytest.mark.parity("S-15", "S-16")
def test_only_annotations_that_are_said_to_give_way_are_replaced() -> None:
    pod = live_pod()
    pod["metadata"]["annotations"] = {names.SLICE_NAME: "old", names.WORKLOAD_ANNOTATION: "old"}
    wanted = {names.SLICE_NAME: "new", names.WORKLOAD_ANNOTATION: "new"}
    command = ungate(pod_ref(), annotations=wanted, replaces=tuple(wanted))
    after = planned(command, pod)
    assert after["metadata"]["annotations"] == wanted and gates(after) == []
    half = ungate(pod_ref(), annotations=wanted, replaces=(names.SLICE_NAME,))
    assert isinstance(patches.ungate(half, pod), patches.Conflict)


@pytest.mark.parity("S-09")
def test_equal_values_are_no_conflict() -> None:
    command = ungate(pod_ref(), node_selector={"pool": "b"}, labels={names.QUEUE_NAME: "queue"})
    after = planned(command, live_pod(nodeSelector={"pool": "b"}))
    assert gates(after) == []
    assert after["spec"]["nodeSelector"] == {"pool": "b"}


@pytest.mark.parametrize(
    ("live", "wanted", "count"),
    [
        ({"key": "k", "value": "v"}, Toleration(key="k", operator="Equal", value="v"), 1),
        ({"key": "k", "operator": "Equal", "value": "v"}, Toleration(key="k", value="v"), 1),
        ({"key": "k", "operator": "Exists"}, Toleration(key="k", value="v"), 2),
        (
            {"key": "k", "operator": "Exists", "tolerationSeconds": 0},
            Toleration(key="k", operator="Exists"),
            2,
        ),
        ({"key": "k", "effect": "NoSchedule"}, Toleration(key="k"), 2),
    ],
)
@pytest.mark.parity("S-10", "S-11", "S-12")
def test_tolerations_are_appended_unless_equal(
    live: dict[str, Any], wanted: Toleration, count: int
) -> None:
    after = planned(ungate(pod_ref(), tolerations=(wanted, wanted)), live_pod(tolerations=[live]))
    assert len(after["spec"]["tolerations"]) == count
    assert after["spec"]["tolerations"][0] == live


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_the_patch_fails_on_any_other_object_or_version(field: str) -> None:
    plan = patches.ungate(ungate(pod_ref()), live_pod())
    assert isinstance(plan, patches.Patch)
    changed = live_pod()
    changed["metadata"][field] = "other"
    with pytest.raises(PatchConflict):
        json_patch(changed, plan.operations)


def test_without_a_look_the_result_is_the_same() -> None:
    command = ungate(pod_ref(), node_selector={"pool": "a"})
    operations = patches.ungate_unread(command)
    assert operations is not None
    blind, seen = json_patch(live_pod(), operations), planned(command, live_pod())
    assert gates(blind) == gates(seen) == []
    assert blind["metadata"] == seen["metadata"]
    assert blind["spec"]["nodeSelector"] == seen["spec"]["nodeSelector"]


@pytest.mark.parametrize(
    "pod",
    [
        live_pod(uid="successor"),
        gated(),
        gated(names.ADMISSION_GATE, OTHER_GATE),
        live_pod(nodeSelector={"pool": "a"}),
        live_pod(nodeSelector={"zone": "z"}),
    ],
    ids=["other uid", "ungated", "another gate", "same selector", "other selector"],
)
def test_without_a_look_anything_unforeseen_is_refused(pod: dict[str, Any]) -> None:
    operations = patches.ungate_unread(ungate(pod_ref(), node_selector={"pool": "a"}))
    assert operations is not None
    with pytest.raises(PatchConflict):
        json_patch(pod, operations)


def test_without_a_look_a_label_that_is_there_is_refused() -> None:
    pod = live_pod()
    pod["metadata"]["labels"][names.PODSET_LABEL] = "main"
    operations = patches.ungate_unread(ungate(pod_ref()))
    assert operations is not None
    with pytest.raises(PatchConflict):
        json_patch(pod, operations)


@pytest.mark.parametrize("annotated", [True, False])
def test_without_a_look_annotations_are_added_to_some_or_to_none(annotated: bool) -> None:
    pod = live_pod()
    pod["metadata"].pop("annotations", None)
    if annotated:
        pod["metadata"]["annotations"] = {"theirs": "1"}
    command = ungate(pod_ref(), annotations={names.WORKLOAD_ANNOTATION: "w"})
    operations = patches.ungate_unread(command, annotated=annotated)
    assert operations is not None
    assert json_patch(pod, operations)["metadata"] == planned(command, pod)["metadata"]
    wrong = patches.ungate_unread(command, annotated=not annotated)
    assert wrong is not None
    with pytest.raises(PatchConflict):
        json_patch(pod, wrong)


WRITTEN, APPLIED = {"operation": "Update"}, {"operation": "Apply"}


@pytest.mark.parametrize(
    ("entries", "cleared"),
    [([WRITTEN], True), ([WRITTEN, WRITTEN], True), ([APPLIED, WRITTEN], False), ([], False)],
)
def test_managed_fields_are_cleared_unless_the_pod_was_applied(
    entries: list[dict[str, str]], cleared: bool
) -> None:
    pod = live_pod()
    pod["metadata"]["managedFields"] = entries
    assert patches.may_untrack(pod) is cleared
    blind = patches.ungate_unread(ungate(pod_ref()), untrack=True)
    assert blind is not None
    if not cleared:
        with pytest.raises(PatchConflict):
            json_patch(pod, blind)
        return
    plan = patches.ungate(ungate(pod_ref()), pod, untrack=True)
    assert isinstance(plan, patches.Patch)
    for operations in (blind, plan.operations):
        assert json_patch(pod, operations)["metadata"]["managedFields"] == [{}]


def test_tolerations_need_a_look() -> None:
    assert patches.ungate_unread(ungate(pod_ref(), tolerations=(Toleration(key="k"),))) is None


KEYS = st.sampled_from(["a", "b/c", "d~e"])
MAPS = st.dictionaries(KEYS, st.sampled_from(["x", "y"]), max_size=3)


@given(
    live=MAPS,
    wanted=MAPS,
    present=st.lists(st.sampled_from(["g1", "g2", "g3"]), unique=True),
    gone=st.lists(st.sampled_from(["g1", "g2", "g3"]), unique=True, min_size=1),
)
def test_a_patch_merges_or_names_a_conflict_and_never_loses_a_value(
    live: dict[str, str], wanted: dict[str, str], present: list[str], gone: list[str]
) -> None:
    pod = gated(*present)
    pod["metadata"]["annotations"] = live
    command = ungate(pod_ref(), gates=tuple(gone), labels={}, annotations=wanted)
    differs = any(key in live and live[key] != value for key, value in wanted.items())
    match patches.ungate(command, pod):
        case patches.Unchanged():
            assert not set(present) & set(gone)
        case patches.Conflict():
            assert differs
        case patches.Patch(operations=operations):
            assert not differs
            after = json_patch(pod, operations)
            assert after["metadata"]["annotations"] == {**wanted, **live}
            assert gates(after) == [gate for gate in present if gate not in gone]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([names.POD_FINALIZER], []),
        (["a/b", names.POD_FINALIZER, "c/d"], ["a/b", "c/d"]),
        (["a/b"], ["a/b"]),
    ],
)
@pytest.mark.parity("I-03")
def test_finalizing_takes_ours_and_leaves_others(before: list[str], after: list[str]) -> None:
    pod = live_pod()
    pod["metadata"]["finalizers"] = before
    patch = patches.without_finalizer("u0")
    assert strategic(pod, patch)["metadata"]["finalizers"] == after
    assert patch["metadata"]["uid"] == "u0"


def test_the_condition_of_a_stop_is_the_same_every_time() -> None:
    command = StopPod(target=pod_ref(), reason="WorkloadEvictedDueToPreempted", message="m")
    first, second = (patches.termination_target(command, NOW) for _ in range(2))
    assert first == second
    assert first["metadata"]["uid"] == "u0"
    assert first["status"]["conditions"] == [
        {
            "type": "TerminationTarget",
            "status": "True",
            "reason": "WorkloadEvictedDueToPreempted",
            "message": "m",
            "lastTransitionTime": "2026-11-20T12:30:15Z",
        }
    ]


def test_pointer_escapes() -> None:
    assert patches.pointer("metadata", "labels", "a/b~c", 0) == "/metadata/labels/a~1b~0c/0"
