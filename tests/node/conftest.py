"""Stories on a cluster with nodes, where gatelog is installed: containers really run.

    GATELOG_TEST_KUBECONFIG=FILE GATELOG_TEST_NODES=1 pytest -n0 tests/node

GATELOG_TEST_IMAGE names an image with a shell that the nodes have or can pull (default busybox).
GATELOG_TEST_KUBELETS names nodes whose kubelets may be stopped, killed and started anew, the one to
be used first: NODE=FOLDER,… where pids/kubelet has the process id and kubelet.sh starts it.
GATELOG_TEST_DELETED_NODE_S says what `queueing.deleted_node_timeout_s` is. Stories that lack a node
or a setting are skipped and say so. Where the nodes are this machine, cgroups judge what runs;
elsewhere what kubelets say.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from podgroup.model.names import GROUP_NAME, GROUP_TOTAL_COUNT, QUEUE_NAME
from tests.node.meter import Meter, milli
from tests.support.processes import KUEUE, Api
from tests.support.realcluster import kubeconfig

KUBELETS = dict(
    one.split("=", 1) for one in os.environ.get("GATELOG_TEST_KUBELETS", "").split(",") if one
)
DELETED_NODE_S = int(os.environ.get("GATELOG_TEST_DELETED_NODE_S", "0"))
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
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.quota = QUOTA
        """What may run at once; a story that shows more says why."""

    @staticmethod
    def container(command: str, cpu: str = "400m", **more: Any) -> Json:
        """Return a container that runs `command` and asks for `cpu`."""
        resources = {"requests": {"cpu": cpu, "memory": "16Mi"}, "limits": more.pop("limits", {})}
        shell = {"image": IMAGE, "command": ["sh", "-c", command], "resources": resources}
        return {"name": "main"} | shell | more

    def template(self, command: str, **more: Any) -> Json:
        """Return a pod of the queue without a name; `cpu`, `limits`, `labels`, else its spec."""
        labels = {QUEUE_NAME: "queue"} | more.pop("labels", {})
        of_container = {key: more.pop(key) for key in ("cpu", "limits") if key in more}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [self.container(command, **of_container)],
        }
        return {"metadata": {"labels": labels}, "spec": spec | more}

    async def pod(
        self, name: str, command: str, *, group: str = "", total: int = 0, **more: Any
    ) -> Json:
        """Create a pod whose container runs `command` and asks for `cpu` (400m)."""
        body: Json = {"apiVersion": "v1", "kind": "Pod"} | self.template(command, **more)
        body["metadata"]["name"] = name
        if group:
            body["metadata"]["labels"][GROUP_NAME] = group
            body["metadata"]["annotations"] = {GROUP_TOTAL_COUNT: str(total)}
        return dict(await self.api.call("POST", self.path, body))

    async def owner(self, group: str, kind: str, name: str, spec: Json) -> str:
        """Create a Job, Deployment or StatefulSet; return its path."""
        path = f"/apis/{group}/v1/namespaces/{self.namespace}/{kind.lower()}s"
        head = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}}
        await self.api.call("POST", path, head | {"spec": spec})
        return f"{path}/{name}"

    async def uid(self, name: str) -> str:
        """Return the uid of a pod."""
        return str((await self.api.pods(self.namespace))[name]["metadata"]["uid"])

    async def charged(self) -> int:
        """Return what the ClusterQueue says it is charged, in thousandths of a CPU."""
        found = await self.api.call("GET", f"{KUEUE}/clusterqueues/{self.namespace}")
        usage = found.get("status", {}).get("flavorsUsage") or []
        amounts = [one for flavor in usage for one in flavor["resources"]]
        return sum(milli(one["total"]) for one in amounts if one["name"] == "cpu")

    async def until_charged(self, cpu: int) -> None:
        """Wait until the ClusterQueue says that it is charged so much."""

        async def so() -> bool:
            return await self.charged() == cpu

        await self.api.until(f"{cpu}m charged", so)

    async def until_gone(self, *names: str) -> None:
        """Wait until pods are gone."""

        async def so() -> bool:
            return not set(names) & set(await self.api.pods(self.namespace))

        await self.api.until(f"{', '.join(names)} gone", so, 120)

    async def gatelog(self, *words: str) -> str:
        """Run the command line through the API server; return what it prints."""
        argv = (sys.executable, "-m", "gatelog", "--via-cluster", *words)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GATELOG_")}
        environment |= {"KUBECONFIG": str(kubeconfig()), "COLUMNS": "200"}
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            *argv, env=environment, stdout=pipe, stderr=pipe
        )
        out, err = await child.communicate()
        assert child.returncode == 0, err.decode()
        return out.decode()

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
        told = Story(api, name, meter)
        try:
            yield told
        finally:
            looking.cancel()
            await meter.look()
            await api.call("DELETE", f"/api/v1/namespaces/{name}", ok=())
            await api.call("DELETE", f"{KUEUE}/clusterqueues/{name}", ok=())
        assert meter.peak <= told.quota


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
        (f"{KUEUE}/workloadpriorityclasses", "WorkloadPriorityClass", {"value": 1000}),
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
    shared = {"ResourceFlavor": "node", "WorkloadPriorityClass": "node-high"}
    names = shared | {"LocalQueue": "queue"}
    for path, kind, more in objects:
        version = "v1" if kind == "Namespace" else KUEUE.removeprefix("/apis/")
        meta = {"metadata": {"name": names.get(kind, name)}}
        body = {"apiVersion": version, "kind": kind} | meta | more
        await api.call("POST", path, body, ok=(201, 409) if kind in shared else (201,))
