"""KEP-976's story 3 and its first draft over HTTP: `gatelog up` on the stand-in, in both modes.

The pods of story 3 are those of the KEP, annotation and all; only the queue exists beforehand.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ingest.test_podsets import KEP
from tests.support.processes import KUEUE, KUEUE_CORE, Api, make_queue, pod
from tests.support.stack import Stack, finished, started

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

PREFIX = "kueue.x-k8s.io/"


@pytest.fixture(scope="module", params=["builtin", "kueue"])
def stack(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    module = KUEUE_CORE if request.param == "kueue" else "tests.support.standin"
    found = Stack(tmp_path_factory.mktemp(f"dialects-{request.param}"), module=module)
    found.up.env["GATELOG_MODE"] = request.param
    with started(found):
        yield found


def member(name: str, script: str = "", *, role: str = "", cpu: str = "1m", **notes: str) -> Any:
    """A pod of group `pod-group` without a total count; `notes` are annotations of the API."""
    found = pod(name, script=script, cpu=cpu)
    found["metadata"]["labels"][f"{PREFIX}pod-group-name"] = "pod-group"
    if role:
        found["metadata"]["labels"][f"{PREFIX}pod-group-role"] = role
    for key, text in notes.items():
        found["metadata"]["annotations"][PREFIX + key.replace("_", "-")] = text
    return found


async def create(api: Api, namespace: str, body: Any, **more: Any) -> Any:
    return await api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body, **more)


async def running(api: Api, namespace: str, *names: str) -> None:
    async def all_run() -> bool:
        found = await api.pods(namespace)
        return all(found[n]["status"].get("phase") in ("Running", "Succeeded") for n in names)

    await api.until(f"{namespace}: {', '.join(names)} run", all_run)


@pytest.mark.parity("B9")
async def test_a_driver_creates_its_workers(stack: Stack) -> None:
    async with stack.api() as api:
        space = "story-3"
        await make_queue(api, space, cpu="1")
        await create(api, space, member("job-driver", "run=forever", pod_group_sets=KEP))
        await running(api, space, "job-driver")

        async def admitted() -> Any:
            """The gate goes before the Workload's status is written, or after."""
            found = await api.call("GET", f"{KUEUE}/namespaces/{space}/workloads/pod-group")
            return found if found.get("status", {}).get("admission") else None

        made = await api.until("the Workload says admitted", admitted)
        driver, workers = made["spec"]["podSets"]
        assert (driver["name"], driver["count"]) == ("driver", 1)
        assert driver["template"]["spec"]["containers"][0]["image"] == "job"
        assert (workers["name"], workers["count"]) == ("workers", 10)
        (container,) = workers["template"]["spec"]["containers"]
        assert container["name"] == "worker"
        assert container["resources"]["requests"] == {"cpu": "1m"}
        assigned = made["status"]["admission"]["podSetAssignments"]
        usage = {a["name"]: (a["count"], a["resourceUsage"]["cpu"]) for a in assigned}
        assert usage == {"driver": (1, "1m"), "workers": (10, "10m")}

        names = [f"job-worker-{i}" for i in range(10)]
        for name in names:
            await create(api, space, member(name, "run=forever", role="worker"))
        await running(api, space, *names)
        await create(api, space, member("one-too-many", role="worker"))

        async def rejected() -> bool:
            return "one-too-many" not in await api.pods(space)

        await api.until("the eleventh worker is rejected", rejected)

        async def told() -> bool:
            events = await api.call("GET", f"/api/v1/namespaces/{space}/events")
            return any(
                event["reason"] == "ExcessPodDeleted"
                and event["involvedObject"]["name"] == "one-too-many"
                for event in events["items"]
            )

        await api.until("an Event says so", told)
        (row,) = stack.sql(
            "SELECT sum(r.pods_excess) AS excess FROM roles r JOIN groups g ON g.id = r.group_id "
            "WHERE g.namespace = ? AND r.name = 'workers'",
            space,
        )
        assert row["excess"] == 1
        for name in ("job-driver", *names):
            path = f"/api/v1/namespaces/{space}/pods/{name}/status"
            await api.merge(path, {"status": {"phase": "Succeeded"}})
        await finished(stack, api, space, "pod-group", ["job-driver", *names])


@pytest.mark.parity("B9")
async def test_bad_sets_are_refused_with_line_and_field(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, "bad-sets")
        bad = member("d", pod_group_sets=KEP.replace("count: 10,", "count: ten,"))
        answer = await create(api, "bad-sets", bad, ok=())
        assert answer["status"] == "Failure"
        assert "line 8, column 5: [1].count: must be an integer" in answer["message"]
        answer = await create(api, "bad-sets", member("w"), ok=())
        assert "pod-group-total-count" in answer["message"]
        assert await api.pods("bad-sets") == {}


@pytest.mark.parity("B10")
async def test_the_first_drafts_roles_start_with_one_pod_each(stack: Stack) -> None:
    async with stack.api() as api:
        space = "draft"
        await make_queue(api, space)

        def one(name: str, role: str, count: str, cpu: str) -> Any:
            notes = {"pod_group_roles": "2", "pod_group_role_count": count}
            return member(name, "run=500ms,succeed", role=role, cpu=cpu, **notes)

        await create(api, space, one("driver", "driver", "1", "1"))
        await create(api, space, one("worker-0", "worker", "3", "2"))
        await running(api, space, "driver", "worker-0")
        for i in (1, 2):
            await create(api, space, one(f"worker-{i}", "worker", "3", "2"))
        names = ["driver", "worker-0", "worker-1", "worker-2"]
        await finished(stack, api, space, "pod-group", names)
        made = await api.call("GET", f"{KUEUE}/namespaces/{space}/workloads/pod-group")
        sets = {p["name"]: p["count"] for p in made["spec"]["podSets"]}
        assert sets == {"driver": 1, "worker": 3}


@pytest.mark.parity("B10")
async def test_the_first_drafts_count_starts_with_one_pod(stack: Stack) -> None:
    async with stack.api() as api:
        space = "count"
        await make_queue(api, space)
        names = [f"pod-index-{i}" for i in range(3)]
        for name in names:
            body = member(name, "run=300ms,succeed", pod_group_count="3")
            await create(api, space, body)
            await running(api, space, name)
        await finished(stack, api, space, "pod-group", names)
