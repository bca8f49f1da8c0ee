"""An admission policy of others that refuses a write of gatelog, where policies are evaluated.

Invariant: at the end policy and binding are gone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gatelog.cluster.install import path_of
from tests.support.processes import Api

IN_FORCE_S = 3.0
"""Seconds after which an API server evaluates a new policy."""
_NAME = "another"
_UPDATES = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["UPDATE"],
    "resources": ["pods"],
}
_AS_MANY_GATES = (
    "size(object.spec.?schedulingGates.orValue([])) == "
    "size(oldObject.spec.?schedulingGates.orValue([]))"
)


@asynccontextmanager
async def ungating_refused(api: Api) -> AsyncIterator[None]:
    """Policy `another` refuses for a while that a gate is taken off a pod."""
    refusal = {"expression": _AS_MANY_GATES, "message": "not you", "reason": "Forbidden"}
    policy = _object(
        "ValidatingAdmissionPolicy",
        failurePolicy="Fail",
        matchConstraints={"resourceRules": [_UPDATES]},
        validations=[refusal],
    )
    binding = _object(
        "ValidatingAdmissionPolicyBinding", policyName=_NAME, validationActions=["Deny"]
    )
    for obj in (policy, binding):
        await api.call("POST", path_of(obj).rpartition("/")[0], obj)
    await asyncio.sleep(IN_FORCE_S)
    try:
        yield
    finally:
        for obj in (binding, policy):
            await api.call("DELETE", path_of(obj))


def _object(kind: str, **spec: Any) -> dict[str, Any]:
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": _NAME}, "spec": spec}
