"""The CRDs: structural, complete for what gatelog and Kueue write, and strict where they should be.

Not covered: the estimated cost of the rules, which only an API server works out; every list they
walk is bounded, which is checked.
"""

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from podgroup.model import names
from podgroup.model.commands import (
    Admission,
    CreateWorkload,
    ObjectRef,
    PodSetSpec,
    PriorityRef,
    WriteWorkloadStatus,
)
from podgroup.model.objects import Assignment, Condition
from tests.deploy.schemas import closed, crd, defaulted, nodes, plurals, problems, schema

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings").glob("*.jsonl.gz"))
KINDS = {
    "workloads": "Workload",
    "localqueues": "LocalQueue",
    "clusterqueues": "ClusterQueue",
    "cohorts": "Cohort",
    "admissionchecks": "AdmissionCheck",
    "resourceflavors": "ResourceFlavor",
    "topologies": "Topology",
    "workloadpriorityclasses": "WorkloadPriorityClass",
}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        for line in file:
            yield json.loads(line)


def test_one_crd_per_kind_named_as_the_api_asks():
    assert plurals() == sorted(KINDS)
    for plural, kind in KINDS.items():
        found = crd(plural)
        spec = found["spec"]
        assert found["metadata"]["name"] == f"{plural}.kueue.x-k8s.io"
        assert spec["group"] == "kueue.x-k8s.io"
        assert spec["names"]["kind"] == kind
        assert spec["names"]["listKind"] == f"{kind}List"
        version, *others = spec["versions"]
        assert [other["name"] for other in others] == (
            ["v1beta2-with-status"] if kind == "Workload" else []
        )
        assert (version["name"], version["served"], version["storage"]) == ("v1beta2", True, True)
        has_status = plural not in ("resourceflavors", "topologies", "workloadpriorityclasses")
        assert ("status" in version.get("subresources", {})) is has_status
        namespaced = plural in ("workloads", "localqueues")
        assert (spec["scope"] == "Namespaced") is namespaced
        for column in version["additionalPrinterColumns"]:
            assert column["jsonPath"].startswith(".")
            assert set(column) <= {"name", "type", "jsonPath", "description", "priority"}


def test_every_short_name_of_kueue_is_there():
    exchanges = next(p for p in RECORDINGS if p.name == "api_exchanges.jsonl.gz")
    (found,) = [e for e in lines(exchanges) if e["what"] == "discovery of a custom group"]
    served = {r["name"]: r for r in found["response"]["body"]["resources"]}
    for plural in KINDS:
        assert set(served[plural]["shortNames"]) <= set(crd(plural)["spec"]["names"]["shortNames"])
        assert served[plural]["namespaced"] is (crd(plural)["spec"]["scope"] == "Namespaced")
    assert "wl" in crd("workloads")["spec"]["names"]["shortNames"]


@pytest.mark.parametrize("plural", KINDS)
def test_the_schema_is_structural(plural: str):
    """https://kubernetes.io/docs: rules 1 to 3 of structural schemas, and those of lists."""
    logical = {"anyOf", "allOf", "oneOf", "not"}
    for path, node in nodes(plural):
        assert "$ref" not in node and "definitions" not in node, path
        int_or_string = node.get("x-kubernetes-int-or-string")
        assert int_or_string or "type" in node, f"{path}: no type"
        if int_or_string:
            assert "type" not in node
            assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
        else:
            assert not logical & set(node), path
        assert not (node.get("properties") and "additionalProperties" in node), path
        assert not isinstance(node.get("additionalProperties"), bool), path
        assert "uniqueItems" not in node, f"{path}: use x-kubernetes-list-type: set"
        if node.get("type") == "array":
            assert isinstance(node.get("items"), dict), path
        if node.get("x-kubernetes-list-type") == "map":
            for key in node["x-kubernetes-list-map-keys"]:
                item = node["items"]
                assert key in item.get("required", ()) or "default" in item["properties"][key], path
        for name in node.get("required", ()):
            preserves = node.get("x-kubernetes-preserve-unknown-fields")
            assert name in node.get("properties", {}) or preserves, f"{path}: {name}"


