"""Kubelets that stop, die and come back; nodes that are unreachable, and nodes that are deleted.

What a stopped kubelet's containers do no API server knows: cgroups of this machine are the judge.
"""

import asyncio
import os
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import DELETED_NODE_S, KUBELETS, Story
from tests.node.meter import here, working
from tests.support.faults.processes import frozen

pytestmark = [
    pytest.mark.slow("real containers, and nodes that are given up after 40 s"),
    pytest.mark.timeout(400),
    pytest.mark.skipif(not KUBELETS, reason="no kubelet to stop: GATELOG_TEST_KUBELETS"),
]
NODE = next(iter(KUBELETS), "")
THERE: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": NODE}}
TROUBLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
LEAVES: dict[str, Any] = THERE | {"tolerations": [TROUBLE | {"tolerationSeconds": 2}]}
two_nodes = pytest.mark.skipif(
    len(KUBELETS) < 2, reason="one node: gatelog itself may run on the one to be deleted"
)


def kubelet() -> int:
    """The process id of the node's kubelet."""
    return int((Path(KUBELETS[NODE]) / "pids" / "kubelet").read_text())


def start_kubelet() -> None:
    """Start the node's kubelet anew; it registers the Node where there is none."""
    subprocess.run(["bash", str(Path(KUBELETS[NODE]) / "kubelet.sh")], check=True)


def silent() -> AbstractContextManager[None]:
    """Stop the kubelet for a while; its containers run on."""
    return frozen(kubelet())


async def until_ready(story: Story) -> None:
    """Wait until the node is ready."""

    async def so() -> bool:
        found = await story.api.call("GET", f"/api/v1/nodes/{NODE}", ok=())
        if found["kind"] != "Node":
            return False
        conditions = found["status"].get("conditions") or []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    await story.api.until(f"{NODE} is ready", so, 120)


async def in_limbo(story: Story) -> str:
    """Wait until pod `limbo` is deleted by the taint of its unreachable node; return its uid."""

    async def so() -> Any:
        pod = (await story.api.pods(story.namespace))["limbo"]
        return "deletionTimestamp" in pod["metadata"] and pod["metadata"]["uid"]

    return str(await story.api.until("evicted by its taint", so, 120))


async def test_pods_of_an_unreachable_node_keep_their_quota_while_they_run(story: Story) -> None:
    """The node controller deletes them, and their containers run on."""
    await until_ready(story)
    await story.pod("limbo", "sleep 600", cpu="800m", **LEAVES)
    await story.until("Running", "limbo")
    await story.pod("next", "sleep 1", cpu="800m")
    with silent():
        uid = await in_limbo(story)
        await asyncio.sleep(15)
        assert not here() or uid in working()
        assert await story.charged() == 800
        next_ = (await story.api.pods(story.namespace))["next"]
        assert next_["spec"].get("schedulingGates")
        why = await story.gatelog("why", f"{story.namespace}/next")
        assert "its node has not said so" in why
        assert f"node {NODE} has not said so" in await story.gatelog(
            "why", f"{story.namespace}/limbo"
        )
    await story.until("Succeeded", "next", timeout_s=90)


async def test_a_kubelet_that_is_killed_in_a_group_ends_nothing(story: Story) -> None:
    await until_ready(story)
    members = ("m0", "m1")
    for name in members:
        await story.pod(name, "sleep 15", group="g", total=2, **THERE)
    await story.until("Running", *members)
    os.kill(kubelet(), signal.SIGKILL)
    await asyncio.sleep(3)
    start_kubelet()
    await story.until("Succeeded", *members, timeout_s=120)


@two_nodes
@pytest.mark.skipif(not DELETED_NODE_S, reason="queueing.deleted_node_timeout_s is 0")
@pytest.mark.parametrize("back", [False, True], ids=["lapses", "kubelet comes back"])
async def test_pods_of_a_deleted_node_keep_their_quota_while_they_may_run(
    story: Story, back: bool
) -> None:
    """`back`: the kubelet comes back before that, and ends them."""
    await until_ready(story)
    await story.pod("limbo", "sleep 600", cpu="800m", **THERE)
    await story.until("Running", "limbo")
    await story.pod("next", "sleep 1", cpu="800m")
    pid, uid = kubelet(), await story.uid("limbo")
    os.kill(pid, signal.SIGKILL)
    try:
        await story.api.call("DELETE", f"/api/v1/nodes/{NODE}")

        async def collected() -> bool:
            pod = (await story.api.pods(story.namespace))["limbo"]
            return bool(
                pod["status"]["phase"] == "Failed" and "deletionTimestamp" in pod["metadata"]
            )

        await story.api.until("the garbage collector says that it failed", collected, 150)
        await asyncio.sleep(DELETED_NODE_S / 2)
        assert (await story.phases())["next"] == "Pending"
        assert await story.charged() == 800 and (not here() or uid in working())
        if not back:
            story.quota = (
                1600  # it is over for gatelog, and the container runs on: docs/security.md
            )
            await story.until("Succeeded", "next", timeout_s=DELETED_NODE_S + 90)
    finally:
        start_kubelet()
    await story.until_gone("limbo")
    await story.until("Succeeded", "next", timeout_s=90)
    await story.told("limbo", "DeletionByPodGC")


@two_nodes
async def test_a_group_on_two_nodes_runs_within_the_quota(story: Story) -> None:
    await until_ready(story)
    for group in "ab":
        for node in KUBELETS:
            where: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": node}}
            await story.pod(f"{group}-{node}", "sleep 4", cpu="500m", group=group, total=2, **where)
    names = [f"{group}-{node}" for group in "ab" for node in list(KUBELETS)[:2]]
    await story.until("Succeeded", *names, timeout_s=120)
    assert not here() or story.meter.peak == 1000
