"""A real API server, which GATELOG_TEST_KUBECONFIG names: accounts, tokens, and admission in force.

The kubeconfig is an administrator's; the cluster has a scheduler, garbage collection, and a node
that no kubelet looks after. Accounts and roles are those of `deploy/`.

Invariant: what is written here is either of the manifests, or taken away again.
"""

import os
from pathlib import Path
from typing import Any

from gatelog.cluster import clusterinfo, install, policies
from runtime.settings import Settings
from tests.deploy.manifests import DEPLOY, objects
from tests.support.processes import Api, pod

VARIABLE = "GATELOG_TEST_KUBECONFIG"
NAMESPACE = "gatelog-system"
APPLY = "application/apply-patch+yaml"
ACCESS = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}
_SPACED = ("ServiceAccount", "Role", "RoleBinding")
Json = dict[str, Any]


def kubeconfig() -> Path | None:
    """The administrator's kubeconfig of a real cluster, if tests are to use one."""
    found = os.environ.get(VARIABLE, "")
    return Path(found) if found else None


async def apply(api: Api, obj: Json) -> None:
    """Write an account or a right as the manifests have it."""
    base = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
    home = obj["metadata"].get("namespace", NAMESPACE)
    space = f"/namespaces/{home}" if obj["kind"] in _SPACED else ""
    path = f"{base}{space}/{ACCESS[obj['kind']]}/{obj['metadata']['name']}"
    await api.call("PATCH", f"{path}?fieldManager=tests&force=true", obj, kind=APPLY)


async def give_rights(api: Api) -> None:
    """Make the accounts of all parts, with the rights of `deploy/`."""
    places = (
        DEPLOY / "base",
        DEPLOY / "components" / "webhook-own-certificates",
        DEPLOY / "doctor",
    )
    found = [one for place in places for one in objects(place) if one["kind"] in ACCESS]
    for obj in sorted(found, key=lambda one: list(ACCESS).index(one["kind"])):
        await apply(api, obj)


async def let_register(api: Api) -> None:
    """Let ingest register itself by its address, as the person may who runs `gatelog up`."""
    group, name = "rbac.authorization.k8s.io", "gatelog-tests-registration"
    kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    rule = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": kinds,
        "verbs": ["get", "create", "patch"],
    }
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    await apply(api, common | {"kind": "ClusterRole", "rules": [rule]})
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    ingest = {"kind": "ServiceAccount", "name": "gatelog-ingest", "namespace": NAMESPACE}
    binding = {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [ingest]}
    await apply(api, common | binding)


async def token_of(api: Api, account: str, namespace: str = NAMESPACE) -> str:
    """A token of a ServiceAccount, good for an hour."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str((await api.call("POST", path, body))["status"]["token"])


async def forget_admission(api: Api) -> None:
    """Take webhooks and policies of gatelog away."""
    gating = map(install.path_of, policies.policies(Settings()))
    for path in (*clusterinfo.REGISTRATIONS, *gating):
        await api.call("DELETE", path, ok=())


async def until_gated(api: Api, gated: bool = True) -> None:
    """Wait until admission is in force, which the API server takes a moment for; or until not."""
    body = pod("probe", cpu="1m")

    async def so() -> bool:
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        made = await api.call("POST", path, body, ok=())
        return made["kind"] == "Pod" and bool(made["spec"].get("schedulingGates")) is gated

    await api.until("pods are gated" if gated else "pods are let pass", so)


async def until_lenient(api: Api) -> None:
    """Wait until nobody refuses a pod any more that admission with its rules would refuse."""
    body = pod("probe", queue="no_name")

    async def so() -> bool:
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        return bool((await api.call("POST", path, body, ok=()))["kind"] == "Pod")

    await api.until("nothing is refused", so)
