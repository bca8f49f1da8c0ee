"""Attacks on the quota by other ways than the pod itself: its Workload, queue, namespace, name.

Whatever is written, deleted or made anew beside a pod that runs, it is charged until it has ended
or is gone; and whatever is forged, a pod waits for its own admission.
"""

import asyncio
from typing import Any

import pytest

from podgroup.model.names import MANAGED_LABEL
from tests.attacks.conftest import Attack, runs
from tests.attacks.test_running import DAY_S, LINGER, ends, gated, next_waits
from tests.support.processes import KUEUE, make_queue, pod
from tests.support.realcluster import kubeconfig

WAYS = ["policy"] if kubeconfig() is None else ["webhook", "policy"]
"""Admission has no part in these; on a real API server it takes but patience to try both."""
pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.parametrize("setup", WAYS, indirect=True, scope="module"),
]
VERSION = KUEUE.removeprefix("/apis/")


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Forged",
        "message": "by a user",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def slow_runs(attack: Attack, **more: Any) -> str:
    """A pod of 8 CPUs that takes a day to stop runs; the name of its Workload."""
    await attack.create("slow", cpu="8", script=LINGER, terminationGracePeriodSeconds=DAY_S, **more)
    await attack.until_running("slow")
    await next_waits(attack)
    return str(attack.group("slow")["workload_name"])


async def charged_until_it_ends(attack: Attack, waiter: str = "next") -> None:
    """Another pod waits while the slow one runs, and starts when that has ended."""
    found = await attack.get("slow")
    assert found is not None and runs(found)
    assert await gated(attack, waiter)
    await ends(attack, "slow")
    await attack.until_running(waiter)


async def test_forged_status_of_a_workload(attack: Attack) -> None:
    name = await slow_runs(attack)
    path = f"{KUEUE}/namespaces/{attack.namespace}/workloads/{name}"

    async def there() -> bool:
        return await attack.workload(name) is not None

    await attack.api.until("the Workload is there", there)
    forged: tuple[dict[str, Any], ...] = (
        {"reclaimablePods": [{"name": "main", "count": 1}]},
        {"conditions": [condition("Evicted"), condition("QuotaReserved", "False")]},
        {"admission": None, "conditions": []},
        {"conditions": [condition("Finished")]},
    )
    for status in forged:
        await attack.api.merge(f"{path}/status", {"status": status}, ok=(200, 409, 422))
    await attack.api.merge(path, {"metadata": {"finalizers": None, "ownerReferences": None}})
    await asyncio.sleep(1)
    await charged_until_it_ends(attack)


async def test_a_forged_workload_admits_nobody(attack: Attack) -> None:
    await slow_runs(attack)
    template = {"spec": pod("any", cpu="8")["spec"]}
    podset = {"name": "main", "count": 1, "template": template}
    body = {
        "apiVersion": VERSION,
        "kind": "Workload",
        "metadata": {"name": "forged"},
        "spec": {"queueName": "user-queue", "podSets": [podset]},
    }
    path = f"{KUEUE}/namespaces/{attack.namespace}/workloads"
    await attack.api.call("POST", path, body)
    given = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": "lab-flavor"},
        "resourceUsage": {"cpu": "8"},
    }
    admission = {"clusterQueue": f"cq-{attack.namespace}", "podSetAssignments": [given]}
    said = [condition(kind) for kind in ("QuotaReserved", "Admitted")]
    status = {"admission": admission, "conditions": said}
    await attack.api.merge(f"{path}/forged/status", {"status": status})
    await attack.create("sly", cpu="8", labels={"kueue.x-k8s.io/prebuilt-workload-name": "forged"})
    await asyncio.sleep(1)
    assert await gated(attack, "sly")
    await attack.delete("sly")
    await charged_until_it_ends(attack)


async def test_the_workload_is_deleted(attack: Attack) -> None:
    name = await slow_runs(attack)
    path = f"{KUEUE}/namespaces/{attack.namespace}/workloads/{name}"
    await attack.api.merge(path, {"metadata": {"finalizers": None}}, ok=())
    await attack.api.call("DELETE", path, ok=())
    await asyncio.sleep(1)
    await charged_until_it_ends(attack)


