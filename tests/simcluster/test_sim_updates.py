"""Writes: gates, field isolation, preconditions, managed fields, apply, validation."""

from __future__ import annotations

from typing import Any

import pytest

from simcluster.client import APPLY, JSON, STRATEGIC, ApiFailure, Client
from tests.simcluster.make import GATE, config_map, pod

NS = "default"


def entry(obj: dict[str, Any], manager: str, sub: str | None = None) -> dict[str, Any] | None:
    return next(
        (
            e["fieldsV1"]
            for e in obj["metadata"].get("managedFields", [])
            if (e["manager"], e.get("subresource")) == (manager, sub)
        ),
        None,
    )


async def test_one_patch_may_remove_the_last_gate_and_set_the_selector(client: Client) -> None:
    made = await client.create("pods", pod("a", gates=(GATE,)), NS)
    uid = made["metadata"]["uid"]
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/spec/nodeSelector", "value": {"pool": "a"}},
    ]
    got = await client.patch("pods", "a", patch, NS, kind=JSON, fieldManager="gatelog")
    assert "schedulingGates" not in got["spec"]
    assert got["metadata"]["generation"] == 2
    with pytest.raises(ApiFailure, match="server rejected our request") as caught:
        await client.patch("pods", "a", patch, NS, kind=JSON)
    assert caught.value.status == 422


async def test_who_removes_a_gate_shows_only_by_what_else_he_sets(client: Client) -> None:
    await client.create("pods", pod("a", gates=(GATE, "x.io/y")), NS, fieldManager="user")
    gone = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "x.io/y"}]}}
    got = await client.patch("pods", "a", gone, NS, kind=STRATEGIC, fieldManager="silent")
    assert entry(got, "silent") is None
    held = entry(got, "user")
    assert held is not None
    assert list(held["f:spec"]["f:schedulingGates"]) == [".", f'k:{{"name":"{GATE}"}}']
    patch = {"metadata": {"labels": {"podset": "main"}}, "spec": {"schedulingGates": None}}
    got = await client.patch("pods", "a", patch, NS, fieldManager="gatelog")
    assert entry(got, "gatelog") == {"f:metadata": {"f:labels": {".": {}, "f:podset": {}}}}
    held = entry(got, "user")
    assert held is not None
    assert "f:schedulingGates" not in held["f:spec"]


async def test_cleared_managed_fields_stay_away_until_somebody_applies(client: Client) -> None:
    await client.create("pods", pod("a", gates=(GATE,)), NS, fieldManager="user")
    patch = [
        {"op": "test", "path": "/metadata/managedFields/0/operation", "value": "Update"},
        {"op": "add", "path": "/metadata/managedFields", "value": [{}]},
        {"op": "add", "path": "/metadata/labels", "value": {"podset": "main"}},
    ]
    got = await client.patch("pods", "a", patch, NS, kind=JSON, fieldManager="gatelog")
    assert got["metadata"]["labels"] == {"podset": "main"}
    assert "managedFields" not in got["metadata"]
    with pytest.raises(ApiFailure, match="server rejected our request"):
        await client.patch("pods", "a", patch, NS, kind=JSON, fieldManager="gatelog")
    labels = {"metadata": {"labels": {"b": "1"}}}
    got = await client.patch("pods", "a", labels, NS, fieldManager="user")
    assert "managedFields" not in got["metadata"]
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"c": "1"}}}
    got = await client.patch("pods", "a", applied, NS, kind=APPLY, fieldManager="applier")
    writers = [(e["manager"], e["operation"]) for e in got["metadata"]["managedFields"]]
    assert writers == [("applier", "Apply"), ("before-first-apply", "Update")]


