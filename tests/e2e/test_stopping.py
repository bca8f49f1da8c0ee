"""Queues and groups that people stop and let go on with the command line, end to end.

One `gatelog up` on the stand-in serves the module.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.processes import KUEUE, Api, pod
from tests.support.stack import Stack, running_stack

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

FINALIZER = "kueue.x-k8s.io/resource-in-use"
PODS = "/api/v1/namespaces/{}/pods"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stopping")) as one:
        yield one


async def done(stack: Stack, *words: str) -> str:
    """Run a command that has to succeed; return what it printed."""
    found = await asyncio.to_thread(stack.command, *words)
    assert found.returncode == 0, found.stderr
    return found.stdout


async def queues(api: Api, team: str, cpu: int = 2) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
    await api.call("POST", "/api/v1/namespaces", body)
    quotas = [
        {"name": "cpu", "nominalQuota": str(cpu)},
        {"name": "memory", "nominalQuota": "8Gi"},
    ]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": f"f-{team}", "resources": quotas}],
    }
    for kind, name, spec in (
        ("ResourceFlavor", f"f-{team}", {}),
        ("ClusterQueue", f"cq-{team}", {"namespaceSelector": {}, "resourceGroups": [group]}),
        ("LocalQueue", "user-queue", {"clusterQueue": f"cq-{team}"}),
    ):
        space = f"namespaces/{team}/" if kind == "LocalQueue" else ""
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        await api.call("POST", f"{KUEUE}/{space}{kind.lower()}s", made | {"spec": spec})


async def told(stack: Stack, api: Api, what: str, query: str, *values: object) -> dict[str, Any]:
    """Wait until a query has a row."""

    async def row() -> Any:
        return next(iter(stack.sql(query, *values)), None)

    found: dict[str, Any] = await api.until(what, row)
    return found


async def test_a_stopped_queue_says_why_and_goes_on(stack: Stack) -> None:
    team = "hold"
    async with stack.api() as api:
        await queues(api, team)
        await api.call("POST", PODS.format(team), pod("runs"))
        admitted = "SELECT id FROM groups WHERE name = ? AND state IN ('Admitted', 'Running')"
        await told(stack, api, "runs is admitted", admitted, "runs")
        words = ("clusterqueue", f"cq-{team}", "--reason", "rack 7 moves")
        said = await done(stack, "stop", *words, "--keep-already-running", "--dry-run")
        assert said.endswith("stopped (what is admitted runs on) (server dry run)\n")
        said = await done(stack, "stop", *words, "--keep-already-running", "-o", "json")
        assert json.loads(said)["spec"]["stopPolicy"] == "Hold"
        await api.call("POST", PODS.format(team), pod("waits"))
        why = "SELECT message FROM v_why_pending WHERE name = ? AND reason = 'OnHold'"
        row = await told(stack, api, "waits is told why", why, "waits")
        assert row["message"] == f"ClusterQueue cq-{team} is stopped: rack 7 moves (sim-admin)"
        lines = "SELECT message FROM history WHERE kind = ? AND message LIKE ?"
        await told(
            stack, api, "the log has it", lines, "QueueStopped", f"%cq-{team}: rack 7 moves%"
        )
        assert "rack 7 moves" in await done(stack, "why", f"{team}/waits")
        assert "rack 7 moves" in await done(stack, "history", f"{team}/waits", "--full")
        await done(stack, "resume", "cq", f"cq-{team}", "--reason", "rack 7 is back")
        await told(stack, api, "waits is admitted", admitted, "waits")
        await told(stack, api, "the log has it", lines, "QueueResumed", "%rack 7 is back%")
        assert "unchanged" in await done(stack, "resume", "cq", f"cq-{team}")


async def test_a_stopped_group_is_evicted_and_comes_back(stack: Stack) -> None:
    team = "group"
    async with stack.api() as api:
        await queues(api, team)
        for name in ("a0", "a1"):
            await api.call("POST", PODS.format(team), pod(name, "a", 2))
        state = "SELECT id FROM groups WHERE namespace = 'group' AND name = 'a' AND state = ?"
        await told(stack, api, "it runs", state, "Running")
        await done(stack, "stop", "group", f"{team}/a", "--reason", "wrong data set")
        evicted = "SELECT message FROM history WHERE kind = 'GroupEvicted' AND message LIKE ?"
        await told(stack, api, "it is evicted", evicted, "%deactivated: wrong data set (%")
        said = await done(stack, "history", f"{team}/a")
        assert "stopped by a person" in said and "wrong data set" in said
        await done(stack, "resume", "group", "a", "-n", team, "--reason", "mended")
        for name in ("a2", "a3"):
            await api.call("POST", PODS.format(team), pod(name, "a", 2))
        await told(stack, api, "it runs again", state, "Running")
        assert "mended" in await done(stack, "history", f"{team}/a", "--full", "--all")


async def test_a_queue_in_use_is_not_deleted_before_its_last_group_has_ended(stack: Stack) -> None:
    team = "ending"
    queue = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cq-{team}"
    flavor = f"/apis/kueue.x-k8s.io/v1beta2/resourceflavors/f-{team}"
    async with stack.api() as api:
        await queues(api, team)

        async def marked() -> bool:
            found = [(await api.call("GET", path))["metadata"] for path in (queue, flavor)]
            return all(FINALIZER in (meta.get("finalizers") or ()) for meta in found)

        await api.until("queue and flavor carry the finalizer", marked)
        await api.call("POST", PODS.format(team), pod("runs"))
        state = "SELECT id FROM groups WHERE namespace = 'ending' AND name = ? AND state = ?"
        await told(stack, api, "it runs", state, "runs", "Running")
        for path in (queue, flavor):
            await api.call("DELETE", path)
        await api.call("POST", PODS.format(team), pod("late"))
        why = "SELECT message FROM v_why_pending WHERE name = ?"
        waits = await told(stack, api, "late waits", f"{why} AND reason <> 'Composing'", "late")
        assert waits["message"] == f"ClusterQueue cq-{team} is inactive: it is being deleted"
        assert f"{team}/runs" in await done(stack, "why", f"{team}/late")

        async def terminating() -> bool:
            live = await api.call("GET", queue)
            said = (live.get("status") or {}).get("conditions") or ()
            return any(c["type"] == "Active" and c["reason"] == "Terminating" for c in said)

        await api.until("the queue says that it is being deleted", terminating)
        assert await api.call("GET", flavor), "the queue still refers to it"
        await api.call("DELETE", f"{PODS.format(team)}/runs")

        async def gone() -> bool:
            found = [await api.call("GET", path, ok=()) for path in (queue, flavor)]
            return all(one.get("code") == 404 for one in found)

        await api.until("queue and flavor are gone", gone)
