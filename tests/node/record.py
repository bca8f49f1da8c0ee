"""Record the pods of a namespace as a watch tells them, while containers end in many ways.

    GATELOG_TEST_KUBECONFIG=FILE GATELOG_TEST_IMAGE=… python -m tests.node.record

writes tests/recordings/node/containers.jsonl.gz in the format of tests/recordings/README.md.
"""

import asyncio
import gzip
import json
import time
import uuid
from contextlib import suppress
from pathlib import Path

import yaml

from tests.node.conftest import Story, _quota
from tests.node.meter import Meter
from tests.support.processes import Api
from tests.support.realcluster import kubeconfig

TARGET = Path(__file__).parents[1] / "recordings" / "node" / "containers.jsonl.gz"
SECONDS = 40
Item = tuple[float, bytes]


async def _watch(api: Api, namespace: str, lines: list[Item]) -> None:
    begun = time.monotonic()
    path = f"{api.url}/api/v1/namespaces/{namespace}/pods?watch=1"
    async with api.http.get(path, read_bufsize=1 << 22) as answer:
        async for line in answer.content:
            lines.append((round(time.monotonic() - begun, 4), line))


async def _play(story: Story) -> None:
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


async def main() -> None:
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
        await _play(Story(api, name, Meter(api, name)))
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await api.call("DELETE", f"/api/v1/namespaces/{name}", ok=())
        await api.call("DELETE", f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}", ok=())
    items = [{"t": at, "resource": "pods"} | json.loads(line) for at, line in lines]
    text = "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in items)
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    asyncio.run(main())
