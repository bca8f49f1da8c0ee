"""Record the pods of a namespace as a watch tells them, while containers end in many ways.

    GATELOG_TEST_KUBECONFIG=FILE GATELOG_TEST_IMAGE=… python -m tests.node.record [containers|nodes]

writes tests/recordings/node/containers.jsonl.gz, or nodes.jsonl.gz, in the format of
tests/recordings/README.md. `nodes` needs GATELOG_TEST_KUBELETS: the first of two nodes is deleted.
"""

import asyncio
import gzip
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import yaml

from tests.node.conftest import KUBELETS, Story, _quota
from tests.node.meter import Meter, milli
from tests.node.test_lost_nodes import NODE, THERE, kubelet, start_kubelet, until_ready
from tests.support.processes import Api
from tests.support.realcluster import kubeconfig

TARGET = Path(__file__).parents[1] / "recordings" / "node"
SECONDS = 40
Item = tuple[float, bytes]


async def _watch(api: Api, namespace: str, lines: list[Item]) -> None:
    begun = time.monotonic()
    path = f"{api.url}/api/v1/namespaces/{namespace}/pods?watch=1"
    async with api.http.get(path, read_bufsize=1 << 22) as answer:
        async for line in answer.content:
            lines.append((round(time.monotonic() - begun, 4), line))


async def _containers(story: Story) -> None:
    cpu = "50m"
    eat = "x=a; while true; do x=$x$x; done"
    pods = f"/api/v1/namespaces/{story.namespace}/pods"
    await story.pod("succeeds", "sleep 1", cpu=cpu)
    await story.pod("fails", "exit 7", cpu=cpu)
    await story.pod("oom", eat, cpu=cpu, limits={"memory": "24Mi"})
    await story.pod("loop", "sleep 1; exit 3", cpu=cpu, restartPolicy="OnFailure")
    await story.pod("late", "sleep 600", cpu=cpu, activeDeadlineSeconds=3)
    await story.pod("evicted", "sleep 600", cpu=cpu)
    await story.pod("deleted", "trap '' TERM; sleep 600 & wait", cpu=cpu)
    await story.until("Running", "evicted", "deleted")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    await story.api.call("POST", f"{pods}/evicted/eviction", eviction)
    await story.api.call("DELETE", f"{pods}/deleted")
    await asyncio.sleep(SECONDS)


async def _nodes(story: Story) -> None:
    await until_ready(story)
    elsewhere = {"kubernetes.io/hostname": next(node for node in KUBELETS if node != NODE)}
    await story.pod("resized", "sleep 600", cpu="100m", nodeSelector=elsewhere)
    await story.pod("preempted", "sleep 600", cpu="100m", **THERE)
    await story.pod("collected", "sleep 600", cpu="100m", **THERE)
    await story.until("Running", "resized", "preempted", "collected")
    container = {"name": "main", "resources": {"requests": {"cpu": "200m"}}}
    change = {"spec": {"containers": [container]}}
    kind = "application/strategic-merge-patch+json"
    await story.api.call("PATCH", f"{story.path}/resized/resize", change, kind=kind)
    # A critical pod that its kubelet has no room for: kubelets preempt for it.
    node = await story.api.call("GET", f"/api/v1/nodes/{NODE}")
    cpu = milli(node["status"]["allocatable"]["cpu"]) - 150
    critical = story.template("sleep 5", cpu=f"{cpu}m", priorityClassName="system-node-critical")
    body = {"apiVersion": "v1", "kind": "Pod", "spec": critical["spec"] | {"nodeName": NODE}}
    await story.api.call("POST", story.path, body | {"metadata": {"name": "critical"}})
    await story.until("Failed", "preempted")
    os.kill(kubelet(), signal.SIGKILL)
    try:
        await story.api.call("DELETE", f"/api/v1/nodes/{NODE}")
        await story.until("Failed", "collected", timeout_s=150)
    finally:
        start_kubelet()
    await asyncio.sleep(SECONDS)


PLAYS: dict[str, Callable[[Story], Awaitable[None]]] = {"containers": _containers, "nodes": _nodes}


async def main(which: str) -> None:
    """Play and record."""
    place = kubeconfig()
    assert place is not None
    config = yaml.safe_load(place.read_text())
    token = config["users"][0]["user"]["token"]
    lines: list[Item] = []
    async with Api(config["clusters"][0]["cluster"]["server"], token) as api:
        name = f"node-{uuid.uuid4().hex[:6]}"
        await _quota(api, name)
        watching = asyncio.create_task(_watch(api, name, lines))
        await PLAYS[which](Story(api, name, Meter(api, name)))
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await api.call("DELETE", f"/api/v1/namespaces/{name}", ok=())
        await api.call("DELETE", f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}", ok=())
    items = [{"t": at, "resource": "pods"} | json.loads(line) for at, line in lines]
    text = "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in items)
    (TARGET / f"{which}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["containers"]))