@pytest.mark.parametrize("plural", KINDS)
def test_defaults_are_valid_and_fields_described(plural: str):
    for path, node in nodes(plural):
        leaf = path.rsplit(".", 1)[-1]
        if "default" in node:
            full = defaulted(node["default"], node)
            jsonschema.validate(full, node)
        if "." in path and leaf != "metadata" and not leaf.endswith(("[]", "{}")):
            assert node.get("description") or leaf in ("name",), f"{path}: no description"
            assert node.get("description", "x.").strip()[-1] in ".x" or ":" in path, path


@pytest.mark.parametrize("plural", KINDS)
def test_lists_that_rules_walk_are_bounded(plural: str):
    walked = {"podSets", "conditions", "podSetAssignments", "flavors", "resources"}
    for path, node in nodes(plural):
        if node.get("type") == "array" and path.rsplit(".", 1)[-1] in walked:
            assert "maxItems" in node, path


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.name.split(".")[0])
def test_every_recorded_workload_fits(path: Path):
    """Objects of a real API server with Kueue's CRDs lose nothing and break no rule under ours."""
    seen = 0
    before: dict[str, dict[str, Any]] = {}
    for line in lines(path):
        if line.get("resource") != "workloads":
            continue
        obj = {k: v for k, v in line["object"].items() if k != "metadata"}
        uid = line["object"]["metadata"]["uid"]
        assert problems("workloads", obj, before.get(uid)) == []
        before[uid] = obj
        seen += 1
    without = {"api_exchanges", "total_count_mismatch", "user_deletes_gated_pod"}
    assert bool(seen) is (path.name.split(".")[0] not in without)


def test_recorded_exchanges_about_workloads_have_the_same_end():
    path = next(p for p in RECORDINGS if p.name == "api_exchanges.jsonl.gz")
    judged = 0
    for exchange in lines(path):
        request, response = exchange["request"], exchange["response"]
        if "/workloads" not in request["path"] or request["method"] != "POST":
            continue
        body = {k: v for k, v in request["body"].items() if k not in ("metadata", "status")}
        body.pop("nonsense", None)  # pruned, with a warning
        assert bool(problems("workloads", body)) is (response["status"] == 422), exchange["what"]
        judged += 1
    assert judged >= 3


POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {}},
    "spec": {"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "1"}]}]},
}
AT = datetime(2026, 11, 21, tzinfo=UTC)


def made(**changes: Any) -> dict[str, Any]:
    """A Workload as the actuator makes it."""
    from actuator import workloads

    sample = ObjectRef(kind="Pod", namespace="ns", name="p", uid="u")
    fields: dict[str, Any] = {
        "target": ObjectRef(kind="Workload", namespace="ns", name="g"),
        "queue": "user-queue",
        "pod_sets": tuple(
            PodSetSpec(name=name, count=count, sample=sample)
            for name, count in (("4b0469f7", 3), ("5a154bb6", 1))
        ),
        "owners": (sample,),
        "annotations": {names.IS_GROUP_WORKLOAD: "true"},
        "priority": 100,
        "priority_ref": PriorityRef(kind="WorkloadPriorityClass", name="high"),
        "max_execution_s": 3600,
    }
    command = CreateWorkload(**{**fields, **changes})
    samples = {item.name: POD for item in command.pod_sets}
    return workloads.workload(command, samples, "v1beta2")


def with_status(live: dict[str, Any], *conditions: Condition, **changes: Any) -> dict[str, Any]:
    """The Workload after the actuator's merge patch."""
    from actuator.workload_status import status

    meta = {"uid": "w", "resourceVersion": "1", "generation": 1, **live["metadata"]}
    live = {**live, "metadata": meta}
    target = ObjectRef(kind="Workload", namespace="ns", name="g", uid="w")
    command = WriteWorkloadStatus(target=target, conditions=conditions, **changes)
    patch = status(command, live, "v1beta2", AT)
    assert patch is not None
    merged = {**(live.get("status") or {}), **patch["status"]}
    return {**live, "status": {key: value for key, value in merged.items() if value is not None}}


def reserved() -> dict[str, Any]:
    admission = Admission(
        cluster_queue="cq",
        assignments=tuple(
            Assignment(name=name, flavors={"cpu": "default"}, usage={"cpu": 1500}, count=1)
            for name in ("4b0469f7", "5a154bb6")
        ),
    )
    condition = Condition(type=names.QUOTA_RESERVED, status="True", reason=names.QUOTA_RESERVED)
    return with_status(made(), condition, admission=admission, reclaimable={"4b0469f7": 1})


