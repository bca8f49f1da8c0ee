"""What a pod takes while it is resized: the larger of what it asks for and what it was granted."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ingest.kinds import watched_kinds
from ingest.translate.items import Delta
from podgroup.log.events import PodApplied

POD = watched_kinds("")[-1]


def requests(status: dict[str, Any], **spec: Any) -> Mapping[str, int]:
    container = {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    pod = {
        "metadata": {
            "uid": "u",
            "name": "p",
            "namespace": "n",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [container], **spec},
        "status": status,
    }
    line = json.dumps({"type": "ADDED", "object": pod}).encode()
    item = POD.translator.item(line)
    assert isinstance(item, Delta) and isinstance(item.event, PodApplied), item
    return item.event.pod.requests


def granted(allocated: str, present: str = "") -> dict[str, Any]:
    one: dict[str, Any] = {"name": "c", "allocatedResources": {"cpu": allocated}}
    if present:
        one["resources"] = {"requests": {"cpu": present}}
    return {"containerStatuses": [one]}


def pending(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]}


@pytest.mark.parametrize(
    ("status", "milli_cpu"),
    [
        ({}, 2000),
        (granted("2"), 2000),
        (granted("500m"), 2000),
        (granted("3"), 3000),
        (granted("1", "5"), 5000),
        (granted("500m") | pending("Deferred"), 2000),
        (granted("500m") | pending("Infeasible"), 500),
        (granted("500m", "700m") | pending("Infeasible"), 700),
    ],
)
def test_the_larger_counts_unless_it_never_comes(status: dict[str, Any], milli_cpu: int) -> None:
    assert requests(status) == {"cpu": milli_cpu, "memory": 1 << 30}


def test_a_sidecar_and_a_pod_as_a_whole_are_resized_too() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    status = {"initContainerStatuses": [{"name": "s", "allocatedResources": {"cpu": "4"}}]}
    assert requests(status, initContainers=[sidecar])["cpu"] == 6000
    whole = {"allocatedResources": {"cpu": "9"}}
    assert requests(whole, resources={"requests": {"cpu": "3"}})["cpu"] == 9000
