"""Each field that gatelog reads at each extreme, at stages of a group's life, past the door.

What the door refuses and the API server would not store comes in all the same: from before the
door was there, or while it was away. The laws: no rule and no fold raises; nothing is charged below
zero; what can run is charged; a neighbour is admitted; a world at rest decides nothing.
"""

import os
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec
import pytest

from ingest.kinds import node_kind, watched_kinds
from ingest.translate.items import Delta
from podgroup.log.codec import decode_batch, encode_batch
from podgroup.log.events import Batch, DeltaRefused, Event, PodApplied, WorkloadApplied
from podgroup.model.names import ADMISSION_GATE
from podgroup.model.objects import DEVICE_KINDS, WATCHED_KINDS, PodView, WorkloadView
from podgroup.model.policy import Policy
from podgroup.model.quantities import MAX_INT64
from tests.support import fields
from tests.support.toy import Toy, kept, taken

RAW = dict[str, Any]
STAGES = ("created", "gated", "admitted", "running", "deleting", "preempted", "ended")
LOW = {"kueue.x-k8s.io/priority-class": "low"}
HIGH = {"kueue.x-k8s.io/priority-class": "high"}
META = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
QUOTA = {"name": "cpu", "nominalQuota": "2"}
GROUP = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [QUOTA]}]}
GPU = "gpu.example.com"
EXACTLY = {"name": "gpu", "exactly": {"deviceClassName": GPU, "count": 1}}
OBJECTS: dict[str, RAW] = {
    "Namespace": {"metadata": {"name": "ns"}},
    "PriorityClass": {"metadata": {"name": "odd"}, "value": 1},
    "WorkloadPriorityClass": {"metadata": {"name": "low"}, "value": 1},
    "ResourceFlavor": {"metadata": {"name": "f"}, "spec": {}},
    "Topology": {"metadata": {"name": "odd"}, "spec": {"levels": [{"nodeLabel": "rack"}]}},
    "Node": {"metadata": {"name": "odd"}, "status": {"allocatable": {"cpu": "4"}}},
    "Cohort": {"metadata": {"name": "lab"}, "spec": {}},
    "AdmissionCheck": {"metadata": {"name": "odd"}, "spec": {"controllerName": "c"}},
    "ClusterQueue": {
        "metadata": {"name": "cq"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [GROUP],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        },
    },
    "LocalQueue": {
        "metadata": {"name": "lq", "namespace": "ns"},
        "spec": {"clusterQueue": "cq"},
    },
    "DeviceClass": {"metadata": {"name": GPU}, "spec": {"extendedResourceName": "example.com/g"}},
    "ResourceClaimTemplate": {
        "metadata": {"name": "gpu", "namespace": "ns"},
        "spec": {"spec": {"devices": {"requests": [EXACTLY]}}},
    },
    "ResourceClaim": {
        "metadata": {"name": "gpu", "namespace": "ns"},
        "spec": {"devices": {"requests": [EXACTLY]}},
        "status": {"allocation": {"devices": {"results": [{"request": "all"}]}}},
    },
}
TRANSLATORS: dict[str, Any] = {
    row.kind: row.translator
    for row in (*watched_kinds("", kinds=(*DEVICE_KINDS, *WATCHED_KINDS)), node_kind())
}


def test_every_field_that_is_read_has_extremes() -> None:
    """A new one of a type or shape that `tests.support.fields` does not know is named here."""
    assert fields.unknown() == []
    assert set(fields.WIRES) == set(TRANSLATORS), "a kind that is watched has no fields here"
    assert all(fields.fields(kind) for kind in fields.WIRES)


def translated(kind: str, raw: RAW) -> Event:
    item = TRANSLATORS[kind].item(msgspec.json.encode({"type": "MODIFIED", "object": raw}))
    assert isinstance(item, Delta), item
    (event,) = decode_batch(encode_batch(Batch(source="watch", events=(item.event,)))).events
    return event  # type: ignore[return-value]  # nothing of ours is undecodable


def _text(at: datetime) -> str:
    return f"{at.year:04d}{at:-%m-%dT%H:%M:%SZ}"


