"""What only a real node shows: containers that run on, end, are killed and start again."""

import asyncio

import pytest

from tests.node.conftest import QUOTA, Json, Story
from tests.node.meter import here

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
    await story.api.call("DELETE", f"{story.path}/deaf")
    await asyncio.sleep(4)
    assert (await story.phases())["next"] == "Pending"
    await story.until("Succeeded", "next", timeout_s=60)


async def test_two_groups_run_by_turns_at_exactly_the_quota(story: Story) -> None:
    names = [f"{group}{i}" for group in "ab" for i in range(2)]
    for name in names:
        await story.pod(name, "sleep 4", cpu="500m", group=name[0], total=2)
    await story.until("Succeeded", *names, timeout_s=120)
    if here():
        assert story.meter.peak == QUOTA


async def test_a_failed_member_is_replaced(story: Story) -> None:
    await story.pod("good", "sleep 15", group="g", total=2)
    await story.pod("bad", "exit 7", group="g", total=2)
    await story.until("Failed", "bad")
    await story.pod("again", "sleep 1", group="g", total=2)
    await story.until("Succeeded", "good", "again", timeout_s=90)
    await story.told("g", "exit code 7")


async def test_init_containers_and_sidecars_are_charged_as_kubernetes_adds_them_up(
    story: Story,
) -> None:
    before = [
        story.container("trap exit TERM; sleep 600 & wait", "100m", name="side")
        | {"restartPolicy": "Always"},
        story.container("sleep 2", "700m", name="first"),
    ]
    await story.pod("both", "sleep 20", cpu="300m", initContainers=before)
    await story.until_charged(800)
    await story.pod("next", "sleep 1", cpu="300m")
    await story.until("Running", "both")
    assert (await story.phases())["next"] == "Pending"
    await story.until("Succeeded", "both", "next", timeout_s=120)


async def test_an_indexed_job_runs_to_its_end(story: Story) -> None:
    template = story.template("sleep 2")
    spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "template": template}
    job = await story.owner("batch", "Job", "job", spec)

    async def complete() -> bool:
        return bool((await story.api.call("GET", job))["status"].get("succeeded") == 4)

    await story.api.until("the Job is complete", complete, 120)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_what_serves_is_rolled_out_within_the_quota(story: Story, kind: str) -> None:
    marks = {"app": "served"}
    serve = "trap exit TERM; sleep 600 & wait"
    template = story.template(serve, cpu="300m", labels=marks, restartPolicy="Always")
    spec = {"replicas": 3, "selector": {"matchLabels": marks}, "template": template}
    path = await story.owner("apps", kind, "served", spec)

    async def rolled_out() -> bool:
        found = await story.api.call("GET", path)
        status = found["status"]
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        ready = (status.get("updatedReplicas"), status.get("readyReplicas")) == (3, 3)
        return seen and ready and status.get("replicas") == 3

    await story.api.until("all are ready", rolled_out, 90)
    change: Json = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
    # One at a time: a quota that is full has no room for more than there were.
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    change["spec"] |= {"strategy": strategy} if kind == "Deployment" else {}
    await story.api.merge(path, change)
    await story.api.until("all are replaced", rolled_out, 120)


async def test_a_preempted_pod_keeps_its_quota_to_its_last_second(story: Story) -> None:
    deaf = "trap '' TERM; while true; do sleep 1; done"
    await story.pod("low", deaf, cpu="800m", terminationGracePeriodSeconds=8)
    await story.until("Running", "low")
    high = {"kueue.x-k8s.io/priority-class": "node-high"}
    await story.pod("high", "sleep 1", cpu="800m", labels=high)
    await asyncio.sleep(4)
    assert (await story.phases())["high"] == "Pending"
    await story.until("Succeeded", "high", timeout_s=90)
    await story.told("low", "Preempted")


async def test_a_pod_deleted_by_force_is_charged_until_its_container_has_ended(
    story: Story,
) -> None:
    await story.pod("deaf", "trap '' TERM; while true; do sleep 1; done", cpu="800m")
    await story.until("Running", "deaf")
    await story.pod("next", "sleep 1", cpu="800m")
    now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    await story.api.call("DELETE", f"{story.path}/deaf", now)
    await story.until("Succeeded", "next", timeout_s=90)


async def test_an_evicted_pod_makes_room(story: Story) -> None:
    await story.pod("evicted", "sleep 600", cpu="800m")
    await story.until("Running", "evicted")
    await story.pod("next", "sleep 1", cpu="800m")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    await story.api.call("POST", f"{story.path}/evicted/eviction", eviction)
    await story.until("Succeeded", "next", timeout_s=90)
    await story.told("evicted", "EvictionByEvictionAPI")
