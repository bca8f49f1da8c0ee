"""Devices of ResourceClaims as quota, with everything real but the cluster: from a template that is
missing, by a claim that holds more than was admitted, to what SQL and commands say of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from podgroup.model.names import ADMISSION_GATE
from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.stack import Stack, started

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]
DRA = "/apis/resource.k8s.io/v1"
GPU = "gpu.example.com"


@pytest.fixture
def stack(tmp_path: Any) -> Iterator[Stack]:
    one = Stack(tmp_path)
    one.up.env["GATELOG_QUEUEING_DEVICE_CLASSES"] = f"{GPU}=gpus"
    with started(one):
        yield one


async def make_template(api: Api, name: str, count: int) -> None:
    exactly = {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": count}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
    await api.call("POST", f"{DRA}/namespaces/far/resourceclaimtemplates", body)


async def make_gpus(api: Api, amount: int) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": GPU}}
    await api.call("POST", f"{DRA}/deviceclasses", {**body, "spec": {}})
    await make_queue(api, "far", cpu="100")
    queue = await api.call("GET", f"{KUEUE}/clusterqueues/cq-far")
    (group,) = queue["spec"]["resourceGroups"]
    group["coveredResources"].append("gpus")
    group["flavors"][0]["resources"].append({"name": "gpus", "nominalQuota": str(amount)})
    await api.call("PUT", f"{KUEUE}/clusterqueues/cq-far", queue)


async def create(api: Api, name: str, script: str = "run=forever") -> None:
    body = pod(name, script=script)
    body["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpu"}]
    body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
    await api.call("POST", "/api/v1/namespaces/far/pods", body)


async def test_devices_are_counted_by_class_from_template_to_claim(stack: Stack) -> None:
    async with stack.api() as api:
        await make_gpus(api, 4)
        await create(api, "first")

        async def says(name: str, *words: str) -> None:
            async def said() -> bool:
                out = " ".join(stack.command("why", f"far/{name}").stdout.split())
                return all(word in out for word in words)

            await api.until(f"why far/{name} says {words}", said)

        async def runs(name: str) -> None:
            async def bound() -> bool:
                return bool((await api.pods("far"))[name]["spec"].get("nodeName"))

            await api.until(f"{name} is bound", bound)

        await says("first", "ResourceClaimNotFound", "ResourceClaimTemplate gpu")
        await make_template(api, "gpu", 3)
        await runs("first")
        await create(api, "second")
        await says("second", "WaitingForQuota", "gpus")

        # The template is made anew while a pod waits: its claim keeps what it was made with.
        await api.call("DELETE", f"{DRA}/namespaces/far/resourceclaimtemplates/gpu")
        await make_template(api, "gpu", 1)
        await create(api, "third")
        await runs("third")
        gates = (await api.pods("far"))["second"]["spec"]["schedulingGates"]
        assert {"name": ADMISSION_GATE} in gates
        await says("second", "holds 3 gpus", "says 1 gpus: the larger is charged")

        async def counted() -> bool:
            return bool(
                stack.sql(
                    "SELECT used FROM usage WHERE kind = 'ClusterQueue' AND resource = 'gpus' "
                    "AND to_seq IS NULL AND used = 4"
                )
            )

        await api.until("table usage has 4 gpus", counted)
        asked = stack.sql("SELECT requests FROM pods WHERE name = 'second'")
        assert '"gpus":3' in str(asked[0]["requests"]).replace(" ", "")
        await api.call("DELETE", "/api/v1/namespaces/far/pods/first")
        await runs("second")
    stack.up.stop()
    done = stack.command("replay", "--verify")
    assert done.returncode == 0, done.stdout + done.stderr
