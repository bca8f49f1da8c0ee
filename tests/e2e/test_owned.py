"""A StatefulSet as one group, end to end: `gatelog up` on the stand-in, gated by policy.

Its pods come one after the other, as `OrderedReady` has it; it is scaled up, down and to nothing.
"""

from collections.abc import Iterator

import pytest

from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.stack import Stack, started
from tests.support.statefulsets import Controller

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]
SPACE = "serving"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    found = Stack(tmp_path_factory.mktemp("owned"), "--no-kueue", install="policy")
    found.up.env["GATELOG_QUEUEING_OWNED_GROUPS"] = "LeaderWorkerSet,StatefulSet"
    with started(found):
        yield found


async def phases(api: Api) -> dict[str, str]:
    """Phase of each pod, `gated` for one at its gate."""
    found = await api.pods(SPACE)
    return {
        name: "gated" if one["spec"].get("schedulingGates") else one["status"].get("phase", "")
        for name, one in found.items()
    }


async def come_to(api: Api, **wanted: str) -> None:
    named = {name.replace("_", "-"): phase for name, phase in wanted.items()}

    async def there() -> bool:
        return await phases(api) == named

    await api.until(f"pods are {named}", there)


async def test_a_stateful_set_is_one_group_as_large_as_it_is_scaled(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, SPACE, cpu="3")
        async with Controller(api, SPACE) as sets:
            await sets.create("web", 2)
            await come_to(api, web_0="Running", web_1="Running")
            await sets.scale("web", 4)
            await come_to(api, web_0="Running", web_1="Running", web_2="Running", web_3="gated")

            async def named() -> bool:
                why = stack.command("why", f"{SPACE}/web-3").stdout
                said = "StatefulSet web wants 4 of role main in place of 3"
                return said in " ".join(why.split())

            await api.until("why names the set", named)
            await api.call("POST", f"/api/v1/namespaces/{SPACE}/pods", pod("waits"))
            await sets.scale("web", 1)
            await come_to(api, web_0="Running", waits="Running")
            made = await api.call("GET", f"{KUEUE}/namespaces/{SPACE}/workloads/web")
            (owner,) = made["metadata"]["ownerReferences"]
            assert (owner["apiVersion"], owner["kind"], owner["name"]) == (
                *("apps/v1", "StatefulSet"),
                "web",
            )

            async def mirrored() -> bool:
                found = await api.call("GET", f"{KUEUE}/namespaces/{SPACE}/workloads/web")
                (given,) = found["status"]["admission"]["podSetAssignments"]
                return (given["count"], given["resourceUsage"]["cpu"]) == (1, "1")

            await api.until("the Workload says what it holds", mirrored)
            await sets.scale("web", 0)
            await come_to(api, waits="Running")

        async def released() -> bool:
            rows = stack.sql("SELECT state FROM groups WHERE name = 'web'")
            return [row["state"] for row in rows] == ["Gone"]

        await api.until("its group is gone", released)
        held = stack.sql(
            "SELECT a.number, a.release_reason, a.resources FROM admissions a "
            "JOIN groups g ON g.id = a.group_id WHERE g.name = 'web' ORDER BY a.number"
        )
        assert [row["release_reason"] for row in held] == ["Resized", "Resized", "Gone"]
        notes = stack.sql("SELECT message FROM history WHERE kind = 'GroupResized' ORDER BY seq")
        assert [row["message"] for row in notes] == ["main: 2 became 3", "main: 3 became 1"]
