"""deploy/examples/priority-classes.yaml: who may use which WorkloadPriorityClass."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from podgroup.model import names
from simcluster import Settings
from simcluster.access import User
from simcluster.client import ApiFailure, Client
from tests.support.standin import SimCluster

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "priority-classes.yaml"
RBAC = "rbac.authorization.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}
EDITOR = {
    "metadata": {"name": "editor"},
    "rules": [{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]}],
}
EDITORS = {
    "metadata": {"name": "editors"},
    "roleRef": {"kind": "ClusterRole", "name": "editor"},
    "subjects": [{"kind": "Group", "name": "system:authenticated"}],
}
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}


def labelled(kind: str, own: str, inside: str) -> tuple[str, dict[str, Any]]:
    """The plural of a kind, and an object that names classes itself and in its template."""

    def metadata(value: str) -> dict[str, Any]:
        return {"labels": {names.PRIORITY_CLASS: value}} if value else {}

    found: dict[str, Any] = {"metadata": {"name": "o", **metadata(own)}}
    if kind == "Pod":
        return "pods", found | {"spec": CONTAINERS}
    template = {"metadata": metadata(inside), "spec": CONTAINERS}
    plural = "jobs.batch/v1" if kind == "Job" else "deployments.apps/v1"
    return plural, found | {"spec": {"template": template}}


@pytest.mark.parametrize(
    ("kind", "own", "inside", "who"),
    [
        ("Pod", "", "", {"dev", "on-call"}),
        ("Pod", "normal", "", {"dev", "on-call"}),
        ("Pod", "urgent", "", {"on-call"}),
        ("Pod", "unknown", "", set()),
        ("Deployment", "urgent", "", {"on-call"}),
        ("Deployment", "", "urgent", {"on-call"}),
        ("Deployment", "", "normal", {"dev", "on-call"}),
        ("Job", "", "urgent", {"on-call"}),
    ],
)
async def test_who_may_use_which_class(kind: str, own: str, inside: str, who: set[str]) -> None:
    users = {"dev": User(name="jo"), "on-call": User(name="mo", groups=("on-call",))}
    controller = User(name="system:serviceaccount:kube-system:replicaset-controller")
    settings = Settings(scheduler=False, users=users | {"controller": controller})
    async with SimCluster(settings) as cluster, Client(cluster.url, cluster.token) as admin:
        await admin.create(f"clusterroles.{RBAC}", EDITOR)
        await admin.create(f"clusterrolebindings.{RBAC}", EDITORS)
        for obj in yaml.safe_load_all(EXAMPLE.read_text()):
            await admin.create(f"{PLURALS[obj['kind']]}.{obj['apiVersion']}", obj)
        plural, obj = labelled(kind, own, inside)
        for token in ("dev", "on-call", "controller"):
            async with Client(cluster.url, token) as client:
                if token in {*who, "controller"}:
                    await client.create(plural, obj, "default")
                    await admin.delete(plural, "o", "default")
                    continue
                with pytest.raises(ApiFailure, match="may not use WorkloadPriorityClass") as error:
                    await client.create(plural, obj, "default")
                assert error.value.status == 403
