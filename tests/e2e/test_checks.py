"""Admission checks of another controller, through all deployments."""

from collections.abc import Iterator
from typing import Any

import pytest

from podgroup.model.names import ADMISSION_GATE
from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.stack import Stack, finished, running_stack

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

VERSION = "kueue.x-k8s.io/v1beta2"
TIME = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("checks")) as one:
        yield one


async def workload(api: Api) -> dict[str, Any]:
    found = await api.call("GET", f"{KUEUE}/namespaces/checked/workloads")
    return dict(found["items"][0]) if found["items"] else {}


async def states(api: Api) -> list[str]:
    status = (await workload(api)).get("status", {})
    return [check["state"] for check in status.get("admissionChecks", ())]


async def say(api: Api, state: str, **more: Any) -> None:
    """Write a state as a check's controller does."""
    name = (await workload(api))["metadata"]["name"]
    said = {"name": "prov", "state": state, "message": "m", "lastTransitionTime": TIME, **more}
    path = f"{KUEUE}/namespaces/checked/workloads/{name}/status"
    await api.merge(path, {"status": {"admissionChecks": [said]}})


async def test_a_group_starts_when_its_check_agrees_and_gets_what_it_asks_for(
    stack: Stack,
) -> None:
    async with stack.api() as api:
        await make_queue(api, "checked")
        queue = f"{KUEUE}/clusterqueues/cq-checked"
        checks = {"admissionChecks": [{"name": "prov"}]}
        await api.merge(queue, {"spec": {"admissionChecksStrategy": checks}})
        body = {"apiVersion": VERSION, "kind": "AdmissionCheck", "metadata": {"name": "prov"}}
        spec = {"controllerName": "example.com/prov"}
        await api.call("POST", f"{KUEUE}/admissionchecks", {**body, "spec": spec})

        async def inactive() -> bool:
            found = await api.call("GET", queue)
            told = found.get("status", {}).get("conditions", ())
            return any(one["reason"] == "AdmissionCheckInactive" for one in told)

        await api.until("the queue says that its check is not active", inactive)
        path = "/api/v1/namespaces/checked/pods"
        names = ["p0", "p1"]
        for name in names:
            await api.call("POST", path, pod(name, "train", 2, script="run=200ms,succeed"))
        active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        conditions = [{**active, "lastTransitionTime": TIME}]
        status = f"{KUEUE}/admissionchecks/prov/status"
        await api.merge(status, {"status": {"conditions": conditions}})

        async def pending() -> bool:
            return await states(api) == ["Pending"]

        await api.until("the check is listed as pending", pending)
        await say(api, "Retry", requeueAfterSeconds=1)

        async def reset() -> bool:
            found = (await workload(api))["status"].get("admissionChecks", [])
            return [(one["state"], one.get("retryCount")) for one in found] == [("Pending", 1)]

        await api.until("it is reset after Retry", reset)

        async def reserved() -> bool:
            return "admission" in (await workload(api))["status"]

        await api.until("quota is reserved again", reserved)
        gates = [{"name": ADMISSION_GATE}]
        found = await api.pods("checked")
        assert all(one["spec"].get("schedulingGates") == gates for one in found.values())
        why = " ".join(stack.command("why", "checked/train").stdout.split())
        assert "waits for admission checks: prov" in why
        sets = (await workload(api))["spec"]["podSets"]
        wants = {"labels": {"example.com/request": "r1"}}
        updates = [{"name": one["name"], **wants} for one in sets]
        await say(api, "Ready", retryCount=1, podSetUpdates=updates)
        await finished(stack, api, "checked", "train", names)
        found = await api.pods("checked")
        assert {one["metadata"]["labels"]["example.com/request"] for one in found.values()} == {
            "r1"
        }
