"""`gatelog rights`: print the roles that the user of `gatelog up` needs, for kubectl apply.

Theory. The rights of all parts are in the ClusterRoles of `deploy/`, which an installed wheel
carries out of sight. The deployments' accounts have them from there; this command binds them to a
user. A person with the right to grant them applies the output.

Invariant: needs nothing but this package and its settings; asks no cluster.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gatelog.shell import options

if TYPE_CHECKING:
    from runtime.manifests import Object
    from runtime.settings import Settings

EXAMPLES = """
gatelog rights jane | kubectl apply --server-side -f -
gatelog rights system:serviceaccount:ci:runner | kubectl apply --server-side -f -
"""


def rights(
    user: Annotated[str, typer.Argument(metavar="USER", help="As gatelog doctor names it.")],
    config: options.Config = None,
    assign: options.Assign = None,
) -> None:
    """Print the ClusterRoles that gatelog up needs, bound to the user of its kubeconfig, for
    kubectl apply by somebody who may grant them.
    """
    import yaml

    found = bound(user, options.settings(config, assign))
    yaml.safe_dump_all(found, sys.stdout, sort_keys=False)


def bound(user: str, settings: "Settings") -> "list[Object]":
    """Return the ClusterRoles that settings ask for, and bindings."""
    from gatelog.cluster.roles import ALWAYS, chosen
    from runtime import manifests

    files = [ALWAYS, *chosen(settings).values()]
    roles = [one for one in manifests.read(*files) if one["kind"] == "ClusterRole"]
    return [*roles, *(_binding(str(role["metadata"]["name"]), user) for role in roles)]


def _binding(role: str, user: str) -> "Object":
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"gatelog-up-{role.removeprefix('gatelog-')}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
