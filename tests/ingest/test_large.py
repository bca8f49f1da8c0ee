"""Pods that would take much memory: what is left out of their view, and that nothing is kept."""

import copy
import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from ingest.bounds import bounded
from ingest.translate.large import MAX_POD_BYTES
from podgroup.model import names
from podgroup.model.objects import PodView
from podgroup.model.remembering import MOST_BYTES
from podgroup.model.weight import own_weight, shape_weight
from tests.ingest.recorded import as_line, first_pod
from tests.ingest.test_translate import PODS, applied, pod_of

RAW = dict[str, Any]
GATE = {"name": names.ADMISSION_GATE}


def affinity(values: list[str]) -> RAW:
    expression = {"key": "pool", "operator": "In", "values": values}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def pod(number: int = 0) -> RAW:
    raw: RAW = copy.deepcopy(first_pod())
    raw["metadata"] |= {"uid": f"u{number}", "name": f"p{number}", "managedFields": []}
    raw["metadata"]["finalizers"] = [names.POD_FINALIZER]
    raw["metadata"]["labels"] |= {names.QUEUE_NAME: "q", names.MANAGED_LABEL: "true"}
    raw["spec"]["schedulingGates"] = [GATE]
    return raw


def many(number: int, count: int) -> list[str]:
    return [f"{n:x}-{number}" for n in range(count)]


def _sets(number: int, spec: RAW) -> RAW:
    text = json.dumps(
        [{"name": f"s{n}", "count": 1, "template": {"spec": spec}} for n in range(10)]
    )
    return {"annotations": {names.POD_GROUP_SETS: text}}


LARGE: dict[str, tuple[str, Callable[[RAW, int], object]]] = {
    "affinity": (
        "spec.affinity",
        lambda raw, n: raw["spec"].update(affinity=affinity(many(n, 110_000))),
    ),
    "terms": (
        "spec.affinity",
        lambda raw, n: raw["spec"].update(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": []}] * 20_000
                    }
                }
            }
        ),
    ),
    "tolerations": (
        "spec.tolerations",
        lambda raw, n: raw["spec"].update(
            tolerations=[{"key": key, "operator": "Exists"} for key in many(n, 20_000)]
        ),
    ),
    "nodeSelector": (
        "spec.nodeSelector",
        lambda raw, n: raw["spec"].update(nodeSelector=dict.fromkeys(many(n, 10_000), "x")),
    ),
    "requests": (
        "spec.containers[*].resources.requests",
        lambda raw, n: raw["spec"]["containers"][0].update(
            resources={"requests": {f"example.com/{key}": "1" for key in many(n, 10_000)}}
        ),
    ),
    "labels": (
        "metadata.labels",
        lambda raw, n: raw["metadata"]["labels"].update(dict.fromkeys(many(n, 60_000), "x")),
    ),
    "annotations": (
        "metadata.annotations",
        lambda raw, n: raw["metadata"].update(
            annotations={f"{names.PREFIX}{key}": "x" * 4000 for key in many(n, 64)}
            | {f"{names.PREFIX}{key}": "" for key in many(n, 3000)}
        ),
    ),
    "owners": (
        "metadata.ownerReferences",
        lambda raw, n: raw["metadata"].update(
            ownerReferences=[
                {"apiVersion": "v1", "kind": "Pod", "name": key, "uid": key}
                for key in many(n, 10_000)
            ]
        ),
    ),
    "finalizers": (
        "metadata.finalizers",
        lambda raw, n: raw["metadata"].update(
            finalizers=[*(f"example.com/{key}" for key in many(n, 20_000)), names.POD_FINALIZER]
        ),
    ),
    "gates": (
        "spec.schedulingGates",
        lambda raw, n: raw["spec"].update(
            schedulingGates=[*({"name": f"example.com/{key}"} for key in many(n, 20_000)), GATE]
        ),
    ),
    "conditions": (
        "status.conditions",
        lambda raw, n: raw["status"].update(
            conditions=[{"type": key, "status": "True"} for key in many(n, 10_000)]
        ),
    ),
    "resourceClaims": (
        "spec.resourceClaims",
        lambda raw, n: raw["spec"].update(
            resourceClaims=[
                {"name": key, "resourceClaimTemplateName": "gpu"} for key in many(n, 10_000)
            ]
        ),
    ),
    "sets": (
        "metadata.annotations[kueue.x-k8s.io/pod-group-sets]",
        lambda raw, n: raw["metadata"].update(
            _sets(n, {"containers": [{"name": "c"}], "affinity": affinity(many(n, 2000))})
        ),
    ),
}
UNREAD: dict[str, Callable[[RAW, int], object]] = {
    "env": lambda raw, n: raw["spec"]["containers"][0].update(
        env=[{"name": key, "value": "x"} for key in many(n, 20_000)]
    ),
    "containers": lambda raw, n: raw["spec"].update(
        containers=[{"name": key, "image": "i"} for key in many(n, 10_000)]
    ),
    "topologySpreadConstraints": lambda raw, n: raw["spec"].update(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": k} for k in many(n, 10_000)]
    ),
    "others' annotations": lambda raw, n: raw["metadata"].update(
        annotations={"example.com/x": "x" * 250_000}
    ),
    "managedFields": lambda raw, n: raw["metadata"].update(
        managedFields=[{"manager": key, "operation": "Update"} for key in many(n, 10_000)]
    ),
    "preferred affinity": lambda raw, n: raw["spec"].update(
        affinity={"podAffinity": {"x": many(n, 50_000)}}
    ),
}


