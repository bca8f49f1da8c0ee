"""Stories on a cluster with nodes, where gatelog is installed: containers really run.

    GATELOG_TEST_KUBECONFIG=FILE GATELOG_TEST_NODES=1 pytest -n0 tests/node

GATELOG_TEST_IMAGE names an image with a shell that the nodes have or can pull (default busybox).
GATELOG_TEST_KUBELET is the process id of the kubelet of the only node, where it may be stopped for
a minute. Where the node is this machine, cgroups judge what runs; elsewhere what kubelets say.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from podgroup.model.names import GROUP_NAME, GROUP_TOTAL_COUNT, QUEUE_NAME
from tests.node.meter import Meter, here
from tests.support.processes import KUEUE, Api
from tests.support.realcluster import kubeconfig

IMAGE = os.environ.get("GATELOG_TEST_IMAGE", "busybox")
QUOTA = 1000
"""Quota of a story's namespace in thousandths of a CPU."""
Json = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the stories out where no cluster with nodes is named."""
    if kubeconfig() is not None and os.environ.get("GATELOG_TEST_NODES"):
        return
    for item in items:
        if item.path.parent.name == "node":
            item.add_marker(pytest.mark.skip(reason="no cluster with nodes: GATELOG_TEST_NODES"))


class Story:
    """A namespace with a quota of one CPU, and what a user does there."""

    def __init__(self, api: Api, namespace: str, meter: Meter) -> None:
        self.api = api
        self.namespace = namespace
        self.meter = meter

    async def pod(
        self, name: str, command: str, *, group: str = "", total: int = 0, **spec: Any
    ) -> Json:
        """Create a pod whose container runs `command` and asks for `cpu` (400m)."""
        cpu, limits = spec.pop("cpu", "400m"), spec.pop("limits", {})
        labels = {QUEUE_NAME: "queue"} | ({GROUP_NAME: group} if group else {})
        labels |= spec.pop("labels", {})
        container = {
            "name": "main",
            "image": IMAGE,
            "command": ["sh", "-c", command],
            "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}, "limits": limits},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {GROUP_TOTAL_COUNT: str(total)} if total else {},
            },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
            }
            | spec,
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return dict(await self.api.call("POST", path, body))

    async def phases(self) -> dict[str, str]:
        """Return the phase of each pod."""
        found = await self.api.pods(self.namespace)
        return {name: pod["status"].get("phase", "") for name, pod in found.items()}

    async def until(self, phase: str, *names: str, timeout_s: float = 60) -> None:
        """Wait until pods are in a phase."""

        async def so() -> bool:
            found = await self.phases()
            return all(found.get(name) == phase for name in names)

        await self.api.until(f"{', '.join(names)}: {phase}", so, timeout_s)

    async def history(self, group: str) -> list[Json]:
        """Return what `gatelog serve` tells of a group."""
        base = "/apis/gatelog.io/v1beta1/namespaces"
        found = await self.api.call("GET", f"{base}/{self.namespace}/podgrouphistories/{group}")
        return list(found["entries"])

    async def told(self, group: str, text: str) -> None:
        """Wait until a group's history has a text in a kind, reason or message."""

        async def so() -> bool:
            entries = await self.history(group)
            return any(
                text in f"{e.get('kind')} {e.get('reason', '')} {e.get('message', '')}"
                for e in entries
            )

        await self.api.until(f"history of {group}: {text}", so)


@pytest.fixture
async def story() -> AsyncIterator[Story]:
    """A namespace and queue of its own; the meter judges at the end."""
    place = kubeconfig()
    assert place is not None
    config = yaml.safe_load(place.read_text())
    server = config["clusters"][0]["cluster"]["server"]
    async with Api(server, config["users"][0]["user"]["token"]) as api:
        name = f"node-{uuid.uuid4().hex[:6]}"
        await _quota(api, name)
        meter = Meter(api, name)
        looking = asyncio.create_task(meter.run())
        try:
            yield Story(api, name, meter)
        finally:
            looking.cancel()
            await api.call("DELETE", f"/api/v1/namespaces/{name}", ok=())
            await api.call("DELETE", f"{KUEUE}/clusterqueues/{name}", ok=())
        assert meter.peak <= QUOTA
        assert not here() or meter.looks


async def _quota(api: Api, name: str) -> None:
    resources = [
        {"name": "cpu", "nominalQuota": f"{QUOTA}m"},
        {"name": "memory", "nominalQuota": "8Gi"},
    ]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": "node", "resources": resources}],
    }
    objects: list[tuple[str, str, Json]] = [
        ("/api/v1/namespaces", "Namespace", {}),
        (f"{KUEUE}/resourceflavors", "ResourceFlavor", {"spec": {}}),
        (
            f"{KUEUE}/clusterqueues",
            "ClusterQueue",
            {
                "spec": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                    "preemption": {"withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [group],
                }
            },
        ),
        (
            f"{KUEUE}/namespaces/{name}/localqueues",
            "LocalQueue",
            {"spec": {"clusterQueue": name}},
        ),
    ]
    names = {"ResourceFlavor": "node", "LocalQueue": "queue"}
    for path, kind, more in objects:
        version = "v1" if kind == "Namespace" else KUEUE.removeprefix("/apis/")
        meta = {"metadata": {"name": names.get(kind, name)}}
        body = {"apiVersion": version, "kind": kind} | meta | more
        await api.call("POST", path, body, ok=(201,) if kind != "ResourceFlavor" else (201, 409))