def test_what_the_actuator_writes_fits():
    for obj in (made(), made(priority_ref=None, max_execution_s=None), reserved()):
        assert problems("workloads", obj) == []
    held = reserved()
    released = with_status(
        held,
        Condition(type=names.QUOTA_RESERVED, status="False", reason="Pending"),
        clear_admission=True,
        reclaimable={},
        executed_s=7,
    )
    assert "admission" not in released["status"]
    assert problems("workloads", released, held) == []


def test_active_is_true_unless_said_otherwise():
    assert defaulted(made(), schema("workloads"))["spec"]["active"] is True
    paused = made()
    paused["spec"]["active"] = False
    assert defaulted(paused, schema("workloads"))["spec"]["active"] is False


def changed(obj: dict[str, Any], change: Any) -> dict[str, Any]:
    copy = deepcopy(obj)
    change(copy["spec"])
    return copy


BAD_SPECS = [
    ("podSets", lambda s: s.update(podSets=[])),
    ("podSets", lambda s: s.update(podSets=s["podSets"] * 10)),
    ("podSets", lambda s: s.update(podSets=[s["podSets"][0]] * 2)),
    ("count", lambda s: s["podSets"][0].update(count=-1)),
    ("count", lambda s: s["podSets"][0].update(count=2**31)),
    ("name", lambda s: s["podSets"][0].update(name="Not_A_Label")),
    ("template", lambda s: s["podSets"][0].pop("template")),
    ("containers", lambda s: s["podSets"][0]["template"]["spec"].update(containers=[])),
    ("queueName", lambda s: s.update(queueName="no spaces")),
    ("priorityClassRef", lambda s: s["priorityClassRef"].update(kind="Priority")),
    ("priorityClassRef", lambda s: s["priorityClassRef"].update(group="scheduling.k8s.io")),
    ("priority", lambda s: s.pop("priority")),
    ("maximumExecutionTimeSeconds", lambda s: s.update(maximumExecutionTimeSeconds=0)),
    ("unheardOf", lambda s: s.update(unheardOf=1)),
]


@pytest.mark.parametrize(
    ("where", "change"), BAD_SPECS, ids=[f"{n}-{w}" for n, (w, _) in enumerate(BAD_SPECS)]
)
def test_a_bad_workload_is_refused_and_the_field_named(where: str, change: Any):
    found = problems("workloads", changed(made(), change))
    assert any(where in text for text in found), found


def test_podsets_and_queue_stand_while_quota_is_reserved():
    held = reserved()
    for where, change in (
        ("podSets", lambda s: s["podSets"][0].update(count=9)),
        ("podSets", lambda s: s["podSets"].pop()),
        ("queueName", lambda s: s.update(queueName="other")),
        ("queueName", lambda s: s.pop("queueName")),
    ):
        found = problems("workloads", changed(held, change), held)
        assert any(where in text for text in found), (where, found)
        assert problems("workloads", changed(made(), change), made()) == []
    # What may change at any time.
    for change in (lambda s: s.update(active=False), lambda s: s.update(priority=7)):
        assert problems("workloads", changed(held, change), held) == []


def test_a_reservation_needs_an_admission_and_finished_is_final():
    obj = reserved()
    del obj["status"]["admission"]
    assert any("admission" in text for text in problems("workloads", obj))
    finished = with_status(
        made(), Condition(type=names.FINISHED, status="True", reason="Succeeded")
    )
    again = with_status(made(), Condition(type=names.FINISHED, status="False", reason="No"))
    assert problems("workloads", finished) == []
    assert any("final" in text for text in problems("workloads", again, finished))


QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "spec": {
        "namespaceSelector": {},
        "cohortName": "all",
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "default",
                        "resources": [
                            {"name": "cpu", "nominalQuota": 4},
                            {"name": "memory", "nominalQuota": "1.5Gi", "borrowingLimit": "0"},
                        ],
                    }
                ],
            }
        ],
    },
}