def raw_of_pod(view: PodView) -> RAW:
    requests = {
        r: f"{n}m" if r == "cpu" else str(n) for r, n in view.requests.items() if n < MAX_INT64
    }
    meta: RAW = {
        "uid": view.uid,
        "namespace": view.namespace,
        "name": view.name,
        "creationTimestamp": _text(view.created_at),
        "labels": dict(view.labels),
        "annotations": {**view.annotations, "kueue.x-k8s.io/role-hash": view.role},
        "finalizers": list(view.finalizers),
    }
    if view.deleted_at is not None:
        meta["deletionTimestamp"] = _text(view.deleted_at)
        meta["deletionGracePeriodSeconds"] = view.grace_s
    return {
        "metadata": meta,
        "spec": {
            "schedulingGates": [{"name": gate} for gate in view.gates],
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            "terminationGracePeriodSeconds": view.termination_grace_s,
            "nodeSelector": dict(view.node_selector),
            "nodeName": view.node,
        },
        "status": {"phase": view.phase, "containerStatuses": [{"name": "c"}]},
    }


def raw_of_workload(view: WorkloadView) -> RAW:
    sets = []
    for one in view.pod_sets:
        requests = {r: f"{n}m" if r == "cpu" else str(n) for r, n in one.requests.items()}
        spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
        sets.append({"name": one.name, "count": one.count, "template": {"spec": spec}})
    meta = {
        "uid": view.uid,
        "namespace": view.namespace,
        "name": view.name,
        "creationTimestamp": _text(view.created_at),
        "labels": dict(view.labels),
        "annotations": dict(view.annotations),
        "finalizers": list(view.finalizers),
        "ownerReferences": [
            {"apiVersion": "v1", "kind": o.kind, "name": o.name, "uid": o.uid} for o in view.owners
        ],
    }
    return {
        "metadata": meta,
        "spec": {"queueName": view.queue, "podSets": sets, "priority": view.priority or 0},
        "status": {
            "conditions": [
                {"type": c.type, "status": c.status, "reason": c.reason} for c in view.conditions
            ],
            "admission": {"clusterQueue": view.cluster_queue, "podSetAssignments": []},
        },
    }


@kept
def staged(stage: str) -> Toy:
    """Pods `odd0` and `odd1`, of one group, have come to a stage; a neighbour has a queue."""
    policy = Policy(pods_ready_timeout_s=600, status_interval_s=30, device_classes=(f"{GPU}=gpus",))
    toy = Toy(cpu=2, policy=policy)
    toy.slow = True
    other = toy.cluster_queue(1)
    flavor = msgspec.structs.replace(toy.world.flavors["f"], name="f2", uid="f2")
    quotas = msgspec.structs.replace(other.groups[0].flavors[0], name="f2")
    group = msgspec.structs.replace(other.groups[0], flavors=(quotas,))
    local = toy.world.local_queues["ns", "lq"]
    namespace = msgspec.structs.replace(toy.world.namespaces["ns"], name="their", uid="their")
    for one in (
        namespace,
        flavor,
        msgspec.structs.replace(other, name="theirs", uid="theirs", groups=(group,)),
        msgspec.structs.replace(
            local, namespace="their", name="lq", uid="l2", cluster_queue="theirs"
        ),
    ):
        applied = msgspec.structs.replace(one, resource_version=toy.bump())
        toy.do(fields_event(applied))
    if stage == "created":
        return toy
    if stage == "gated":
        toy.pod("big", cpu=2, labels=HIGH)
        toy.run("big")
    if stage == "admitted":
        toy.act = False
    for name in ("odd0", "odd1"):
        toy.pod(name, "g", 2, labels=LOW)
    toy.act = True
    if stage in ("running", "deleting", "preempted", "ended"):
        toy.run("odd0", "odd1")
    if stage == "deleting":
        toy.delete("odd0")
    if stage == "preempted":
        toy.pod("high", cpu=2, labels=HIGH)
    if stage == "ended":
        toy.end("odd0", "odd1")
    return toy


def fields_event(view: Any) -> Event:
    from podgroup.log.events import ObjectApplied

    return ObjectApplied(object=view)


