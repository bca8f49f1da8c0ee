"""What users are told when a pod is not in gatelog's hands, or its group is not as they think.

`gatelog up` on the stand-in. Looked at is what `kubectl describe pod` shows: the condition
`gatelog.io/admitted` and the Events of the pod, its finalizers and gates.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from podgroup.model.names import ADMISSION_GATE, MANAGED_LABEL, POD_FINALIZER
from tests.support.faults.answers import answering
from tests.support.processes import Api, make_queue, pod
from tests.support.stack import Stack, running_stack

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("hands")) as one:
        yield one


async def create(api: Api, namespace: str, body: Any) -> Any:
    return await api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)


async def described(
    api: Api, namespace: str, name: str, reason: str, condition: str = ""
) -> tuple[str, str]:
    """Wait for an Event about a pod and for its condition; returns type and text of the Event."""

    async def there() -> Any:
        found = await api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        mine = [e for e in found["items"] if e["regarding"]["name"] == name]
        return next((e for e in mine if e["reason"] == reason), None)

    event = await api.until(f"Event {reason} on {namespace}/{name}", there)
    if condition:
        await conditioned(api, namespace, name, condition)
    return event["type"], event["note"]


async def conditioned(api: Api, namespace: str, name: str, condition: str) -> None:
    """Wait until the condition of a pod says so: status and reason."""

    async def says() -> bool:
        one = (await api.pods(namespace))[name]
        conditions = {c["type"]: c for c in one["status"].get("conditions", [])}
        ours = conditions.get("gatelog.io/admitted", {})
        return condition == f"{ours.get('status')} {ours.get('reason')}"

    await api.until(f"condition {condition} on {namespace}/{name}", says)


def gates(found: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in found["spec"].get("schedulingGates") or ()]


@pytest.mark.parity("C-07")
async def test_a_pod_without_its_label_is_let_go_and_queued_again_with_it(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, "label", cpu="1")
        await create(api, "label", pod("hog", script="run=forever"))
        made = await create(api, "label", pod("foo", script="run=forever"))
        assert POD_FINALIZER in made["metadata"]["finalizers"]
        path = "/api/v1/namespaces/label/pods/foo"
        await api.merge(path, {"metadata": {"labels": {MANAGED_LABEL: None}}})
        kind, message = await described(api, "label", "foo", "Unmanaged", "False Unmanaged")
        assert kind == "Warning" and "put the label back" in message

        async def released() -> bool:
            one = (await api.pods("label"))["foo"]
            return not one["metadata"].get("finalizers") and gates(one) == [ADMISSION_GATE]

        await api.until("the finalizer is off and the gate stays", released)
        (row,) = stack.sql("SELECT fate, gone_at FROM pods WHERE name = 'foo'")
        assert row["fate"] == "lost" and row["gone_at"] is not None
        history = " ".join(stack.command("history", "label/foo").stdout.split())
        assert f"label {MANAGED_LABEL} was removed" in history

        await api.merge(path, {"metadata": {"labels": {MANAGED_LABEL: "true"}}})
        await api.call("DELETE", "/api/v1/namespaces/label/pods/hog")

        async def runs() -> bool:
            one = (await api.pods("label"))["foo"]
            return bool(one["status"].get("phase") == "Running")

        await api.until("it is queued again and runs", runs)
        await conditioned(api, "label", "foo", "True Admitted")


async def test_queues_say_whether_they_are_active(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, "active", cpu="1")
        base = "/apis/kueue.x-k8s.io/v1beta2"
        cluster, local = f"{base}/clusterqueues/cq-active", f"{base}/namespaces/active/localqueues"

        async def says(path: str, status: str, reason: str) -> None:
            async def so() -> bool:
                found = (await api.call("GET", path)).get("status", {}).get("conditions", [])
                return [(c["type"], c["status"], c["reason"]) for c in found] == [
                    ("Active", status, reason)
                ]

            await api.until(f"{path} says {status} {reason}", so)

        await says(cluster, "True", "Ready")
        await says(f"{local}/user-queue", "True", "Ready")
        merge = "application/merge-patch+json"
        await api.call("PATCH", cluster, {"spec": {"stopPolicy": "Hold"}}, kind=merge)
        await says(cluster, "False", "Stopped")
        await says(f"{local}/user-queue", "False", "ClusterQueueIsInactive")
        await api.call("PATCH", cluster, {"spec": {"stopPolicy": "None"}}, kind=merge)
        await says(f"{local}/user-queue", "True", "Ready")


async def test_a_pod_after_the_end_of_its_group_is_told_and_queued_anew(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, "late")
        await create(api, "late", pod("p0", "g", 1, script="run=50ms,succeed"))

        async def over() -> bool:
            return (await api.pods("late"))["p0"]["status"].get("phase") == "Succeeded"

        await api.until("the group is over", over)
        await create(api, "late", pod("p1", "g", 1, script="run=50ms,succeed"))
        kind, message = await described(api, "late", "p1", "GroupIsOver", "False GroupIsOver")
        assert kind == "Warning"
        assert "group g is over (Succeeded: Pods succeeded: 1/1.)" in message
        await api.call("DELETE", "/api/v1/namespaces/late/pods/p0")

        async def done() -> bool:
            return (await api.pods("late"))["p1"]["status"].get("phase") == "Succeeded"

        await api.until("it runs as a group of its own", done)
        lives = stack.sql("SELECT id FROM groups WHERE namespace = 'late' AND name = 'g'")
        assert len(lives) == 2


async def test_a_pod_that_cannot_be_read_says_so(stack: Stack) -> None:
    """kube-system is a namespace that the webhook does not see."""
    async with stack.api() as api:
        body = pod("loud")
        body["metadata"]["labels"][MANAGED_LABEL] = "true"
        body["metadata"]["annotations"]["kueue.x-k8s.io/note"] = "x" * 20_000
        await create(api, "kube-system", body)
        said = "PodRefused"
        kind, message = await described(api, "kube-system", "loud", said, f"False {said}")
        assert kind == "Warning"
        assert "metadata.annotations[kueue.x-k8s.io/note]" in message and "20000 bytes" in message


async def test_a_workload_that_is_refused_is_told_and_made_when_it_may_be(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, "full")
        rule = {"status": 403, "method": "POST", "path": "/full/workloads"}
        async with answering(api, rule):
            await create(api, "full", pod("p0", "g", 1, script="run=forever"))
            kind, message = await described(api, "full", "p0", "WorkloadRefused")
            assert kind == "Warning" and 'the Workload "g" could not be created' in message
            (row,) = stack.sql("SELECT reason, message FROM groups WHERE namespace = 'full'")
            assert row["reason"] == "WorkloadRefused" and "admitted by" in row["message"]
            assert "could not be created" in stack.command("why", "full/g").stdout
            assert "WorkloadRefused" in stack.command("history", "full/g").stdout