async def test_an_empty_list_of_managed_fields_clears_them_too(client: Client) -> None:
    """As a server of 1.36 answers a merge patch, whatever its documentation says."""
    await client.create("pods", pod("a", gates=(GATE,)), NS, fieldManager="user")
    patch = {"metadata": {"managedFields": [], "labels": {"a": "1"}}}
    got = await client.patch("pods", "a", patch, NS, fieldManager="other")
    assert "managedFields" not in got["metadata"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"spec": {"schedulingGates": [{"name": GATE}, {"name": "n.io/g"}]}}, "only deletion"),
        ({"spec": {"nodeSelector": {"pool": "b"}}}, "only additions to spec.nodeSelector"),
        ({"spec": {"priority": 7}}, "pod updates may not change fields other than"),
        ({"spec": {"tolerations": []}}, "existing toleration can not be modified"),
        ({"spec": {"nodeName": "node-a"}}, "pod updates may not change"),
        ({"metadata": {"labels": {"bad": "G_!"}}}, "a valid label must be"),
        ({"metadata": {"uid": "other"}}, "field is immutable"),
        ({"metadata": {"name": "b"}}, "field is immutable"),
    ],
)
async def test_refused_pod_changes(client: Client, patch: dict[str, Any], message: str) -> None:
    own = {"key": "own", "operator": "Exists"}
    made = pod("a", gates=(GATE,), nodeSelector={"pool": "a"}, tolerations=[own])
    await client.create("pods", made, NS)
    with pytest.raises(ApiFailure, match=message) as caught:
        await client.patch("pods", "a", patch, NS)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")


async def test_status_and_the_rest_do_not_mix(client: Client) -> None:
    await client.create("pods", pod("a", gates=(GATE,)), NS)
    patch = {
        "metadata": {"annotations": {"n": "1"}},
        "spec": {"priority": 9},
        "status": {"phase": "Running"},
    }
    got = await client.patch("pods", "a", patch, NS, sub="status")
    assert (got["status"]["phase"], got["spec"]["priority"]) == ("Running", 0)
    got = await client.patch("pods", "a", {"status": {"phase": "Failed"}}, NS)
    assert got["status"]["phase"] == "Running"
    work = {"spec": {"podSets": []}, "metadata": {"name": "w"}}
    kueue = "workloads.kueue.x-k8s.io/v1beta2"
    await client.create(kueue, work, NS)
    body = {"metadata": {"labels": {"x": "y"}}, "status": {"conditions": []}}
    got = await client.patch(kueue, "w", body, NS, sub="status")
    assert "labels" not in got["metadata"]
    assert got["status"] == {"conditions": []}
    got = await client.patch(kueue, "w", {"status": {"conditions": [{"type": "X"}]}}, NS)
    assert got["status"] == {"conditions": []}


async def test_version_preconditions(client: Client) -> None:
    made = await client.create("configmaps", config_map("a"), NS)
    version = made["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"k": "1"}}
    await client.patch("configmaps", "a", patch, NS)
    with pytest.raises(ApiFailure, match="the object has been modified") as caught:
        await client.patch("configmaps", "a", patch, NS)
    assert caught.value.status == 409
    path = f"/api/v1/namespaces/{NS}/configmaps/a"
    status, _, _ = await client.request("PUT", path, {**made, "data": {"k": "2"}})
    assert status == 409
    unconditional = {"metadata": {"name": "a"}, "data": {"k": "3"}}
    status, got, _ = await client.request("PUT", path, unconditional)
    assert (status, got["data"]) == (200, {"k": "3"})
    wrong = {"metadata": {"name": "a", "uid": "nope"}, "data": {}}
    status, got, _ = await client.request("PUT", path, wrong)
    assert status == 409
    assert "Precondition failed: UID in precondition: nope" in got["message"]


async def test_custom_kinds_need_a_version_to_be_replaced(client: Client) -> None:
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NS}/localqueues"
    await client.ok("POST", path, {"metadata": {"name": "q"}, "spec": {"clusterQueue": "c"}})
    body = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "d"}}
    status, got, _ = await client.request("PUT", f"{path}/q", body)
    assert status == 422
    assert "must be specified for an update" in got["message"]