def hit(toy: Toy, field: fields.Field, value: Any) -> None:
    """An object comes in with a field at an extreme."""
    if field.kind == "Pod":
        known = next((pod for pod in toy.pods.values() if pod.name == "odd0"), None)
        if known is None:
            made = toy.pod("odd0", "g", 2, labels=LOW, settle=False)
            known = made
        raw = raw_of_pod(known)
    elif field.kind == "Workload":
        found = toy.workloads.get("g")
        if found is None:
            toy.workload("g", ("r1", 2))
            found = toy.workloads["g"]
        raw = raw_of_workload(found)
    else:
        raw = {**OBJECTS[field.kind]}
        raw["metadata"] = {**META, **raw["metadata"]}
        if field.kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor", "Namespace"):
            kept = {"ClusterQueue": "cq", "LocalQueue": "lq", "ResourceFlavor": "f"}
            raw["metadata"]["uid"] = kept.get(field.kind, "n")
    raw["metadata"]["resourceVersion"] = toy.bump()
    event = translated(field.kind, fields.put(raw, field.path, value))
    if isinstance(event, PodApplied) and event.pod.uid in toy.pods:
        toy.pods[event.pod.uid] = event.pod
    if isinstance(event, WorkloadApplied) and event.workload.name in toy.workloads:
        toy.workloads[event.workload.name] = event.workload
    toy.do(event)
    if field.kind == "Pod" and isinstance(event, DeltaRefused):
        return


def can_run(pod: PodView) -> bool:
    return ADMISSION_GATE not in pod.gates and bool(pod.node) and not pod.ended


def lawful(toy: Toy) -> None:
    raised = [
        (row.reason, row.message)
        for row in toy.world.journal.parked
        if row.reason != "DeltaRefused"
    ]
    assert not raised, raised
    for usage in (taken(toy.world, name) for name in toy.world.cluster_queues):
        assert all(amount >= 0 for amount in usage.values()), usage
    for charge in toy.world.quotas.charges.values():
        assert all(amount >= 0 for amount in charge.usage.values()), charge


def neighbour_goes_on(toy: Toy) -> None:
    toy.pod("theirs", namespace="their", node_selector={})
    assert not toy.gated("theirs"), "a neighbour is kept from its quota"


def rests(toy: Toy) -> None:
    """Nothing more is decided once all that is to come of time has come."""
    for _ in range(3):
        toy.wait(700)
    before = len(toy.decisions)
    toy.wait(60)
    late = toy.decisions[before:]
    assert not late, [(d.rule, d.reason, d.message) for d in late]


def cases(kind: str) -> Iterator[tuple[fields.Field, Any]]:
    for field in fields.fields(kind):
        for value in field.values:
            yield field, value


IDENTITY = tuple(
    f"metadata.{one}"
    for one in ("uid", "namespace", "name", "resourceVersion", "creationTimestamp")
)
"""Which object it is: the API server's alone to say. Times of pods are in `test_extremes`."""


def played(kind: str, stage: str, step: int, first: int) -> None:
    for field, value in islice(cases(kind), first, None, step):
        if field.path in IDENTITY:
            continue
        toy = staged(stage)
        try:
            hit(toy, field, value)
            lawful(toy)
            neighbour_goes_on(toy)
            toy.wait(20)
            lawful(toy)
            rests(toy)
            lawful(toy)
        except Exception as error:
            raise AssertionError(f"{stage}: {field} = {str(value)[:90]!r}: {error}") from error


@pytest.mark.parametrize("kind", fields.WIRES)
@pytest.mark.parametrize("stage", STAGES)
def test_some_extremes_of_each_kind_at_each_stage(kind: str, stage: str) -> None:
    many = sum(1 for _ in cases(kind))
    played(kind, stage, max(1, many // 10), STAGES.index(stage))


@pytest.mark.slow("a twelfth of all extremes at every stage; all of them take twenty minutes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", fields.WIRES)
@pytest.mark.parametrize("stage", STAGES)
def test_more_extremes_of_each_field_at_each_stage(kind: str, stage: str) -> None:
    """All of them with GATELOG_TEST_RANDOM=1."""
    step = 1 if os.environ.get("GATELOG_TEST_RANDOM") else 12
    played(kind, stage, step, STAGES.index(stage) % step)
