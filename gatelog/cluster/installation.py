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


async def installation(kube: KubeClient, namespace: str) -> Installation:
    """Return the installation in any namespace; `namespace` is searched if this account may not
    list all of them.
    """
    found: list[dict[str, Any]] = []
    for plural in ("deployments", "statefulsets"):
        query = f"labelSelector={NAME_LABEL}%3D{OWN_NAME}"
        answer = await clusterinfo.seen(kube, f"/apis/apps/v1/{plural}?{query}")
        if answer is None:
            answer = await clusterinfo.seen(
                kube, f"/apis/apps/v1/namespaces/{namespace}/{plural}?{query}"
            )
        found += (answer or {}).get("items") or []
    return described(found)


def described(found: list[dict[str, Any]]) -> Installation:
    """Return the installation that Deployments and StatefulSets of our name are of."""
    for obj in sorted(found, key=lambda one: str(one["metadata"]["name"])):
        meta = obj["metadata"]
        part = (meta.get("labels") or {}).get(COMPONENT_LABEL, "")
        if part not in _RUNS_COMMANDS:
            continue
        notes = meta.get("annotations") or {}
        return Installation(
            how="helm" if notes.get(_RELEASE) else "kustomize",
            profile="standalone" if part == STANDALONE else "production",
            namespace=notes.get(_RELEASED_IN) or meta["namespace"],
            release=notes.get(_RELEASE) or "",
            pod=f"{meta['name']}-0" if part == STANDALONE else f"deploy/{meta['name']}",
        )
    return UNKNOWN
