"""What people are told of real containers, by command line and API server, and what they may do."""

import asyncio

import pytest

from tests.node.conftest import Story
from tests.support.processes import KUEUE

pytestmark = [pytest.mark.slow("real containers"), pytest.mark.timeout(240)]


async def test_a_pod_resized_upwards_is_charged_and_shown_as_it_is(story: Story) -> None:
    await story.pod("grows", "sleep 60", cpu="200m")
    await story.until("Running", "grows")
    await story.until_charged(200)
    container = {"name": "main", "resources": {"requests": {"cpu": "600m"}}}
    change = {"spec": {"containers": [container]}}
    kind = "application/strategic-merge-patch+json"
    await story.api.call("PATCH", f"{story.path}/grows/resize", change, kind=kind)
    await story.until_charged(600)
    assert "is charged too" in await story.gatelog("why", f"{story.namespace}/grows")
    await story.pod("next", "sleep 1", cpu="600m")

    async def held_by() -> bool:
        text = await story.gatelog("why", f"{story.namespace}/next")
        return f"{story.namespace}/grows" in text and "charged too" in text

    await story.api.until("why names what is beyond the admission", held_by)
    assert "cpu 600m" in await story.gatelog("queue", "-n", story.namespace)
    path = f"/api/v1/namespaces/{story.namespace}/events"

    async def warned() -> bool:
        found = (await story.api.call("GET", path))["items"]
        return any((e["reason"], e["type"]) == ("LargerThanAdmitted", "Warning") for e in found)

    await story.api.until("Warning LargerThanAdmitted", warned)


async def test_history_is_found_by_group_workload_and_namespace(story: Story) -> None:
    await story.pod("fails", "exit 7", cpu="100m")
    await story.until("Failed", "fails")
    await story.told("fails", "exit code 7")
    whole = await story.gatelog("history", f"{story.namespace}/fails")
    assert "exit code 7" in whole
    assert await story.gatelog("history", "-n", story.namespace, "fails") == whole
    path = f"{KUEUE}/namespaces/{story.namespace}/workloads"
    workloads = (await story.api.call("GET", path))["items"]
    assert workloads, "it has a Workload"
    name = workloads[0]["metadata"]["name"]
    assert "exit code 7" in await story.gatelog("history", f"{story.namespace}/{name}")


async def test_who_may_edit_a_namespace_may_list_its_workloads(story: Story) -> None:
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{story.namespace}/rolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "editors"},
        "roleRef": role,
        "subjects": [{"kind": "User", "name": "editor-of-one", "apiGroup": role["apiGroup"]}],
    }
    await story.api.call("POST", base, binding)
    url = f"{story.api.url}{KUEUE}/namespaces/{story.namespace}/workloads"
    for _ in range(20):  # the authorizer sees the binding a moment later
        async with story.api.http.get(url, headers={"Impersonate-User": "editor-of-one"}) as answer:
            if answer.status == 200:
                return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{answer.status}: {await answer.text()}")
