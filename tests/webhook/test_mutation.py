"""Mutation, row by row: what Kueue's webhook tests expect, and what gatelog adds to it."""

import copy
from typing import Any

import pytest

from ingest.webhook.bypass import MIRROR_ANNOTATION
from ingest.webhook.mutate import Disposition
from ingest.webhook.owners import (
    CyclicOwnership,
    LookupFailed,
    Owner,
    OwnerChainTooLong,
    OwnerNotFound,
)
from ingest.webhook.pod import OwnerRef
from ingest.webhook.policy import NAMESPACE_NAME_LABEL, WebhookPolicy
from podgroup.model import names
from podgroup.model.objects import Requirement, Selector
from tests.webhook.cluster import RAW, Cluster, mutated, raw_pod, recorded_reviews

Q = {names.QUEUE_NAME: "user-queue"}
MANAGED = {names.MANAGED_LABEL: "true"}
HASH = {names.ROLE_HASH: "a9f06f3a"}
GATE = [{"name": names.ADMISSION_GATE}]
JOB = ("batch/v1", "Job", "job")
ALONE = WebhookPolicy(enabled_kinds=())
SELECTOR = Selector(
    expressions=(Requirement(key=NAMESPACE_NAME_LABEL, operator="NotIn", values=("kube-system",)),)
)


def cluster_with(
    kind: str = "",
    name: str = "job",
    *,
    uid: str = "",
    labels: dict[str, str] | None = None,
    default_queue: bool = False,
    priority_class: bool = False,
) -> Cluster:
    cluster = Cluster()
    if kind:
        cluster.owners["ns", kind, name] = Owner(
            uid or f"{name}-uid", Q if labels is None else labels
        )
    if default_queue:
        cluster.queues.add(("ns", "default"))
    if priority_class:
        cluster.priority_classes.add("default")
    return cluster


def expect(
    raw: RAW,
    *,
    labels: dict[str, str],
    finalizers: list[str] | None,
    gates: list[RAW] | None = None,
    annotations: dict[str, str] | None = None,
) -> RAW:
    """The pod as it should come out: everything else unchanged."""
    wanted = copy.deepcopy(raw)
    if labels:
        wanted["metadata"]["labels"] = labels
    wanted["metadata"]["annotations"] = {**raw["metadata"].get("annotations", {}), **HASH} | (
        annotations or {}
    )
    if finalizers is not None:
        wanted["metadata"]["finalizers"] = finalizers
    wanted["spec"]["schedulingGates"] = gates or GATE
    return wanted


FIN = [names.POD_FINALIZER]
G_ONLY = {names.GROUP_NAME: "g"}

TAKEN: list[Any] = [
    pytest.param(raw_pod(labels=Q), None, None, {**Q, **MANAGED}, id="W-02-queue"),
    pytest.param(
        raw_pod(labels=Q),
        None,
        WebhookPolicy(namespace_selector=Selector()),
        {**Q, **MANAGED},
        id="W-03-matching-selector",
    ),
    pytest.param(
        raw_pod(),
        None,
        WebhookPolicy(manage_jobs_without_queue_name=True),
        MANAGED,
        id="W-04-manage-without-queue",
    ),
    pytest.param(
        raw_pod(labels=Q, owner=JOB),
        cluster_with("Job"),
        ALONE,
        {**Q, **MANAGED},
        id="W-05-job-not-enabled",
    ),
    pytest.param(
        raw_pod(labels={**Q, **G_ONLY}),
        None,
        None,
        {**Q, **G_ONLY, **MANAGED},
        id="W-14-group-without-total",
    ),
    pytest.param(
        raw_pod(labels={**G_ONLY, **Q}, annotations={"x": "y"}),
        None,
        None,
        {**Q, **G_ONLY, **MANAGED},
        id="W-15-group-without-total",
    ),
    pytest.param(
        raw_pod(),
        cluster_with(default_queue=True),
        None,
        {names.QUEUE_NAME: "default", **MANAGED},
        id="W-18-default-queue",
    ),
    pytest.param(
        raw_pod(labels=Q),
        cluster_with(default_queue=True),
        None,
        {**Q, **MANAGED},
        id="W-20-label-kept",
    ),
    pytest.param(
        raw_pod(labels=Q),
        None,
        WebhookPolicy(namespace_selector=SELECTOR),
        {**Q, **MANAGED},
        id="W-21-W-23-namespace-matches",
    ),
    pytest.param(
        raw_pod(labels=Q),
        cluster_with(priority_class=True),
        None,
        {**Q, **MANAGED, names.PRIORITY_CLASS: "default"},
        id="W-27-default-priority-class",
    ),
    pytest.param(
        raw_pod(labels=Q),
        cluster_with(priority_class=True),
        WebhookPolicy(default_priority_class=""),
        {**Q, **MANAGED},
        id="W-28-priority-default-off",
    ),
    pytest.param(
        raw_pod(labels={**Q, names.PRIORITY_CLASS: "high"}),
        cluster_with(priority_class=True),
        None,
        {**Q, **MANAGED, names.PRIORITY_CLASS: "high"},
        id="W-29-priority-kept",
    ),
    pytest.param(
        raw_pod(labels=Q), cluster_with(), None, {**Q, **MANAGED}, id="W-30-no-priority-class"
    ),
    pytest.param(
        raw_pod(labels={names.QUEUE_NAME: ""}),
        cluster_with(default_queue=True),
        None,
        {names.QUEUE_NAME: "default", **MANAGED},
        id="empty-label-is-no-queue",
    ),
    pytest.param(
        raw_pod(labels=Q, owner=("apps/v1", "ReplicaSet", "rs")),
        cluster_with("ReplicaSet", "rs"),
        None,
        {**Q, **MANAGED},
        id="replicaset-never-counts",
    ),
    pytest.param(
        raw_pod(labels=Q, owner=("x.io/v1", "Thing", "t")),
        None,
        None,
        {**Q, **MANAGED},
        id="unknown-owner-ends-the-walk",
    ),
    pytest.param(
        raw_pod(labels=Q, owner=("v1", "Pod", "driver")),
        cluster_with("Pod", "driver"),
        None,
        {**Q, **MANAGED},
        id="B9-worker-of-a-driver-pod",
    ),
    pytest.param(
        raw_pod(labels=Q, owner=JOB),
        cluster_with("Job", labels={}),
        None,
        {**Q, **MANAGED},
        id="job-without-queue",
    ),
    pytest.param(
        raw_pod(labels=Q, owner=JOB),
        cluster_with("Job", uid="another"),
        None,
        {**Q, **MANAGED},
        id="owner-of-another-uid-ends-the-walk",
    ),
]