async def test_the_local_queue_leads_elsewhere(attack: Attack) -> None:
    """Deleted, and made anew for another ClusterQueue; a second one still leads to the first."""
    base = f"{KUEUE}/namespaces/{attack.namespace}/localqueues"
    meta = {"apiVersion": VERSION, "kind": "LocalQueue"}
    second = {"metadata": {"name": "second"}, "spec": {"clusterQueue": f"cq-{attack.namespace}"}}
    await attack.api.call("POST", base, {**meta, **second})
    await slow_runs(attack)
    await attack.delete("next")
    other = f"{attack.namespace}-other"
    await make_queue(attack.api, other)
    await attack.api.call("DELETE", f"{base}/user-queue")
    await attack.create("after", cpu="8", labels={"kueue.x-k8s.io/queue-name": "second"})
    await attack.until_waiting("after")
    first = {"metadata": {"name": "user-queue"}, "spec": {"clusterQueue": f"cq-{other}"}}
    await attack.api.call("POST", base, {**meta, **first})
    await asyncio.sleep(1)
    await charged_until_it_ends(attack, "after")


async def test_replaced_by_force_under_the_same_name(attack: Attack) -> None:
    """`kubectl replace --force`: deleted without grace and created again, ten times at once."""
    await attack.create("big", cpu="8")
    await attack.until_running("big")
    path = f"{attack.base}/big"
    for _ in range(10):
        await attack.api.call("DELETE", path, {"gracePeriodSeconds": 0}, ok=(200, 404))
        body = pod("big", cpu="8", script="run=forever")
        await attack.api.call("POST", attack.base, body, ok=(201, 409))

    async def runs_again() -> bool:
        found = await attack.get("big")
        if found is None:
            await attack.create("big", cpu="8")
            return False
        return "deletionTimestamp" not in found["metadata"] and runs(found)

    await attack.api.until("the last one runs", runs_again)
    assert attack.observer.peaks[attack.namespace] == 8000


async def test_the_namespace_goes_while_a_pod_takes_its_time(attack: Attack) -> None:
    other, queue = f"{attack.namespace}-b", f"cq-{attack.namespace}"
    await make_queue(attack.api, other)
    spec = {"spec": {"namespaceSelector": {"matchLabels": None}}}
    await attack.api.merge(f"{KUEUE}/clusterqueues/{queue}", spec)
    local = {"apiVersion": VERSION, "kind": "LocalQueue", "metadata": {"name": "shared"}}
    path = f"{KUEUE}/namespaces/{other}/localqueues"
    await attack.api.call("POST", path, {**local, "spec": {"clusterQueue": queue}})
    await slow_runs(attack)
    await attack.delete("next")
    await attack.api.call(
        "POST",
        f"/api/v1/namespaces/{other}/pods",
        pod("after", cpu="8", script="run=forever", queue="shared"),
    )
    await attack.api.call("DELETE", f"/api/v1/namespaces/{attack.namespace}", ok=())

    async def told() -> bool:
        found = await attack.get("slow")
        return found is not None and "deletionTimestamp" in found["metadata"]

    await attack.api.until("it is told to stop", told)
    await asyncio.sleep(1)
    found = await attack.get("slow")
    assert found is not None and runs(found), "it runs on"
    after = (await attack.api.pods(other))["after"]
    assert after["spec"].get("schedulingGates"), "and is charged"
    await ends(attack, "slow")

    async def starts() -> bool:
        return not (await attack.api.pods(other))["after"]["spec"].get("schedulingGates")

    await attack.api.until("the other starts", starts)


async def test_what_else_takes_of_a_node_is_charged(attack: Attack) -> None:
    """Sidecars, and resources of the pod as a whole, asked for at first or by a resize."""
    sidecar = {
        "name": "side",
        "image": "side",
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "4"}},
    }
    await attack.create("side", cpu="1", initContainers=[sidecar])
    await attack.until_running("side")
    await attack.create("whole", cpu="1", resources={"requests": {"cpu": "6"}})
    await attack.until_waiting("whole")
    assert await gated(attack, "whole")
    sidecar["resources"] = {"requests": {"cpu": "10m"}}
    await attack.delete("side")
    await attack.until_running("whole")
    await next_waits(attack, "5")


