"""Groups on 200 nodes in ten racks: placed, kept over a restart, moved off a lost node."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from podgroup.model.names import POD_INDEX, TOPOLOGY_REQUIRED
from podgroup.model.topology import HOSTNAME
from podgroup.model.topology_json import read
from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.stack import Stack, started

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

RACK = "example.com/rack"
NODES = [
    {"name": f"n{rack}-{n:02}", "labels": {"pool": "a", RACK: f"r{rack}"}, "cpu": "4", "pods": 20}
    for rack in range(10)
    for n in range(20)
]


@pytest.fixture(params=["sqlite", "postgres"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Stack]:
    one = Stack(tmp_path_factory.mktemp("topology"), "--nodes", json.dumps(NODES))
    if request.param == "postgres":
        one.up.env["GATELOG_DATABASE_URL"] = request.getfixturevalue("postgres_database")
    with started(one):
        yield one


async def make_topology(api: Api) -> None:
    version = KUEUE.removeprefix("/apis/")
    levels = [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]
    for kind, plural, name, spec in (
        ("Topology", "topologies", "racks", {"levels": levels}),
        (
            "ResourceFlavor",
            "resourceflavors",
            "lab-flavor",
            {"nodeLabels": {"pool": "a"}, "topologyName": "racks"},
        ),
    ):
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await api.call("POST", f"{KUEUE}/{plural}", body)
    await make_queue(api, "far", cpu="1000")


async def create(api: Api, group: str, count: int) -> None:
    for i in range(count):
        body = pod(f"{group}-{i}", group, count, script="run=forever", labels={POD_INDEX: str(i)})
        body["metadata"]["annotations"][TOPOLOGY_REQUIRED] = RACK
        await api.call("POST", "/api/v1/namespaces/far/pods", body)


async def nodes_of(api: Api, group: str, count: int) -> list[str]:
    """Where the pods of a group run, by rank."""
    names = [f"{group}-{i}" for i in range(count)]

    async def bound() -> bool:
        found = await api.pods("far")
        return all(found[name]["spec"].get("nodeName") for name in names)

    await api.until(f"{group} is bound", bound)
    found = await api.pods("far")
    for name in names:
        spec = found[name]["spec"]
        assert spec["nodeName"] == spec["nodeSelector"][HOSTNAME], name
    return [found[name]["spec"]["nodeName"] for name in names]


async def places(api: Api, group: str) -> list[str]:
    """The nodes of each rank, as the Workload has them."""
    found: dict[str, Any] = {}

    async def admitted() -> bool:
        found.update(await api.call("GET", f"{KUEUE}/namespaces/far/workloads/{group}"))
        return "admission" in found.get("status", {})

    await api.until(f"the Workload of {group} says that it is admitted", admitted)
    (given,) = found["status"]["admission"]["podSetAssignments"]
    place = read(given["topologyAssignment"])
    assert place is not None
    return [domain.values[0] for domain in place.domains for _ in range(domain.count)]


async def test_groups_go_to_racks_and_stay_there(stack: Stack) -> None:
    async with stack.api() as api:
        await make_topology(api)
        await create(api, "one", 40)
        first = await nodes_of(api, "one", 40)
        assert len({name.partition("-")[0] for name in first}) == 1 and len(set(first)) == 10
        assert first == await places(api, "one"), "each is where its rank says"

        await create(api, "large", 81)

        async def waits() -> bool:
            said = " ".join(stack.command("why", "far/large").stdout.split())
            return "in one rack; the best rack has room for 80" in said

        await api.until("why names the rack", waits)

        stack.up.stop()
        stack.up.start()
        stack.up.wait_for(r'(?s)(?:"event": "ready".*){2}', 60)
        await create(api, "two", 60)
        second = await nodes_of(api, "two", 60)
        assert not set(first) & set(second), "what the first holds is remembered"
        assert first[0] in " ".join(stack.command("why", "far/one").stdout.split())

        lost = first[0]
        await api.call("DELETE", f"/api/v1/nodes/{lost}")

        async def moved() -> bool:
            return lost not in await places(api, "one")

        await api.until("the lost node is replaced", moved)
        after = await places(api, "one")
        assert sorted(set(after) - set(first)) and len(after) == 40
        assert {name.partition("-")[0] for name in after} == {lost.partition("-")[0]}
    stack.up.stop()
    done = stack.command("replay", "--verify")
    assert done.returncode == 0, done.stdout