@pytest.mark.parametrize(("raw", "cluster", "policy", "labels"), TAKEN)
async def test_taken(
    raw: RAW, cluster: Cluster | None, policy: WebhookPolicy | None, labels: dict[str, str]
) -> None:
    result, after = await mutated(raw, cluster, policy)
    assert result.disposition is Disposition.GATED
    assert after == expect(raw, labels=labels, finalizers=FIN)
    # Asking again about the outcome changes nothing.
    again, unchanged = await mutated(after, cluster, policy)
    assert again.patch == ()
    assert unchanged == after


KUBEFLOW = "kubeflow.org/v1"
LEFT: list[Any] = [
    pytest.param(
        raw_pod(labels=Q, owner=JOB), cluster_with("Job"), None, "owner_queued", id="W-06-job"
    ),
    *(
        pytest.param(
            raw_pod(labels=Q, owner=(version, kind, "job")),
            cluster_with(kind),
            None,
            "owner_queued",
            id=f"{row}-{kind}",
        )
        for row, version, kind in [
            ("W-08", "ray.io/v1", "RayCluster"),
            ("W-09", "kubeflow.org/v2beta1", "MPIJob"),
            ("W-10", KUBEFLOW, "PyTorchJob"),
            ("W-11", KUBEFLOW, "TFJob"),
            ("W-12", KUBEFLOW, "XGBoostJob"),
            ("W-13", KUBEFLOW, "PaddleJob"),
        ]
    ),
    pytest.param(raw_pod(), cluster_with(), None, "no_queue", id="W-19-no-queue"),
    pytest.param(
        raw_pod(labels=Q, namespace="kube-system"),
        None,
        WebhookPolicy(namespace_selector=SELECTOR),
        "namespace_excluded",
        id="W-22-W-24-kube-system",
    ),
    pytest.param(
        raw_pod(labels=Q, namespace="gatelog-system"),
        None,
        None,
        "namespace_excluded",
        id="own-namespace",
    ),
    pytest.param(
        raw_pod(labels=Q, owner=JOB),
        cluster_with("Job", labels={}),
        WebhookPolicy(manage_jobs_without_queue_name=True),
        "owner_queued",
        id="job-without-queue-managed-anyway",
    ),
]


@pytest.mark.parametrize(("raw", "cluster", "policy", "word"), LEFT)
async def test_left_alone(
    raw: RAW, cluster: Cluster | None, policy: WebhookPolicy | None, word: str
) -> None:
    result, after = await mutated(raw, cluster, policy)
    assert result.disposition.value == word
    assert result.allowed
    assert after == raw


async def test_a_mirror_is_what_a_kubelet_makes() -> None:
    raw = raw_pod(labels=Q, annotations={MIRROR_ANNOTATION: "x"})
    result, after = await mutated(raw, mirror=True)
    assert result.disposition is Disposition.MIRROR and after == raw
    result, after = await mutated(raw)
    assert result.disposition is Disposition.GATED and after["spec"]["schedulingGates"] == GATE


