"""The scripted kubelet: how pods run, end, and are terminated."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from simcluster import Settings
from simcluster.client import Client
from simcluster.scripts import Script, ScriptError, parse
from tests.simcluster.make import GATE, pod, take
from tests.support.standin import SimCluster

NS = "default"
RECORDED = Path(__file__).parents[1] / "recordings" / "node" / "containers.jsonl.gz"


@pytest.fixture
def settings() -> Settings:
    return Settings(kubelet="scripted", kubelet_termination_s=0.02)


def scripted(name: str, script: str, **spec: Any) -> dict[str, Any]:
    return pod(name, annotations={"simcluster/script": script}, **spec)


async def phase(client: Client, name: str, wanted: str) -> dict[str, Any]:
    got = await client.wait(
        "pods", name, NS, until=lambda p: p is not None and p["status"]["phase"] == wanted
    )
    assert got is not None
    return got


def terminated(obj: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = obj["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


@pytest.mark.parametrize(
    ("script", "end", "reason", "code"),
    [
        ("run=20ms,succeed", "Succeeded", "Completed", 0),
        ("run=0.02s,fail=3", "Failed", "Error", 3),
        ("oom", "Failed", "OOMKilled", 137),
    ],
)
async def test_scripts_end_as_written(
    client: Client, script: str, end: str, reason: str, code: int
) -> None:
    await client.create("pods", scripted("a", script), NS)
    got = await phase(client, "a", end)
    assert (terminated(got)["reason"], terminated(got)["exitCode"]) == (reason, code)
    ready = {c["type"]: c["status"] for c in got["status"]["conditions"]}
    assert ready["Ready"] == ready["ContainersReady"] == "False"
    assert ready["PodScheduled"] == "True"


async def test_phases_in_order(client: Client) -> None:
    start = (await client.list("pods", NS))["metadata"]["resourceVersion"]
    await client.create("pods", scripted("a", "run=10ms,succeed", gates=(GATE,)), NS)
    await client.patch("pods", "a", {"spec": {"schedulingGates": None}}, NS)
    await phase(client, "a", "Succeeded")
    items = await take(client.watch("pods", NS, resourceVersion=start), 5)
    phases = [(obj["status"]["phase"], "nodeName" in obj["spec"]) for _, obj in items]
    assert phases == [
        ("Pending", False),
        ("Pending", False),
        ("Pending", True),
        ("Running", True),
        ("Succeeded", True),
    ]


async def test_a_pod_deleted_before_it_started_has_a_start_time_that_can_be_read(
    client: Client,
) -> None:
    await client.create("pods", scripted("a", "start=60s", finalizers=("test.com/kept",)), NS)
    await client.wait("pods", "a", NS, until=lambda p: p is not None and "nodeName" in p["spec"])
    await client.delete("pods", "a", NS)
    got = await phase(client, "a", "Failed")
    assert datetime.fromisoformat(got["status"]["startTime"])


async def test_image_that_cannot_be_pulled(client: Client) -> None:
    await client.create("pods", scripted("a", "image-pull-error"), NS)
    got = await client.wait(
        "pods",
        "a",
        NS,
        until=lambda p: p is not None and "containerStatuses" in p["status"],
    )
    assert got is not None
    waiting = got["status"]["containerStatuses"][0]["state"]["waiting"]
    assert (got["status"]["phase"], waiting["reason"]) == ("Pending", "ImagePullBackOff")


@pytest.mark.parametrize(("script", "end"), [("run=forever", "Failed"), ("term=0", "Succeeded")])
async def test_deleted_pods_stop_and_go(client: Client, script: str, end: str) -> None:
    start = (await client.list("pods", NS))["metadata"]["resourceVersion"]
    await client.create("pods", scripted("a", script), NS)
    await phase(client, "a", "Running")
    await client.delete("pods", "a", NS)
    await client.wait("pods", "a", NS, until=lambda p: p is None)
    items = [obj async for _, obj in _until_deleted(client, start)]
    last = items[-1]
    assert last["status"]["phase"] == end
    assert terminated(last)["exitCode"] == (143 if end == "Failed" else 0)
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0


async def _until_deleted(client: Client, start: str) -> AsyncIterator[tuple[str, Any]]:
    async for kind, obj in client.watch("pods", NS, resourceVersion=start):
        yield kind, obj
        if kind == "DELETED":
            return


async def test_finalizer_keeps_the_stopped_pod(client: Client) -> None:
    await client.create("pods", scripted("a", "run=forever", finalizers=["x.io/a"]), NS)
    await phase(client, "a", "Running")
    await client.delete("pods", "a", NS)
    got = await client.wait(
        "pods",
        "a",
        NS,
        until=lambda p: p is not None and p["metadata"].get("deletionGracePeriodSeconds") == 0,
    )
    assert got is not None
    assert got["status"]["phase"] == "Failed"
    await client.patch("pods", "a", {"metadata": {"finalizers": None}}, NS)
    await client.wait("pods", "a", NS, until=lambda p: p is None)


def told(one: dict[str, Any]) -> tuple[object, ...]:
    """What a status says of the only container: its state, the one before, and what follows."""
    status = one["status"]
    (container,) = status["containerStatuses"]
    states = []
    for state in (container["state"], container["lastState"]):
        kind = next(iter(state), "")
        states.append(
            (kind, state.get(kind, {}).get("exitCode"), state.get(kind, {}).get("reason"))
        )
    conditions = {c["type"]: (c["status"], c.get("reason", "")) for c in status["conditions"]}
    sandbox, ready = conditions["PodReadyToStartContainers"][0], conditions["Ready"]
    return (status["phase"], *states, container["restartCount"], ready, sandbox)


def recorded(name: str) -> list[tuple[object, ...]]:
    """What a real kubelet told of a pod, each once; without what it said as it set the pod up."""
    raw = gzip.decompress(RECORDED.read_bytes())
    seen = [one["object"] for one in map(json.loads, raw.splitlines())]
    found = [told(one) for one in seen if one["metadata"]["name"] == name and named(one)]
    return list(dict.fromkeys(found))


def named(one: dict[str, Any]) -> bool:
    states = one["status"].get("containerStatuses") or [{"state": {"waiting": {}}}]
    return "waiting" not in states[0]["state"]


async def test_a_container_that_starts_again_is_told_as_by_a_real_kubelet(client: Client) -> None:
    wanted = recorded("loop")[:4]
    assert [one[3] for one in wanted] == [0, 0, 1, 1], "two starts and two ends"
    found: list[tuple[object, ...]] = []
    loop = scripted("loop", "run=20ms,fail=3", restartPolicy="OnFailure")
    version = (await client.create("pods", loop, NS))["metadata"]["resourceVersion"]
    async for _, one in client.watch("pods", NS, resourceVersion=version):
        if named(one):
            found.append(told(one))
        if len(found) == len(wanted):
            break
    assert found == wanted


@pytest.mark.parametrize(("name", "script"), [("succeeds", "succeed"), ("fails", "fail=7")])
async def test_a_pod_that_ended_is_told_as_by_a_real_kubelet(
    client: Client, name: str, script: str
) -> None:
    await client.create("pods", scripted(name, f"run=5ms,{script}"), NS)
    wanted = recorded(name)[-1]
    assert told(await phase(client, name, str(wanted[0]))) == wanted


async def test_conditions_of_others_are_kept(client: Client) -> None:
    await client.create("pods", scripted("a", "run=50ms,succeed", gates=(GATE,)), NS)
    target = {"type": "TerminationTarget", "status": "True", "reason": "Preempted"}
    await client.patch("pods", "a", {"status": {"conditions": [target]}}, NS, sub="status")
    await client.patch("pods", "a", {"spec": {"schedulingGates": None}}, NS)
    got = await phase(client, "a", "Succeeded")
    assert "TerminationTarget" in {c["type"] for c in got["status"]["conditions"]}


async def test_a_function_may_choose_the_script() -> None:
    def choose(obj: dict[str, Any]) -> Script | str | None:
        return "run=0s,fail=9" if obj["metadata"]["name"] == "bad" else None

    settings = Settings(
        kubelet="scripted", kubelet_script=choose, kubelet_default_script="run=0s,succeed"
    )
    async with (
        SimCluster(settings) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        await client.create("pods", pod("bad"), NS)
        await client.create("pods", pod("good"), NS)
        assert terminated(await phase(client, "bad", "Failed"))["exitCode"] == 9
        await phase(client, "good", "Succeeded")


@pytest.mark.parametrize("text", ["run=soon", "fail=999", "explode", "run=1h", ""])
def test_unreadable_scripts_say_which_step(text: str) -> None:
    with pytest.raises(ScriptError, match="step"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("run=1s,succeed", Script(run_s=1.0)),
        ("run=1m, fail=3", Script(run_s=60.0, exit_code=3)),
        ("start=250ms,run=forever", Script(start_s=0.25)),
        ("unready,run=forever,term=0", Script(ready=False, term_code=0)),
    ],
)
def test_scripts_read(text: str, script: Script) -> None:
    assert parse(text) == script
