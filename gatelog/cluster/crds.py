"""Kueue's kinds on a cluster: the owners of their CRDs, and updates of our own.

Theory. The definitions in `deploy/crds` bear Kueue's names, so that Kueue can be installed over
them. A CRD is ours while it has our label and serves no version that ours do not have: it is
applied anew when it differs from this release's. All other CRDs are Kueue's, or changed by a user,
and are not touched, since a narrower schema drops fields.

Invariant: a definition that is not ours is never written, and ours are never mixed with others.
"""

import asyncio
from typing import Any, NamedTuple

from gatelog.cluster import clusterinfo
from gatelog.cluster.ownership import NAME_LABEL, OWN_NAME
from gatelog.shell.errors import CommandFailed
from runtime import manifests
from runtime.kube import KubeClient
from runtime.manifests import Object

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ESTABLISHED_S = 30.0
BY_HAND = "kubectl apply --server-side --force-conflicts -k deploy/crds"


class Found(NamedTuple):
    """Our definitions that are absent, those of another release, and plurals that are not ours."""

    absent: list[Object]
    outdated: list[Object]
    foreign: list[str]


async def compare(kube: KubeClient) -> Found:
    """Compare what a cluster has with `deploy/crds`."""
    served = (await clusterinfo.kueue(kube)).kinds
    found = Found([], [], [])
    for wanted in definitions():
        live = await clusterinfo.get(kube, f"{_PATH}/{wanted['metadata']['name']}")
        plural = wanted["spec"]["names"]["plural"]
        if live and _ours(live, wanted):
            if not _says(live["spec"], wanted["spec"]):
                found.outdated.append(wanted)
        elif live or plural in served:
            found.foreign.append(plural)
        else:
            found.absent.append(wanted)
    return found


def definitions() -> list[Object]:
    """Return the CRDs of this release."""
    return [o for o in manifests.read("crds") if o["kind"] == "CustomResourceDefinition"]


async def until_served(kube: KubeClient) -> None:
    """Wait until the installed CRDs are served.

    Raises:
        CommandFailed: they are not served within 30 s.
    """
    try:
        async with asyncio.timeout(_ESTABLISHED_S):
            while (await clusterinfo.kueue(kube)).missing:  # noqa: ASYNC110 - the server's doing
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise CommandFailed(
            f"the CRDs were installed, but {kube.server} does not serve them after "
            f"{_ESTABLISHED_S:.0f} s: look at kubectl describe crd "
            f"workloads.{clusterinfo.KUEUE_GROUP}"
        ) from None


def _ours(live: Object, wanted: Object) -> bool:
    labels = live["metadata"].get("labels") or {}
    return labels.get(NAME_LABEL) == OWN_NAME and _versions(live) <= _versions(wanted)


def _versions(crd: Object) -> set[str]:
    return {version["name"] for version in crd["spec"]["versions"]}


def _says(live: Any, wanted: Any, schema: bool = False) -> bool:
    """Return whether the stored object has the wanted fields, and in a schema no others.

    Elsewhere the API server adds defaults of its own.
    """
    if isinstance(wanted, dict) and isinstance(live, dict):
        if schema and live.keys() != wanted.keys():
            return False
        return all(
            key in live and _says(live[key], value, schema or key == "openAPIV3Schema")
            for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(live, list):
        return len(live) == len(wanted) and all(
            _says(one, other, schema) for one, other in zip(live, wanted, strict=True)
        )
    return bool(live == wanted)