async def test_where_every_pod_is_queued_a_parent_settles_nothing() -> None:
    raw = raw_pod(annotations={names.SUSPENDING_PARENT: "x"})
    result, _ = await mutated(raw, policy=WebhookPolicy(manage_jobs_without_queue_name=True))
    assert result.disposition is Disposition.GATED


@pytest.mark.parametrize("value", ["", "statefulset"], ids=["W-01-empty", "W-01-named"])
@pytest.mark.parametrize("labels", [Q, {}], ids=["queue", "no-queue"])
async def test_a_pod_with_a_parent_gets_gate_label_and_finalizer(
    value: str, labels: dict[str, str]
) -> None:
    """Kueue's page for Spark: with the gate alone nobody would know the pod (kueue#4106)."""
    raw = raw_pod(labels=labels, annotations={names.SUSPENDING_PARENT: value}, owner=JOB)
    result, after = await mutated(raw, Cluster())
    assert result.disposition is Disposition.GATED
    assert after == expect(raw, labels={**labels, **MANAGED}, finalizers=FIN)


@pytest.mark.parity("B30")
@pytest.mark.parametrize("group", [{}, {names.GROUP_NAME: "g"}], ids=["single", "member"])
async def test_a_gate_by_hand_brings_label_and_finalizer_along(group: dict[str, str]) -> None:
    raw = raw_pod(labels=group, gated=True, owner=JOB)
    result, after = await mutated(raw)
    assert result.disposition is Disposition.GATED
    assert after == expect(raw, labels={**group, **MANAGED}, finalizers=FIN)


@pytest.mark.parametrize(
    "raw",
    [
        raw_pod(labels=Q, annotations={names.SUSPENDING_PARENT: "x"}, namespace="kube-system"),
        raw_pod(gated=True, namespace="kube-system"),
        raw_pod(labels={names.GROUP_NAME: "g"}),
    ],
    ids=["parent-in-excluded-namespace", "gate-in-excluded-namespace", "member-without-queue"],
)
async def test_what_is_not_queued_gets_none_of_them(raw: RAW) -> None:
    _, after = await mutated(raw)
    assert after == raw


@pytest.mark.parity("W-16", "W-17")
async def test_topology_gate_follows_the_admission_gate() -> None:
    policy = WebhookPolicy(topology_gate=True)
    raw = raw_pod(labels=Q, annotations={names.TOPOLOGY_REQUIRED: "cloud.com/block"})
    _, after = await mutated(raw, policy=policy)  # W-16
    gates = [*GATE, {"name": names.TOPOLOGY_GATE}]
    assert after == expect(raw, labels={**Q, **MANAGED}, finalizers=FIN, gates=gates)

    labels = {**Q, "test-label": "3"}
    raw = raw_pod(labels=labels, annotations={names.POD_INDEX_LABEL: "test-label"})
    _, after = await mutated(raw, policy=policy)  # W-17
    assert after["metadata"]["labels"] == {**labels, **MANAGED, names.POD_INDEX: "3"}
    _, after = await mutated(raw)
    assert after["metadata"]["labels"][names.POD_INDEX] == "3", "gatelog places by rank as well"
    assert after["spec"]["schedulingGates"] == GATE

    raw = raw_pod(labels=Q, annotations={names.POD_INDEX_LABEL: "absent"})
    _, after = await mutated(raw, policy=policy)
    assert after["metadata"]["labels"][names.POD_INDEX] == ""


async def test_what_is_there_is_kept() -> None:
    raw = raw_pod(labels=Q, annotations={names.ROLE_HASH: ""})
    raw["metadata"]["finalizers"] = ["x.io/mine"]
    raw["spec"]["schedulingGates"] = [{"name": "x.io/gate"}]
    _, after = await mutated(raw)
    assert after["metadata"]["annotations"] == {names.ROLE_HASH: ""}
    assert after["metadata"]["finalizers"] == ["x.io/mine", names.POD_FINALIZER]
    assert after["spec"]["schedulingGates"] == [{"name": "x.io/gate"}, *GATE]

    raw["spec"]["schedulingGates"] = [*GATE, {"name": "x.io/gate"}]
    raw["metadata"]["annotations"] = {names.ROLE_HASH: "leader"}
    _, after = await mutated(raw)
    assert after["spec"]["schedulingGates"] == raw["spec"]["schedulingGates"]
    assert after["metadata"]["annotations"] == {names.ROLE_HASH: "leader"}


@pytest.mark.parity("B19")
async def test_kep_variant_of_the_hash() -> None:
    _, after = await mutated(raw_pod(labels=Q), policy=WebhookPolicy(role_hash="kep-976"))
    assert after["metadata"]["annotations"][names.ROLE_HASH] not in ("", "a9f06f3a")