async def test_a_gated_pod_cannot_be_bound(attack: Attack) -> None:
    await attack.create("hog", cpu="8")
    await attack.until_running("hog")
    await attack.create("sly", cpu="8")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "sly"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-a"},
    }
    said = await attack.api.call("POST", f"{attack.base}/sly/binding", binding, ok=())
    assert said["status"] == "Failure", said
    direct = pod("direct", cpu="8")
    direct["spec"]["nodeName"] = "node-a"
    said = await attack.api.call("POST", attack.base, direct, ok=())
    assert said["status"] == "Failure", said


async def test_what_came_past_admission_costs_no_neighbour(attack: Attack) -> None:
    """Admission was away: a pod of 99,999 CPUs, which no node has, blocked a whole cohort."""
    other = f"{attack.namespace}-sly"
    await make_queue(attack.api, other, cpu="4")
    for name in (attack.namespace, other):
        spec = {"spec": {"cohortName": f"lab-{attack.namespace}"}}
        await attack.api.merge(f"{KUEUE}/clusterqueues/cq-{name}", spec)
    await attack.without_refusals()
    base = f"/api/v1/namespaces/{other}/pods"
    sly = pod("sly", cpu="99999")
    labels = sly["metadata"].pop("labels")
    await attack.api.call("POST", base, sly)
    past = {"metadata": {"labels": labels | {MANAGED_LABEL: "true"}}}
    await attack.api.merge(f"{base}/sly", past)
    await attack.api.call("POST", base, pod("waits", cpu="1"))
    await attack.create("mine", cpu="10")
    await attack.until_running("mine")

    async def named() -> bool:
        said = attack.stack.command("why", f"{other}/waits").stdout
        return "sly runs without admission, 99999 cpu" in " ".join(said.split())

    await attack.api.until("who waits beside it is told of it", named)

    async def warned() -> bool:
        events = await attack.api.call("GET", f"/api/v1/namespaces/{other}/events")
        return "RunningUnadmitted" in {one["reason"] for one in events["items"]}

    await attack.api.until("its owner is warned", warned)
    await attack.api.call("DELETE", f"{base}/sly")
    await attack.stack.clear(attack.api, other)


async def test_forged_status_of_queues(attack: Attack) -> None:
    """What is free, and whether a queue is active, is not what its status says."""
    await slow_runs(attack)
    kinds = {
        f"{KUEUE}/clusterqueues/cq-{attack.namespace}": ("flavorsReservation", "flavorsUsage"),
        f"{KUEUE}/namespaces/{attack.namespace}/localqueues/user-queue": ("flavorsReservation",),
    }
    free = [{"name": "lab-flavor", "resources": [{"name": "cpu", "total": "0"}]}]
    for path, amounts in kinds.items():
        for active in ("False", "True", "False"):
            forged: dict[str, Any] = {
                "conditions": [condition("Active", active)],
                "admittedWorkloads": 0,
                "reservingWorkloads": 0,
                **dict.fromkeys(amounts, free),
            }
            await attack.api.merge(f"{path}/status", {"status": forged})
    await asyncio.sleep(1)
    await charged_until_it_ends(attack)

    async def mended() -> bool:
        said = [(await attack.api.call("GET", path))["status"]["conditions"] for path in kinds]
        return all(("Active", "True") in {(c["type"], c["status"]) for c in one} for one in said)

    await attack.api.until("the queues say again what is so", mended)


