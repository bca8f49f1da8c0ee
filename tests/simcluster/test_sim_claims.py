"""Claims that come of templates: one for each entry of a pod, as the template says then."""

import asyncio
from typing import Any

from simcluster import SimCluster
from simcluster.claims import ENTRY, GROUP

Json = dict[str, Any]


def template(count: int) -> Json:
    exactly = {"deviceClassName": "gpu.example.com", "count": count}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {"metadata": {"name": "gpu"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}


def pod(name: str) -> Json:
    claims = [
        {"name": "own", "resourceClaimTemplateName": "gpu"},
        {"name": "shared", "resourceClaimName": "other"},
    ]
    box = {"name": "main", "image": "box"}
    gates = [{"name": "example.com/gate"}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [box], "resourceClaims": claims, "schedulingGates": gates},
    }


async def claims(cluster: SimCluster, count: int) -> list[Json]:
    async with asyncio.timeout(10):
        while True:
            found = cluster.objects(GROUP, "resourceclaims", "default")
            if len(found) == count:
                return found
            await asyncio.sleep(0.01)


async def test_a_gated_pod_gets_a_claim_once_its_template_is_there() -> None:
    async with SimCluster() as cluster:
        await cluster.create("", "pods", pod("p"), "default")
        assert await claims(cluster, 0) == []
        await cluster.create(GROUP, "resourceclaimtemplates", template(2), "default")
        (claim,) = await claims(cluster, 1)
        assert claim["metadata"]["name"].startswith("p-own-")
        assert claim["metadata"]["annotations"] == {ENTRY: "own"}
        assert claim["metadata"]["labels"] == {"a": "b"}
        (owner,) = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
        assert claim["spec"] == template(2)["spec"]["spec"]
        (found,) = cluster.objects("", "pods", "default")
        named = {"name": "own", "resourceClaimName": claim["metadata"]["name"]}
        assert found["status"]["resourceClaimStatuses"] == [named]
