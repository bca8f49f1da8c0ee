"""Translation of recorded objects. What the views must contain is worked out here independently,
from the raw JSON. Not covered: quantities and role hashes themselves (tests of podgroup)."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ingest.bounds import MAX_EVENT_BYTES, bounded
from ingest.kinds import watched_kinds
from ingest.translate.items import Bookmark, Delta, ErrorItem, Garbled, read_page
from podgroup.log import codec
from podgroup.log.events import (
    Batch,
    DeltaRefused,
    ObjectApplied,
    ObjectDeleted,
    PodApplied,
    PodDeleted,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.model.limits import ANNOTATIONS_BYTES
from podgroup.model.objects import (
    WATCHED_KINDS,
    ClusterQueueView,
    Kind,
    PodView,
    Quota,
    Requirement,
    Selector,
    WorkloadView,
)
from podgroup.model.roles import role_hash
from tests.ingest.recorded import FILES, TABLE, as_line, exchanges, first_pod, recorded

PODS = TABLE["Pod"].translator
WORKLOADS = TABLE["Workload"].translator


def pod_of(found: object) -> PodView:
    assert isinstance(found, Delta)
    assert isinstance(found.event, PodApplied | PodDeleted)
    return found.event.pod


def refusal_of(found: object) -> DeltaRefused:
    assert isinstance(found, Delta)
    assert isinstance(found.event, DeltaRefused), found.event
    return found.event


def applied(pod: dict) -> Delta:
    found = PODS.item(as_line({"type": "MODIFIED", "object": pod}))
    assert isinstance(found, Delta)
    return found


def test_the_table_has_one_row_per_watched_kind_in_the_order_of_first_lists():
    assert tuple(row.kind for row in watched_kinds("a=b")) == WATCHED_KINDS
    assert [row.kind for row in watched_kinds("a=b") if row.selector] == ["Pod"]


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_item_translates_to_what_the_raw_object_says(name):
    count = 0
    for kind, item in recorded(name):
        found = TABLE[kind].translator.item(as_line(item))
        assert isinstance(found, Delta)
        raw, meta = item["object"], item["object"]["metadata"]
        match found.event:
            case PodApplied(pod=view) | PodDeleted(pod=view):
                assert view.gates == tuple(
                    g["name"] for g in raw["spec"].get("schedulingGates", ())
                )
                assert view.phase == raw["status"].get("phase", "")
                assert view.node == raw["spec"].get("nodeName", "")
                assert len(view.conditions) == len(raw["status"].get("conditions", ()))
                assert view.labels == meta.get("labels", {})
                assert set(view.annotations) <= set(meta.get("annotations", {}))
                annotated = meta.get("annotations", {}).get("kueue.x-k8s.io/role-hash")
                assert view.role == (annotated or role_hash(raw))
                assert view.role_annotated == bool(annotated)
                assert view.requests or not any(
                    "requests" in c["resources"] for c in raw["spec"]["containers"]
                )
                assert isinstance(found.event, PodDeleted) == (item["type"] == "DELETED")
            case WorkloadApplied(workload=view) | WorkloadDeleted(workload=view):
                assert [p.name for p in view.pod_sets] == [
                    p["name"] for p in raw["spec"]["podSets"]
                ]
                assert view.queue == raw["spec"].get("queueName", "")
                assert {c.type: c.status for c in view.conditions} == {
                    c["type"]: c["status"] for c in raw.get("status", {}).get("conditions", ())
                }
                assert isinstance(found.event, WorkloadDeleted) == (item["type"] == "DELETED")
            case other:
                pytest.fail(f"not translated: {other}")
        assert (view.uid, view.name) == (meta["uid"], meta["name"])
        assert view.resource_version == found.version == meta["resourceVersion"]
        assert view.finalizers == tuple(meta.get("finalizers", ()))
        assert (view.deleted_at is not None) == ("deletionTimestamp" in meta)
        count += 1
    assert count > 0


@pytest.mark.parametrize("name", FILES)
def test_events_survive_the_log_unchanged(name):
    items = [TABLE[kind].translator.item(as_line(item)) for kind, item in recorded(name)]
    events = tuple(item.event for item in items if isinstance(item, Delta))
    assert len(events) == len(items)
    batch = Batch(source="watch", events=events, positions={"Pod": "1"})
    assert codec.decode_batch(codec.encode_batch(batch)) == batch


SECRET = "s3cr3t-bait"


def with_bait(item: dict) -> dict:
    """Put a recognisable text everywhere it must not come through."""
    item = json.loads(json.dumps(item))
    raw = item["object"]
    spec = raw["spec"] if "podSets" not in raw["spec"] else None
    specs = [spec] if spec else [p["template"]["spec"] for p in raw["spec"]["podSets"]]
    for each in specs:
        for container in each["containers"]:
            container["env"] = [{"name": SECRET, "value": SECRET}]
            container["command"] = [SECRET]
            container["args"] = [f"--password={SECRET}"]
            container["volumeMounts"] = [{"name": SECRET, "mountPath": f"/{SECRET}"}]
        each["volumes"] = [{"name": SECRET, "secret": {"secretName": SECRET}}]
        each["imagePullSecrets"] = [{"name": SECRET}]
    raw["metadata"].setdefault("annotations", {})["example.com/token"] = SECRET
    last = "kubectl.kubernetes.io/last-applied-configuration"
    raw["metadata"]["annotations"][last] = f'{{"env": "{SECRET}"}}'
    for entry in raw["metadata"].get("managedFields", ()):
        entry["fieldsV1"][f"f:{SECRET}"] = {}
    if "containerStatuses" in raw.get("status", {}):
        for status in raw["status"]["containerStatuses"]:
            status["state"] = {"terminated": {"exitCode": 1, "message": SECRET}}
    return item


@pytest.mark.parametrize("name", FILES)
def test_environment_commands_volumes_and_foreign_annotations_never_come_through(name):
    seen = 0
    for kind, item in recorded(name):
        baited = as_line(with_bait(item))
        assert SECRET.encode() in baited
        found = TABLE[kind].translator.item(baited)
        assert isinstance(found, Delta)
        assert not isinstance(found.event, DeltaRefused)
        body = codec.encode_batch(Batch(source="watch", events=(found.event,)))
        assert SECRET.encode() not in body
        seen += 1
    assert seen


def test_an_annotation_that_is_to_be_copied_comes_through_and_no_other():
    key = "example.com/team"
    copying = {row.kind: row for row in watched_kinds("", copied=(key,))}["Pod"].translator
    for kind, item in recorded(FILES[0]):
        if kind == "Pod":
            raw = with_bait(item)
            raw["object"]["metadata"]["annotations"][key] = "a"
            found = copying.item(as_line(raw))
            assert isinstance(found, Delta)
            assert isinstance(found.event, PodApplied | PodDeleted)
            assert found.event.pod.annotations[key] == "a"
            assert "example.com/token" not in found.event.pod.annotations
            return
    raise AssertionError("no pod was recorded")


def removals(name: str) -> list[tuple[str, str]]:
    """(gate, who by the trace) over a recording; "" where the removal left none."""
    found: list[tuple[str, str]] = []
    before: dict[str, PodView] = {}
    for kind, item in recorded(name):
        if kind == "Pod":
            pod = pod_of(PODS.item(as_line(item)))
            last = before.get(pod.uid, pod)
            traced = (pod.writer, pod.written_at) != (last.writer, last.written_at)
            gone = sorted(set(last.gates) - set(pod.gates))
            found += [(gate, pod.writer if traced else "") for gate in gone]
            before[pod.uid] = pod
    return found


def test_who_removed_a_gate_golden():
    # Kueue takes labels along when it ungates, so it leaves a trace. The user who removes the
    # foreign gate takes nothing: no entry changes, and who it was cannot be known.
    assert removals("other_gate_stays") == [
        ("kueue.x-k8s.io/admission", "kueue"),
        ("kueue.x-k8s.io/topology", "kueue"),
        ("example.com/hold", ""),
    ]


@pytest.mark.parametrize("name", FILES)
def test_every_removal_by_kueue_is_traced_to_it(name):
    ours = [by for gate, by in removals(name) if gate.startswith("kueue.x-k8s.io/")]
    assert set(ours) <= {"kueue"}


def managed(manager: str, second: int, **more: object) -> dict:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": f"2026-11-21T00:00:{second:02}Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {}}},
        **more,
    }


CREATION: dict[str, Any] = {"fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"c"}': {}}}}}


@pytest.mark.parametrize(
    ("entries", "generation", "expected"),
    [
        ([], 1, ""),
        ([managed("user", 0, **CREATION)], 1, "user"),
        ([managed("user", 0, **CREATION), managed("kueue", 5)], 2, "kueue"),
        ([managed("kueue", 5), managed("user", 0, **CREATION)], 2, "kueue"),
        # Status writes do not count, however new.
        ([managed("user", 0, **CREATION), managed("kubelet", 9, subresource="status")], 1, "user"),
        # A tie within the second of creation: the list is sorted by name there, not by time.
        ([managed("kueue", 0), managed("user", 0, **CREATION)], 2, "kueue"),
        ([managed("Zed", 0, **CREATION), managed("kueue", 0)], 2, "kueue"),
        # The spec changed after creation and left no trace: nobody can tell.
        ([managed("user", 0, **CREATION)], 2, ""),
        # The creator wrote again later.
        ([managed("user", 7, **CREATION)], 3, "user"),
        ([managed("user", 0, **CREATION), {"manager": "x", "operation": "Apply"}], 1, "user"),
    ],
)
def test_writer(entries, generation, expected):
    pod = first_pod()
    pod["metadata"] |= {
        "managedFields": entries,
        "generation": generation,
        "creationTimestamp": "2026-11-21T00:00:00Z",
    }
    view = pod_of(applied(pod))
    assert view.writer == expected
    assert (view.written_at is None) == (expected == "")


def test_role_is_computed_only_without_the_annotation():
    pod = first_pod()
    assert pod_of(applied(pod)).role_annotated
    annotations = pod["metadata"]["annotations"]
    annotated = annotations.pop("kueue.x-k8s.io/role-hash")
    found = pod_of(applied(pod))
    assert (found.role, found.role_annotated) == (role_hash(pod, "kueue"), False)
    assert found.role == annotated  # Kueue hashed the same fields
    in_page = PODS.listed(json.dumps(pod).encode(), "r1")
    assert isinstance(in_page, PodApplied)
    assert (in_page.pod.role, in_page.relist) == (annotated, "r1")
    annotations["kueue.x-k8s.io/role-hash"] = ""
    assert (pod_of(applied(pod)).role, pod_of(applied(pod)).role_annotated) == ("", True)
    other = {row.kind: row for row in watched_kinds("", "kep-976")}["Pod"].translator
    del annotations["kueue.x-k8s.io/role-hash"]
    assert pod_of(other.item(as_line({"type": "ADDED", "object": pod}))).role == role_hash(
        pod, "kep-976"
    )


def test_a_full_pod():
    pod = first_pod()
    pod["spec"] |= {
        "priority": 7,
        "priorityClassName": "high",
        "overhead": {"cpu": "10m"},
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                    ]
                }
            }
        },
    }
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    pod["status"] |= {
        "qosClass": "Burstable",
        "message": "m" * 5000,
        "startTime": "2026-11-21T00:00:01Z",
        "initContainerStatuses": [{"name": "s", "state": {"running": {}}}],
        "containerStatuses": [
            {
                "name": "c",
                "state": {"running": {}},
                "lastState": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "finishedAt": "2026-11-21T00:00:09Z",
                    }
                },
            },
            {"name": "d", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        ],
    }
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T00:01:00Z"
    pod["metadata"]["deletionGracePeriodSeconds"] = 30
    view = pod_of(applied(pod))
    assert view.requests == {"cpu": 1110, "memory": 1024**3}
    assert (view.priority, view.priority_class, view.qos) == (7, "high", "Burstable")
    assert [e for t in view.node_terms for e in t.expressions] == [
        Requirement(key="a", operator="In", values=("b",))
    ]
    assert [(e.name, e.exit_code, e.reason) for e in view.ends] == [
        ("c", 137, "OOMKilled"),
        ("d", 0, "Completed"),
    ]
    assert view.ends[0].finished_at == datetime(2026, 11, 21, 0, 0, 9, tzinfo=UTC)
    assert view.grace_s == 30
    assert len(view.message) == 2048


# -- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        (lambda p: p["metadata"].pop("creationTimestamp"), "metadata.creationTimestamp"),
        (lambda p: p["spec"].update(schedulingGates="no"), "spec.schedulingGates"),
        (lambda p: p["spec"].update(tolerations={}), "spec.tolerations"),
        (lambda p: p["spec"].update(affinity=3), "spec.affinity"),
        (lambda p: p["spec"].update(nodeName=5), "spec.nodeName"),
        (lambda p: p["status"].update(startTime="yesterday"), "status.startTime"),
        (lambda p: p["metadata"]["labels"].update(x=1), "metadata.labels[...]"),
        (
            lambda p: p["spec"]["containers"][0].update(resources={"requests": 5}),
            "spec.containers[*].resources",
        ),
        (
            lambda p: p["spec"]["containers"][0].update(resources={"requests": {"cpu": "one"}}),
            "spec.containers[*].resources",
        ),
    ],
)
def test_a_field_that_cannot_be_taken_refuses_this_object_with_its_path(damage, field):
    pod = first_pod("failed_pod_replaced")
    damage(pod)
    refused = refusal_of(applied(pod))
    meta = pod["metadata"]
    assert refused.field == field
    assert (refused.uid, refused.name, refused.namespace, refused.resource_version) == (
        meta["uid"],
        meta["name"],
        meta["namespace"],
        meta["resourceVersion"],
    )
    assert refused.group == meta["labels"]["kueue.x-k8s.io/pod-group-name"]
    assert refused.message
    in_page = PODS.listed(json.dumps(pod).encode(), "r1")
    assert in_page == refused


def test_annotations_are_bounded_in_bytes_and_group_sets_may_be_large():
    pod = first_pod()
    annotations = pod["metadata"]["annotations"]
    annotations["kueue.x-k8s.io/pod-group-sets"] = "x" * ANNOTATIONS_BYTES
    annotations["kueue.x-k8s.io/y"] = "z" * 4096
    annotations["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] = "5"
    view = pod_of(applied(pod))
    assert "kueue.x-k8s.io/pod-group-sets" not in view.annotations
    assert "must be a list of sets" in view.sets_problem
    assert view.sets_key
    assert view.sets == ()
    assert view.annotations["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] == "5"
    assert view.unread == ()
    annotations["kueue.x-k8s.io/y"] = "ü" * 2049
    view = pod_of(applied(pod))
    assert "kueue.x-k8s.io/y" not in view.annotations
    assert view.unread == (
        "metadata.annotations[kueue.x-k8s.io/y] is 4098 bytes long, gatelog takes at most 4096: "
        "shorten it",
    )


def test_the_podgroup_of_kubernetes_that_a_pod_names_is_read():
    pod = first_pod()
    assert pod_of(applied(pod)).scheduling_group == ""
    pod["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    assert pod_of(applied(pod)).scheduling_group == "gang"
    pod["spec"]["schedulingGroup"] = {}
    assert pod_of(applied(pod)).scheduling_group == ""


@pytest.mark.parametrize(("claims", "devices"), [([], False), ([{"name": "gpu"}], True)])
def test_devices_that_are_claimed_are_noticed(claims, devices):
    pod = first_pod()
    assert not pod_of(applied(pod)).devices
    pod["spec"]["resourceClaims"] = claims
    assert pod_of(applied(pod)).devices is devices


def test_whatever_its_owner_writes_on_a_pod_what_it_takes_and_its_end_are_read():
    pod = first_pod()
    pod["metadata"]["annotations"].update(
        {f"kueue.x-k8s.io/{key}": "x" * 5000 for key in ("role-hash", "pod-group-name", "junk")}
    )
    pod["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z"
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1e300", "memory": "1Gi"}}
    pod["status"]["phase"] = "Succeeded"
    view = pod_of(applied(pod))
    assert (view.phase, view.deleted_at is not None) == ("Succeeded", True)
    assert view.requests == {"cpu": 2**63 - 1, "memory": 1 << 30}
    assert len(view.unread) == 3 and not view.role_annotated and view.role
    mine = {f"mine/{number}": "x" * 63 for number in range(20_000)}
    large = msgspec.structs.replace(view, labels={**view.labels, **mine})
    event, body = bounded("Pod", PodApplied(pod=large))
    assert len(body) <= MAX_EVENT_BYTES and isinstance(event, PodApplied)
    assert event.pod.labels == {k: v for k, v in view.labels.items() if "kueue.x-k8s.io/" in k}
    assert event.pod.requests == view.requests and "too large" in event.pod.unread[-1]


def test_group_sets_are_in_the_view_as_what_they_declare():
    pod = first_pod()
    pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-sets"] = json.dumps(
        [{"name": "d"}, {"name": "w", "count": 3, "template": {"spec": pod["spec"]}}]
    )
    view = pod_of(applied(pod))
    assert [(s.name, s.count, s.requests) for s in view.sets] == [
        ("d", 1, {}),
        ("w", 3, view.requests),
    ]
    assert (view.sets_problem, view.sets[1].role) == ("", view.role)
    assert view.sets[1].tolerations == view.tolerations
    plain = pod_of(applied(first_pod()))
    assert (plain.sets, plain.sets_key, plain.sets_problem) == ((), "", "")


def test_a_deletion_is_never_refused():
    pod = first_pod()
    pod["spec"]["schedulingGates"] = "no"
    found = PODS.item(as_line({"type": "DELETED", "object": pod}))
    assert isinstance(found, Delta)
    assert isinstance(found.event, PodDeleted)
    assert found.event.pod.uid == pod["metadata"]["uid"]
    assert found.version == pod["metadata"]["resourceVersion"]


def test_other_items_of_a_watch():
    bookmark = exchanges()["WatchList: initial events, then a bookmark that says so"]
    *initial, end = bookmark["response"]["watch"]
    assert PODS.item(as_line(end)) == Bookmark("277", initial_end=True)
    found = [PODS.item(as_line(i), "r") for i in initial]
    assert all(isinstance(i, Delta) and isinstance(i.event, PodApplied) for i in found)
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}}
    assert PODS.item(as_line(mark)) == Bookmark("9")
    gone = {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "too old resource version: 1 (2)",
            "reason": "Expired",
            "code": 410,
        },
    }
    assert PODS.item(as_line(gone)) == ErrorItem(410, "Expired", "too old resource version: 1 (2)")
    whole = as_line({"type": "ADDED", "object": first_pod()})
    assert isinstance(PODS.item(whole[: len(whole) // 2]), Garbled)
    assert isinstance(PODS.item(b""), Garbled)
    assert isinstance(PODS.item(b"[1]"), Garbled)
    nobody = {"type": "ADDED", "object": {"metadata": {"name": "x"}}}
    assert isinstance(PODS.item(as_line(nobody)), Garbled)


def test_a_recorded_page():
    answer = exchanges()["list with a limit: first page"]["response"]["body"]
    page = read_page(json.dumps(answer).encode())
    assert (page.version, page.token) == ("264", answer["metadata"]["continue"])
    events: list[Any] = [PODS.listed(bytes(raw), "r7") for raw in page.items]
    assert [e.pod.name for e in events] == ["a", "gen-97fd2"]
    assert {e.relist for e in events} == {"r7"}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"metadata": 3}', b'{"items": {}}'])
def test_what_is_no_list_is_not_taken_for_an_empty_one(body):
    with pytest.raises(msgspec.MsgspecError):
        read_page(body)


# -- Workloads and queues, both versions --------------------------------------------------------

BASE = {
    "uid": "u1",
    "namespace": "ns",
    "name": "w",
    "resourceVersion": "5",
    "creationTimestamp": "2026-11-21T00:00:00Z",
}


def workload(spec: dict, status: dict) -> WorkloadView:
    item = {"type": "ADDED", "object": {"metadata": BASE, "spec": spec, "status": status}}
    found = WORKLOADS.item(as_line(item))
    assert isinstance(found, Delta)
    assert isinstance(found.event, WorkloadApplied), found.event
    return found.event.workload


def test_a_workload_reads_alike_in_both_versions():
    spec = {
        "queueName": "q",
        "active": False,
        "priority": 3,
        "maximumExecutionTimeSeconds": 60,
        "podSets": [
            {
                "name": "main",
                "count": 2,
                "template": {
                    "spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}
                },
            }
        ],
    }
    assignment = {
        "name": "main",
        "flavors": {"cpu": "f"},
        "resourceUsage": {"cpu": "1", "memory": 5},
        "count": 2,
    }
    status = {
        "reclaimablePods": [{"name": "main", "count": 1}],
        "admissionChecks": [
            {
                "name": "c",
                "state": "Ready",
                "podSetUpdates": [{"name": "main", "nodeSelector": {"a": "b"}}],
            }
        ],
    }
    new = workload(
        spec | {"priorityClassRef": {"group": "g", "kind": "WorkloadPriorityClass", "name": "p"}},
        status
        | {
            "accumulatedPastExecutionTimeSeconds": 4,
            "requeueState": {"count": 2, "requeueAt": "2026-01-01T00:00:05Z"},
            "admission": {
                "clusterQueue": "cq",
                "podSetAssignments": [assignment | {"topologyAssignment": {"slices": []}}],
            },
        },
    )
    old = workload(
        spec
        | {
            "priorityClassName": "p",
            "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
        },
        status
        | {
            "accumulatedPastExexcutionTimeSeconds": 4,
            "requeueState": {"count": 2, "requeueAt": "2026-01-01T00:00:05Z"},
            "admission": {
                "clusterQueue": "cq",
                "podSetAssignments": [assignment | {"topologyAssignment": {"domains": []}}],
            },
        },
    )
    assert new == old
    assert (new.priority_class, new.priority_class_kind) == ("p", "WorkloadPriorityClass")
    assert (new.active, new.executed_s, new.max_execution_s) == (False, 4, 60)
    assert new.requeue.count == 2 and new.requeue.at == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert new.pod_sets[0].requests == {"cpu": 500}
    assert new.assignments[0].usage == {"cpu": 1000, "memory": 5}
    assert new.assignments[0].topology
    assert new.checks[0].updates[0].node_selector == {"a": "b"}
    assert new.reclaimable == {"main": 1}


def applied_object(kind: Kind, spec: dict, **top: object) -> Any:
    raw = {"metadata": BASE, "spec": spec, **top}
    found = TABLE[kind].translator.item(as_line({"type": "ADDED", "object": raw}))
    assert isinstance(found, Delta)
    assert isinstance(found.event, ObjectApplied), found.event
    return found.event.object


def test_a_cluster_queue_reads_alike_in_both_versions():
    groups = [
        {
            "coveredResources": ["cpu", "memory"],
            "flavors": [
                {
                    "name": "f",
                    "resources": [
                        {"name": "cpu", "nominalQuota": "1500m", "borrowingLimit": 2},
                        {"name": "memory", "nominalQuota": "1Gi", "lendingLimit": "0"},
                    ],
                }
            ],
        }
    ]
    shared = {
        "resourceGroups": groups,
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "stopPolicy": "Hold",
    }
    new = applied_object(
        "ClusterQueue",
        shared
        | {
            "cohortName": "co",
            "flavorFungibility": {
                "whenCanBorrow": "MayStopSearch",
                "whenCanPreempt": "MayStopSearch",
            },
            "admissionChecksStrategy": {"admissionChecks": [{"name": "x"}]},
        },
    )
    old = applied_object(
        "ClusterQueue",
        shared
        | {
            "cohort": "co",
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
            "admissionChecks": ["x"],
        },
    )
    assert isinstance(new, ClusterQueueView)
    assert new == old
    assert new.groups[0].flavors[0].resources == {
        "cpu": Quota(nominal=1500, borrowing_limit=2000),
        "memory": Quota(nominal=1024**3, lending_limit=0),
    }
    assert (new.cohort, new.checks, new.when_can_preempt) == ("co", ("x",), "MayStopSearch")


def test_defaults_of_a_cluster_queue():
    empty = applied_object("ClusterQueue", {})
    assert isinstance(empty, ClusterQueueView)
    assert empty.namespaces is None
    assert (empty.strategy, empty.within_cluster_queue, empty.stop_policy) == (
        "BestEffortFIFO",
        "Never",
        "None",
    )
    assert (empty.when_can_borrow, empty.when_can_preempt) == ("MayStopSearch", "TryNextFlavor")
    everything = applied_object("ClusterQueue", {"namespaceSelector": {}})
    assert isinstance(everything, ClusterQueueView)
    assert everything.namespaces == Selector()


def test_a_bad_quota_names_flavor_and_resource():
    quota = {"name": "cpu", "nominalQuota": "lots"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}]
    raw = {"metadata": BASE, "spec": {"resourceGroups": groups}}
    found = TABLE["ClusterQueue"].translator.item(as_line({"type": "ADDED", "object": raw}))
    assert isinstance(found, Delta) and isinstance(found.event, ObjectApplied)
    assert isinstance(found.event.object, ClusterQueueView)
    assert found.event.object.problem.startswith(
        "spec.resourceGroups[0].flavors[f].resources[cpu].nominalQuota: resource cpu: 'lots' is not"
    )


def test_the_small_kinds():
    queue = applied_object("LocalQueue", {"clusterQueue": "cq"})
    assert (queue.cluster_queue, queue.stop_policy, queue.namespace) == ("cq", "None", "ns")
    flavor = applied_object(
        "ResourceFlavor",
        {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "k", "effect": "NoSchedule"}]},
    )
    assert (flavor.node_labels, flavor.taints[0].key) == ({"a": "b"}, "k")
    assert applied_object("WorkloadPriorityClass", {}, value=9).value == 9
    plain = applied_object("PriorityClass", {}, value=1, globalDefault=True)
    assert (plain.value, plain.global_default) == (1, True)
    assert applied_object("Namespace", {"finalizers": ["kubernetes"]}).labels == {}
    gone = {"type": "DELETED", "object": {"metadata": BASE}}
    found = TABLE["LocalQueue"].translator.item(as_line(gone))
    assert isinstance(found, Delta)
    assert found.event == ObjectDeleted(
        kind="LocalQueue", namespace="ns", name="w", uid="u1", resource_version="5"
    )
