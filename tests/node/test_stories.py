"""What only a real node shows: containers that run on, end, are killed and start again."""

import asyncio
import os
import signal

import pytest

from tests.node.conftest import QUOTA, Story
from tests.node.meter import here, working

pytestmark = [pytest.mark.slow("real containers"), pytest.mark.timeout(240)]


async def test_pods_run_by_turns_within_the_quota(story: Story) -> None:
    names = [f"p{i}" for i in range(5)]
    for name in names:
        await story.pod(name, "sleep 2")
    await story.until("Succeeded", *names, timeout_s=120)
    if here():
        assert 400 <= story.meter.peak <= QUOTA


async def test_a_group_starts_whole_or_not_at_all(story: Story) -> None:
    await story.pod("first", "sleep 8", cpu="800m")
    await story.until("Running", "first")
    members = [f"m{i}" for i in range(2)]
    for name in members:
        await story.pod(name, "sleep 2", cpu="500m", group="train", total=2)
    await asyncio.sleep(2)
    assert {(await story.phases())[name] for name in members} == {"Pending"}
    await story.until("Succeeded", "first", *members, timeout_s=120)


async def test_memory_that_runs_out_is_told_with_its_exit_code(story: Story) -> None:
    eat = "x=a; while true; do x=$x$x; done"
    await story.pod("eater", eat, cpu="100m", limits={"memory": "24Mi"})
    await story.until("Failed", "eater", timeout_s=90)
    await story.told("eater", "OOMKilled")
    await story.told("eater", "exit code 137 (signal 9)")


async def test_a_container_that_starts_again_has_failed_once_each_time(story: Story) -> None:
    await story.pod("loop", "sleep 1; exit 3", cpu="100m", restartPolicy="OnFailure")

    async def three_times() -> bool:
        pod = (await story.api.pods(story.namespace))["loop"]
        statuses = pod["status"].get("containerStatuses") or [{}]
        return bool(statuses[0].get("restartCount", 0) >= 2)

    await story.api.until("restarted twice", three_times, 120)
    await story.told("loop", "restarts before: 1")
    entries = [e for e in await story.history("loop") if e["source"] == "failure"]
    pod = (await story.api.pods(story.namespace))["loop"]
    assert len(entries) <= pod["status"]["containerStatuses"][0]["restartCount"] + 1
    assert all("exit code 3" in e["message"] for e in entries)


async def test_a_pod_that_ran_out_of_its_time_is_told(story: Story) -> None:
    await story.pod("late", "sleep 600", activeDeadlineSeconds=4)
    await story.until("Failed", "late", timeout_s=60)
    await story.told("late", "DeadlineExceeded")


async def test_a_pod_that_ignores_its_end_keeps_its_quota_to_its_last_second(story: Story) -> None:
    deaf = "trap '' TERM; while true; do sleep 1; done"
    await story.pod("deaf", deaf, cpu="800m", terminationGracePeriodSeconds=8)
    await story.until("Running", "deaf")
    await story.pod("next", "sleep 1", cpu="800m")
    await story.api.call("DELETE", f"/api/v1/namespaces/{story.namespace}/pods/deaf")
    await asyncio.sleep(4)
    assert (await story.phases())["next"] == "Pending"
    await story.until("Succeeded", "next", timeout_s=60)


@pytest.mark.skipif("GATELOG_TEST_KUBELET" not in os.environ, reason="no kubelet to stop")
async def test_pods_of_an_unreachable_node_keep_their_quota_while_they_run(story: Story) -> None:
    """The node controller deletes them, and their containers run on."""
    kubelet = int(os.environ["GATELOG_TEST_KUBELET"])
    trouble = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
    leaves = [trouble | {"effect": "NoExecute", "tolerationSeconds": 2}]
    await story.pod("limbo", "sleep 600", cpu="800m", tolerations=leaves)
    await story.until("Running", "limbo")
    await story.pod("next", "sleep 1", cpu="800m")
    uid = (await story.api.pods(story.namespace))["limbo"]["metadata"]["uid"]

    async def evicted() -> bool:
        pod = (await story.api.pods(story.namespace))["limbo"]
        return "deletionTimestamp" in pod["metadata"]

    os.kill(kubelet, signal.SIGSTOP)
    try:
        await story.api.until("evicted by its taint", evicted, 120)
        await asyncio.sleep(15)
        assert not here() or uid in working()
        next_ = (await story.api.pods(story.namespace))["next"]
        assert next_["spec"].get("schedulingGates")
    finally:
        os.kill(kubelet, signal.SIGCONT)
    await story.until("Succeeded", "next", timeout_s=90)
