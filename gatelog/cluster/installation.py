"""How gatelog was installed in a cluster, and where in it a command can be run.

Theory. Helm writes its release on each object that it makes; what bears our name and no release
was applied by kustomize. One pod of all parts is a StatefulSet, three deployments are production.

Invariant: reads only; what may not be looked at is not taken for absent.
"""

from typing import Any

from gatelog.cluster import clusterinfo
from gatelog.cluster.ownership import COMPONENT_LABEL, NAME_LABEL, OWN_NAME
from gatelog.shell.remedies import UNKNOWN, Installation
from runtime.kube import KubeClient

STANDALONE = "standalone"
_RELEASE, _RELEASED_IN = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_RUNS_COMMANDS = ("projector", STANDALONE)
"""Parts whose container has log and read model in its settings."""
_PRODUCTION = {"gatelog-ingest", "gatelog-projector", "ingest", "actuator", "serve", "nats"}
"""Accounts, and parts, that profile standalone does without."""


async def installation(kube: KubeClient, namespace: str) -> Installation:
    """Return the installation in any namespace; `namespace` is searched if this account may not
    list all of them.
    """
    found = await _ours(kube, "/apis/apps/v1", ("deployments", "statefulsets"), namespace)
    # Where every part was deleted their accounts are left.
    return described(found or await _ours(kube, "/api/v1", ("serviceaccounts",), namespace))


async def _ours(
    kube: KubeClient, api: str, plurals: tuple[str, ...], namespace: str
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for plural in plurals:
        query = f"labelSelector={NAME_LABEL}%3D{OWN_NAME}"
        answer = await clusterinfo.seen(kube, f"{api}/{plural}?{query}")
        if answer is None:
            answer = await clusterinfo.seen(kube, f"{api}/namespaces/{namespace}/{plural}?{query}")
        found += (answer or {}).get("items") or []
    return found


def described(found: list[dict[str, Any]]) -> Installation:
    """Return the installation that Deployments and StatefulSets, or accounts, of our name are of.

    No command can be run in it where what would run it is missing.
    """
    if not found:
        return UNKNOWN
    names = {obj["metadata"]["name"] for obj in found} | {_part(obj) for obj in found}
    alone = not _PRODUCTION & names
    runs = [obj for obj in found if _part(obj) in _RUNS_COMMANDS]
    meta = min(runs or found, key=lambda one: str(one["metadata"]["name"]))["metadata"]
    notes = meta.get("annotations") or {}
    pod = f"{meta['name']}-0" if alone else f"deploy/{meta['name']}"
    return Installation(
        how="helm" if notes.get(_RELEASE) else "kustomize",
        profile="standalone" if alone else "production",
        namespace=notes.get(_RELEASED_IN) or meta["namespace"],
        release=notes.get(_RELEASE) or "",
        pod=pod if runs else "",
    )


def _part(obj: dict[str, Any]) -> str:
    return str((obj["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))
