"""Workload bodies: compared with what a real Kueue wrote for the same pods."""

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from actuator import workloads
from actuator.patches import Patch, Unchanged
from podgroup.model import names
from podgroup.model.commands import (
    CreateWorkload,
    ObjectRef,
    PodSetSpec,
    PriorityRef,
    UpdateWorkload,
)
from simcluster.patches import PatchConflict, json_patch
from tests.actuator.commands import create_workload, live_pod, pod_ref, workload_ref

RECORDINGS = Path(__file__).parents[1] / "recordings"


def recorded(name: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The first state of each pod by name, and of the first Workload."""
    pods: dict[str, dict[str, Any]] = {}
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz", "rt") as file:
        for line in map(json.loads, file):
            if line["resource"] == "pods":
                pods.setdefault(line["object"]["metadata"]["name"], line["object"])
            elif line["resource"] == "workloads":
                return pods, line["object"]
    raise AssertionError(f"{name} has no Workload")


def command_for(workload: dict[str, Any], pods: dict[str, dict[str, Any]]) -> CreateWorkload:
    """The command a projector would give for what Kueue did."""
    meta, spec = workload["metadata"], workload["spec"]
    owners = tuple(pod_ref(o["name"], o["uid"], meta["namespace"]) for o in meta["ownerReferences"])
    ref = spec.get("priorityClassRef")
    pod_sets = []
    for item in spec["podSets"]:
        sample = next(
            name
            for name, pod in pods.items()
            if item["name"]
            in (names.SINGLE_PODSET, pod["metadata"]["annotations"][names.ROLE_HASH])
        )
        ref_ = pod_ref(sample, pods[sample]["metadata"]["uid"], meta["namespace"])
        pod_sets.append(PodSetSpec(name=item["name"], count=item["count"], sample=ref_))
    return CreateWorkload(
        target=workload_ref(meta["name"], namespace=meta["namespace"]),
        queue=spec["queueName"],
        pod_sets=tuple(pod_sets),
        owners=owners,
        controller=bool(meta["ownerReferences"][0].get("controller")),
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        priority=spec["priority"],
        priority_ref=PriorityRef(kind=ref["kind"], name=ref["name"]) if ref else None,
    )


@pytest.mark.parametrize(
    "name", ["single_pod_lifecycle", "group_driver_workers", "nine_roles", "preempted_and_resumed"]
)
@pytest.mark.parity("C-03", "C-13")
def test_the_body_is_what_kueue_wrote_for_the_same_pods(name: str) -> None:
    pods, kueues = recorded(name)
    command = command_for(kueues, pods)
    samples = {item.name: pods[item.sample.name] for item in command.pod_sets if item.sample}
    before = deepcopy(samples)
    body = workloads.workload(command, samples, "v1beta2")
    assert samples == before
    for key in ("name", "namespace", "finalizers", "ownerReferences"):
        assert body["metadata"][key] == kueues["metadata"][key], key
    for key in ("labels", "annotations"):
        assert body["metadata"].get(key) == kueues["metadata"].get(key), key
    wanted = deepcopy(kueues["spec"])
    wanted.pop("active")  # defaulted by the server
    for item in wanted["podSets"]:
        # Kueue with topology-aware scheduling asks for a topology always; we, when a pod does.
        assert item.pop("topologyRequest") == {"podIndexLabel": names.POD_INDEX}
    assert body["spec"] == wanted
    assert body["apiVersion"] == kueues["apiVersion"]


REF = PriorityRef(kind="WorkloadPriorityClass", name="high")


@pytest.mark.parametrize(
    ("ref", "version", "fields"),
    [
        (None, "v1beta2", {}),
        (
            REF,
            "v1beta2",
            {
                "priorityClassRef": {
                    "group": "kueue.x-k8s.io",
                    "kind": "WorkloadPriorityClass",
                    "name": "high",
                }
            },
        ),
        (
            PriorityRef(kind="PriorityClass", name="p"),
            "v1beta2",
            {
                "priorityClassRef": {
                    "group": "scheduling.k8s.io",
                    "kind": "PriorityClass",
                    "name": "p",
                }
            },
        ),
        (
            REF,
            "v1beta1",
            {
                "priorityClassName": "high",
                "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
            },
        ),
        (
            PriorityRef(kind="PriorityClass", name="p"),
            "v1beta1",
            {
                "priorityClassName": "p",
                "priorityClassSource": "scheduling.k8s.io/priorityclass",
            },
        ),
    ],
)
def test_priority_class(ref: PriorityRef | None, version: str, fields: dict[str, Any]) -> None:
    command = create_workload(pod_ref(), priority=100, priority_ref=ref, max_execution_s=60)
    body = workloads.workload(command, {"main": live_pod()}, version)
    assert body["apiVersion"] == f"kueue.x-k8s.io/{version}"
    assert body["spec"]["priority"] == 100
    assert body["spec"]["maximumExecutionTimeSeconds"] == 60
    found = {key: value for key, value in body["spec"].items() if key.startswith("priorityClass")}
    assert found == fields


@pytest.mark.parametrize(
    ("env", "kept"),
    [
        ([("A", "1"), ("B", "2"), ("A", "3")], [("B", "2"), ("A", "3")]),
        ([("A", "1"), ("A", "1")], [("A", "1")]),
        ([("A", "1"), ("B", "$(A)")], [("A", "1"), ("B", "$(A)")]),
    ],
)
def test_a_variable_named_twice_counts_once(
    env: list[tuple[str, str]], kept: list[tuple[str, str]]
) -> None:
    container = {"name": "c", "env": [{"name": n, "value": v} for n, v in env]}
    spec = {"containers": [container], "initContainers": [deepcopy(container)]}
    copy = workloads.template_spec(spec)
    for key in ("containers", "initContainers"):
        assert [(e["name"], e["value"]) for e in copy[key][0]["env"]] == kept
    assert len(spec["containers"][0]["env"]) == len(env)


@pytest.mark.parametrize(
    ("annotations", "gates", "request_"),
    [
        ({}, (names.ADMISSION_GATE, names.TOPOLOGY_GATE), {}),
        ({names.TOPOLOGY_REQUIRED: "rack"}, (names.ADMISSION_GATE,), {}),
        (
            {names.TOPOLOGY_REQUIRED: "rack", names.PODSET_GROUP_NAME: "g"},
            (names.ADMISSION_GATE, names.TOPOLOGY_GATE),
            {"required": "rack", "podSetGroupName": "g", "podIndexLabel": names.POD_INDEX},
        ),
        (
            {names.TOPOLOGY_UNCONSTRAINED: "true", names.PODSET_GROUP_NAME: "g"},
            (names.TOPOLOGY_GATE,),
            {"unconstrained": True, "podIndexLabel": names.POD_INDEX},
        ),
        (
            {
                names.TOPOLOGY_PREFERRED: "rack",
                names.SLICE_REQUIRED: "host",
                names.SLICE_SIZE: "4",
            },
            (names.TOPOLOGY_GATE,),
            {
                "preferred": "rack",
                "podSetSliceRequiredTopology": "host",
                "podSetSliceSize": 4,
                "podIndexLabel": names.POD_INDEX,
            },
        ),
    ],
)
@pytest.mark.parity("C-97", "C-98", "C-99")
def test_a_topology_is_asked_for_when_the_pod_waits_for_one(
    annotations: dict[str, str], gates: tuple[str, ...], request_: dict[str, Any]
) -> None:
    pod = live_pod(schedulingGates=[{"name": gate} for gate in gates])
    pod["metadata"]["annotations"] = annotations
    assert workloads.topology_request(pod) == request_


@pytest.mark.parity("C-100", "C-101")
@pytest.mark.parametrize("annotation", [names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED])
def test_with_the_feature_off_no_topology_is_asked_for(annotation: str) -> None:
    pod = live_pod(schedulingGates=[{"name": names.TOPOLOGY_GATE}])
    pod["metadata"]["annotations"] = {annotation: "rack"}
    found = {}
    for on in (True, False):
        command = create_workload(pod_ref(), topology=on)
        body = workloads.workload(command, {"main": pod}, "v1beta2")
        found[on] = body["spec"]["podSets"][0].get("topologyRequest")
    assert found[True] and found[False] is None


OWNER = pod_ref("owner", "owner-uid")


def existing(**changes: Any) -> dict[str, Any]:
    """A Workload as the server would answer the creation."""
    body = workloads.workload(create_workload(OWNER), {"main": live_pod()}, "v1beta2")
    body["metadata"] |= {"uid": "w-uid", "resourceVersion": "9", "generation": 1, **changes}
    return body


@pytest.mark.parametrize(
    ("live", "group", "count", "answer"),
    [
        (existing(), True, 1, True),
        (existing(), True, 2, False),
        (existing(annotations={}), True, 1, False),
        (existing(), False, 1, False),
        (
            existing(ownerReferences=[workloads.owner_reference(OWNER, True)], annotations={}),
            False,
            1,
            True,
        ),
        (
            existing(ownerReferences=[workloads.owner_reference(pod_ref("owner", "x"), True)]),
            False,
            1,
            False,
        ),
    ],
    ids=["ours", "other count", "no group", "not controlled", "controlled", "other uid"],
)
def test_an_existing_workload_is_ours_or_not(
    live: dict[str, Any], group: bool, count: int, answer: bool
) -> None:
    command = create_workload(OWNER, group=group, count=count)
    assert workloads.ours(command, live) is answer


@pytest.mark.parametrize(("uid", "answer"), [("owner-uid", True), ("earlier", False)])
def test_a_workload_that_shares_an_owner_was_made_by_this_command(uid: str, answer: bool) -> None:
    live = existing(ownerReferences=[workloads.owner_reference(pod_ref("owner", uid))])
    assert workloads.made_for(create_workload(OWNER, group=True), live) is answer


def test_an_update_appends_missing_owners_and_sets_what_differs() -> None:
    new = pod_ref("new", "new-uid")
    command = UpdateWorkload(
        target=workload_ref(uid="w-uid"),
        add_owners=(OWNER, new, new),
        queue="other",
        priority=5,
        priority_ref=REF,
        pod_sets=(PodSetSpec(name="main", count=3, sample=OWNER),),
    )
    live = existing()
    plan = workloads.update(command, live, {"main": live_pod()}, "v1beta2")
    assert isinstance(plan, Patch)
    after = json_patch(live, plan.operations)
    assert [o["uid"] for o in after["metadata"]["ownerReferences"]] == ["owner-uid", "new-uid"]
    assert "controller" not in after["metadata"]["ownerReferences"][1]
    assert after["spec"]["queueName"] == "other"
    assert after["spec"]["priority"] == 5
    assert after["spec"]["priorityClassRef"]["name"] == "high"
    assert [p["count"] for p in after["spec"]["podSets"]] == [3]
    assert workloads.update(command, after, {"main": live_pod()}, "v1beta2") == Unchanged()
    with pytest.raises(PatchConflict):
        json_patch(existing(resourceVersion="10"), plan.operations)


def test_owners_are_added_to_a_workload_without_any() -> None:
    command = UpdateWorkload(target=workload_ref(), add_owners=(OWNER,))
    live = existing()
    del live["metadata"]["ownerReferences"]
    plan = workloads.update(command, live, {}, "v1beta2")
    assert isinstance(plan, Patch)
    after = json_patch(live, plan.operations)
    assert after["metadata"]["ownerReferences"] == [workloads.owner_reference(OWNER)]


@pytest.mark.parity("I-10", "C-17", "I-32")
def test_an_update_takes_control_and_sets_activity_and_bounds() -> None:
    command = UpdateWorkload(
        target=workload_ref(),
        add_owners=(OWNER,),
        controller=True,
        labels={names.JOB_UID: "owner-uid"},
        active=False,
        max_execution_s=10,
    )
    live = existing()
    del live["metadata"]["ownerReferences"]
    plan = workloads.update(command, live, {}, "v1beta2")
    assert isinstance(plan, Patch)
    after = json_patch(live, plan.operations)
    assert after["metadata"]["ownerReferences"] == [workloads.owner_reference(OWNER, True)]
    assert after["metadata"]["labels"][names.JOB_UID] == "owner-uid"
    assert after["spec"]["active"] is False
    assert after["spec"]["maximumExecutionTimeSeconds"] == 10
    assert workloads.update(command, after, {}, "v1beta2") == Unchanged()
    unbound = UpdateWorkload(target=workload_ref(), max_execution_s=0)
    plan = workloads.update(unbound, after, {}, "v1beta2")
    assert isinstance(plan, Patch)
    after = json_patch(after, plan.operations)
    assert "maximumExecutionTimeSeconds" not in after["spec"]
    assert workloads.update(unbound, after, {}, "v1beta2") == Unchanged()


def test_our_finalizer_goes_and_others_stay() -> None:
    live = existing(finalizers=["a/b", names.WORKLOAD_FINALIZER, "c/d"])
    plan = workloads.without_finalizer(live)
    assert isinstance(plan, Patch)
    after = json_patch(live, plan.operations)
    assert after["metadata"]["finalizers"] == ["a/b", "c/d"]
    assert workloads.without_finalizer(after) == Unchanged()
    with pytest.raises(PatchConflict):
        json_patch(existing(finalizers=["a/b", "c/d"]), plan.operations)


def test_owner_references_of_other_kinds_name_their_group() -> None:
    owner = ObjectRef(kind="Workload", namespace="team", name="w", uid="x")
    assert workloads.owner_reference(owner)["apiVersion"] == "kueue.x-k8s.io/v1beta2"


@pytest.mark.parity("B9")
def test_a_podset_without_pods_has_the_declared_template() -> None:
    spec = {"containers": [{"name": "worker", "resources": {"requests": {"cpu": "1m"}}}]}
    owner = pod_ref()
    sets = (
        PodSetSpec(name="driver", count=1, sample=owner),
        PodSetSpec(name="workers", count=10, template=json.dumps(spec)),
    )
    command = create_workload(owner, pod_sets=sets)
    body = workloads.workload(command, {"driver": live_pod()}, "v1beta2")
    driver, workers = body["spec"]["podSets"]
    assert driver["template"]["spec"] == live_pod()["spec"]
    template = {"metadata": {}, "spec": spec}
    assert workers == {"name": "workers", "count": 10, "template": template}
    assert workloads.ours(command, body)
    with pytest.raises(KeyError, match="driver"):
        workloads.workload(command, {}, "v1beta2")


@pytest.mark.parametrize(
    ("known", "wanted", "left"),
    [
        ("a.io/x,b.io/y", "b.io/y", "b.io/y"),
        ("a.io/x", "", None),
        ("a.io/x", None, "a.io/x"),
        ("", "a.io/x", ""),
        (None, "a.io/x", None),
    ],
)
def test_who_holds_admission_back_becomes_fewer_and_never_more(
    known: str | None, wanted: str | None, left: str | None
) -> None:
    notes = {} if known is None else {names.ADMISSION_GATED_BY: known}
    live = existing(annotations={"other": "1", **notes})
    plan = workloads.update(
        UpdateWorkload(target=workload_ref(), gated_by=wanted), live, {}, "v1beta2"
    )
    if isinstance(plan, Patch):
        live = json_patch(live, plan.operations)
    found = live["metadata"]["annotations"]
    assert found.get(names.ADMISSION_GATED_BY) == left and found["other"] == "1"