def test_a_cluster_queue_gets_its_defaults():
    assert problems("clusterqueues", QUEUE) == []
    spec = defaulted({"spec": {}}, schema("clusterqueues"))["spec"]
    assert spec == {
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "preemption": {
            "withinClusterQueue": "Never",
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
        },
        "flavorFungibility": {
            "whenCanBorrow": "MayStopSearch",
            "whenCanPreempt": "TryNextFlavor",
        },
    }


def test_the_schema_has_no_other_defaults_than_the_translator():
    """An absent field and a defaulted one read alike."""
    import msgspec

    from ingest.translate.queues import ClusterQueueWire, cluster_queue_view

    meta = {"uid": "u", "name": "q", "resourceVersion": "1", "creationTimestamp": AT.isoformat()}
    bare = {"metadata": meta, "spec": {}}
    full = defaulted(bare, schema("clusterqueues"))
    views = [
        cluster_queue_view(msgspec.json.decode(msgspec.json.encode(obj), type=ClusterQueueWire))
        for obj in (bare, full)
    ]
    assert views[0] == views[1]


def first_quota(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["resourceGroups"][0]["flavors"][0]["resources"][0]


def first_group(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["resourceGroups"][0]


BAD_QUEUES = [
    ("nominalQuota", lambda s: first_quota(s).update(nominalQuota="-1")),
    ("nominalQuota", lambda s: first_quota(s).update(nominalQuota="much")),
    ("nominalQuota", lambda s: first_quota(s).pop("nominalQuota")),
    ("flavors", lambda s: first_group(s)["coveredResources"].append("pods")),
    ("coveredResources", lambda s: first_group(s).update(coveredResources=["cpu", "cpu"])),
    ("flavors", lambda s: first_group(s).update(flavors=first_group(s)["flavors"] * 2)),
    ("queueingStrategy", lambda s: s.update(queueingStrategy="LIFO")),
    ("stopPolicy", lambda s: s.update(stopPolicy="Halt")),
    ("withinClusterQueue", lambda s: s["preemption"].update(withinClusterQueue="Any")),
]


@pytest.mark.parametrize(
    ("where", "change"), BAD_QUEUES, ids=[f"{n}-{w}" for n, (w, _) in enumerate(BAD_QUEUES)]
)
def test_a_bad_cluster_queue_is_refused_and_the_field_named(where: str, change: Any):
    found = problems("clusterqueues", changed(QUEUE, change))
    assert any(where in text for text in found), found


def test_a_local_queue_stays_with_its_cluster_queue():
    def queue(**spec: str) -> dict[str, Any]:
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": spec}

    assert problems("localqueues", queue(clusterQueue="cq")) == []
    assert problems("localqueues", queue(clusterQueue="cq"), queue()) == []
    held = queue(clusterQueue="cq", stopPolicy="Hold")
    assert problems("localqueues", held, queue(clusterQueue="cq")) == []
    for new in (queue(clusterQueue="other"), queue()):
        (found,) = problems("localqueues", new, queue(clusterQueue="cq"))
        assert "clusterQueue cannot change" in found


def test_flavors_and_priority_classes():
    flavor = {
        "spec": {
            "nodeLabels": {"pool": "gpu"},
            "nodeTaints": [{"key": "gpu", "effect": "NoSchedule"}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        }
    }
    assert problems("resourceflavors", flavor) == []
    assert problems("resourceflavors", {"spec": {}}) == []
    flavor["spec"]["tolerations"] = [{"operator": "Equal"}]
    assert problems("resourceflavors", flavor) != []
    flavor["spec"]["tolerations"] = [{"key": "a", "operator": "Exists", "value": "b"}]
    assert problems("resourceflavors", flavor) != []
    for effect, refused in (("NoExecute", False), ("NoSchedule", True)):
        timed = {"key": "a", "operator": "Exists", "effect": effect, "tolerationSeconds": 5}
        flavor["spec"]["tolerations"] = [timed]
        assert bool(problems("resourceflavors", flavor)) is refused
    assert problems("workloadpriorityclasses", {"value": -5, "description": "later"}) == []
    assert problems("workloadpriorityclasses", {"description": "none"}) != []


def test_the_schema_is_a_valid_json_schema():
    for plural in KINDS:
        jsonschema.Draft202012Validator.check_schema(closed(plural))