async def test_bound_pod_with_a_queue_is_refused_in_plain_words() -> None:
    result, after = await mutated(raw_pod(labels=Q, nodeName="n1"))
    assert not result.allowed
    assert after["metadata"]["labels"] == Q
    assert str(result.errors[0]).startswith("spec.nodeName: Forbidden: names a node")
    every = WebhookPolicy(manage_jobs_without_queue_name=True)
    for cluster, policy in ((cluster_with(default_queue=True), None), (None, every)):
        result, _ = await mutated(raw_pod(nodeName="n1"), cluster, policy)
        assert [error.path for error in result.errors] == ["spec.nodeName"]


async def test_unhashable_pod_is_refused_by_field() -> None:
    result, _ = await mutated(raw_pod(labels=Q, overhead={"cpu": "much"}))
    assert [e.path for e in result.errors] == ["spec.overhead"]


async def test_questions_are_asked_only_where_they_matter() -> None:
    cluster = Cluster()
    await mutated(raw_pod(), cluster)
    assert cluster.asked == ["queue ns/default"]
    cluster.asked.clear()
    await mutated(raw_pod(labels={**Q, names.PRIORITY_CLASS: "p"}), cluster)
    assert cluster.asked == []
    await mutated(raw_pod(namespace="kube-system"), cluster)
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("labels", "matched"), [({"team": "a"}, True), ({"team": "b"}, False), ({}, False)]
)
async def test_namespace_labels_are_read_when_a_selector_needs_them(
    labels: dict[str, str], matched: bool
) -> None:
    cluster = Cluster()
    cluster.namespaces["ns"] = labels
    selector = Selector(labels={"team": "a"})
    result, _ = await mutated(
        raw_pod(labels=Q), cluster, WebhookPolicy(namespace_selector=selector)
    )
    assert result.disposition is (Disposition.GATED if matched else Disposition.NAMESPACE_EXCLUDED)


@pytest.mark.parity("C-106")
async def test_walk_goes_through_kinds_that_do_not_count() -> None:
    cluster = Cluster()
    up = OwnerRef(kind="Job", name="job", uid="job-uid", api_version="batch/v1", controller=True)
    cluster.owners["ns", "ReplicaSet", "rs"] = Owner("rs-uid", {}, up)
    cluster.owners["ns", "Job", "job"] = Owner("job-uid", Q)
    raw = raw_pod(labels=Q, owner=("apps/v1", "ReplicaSet", "rs"))
    result, _ = await mutated(raw, cluster)
    assert result.disposition is Disposition.OWNER_QUEUED
    assert cluster.asked == ["owner replicasets/rs", "owner jobs/job"]


@pytest.mark.parity("W-07")
async def test_owner_errors() -> None:
    raw = raw_pod(labels=Q, owner=JOB)
    with pytest.raises(OwnerNotFound, match=r"Job/job .* owns pod ns/p"):  # W-07
        await mutated(raw)
    with pytest.raises(OwnerNotFound):
        await mutated(raw, policy=ALONE)  # known though not enabled

    cluster = Cluster()
    back = OwnerRef(kind="Job", name="job", uid="job-uid", api_version="batch/v1", controller=True)
    cluster.owners["ns", "Job", "job"] = Owner("job-uid", {}, back)
    with pytest.raises(CyclicOwnership):
        await mutated(raw, cluster)

    for i in range(12):
        up = OwnerRef(
            kind="Job",
            name=f"j{i + 1}",
            uid=f"j{i + 1}-uid",
            api_version="batch/v1",
            controller=True,
        )
        cluster.owners["ns", "Job", f"j{i}"] = Owner(f"j{i}-uid", {}, up)
    with pytest.raises(OwnerChainTooLong, match="more than 10"):
        await mutated(raw_pod(labels=Q, owner=("batch/v1", "Job", "j0")), cluster)

    cluster.down = True
    with pytest.raises(LookupFailed):
        await mutated(raw, cluster)


@pytest.mark.parametrize("recorded", recorded_reviews("CREATE"))
async def test_recorded_creations_are_restored(recorded: RAW) -> None:
    """What Kueue added, taken off again, is what we add: label, finalizer, gates, hash."""
    final = recorded["request"]["object"]
    original = copy.deepcopy(final)
    assert original["metadata"]["annotations"].pop(names.ROLE_HASH)
    if not original["metadata"]["annotations"]:
        del original["metadata"]["annotations"]
    del original["metadata"]["labels"][names.MANAGED_LABEL]
    del original["metadata"]["finalizers"]
    del original["spec"]["schedulingGates"]
    _, after = await mutated(original, policy=WebhookPolicy(topology_gate=True))
    assert after == final
    again, _ = await mutated(final, policy=WebhookPolicy(topology_gate=True))
    assert again.patch == ()