async def test_dry_run_changes_nothing(client: Client) -> None:
    before = (await client.list("configmaps", NS))["metadata"]["resourceVersion"]
    await client.create("configmaps", config_map("a"), NS, dryRun="All")
    await client.create("configmaps", config_map("b"), NS)
    await client.patch("configmaps", "b", {"data": {"k": "1"}}, NS, dryRun="All")
    await client.ok("DELETE", f"/api/v1/namespaces/{NS}/configmaps/b?dryRun=All")
    after = await client.list("configmaps", NS)
    assert [i["metadata"]["name"] for i in after["items"]] == ["b"]
    assert after["items"][0]["data"] == {"k": "v"}
    assert int(after["metadata"]["resourceVersion"]) == int(before) + 1


async def test_apply_owns_conflicts_and_gives_up(client: Client) -> None:
    def config(data: dict[str, str]) -> dict[str, Any]:
        meta = {"name": "a"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}

    async def apply(data: dict[str, str], manager: str, **params: str) -> dict[str, Any]:
        return await client.patch(
            "configmaps", "a", config(data), NS, kind=APPLY, fieldManager=manager, **params
        )

    got = await apply({"x": "1", "y": "1"}, "one")
    assert entry(got, "one") == {"f:data": {"f:x": {}, "f:y": {}}}
    version = got["metadata"]["resourceVersion"]
    assert (await apply({"x": "1", "y": "1"}, "one"))["metadata"]["resourceVersion"] == version
    with pytest.raises(ApiFailure, match=r'conflict with "one": \.data\.x') as caught:
        await apply({"x": "2"}, "two")
    assert caught.value.status == 409
    got = await apply({"x": "2"}, "two", force="true")
    assert got["data"] == {"x": "2", "y": "1"}
    assert entry(got, "one") == {"f:data": {"f:y": {}}}
    assert entry(got, "two") == {"f:data": {"f:x": {}}}
    got = await apply({}, "one")
    assert got["data"] == {"x": "2"}


async def test_apply_accepts_yaml_and_keeps_times_text(client: Client) -> None:
    work = {"metadata": {"name": "w"}, "spec": {"podSets": []}}
    kueue = "workloads.kueue.x-k8s.io/v1beta2"
    await client.create(kueue, work, NS)
    body = b"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w}
status:
  conditions:
  - {type: Finished, status: "True", lastTransitionTime: 2026-11-20T00:00:00Z}
