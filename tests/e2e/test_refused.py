"""A policy of another client makes the API server refuse each write of a pod, until it is gone.

It sets an environment variable that says which operation the request is, so each update of a pod
changes what cannot be changed: 422, whoever writes. The person who mends that is promised that the
pod goes on within a minute.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.processes import Api, make_queue, pod
from tests.support.stack import Stack, running_stack

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/mutatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/mutatingadmissionpolicybindings"
ENV_POLICY = yaml.safe_load(
    """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: others-env}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{spec: Object.spec{containers: object.spec.containers.map(c,
        Object.spec.containers{name: c.name, env: [Object.spec.containers.env{name: "OTEL",
        value: string(request.operation)}]})}}
"""
)
BINDING = {
    "apiVersion": ENV_POLICY["apiVersion"],
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "others-env"},
    "spec": {"policyName": "others-env"},
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("refused")) as one:
        yield one


async def at(api: Api) -> str:
    return str((await api.pods("team"))["a"]["metadata"]["resourceVersion"])


@pytest.mark.slow("it waits for half a minute; tests/core/test_refused_writes.py has each write")
async def test_a_pod_goes_within_a_minute_of_the_policy_that_kept_it(
    stack: Stack,
) -> None:
    async with stack.api() as api:
        await make_queue(api, "team")
        await api.call("POST", POLICIES, ENV_POLICY)
        await api.call("POST", BINDINGS, BINDING)
        path = "/api/v1/namespaces/team/pods/a"
        await api.call("POST", "/api/v1/namespaces/team/pods", pod("a"))

        async def refused(action: str, times: int) -> Any:
            rows = stack.sql(
                "SELECT count(*) AS times FROM decisions d JOIN outcomes o ON o.decision_id = d.id "
                "WHERE d.action = ? AND o.status = 'rejected' AND o.http_status = 422",
                action,
            )
            return rows[0]["times"] >= times

        for times in range(1, 5):  # each state of the pod is tried at once

            async def ungating(times: int = times) -> Any:
                return await refused("UngatePod", times)

            await api.until(f"ungating is refused {times} times", ungating)
            condition = {"type": "example.com/seen", "status": "True", "message": str(times)}
            await api.merge(f"{path}/status", {"status": {"conditions": [condition]}})

        await api.call("DELETE", path)

        async def finalizing() -> Any:
            return await refused("FinalizePod", 1)

        await api.until("taking the finalizer off is refused", finalizing)
        why = stack.command("why", "team/a").stdout
        assert "FinalizePod" in why and "422" in why
        version = ""
        while version != (version := await at(api)):  # what is said on the pod changes it too
            await asyncio.sleep(8)
        await api.call("DELETE", f"{BINDINGS}/others-env")
        await api.call("DELETE", f"{POLICIES}/others-env")

        async def gone() -> bool:
            return "a" not in await api.pods("team")

        await api.until("the pod is gone", gone, timeout_s=70)