async def test_forged_status_around_an_admission_check(attack: Attack) -> None:
    """Neither the check's own status nor a Workload's conditions stand in for the check's state."""
    check = f"guard-{attack.namespace}"
    checks = f"{KUEUE}/admissionchecks"
    body = {
        "apiVersion": VERSION,
        "kind": "AdmissionCheck",
        "metadata": {"name": check},
        "spec": {"controllerName": "example.com/guard"},
    }
    await attack.api.call("POST", checks, body)
    active = {"status": {"conditions": [condition("Active")]}}
    await attack.api.merge(f"{checks}/{check}/status", active)
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": check}]}}
    await attack.api.merge(f"{KUEUE}/clusterqueues/cq-{attack.namespace}", {"spec": strategy})
    await attack.create("guarded", cpu="1")

    async def asked() -> bool:
        workload = await attack.workload(str(attack.group("guarded").get("workload_name")))
        return bool(((workload or {}).get("status") or {}).get("admissionChecks"))

    await attack.api.until("the check is asked", asked)
    name = str(attack.group("guarded")["workload_name"])
    path = f"{KUEUE}/namespaces/{attack.namespace}/workloads/{name}/status"
    forged: tuple[dict[str, Any], ...] = (
        {"conditions": [condition(kind) for kind in ("QuotaReserved", "Admitted")]},
        {"admissionChecks": []},
        {"conditions": [condition("Admitted")], "admissionChecks": None},
    )
    for said in forged:
        await attack.api.merge(path, {"status": said}, ok=(200, 409, 422))
        await attack.api.merge(f"{checks}/{check}/status", active)
        await asyncio.sleep(0.5)
        assert await gated(attack, "guarded"), said
    await attack.delete("guarded")
    await attack.api.merge(
        f"{KUEUE}/clusterqueues/cq-{attack.namespace}", {"spec": {"admissionChecksStrategy": None}}
    )
    await attack.create("free", cpu="1")
    await attack.until_running("free")


NESTED = 150


async def test_loops_and_towers_of_cohorts_stop_those_below_alone(attack: Attack) -> None:
    """Its own parent, a circle, more above it than are allowed; a neighbour goes on meanwhile."""
    base, mark = f"{KUEUE}/cohorts", attack.namespace
    queue = f"{KUEUE}/clusterqueues/cq-{mark}"
    other = f"{mark}-calm"
    await make_queue(attack.api, other, cpu="10")

    async def parent(name: str, of: str | None) -> None:
        body = {"apiVersion": VERSION, "kind": "Cohort", "metadata": {"name": f"{name}-{mark}"}}
        spec = {} if of is None else {"parentName": f"{of}-{mark}"}
        said = await attack.api.call("POST", base, {**body, "spec": spec}, ok=())
        if said["kind"] == "Status":
            await attack.api.merge(f"{base}/{name}-{mark}", {"spec": {"parentName": None} | spec})

    async def says(reason: str) -> None:
        async def said() -> bool:
            found = (await attack.api.call("GET", queue)).get("status", {}).get("conditions", [])
            return reason in {one["reason"] for one in found if one["type"] == "Active"}

        await attack.api.until(f"the queue says {reason}", said)

    async def neighbour_runs(name: str) -> None:
        path = f"/api/v1/namespaces/{other}/pods"
        await attack.api.call("POST", path, pod(name, cpu="1"))

        async def runs_there() -> bool:
            return not (await attack.api.pods(other))[name]["spec"].get("schedulingGates")

        await attack.api.until(f"{name} is let start", runs_there)

    await attack.api.merge(queue, {"spec": {"cohortName": f"c0-{mark}"}})
    await parent("c0", "c0")
    await says("CohortCycle")
    await attack.create("waits", cpu="1")
    await neighbour_runs("a")
    await parent("c1", "c0")  # first, or c0 is sound for a moment
    await parent("c0", "c1")
    await says("CohortCycle")
    await neighbour_runs("b")
    for number in reversed(range(1, NESTED)):
        await parent(f"c{number}", f"c{number + 1}")
    await says("CohortsTooDeep")
    await neighbour_runs("c")
    assert await gated(attack, "waits")
    await parent("c1", None)
    await attack.until_running("waits")
    for number in range(NESTED):
        await attack.api.call("DELETE", f"{base}/c{number}-{mark}", ok=())
    await attack.stack.clear(attack.api, other)
