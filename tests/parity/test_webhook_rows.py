"""Rows of the integration and end-to-end suites that admission alone decides."""

from typing import Any

import pytest

from ingest.webhook.fields import ErrorKind
from ingest.webhook.mutate import Disposition
from ingest.webhook.owners import Owner
from ingest.webhook.pod import OwnerRef
from ingest.webhook.policy import NAMESPACE_NAME_LABEL, WebhookPolicy
from podgroup.model import names
from podgroup.model.objects import Requirement, Selector
from tests.webhook.cluster import Cluster, created, mutated, raw_pod

Q = {names.QUEUE_NAME: "user-queue"}
JOB = ("batch/v1", "Job", "job")
SELECTED = Selector(
    expressions=(Requirement(key=NAMESPACE_NAME_LABEL, operator="NotIn", values=("kube-system",)),)
)
USUAL = WebhookPolicy(namespace_selector=SELECTED)
ALL_PODS = WebhookPolicy(namespace_selector=SELECTED, manage_jobs_without_queue_name=True)


def taken(after: dict[str, Any]) -> bool:
    meta = after["metadata"]
    marks = (
        meta.get("labels", {}).get(names.MANAGED_LABEL) == "true",
        names.POD_FINALIZER in meta.get("finalizers", ()),
        {"name": names.ADMISSION_GATE} in after["spec"].get("schedulingGates", ()),
    )
    assert len(set(marks)) == 1, "all of it or nothing"
    return marks[0]


def cluster(*, job: str = "", deployment: bool = False) -> Cluster:
    found = Cluster()
    for name in ("ns", "kube-system"):
        found.namespaces[name] = {NAMESPACE_NAME_LABEL: name}
    if job:
        found.owners["ns", "Job", "job"] = Owner(job, Q)
    if deployment:
        up = OwnerRef(
            kind="Deployment", name="d", uid="d-uid", api_version="apps/v1", controller=True
        )
        for name in ("ns", "kube-system"):
            found.owners[name, "ReplicaSet", "rs"] = Owner("rs-uid", {}, up)
            found.owners[name, "Deployment", "d"] = Owner("d-uid", {})
    return found


@pytest.mark.parametrize(
    ("fields", "policy", "owner", "expected"),
    [
        pytest.param({"labels": Q}, USUAL, "", True, id="IW-01-queue"),
        pytest.param(
            {"labels": Q, "namespace": "kube-system"}, USUAL, "", False, id="IW-02-E-23-kube-system"
        ),
        pytest.param({}, USUAL, "", False, id="IW-03-E-16-no-queue"),
        pytest.param(
            {"labels": Q, "owner": JOB}, USUAL, "another-uid", True, id="IW-04-owner-of-another-uid"
        ),
        pytest.param(
            {"labels": Q, "owner": JOB}, USUAL, "job-uid", False, id="IW-05-I-08-owner-of-this-uid"
        ),
        pytest.param({}, ALL_PODS, "", True, id="IW-06-E-17-all-pods"),
        pytest.param(
            {"namespace": "kube-system"}, ALL_PODS, "", False, id="IW-07-E-18-all-but-kube-system"
        ),
    ],
)
async def test_which_pods_are_taken(
    fields: dict[str, Any], policy: WebhookPolicy, owner: str, expected: bool
) -> None:
    raw = raw_pod(**fields)
    _, after = await mutated(raw, cluster(job=owner), policy)
    assert taken(after) == expected
    if not expected:
        assert after == raw


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [pytest.param("ns", True, id="E-19"), pytest.param("kube-system", False, id="E-20")],
)
async def test_pods_of_a_deployment_when_all_pods_are_managed(
    namespace: str, expected: bool
) -> None:
    raw = raw_pod(namespace=namespace, owner=("apps/v1", "ReplicaSet", "rs"))
    _, after = await mutated(raw, cluster(deployment=True), ALL_PODS)
    assert taken(after) == expected


@pytest.mark.parity("E-08")
async def test_a_deployments_pod_with_a_queue_is_taken_by_itself() -> None:
    raw = raw_pod(labels=Q, owner=("apps/v1", "ReplicaSet", "rs"))
    result, after = await mutated(raw, cluster(deployment=True), USUAL)
    assert taken(after) and result.disposition is Disposition.GATED


@pytest.mark.parity("E-15", "E-07")
async def test_a_pod_of_a_suspending_parent_gets_gate_label_and_finalizer() -> None:
    """Row B30: Kueue sets the gate alone, and such a pod is seen by no controller."""
    raw = raw_pod(annotations={names.SUSPENDING_PARENT: "statefulset"})
    _, after = await mutated(raw, cluster(), USUAL)
    assert after["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert after["metadata"]["finalizers"] == [names.POD_FINALIZER]
    assert after["metadata"]["labels"][names.MANAGED_LABEL] == "true"


@pytest.mark.parity("I-27")
def test_a_prebuilt_workload_named_unlike_the_group_is_refused() -> None:
    notes = {names.PREBUILT_WORKLOAD: "w", names.GROUP_NAME: "g", names.GROUP_TOTAL_COUNT: "2"}
    (error,) = created(raw_pod(annotations=notes)).errors
    assert error.kind is ErrorKind.INVALID


@pytest.mark.parity("I-28")
def test_a_group_annotation_without_a_total_count_is_refused() -> None:
    (error,) = created(raw_pod(annotations={names.GROUP_NAME: "g"})).errors
    assert error.kind is ErrorKind.REQUIRED