"""
    got = await client.patch(kueue, "w", body, NS, kind=APPLY, sub="status", fieldManager="gatelog")
    assert got["status"]["conditions"][0]["lastTransitionTime"] == "2026-11-20T00:00:00Z"


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (pod("Bad_Name"), "metadata.name"),
        (pod("a", labels={"k": "G_!"}), "metadata.labels"),
        (pod("a", labels={"a/b/c": "x"}), "metadata.labels"),
        (pod("a", restartPolicy="Sometimes"), "spec.restartPolicy"),
        (pod("a", gates=("not a gate",)), "spec.schedulingGates[0]"),
        (pod("a", finalizers=["has space"]), "metadata.finalizers"),
        (pod("a", containers=[{"name": "c"}]), "spec.containers[0].image"),
        (pod("a", containers=[{"image": "x"}]), "spec.containers[0].name"),
    ],
)
async def test_refused_pods(client: Client, obj: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiFailure) as caught:
        await client.create("pods", obj, NS)
    assert caught.value.status == 422
    assert caught.value.body["details"]["causes"][0]["field"] == field


async def test_priority_class_decides_priority(client: Client) -> None:
    with pytest.raises(ApiFailure, match="no PriorityClass with name high was found") as caught:
        await client.create("pods", pod("a", priorityClassName="high"), NS)
    assert caught.value.status == 403
    await client.create(
        "priorityclasses.scheduling.k8s.io/v1", {"metadata": {"name": "high"}, "value": 1000}
    )
    got = await client.create("pods", pod("a", priorityClassName="high"), NS)
    assert got["spec"]["priority"] == 1000


async def test_misspelt_pod_fields_vanish_with_a_warning(client: Client) -> None:
    body = pod("a", schedulingGate=[{"name": GATE}], schedulerName="nobody")
    path = f"/api/v1/namespaces/{NS}/pods"
    status, got, headers = await client.request("POST", path, body)
    assert (status, "schedulingGate" in got["spec"]) == (201, False)
    assert headers["Warning"] == '299 - "unknown field \\"spec.schedulingGate\\""'
    strict = {"fieldValidation": "Strict"}
    status, got, _ = await client.request("POST", path, body, params=strict)
    assert (status, got["reason"]) == (400, "BadRequest")


def admitted(sets: int = 1) -> dict[str, Any]:
    assignments = [{"name": f"s{i}", "count": 1} for i in range(sets)]
    return {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admission": {"clusterQueue": "cq", "podSetAssignments": assignments},
    }


async def test_a_workload_with_quota_keeps_its_shape(client: Client) -> None:
    kueue = "workloads.kueue.x-k8s.io/v1beta2"
    sets = [{"name": "s0", "count": 1, "template": {"spec": {}}}]
    await client.create(kueue, {"metadata": {"name": "w"}, "spec": {"podSets": sets}}, NS)

    async def refused(patch: dict[str, Any], sub: str, message: str) -> None:
        with pytest.raises(ApiFailure, match=message) as caught:
            await client.patch(kueue, "w", patch, NS, sub=sub)
        assert caught.value.status == 422

    bare = {"status": {"conditions": admitted()["conditions"]}}
    await refused(bare, "status", "must be set while quota is reserved")
    await refused({"status": admitted(2)}, "status", "same number of podSets")
    await client.patch(kueue, "w", {"status": admitted()}, NS, sub="status")
    await refused({"spec": {"podSets": [{**sets[0], "count": 2}]}}, "", "field is immutable")
    await refused({"spec": {"queueName": "other"}}, "", "field is immutable")
    other = {"status": {"admission": {"clusterQueue": "other"}}}
    await refused(other, "status", "field is immutable")
    off = [{"type": "QuotaReserved", "status": "False"}]
    released = {"status": {"admission": None, "conditions": off}}
    got = await client.patch(kueue, "w", released, NS, sub="status")
    assert "admission" not in got["status"]
    await client.patch(kueue, "w", {"spec": {"queueName": "other"}}, NS)


async def test_bodies_have_a_limit(client: Client) -> None:
    path = f"/api/v1/namespaces/{NS}/configmaps"
    body = {"metadata": {"name": "a"}, "data": {"k": "v" * (1 << 20)}}
    status, _, _ = await client.request("POST", path, body)
    assert status == 201
    assert len((await client.get("configmaps", "a", NS))["data"]["k"]) == 1 << 20
    body = {"metadata": {"name": "a2"}, "data": {"k": "v" * (7 << 18)}}
    status, got, _ = await client.request("POST", path, body)
    assert (status, got["message"]) == (500, "etcdserver: request is too large")
    body = {"metadata": {"name": "b"}, "data": {"k": "v" * (4 << 20)}}
    status, got, _ = await client.request("POST", path, body)
    assert (status, got["reason"]) == (413, "RequestEntityTooLarge")


async def test_events_are_one_object_in_two_shapes(client: Client) -> None:
    regarding = {"kind": "Pod", "namespace": NS, "name": "p", "apiVersion": "v1"}
    new = {
        "metadata": {"name": "e"},
        "eventTime": "2026-11-20T00:00:00.000000Z",
        "regarding": regarding,
        "reason": "Started",
        "action": "Started",
        "note": "hello",
        "type": "Normal",
        "reportingController": "gatelog",
        "reportingInstance": "g-0",
    }
    plural = "events.events.k8s.io/v1"
    await client.create(plural, new, NS)
    old = await client.get("events", "e", NS)
    assert (old["message"], old["involvedObject"]) == ("hello", regarding)
    series = {"series": {"count": 2, "lastObservedTime": "2026-11-20T00:00:01.000000Z"}}
    got = await client.patch(plural, "e", series, NS)
    assert (got["note"], got["series"]["count"]) == ("hello", 2)
    with pytest.raises(ApiFailure, match="eventTime: Required value"):
        await client.create(plural, {**new, "metadata": {"name": "f"}, "eventTime": None}, NS)
    found = await client.list("events", NS, fieldSelector="involvedObject.name=p")
    assert len(found["items"]) == 1