def view_of(change: Callable[[RAW, int], object], number: int = 0) -> PodView:
    raw = pod(number)
    change(raw, number)
    return pod_of(applied(raw))


@pytest.mark.parametrize("field", LARGE)
def test_what_takes_too_much_is_left_out_and_named(field: str) -> None:
    path, change = LARGE[field]
    view = view_of(change)
    assert path in view.too_large and f"{MAX_POD_BYTES // 1024} KiB" in view.too_large
    assert own_weight(view) + shape_weight(view) <= MAX_POD_BYTES
    event, body = bounded("Pod", applied(pod()).event)
    assert event is not None and len(body) < MAX_POD_BYTES
    # Whose it is, and that it is ours, is known whatever is written on it.
    assert view.labels[names.QUEUE_NAME] == "q"
    assert names.POD_FINALIZER in view.finalizers
    assert names.ADMISSION_GATE in view.gates
    assert view.requests or field == "requests"


@pytest.mark.parametrize("field", UNREAD)
def test_what_is_not_read_makes_no_pod_large(field: str) -> None:
    view = view_of(UNREAD[field])
    assert view.too_large == ""
    assert own_weight(view) + shape_weight(view) < MAX_POD_BYTES


def test_what_is_as_long_as_a_large_cluster_is_read() -> None:
    values = [f"ip-10-0-{n // 256}-{n % 256}.eu.compute.internal" for n in range(2000)]
    view = view_of(lambda raw, n: raw["spec"].update(affinity=affinity(values)))
    assert view.too_large == ""
    assert view.node_terms[0].expressions[0].values == tuple(values)


@pytest.mark.parametrize("field", [*LARGE, *UNREAD])
def test_nothing_is_kept_of_pods_that_went_by(field: str) -> None:
    """Created and deleted in a loop, they left half a gigabyte in caches."""
    change = LARGE[field][1] if field in LARGE else UNREAD[field]

    def went_by(first: int, count: int) -> None:
        for number in range(first, first + count):
            raw = pod(number)
            change(raw, number)
            PODS.item(as_line({"type": "ADDED", "object": raw}))

    went_by(0, 2)
    gc.collect()
    tracemalloc.start()
    try:
        went_by(2, 3)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 1.5 * MOST_BYTES
