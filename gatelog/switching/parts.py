"""The deployments of a cluster as a switch sees them: their settings, and how far they are.

Theory. The settings of a part are in its container's environment, or else in the settings file of
the ConfigMap that it mounts: the two places where the chart and the overlays write.

Invariant: nothing is written.
"""

import asyncio
import time
import tomllib
from typing import Any

from gatelog.cluster import clusterinfo
from gatelog.cluster.ownership import COMPONENT_LABEL, NAME_LABEL, OWN_NAME, Kind, each
from gatelog.shell.errors import CommandFailed
from podgroup.model.names import FINISHED, QUOTA_RESERVED
from runtime.kube import KubeClient
from runtime.manifests import Object

PARTS = ("ingest", "projector", "actuator")
ROLLED_OUT_S = 120.0
"""Seconds that a roll-out is waited for."""
_POLL_S = 0.5


async def deployments(kube: KubeClient, namespace: str) -> dict[str, Object]:
    """Return the deployments of gatelog in a namespace by part.

    Raises:
        CommandFailed: this account may not look at them.
    """
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    found = await clusterinfo.seen(kube, f"{path}?labelSelector={NAME_LABEL}%3D{OWN_NAME}")
    if found is None:
        raise CommandFailed(
            f"this account may not look at deployments in {namespace}: switch as an administrator"
        )
    by_part = {}
    for obj in found.get("items") or ():
        part = (obj["metadata"].get("labels") or {}).get(COMPONENT_LABEL, "")
        if part in (*PARTS, "serve"):
            by_part[part] = obj
    return by_part


def variable(deployment: Object, name: str) -> str:
    """Return a variable of a part's container, "" if it has none of that name."""
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    found = (e.get("value") for e in container.get("env") or () if e["name"] == name)
    return next(found, None) or ""


async def setting(kube: KubeClient, deployment: Object, name: str) -> Any:
    """Return a part's value of a setting of the top level, None if unset.

    Raises:
        CommandFailed: its settings file may not be read, or is not TOML.
    """
    value = variable(deployment, f"GATELOG_{name.upper()}")
    if value:
        return value
    space = deployment["metadata"]["namespace"]
    for volume in deployment["spec"]["template"]["spec"].get("volumes") or ():
        source = (volume.get("configMap") or {}).get("name")
        if volume["name"] != "settings" or not source:
            continue
        path = f"/api/v1/namespaces/{space}/configmaps/{source}"
        found = await clusterinfo.seen(kube, path)
        if not found:
            raise CommandFailed(
                f"the settings of {deployment['metadata']['name']} ({path}) are "
                "not there, or not for this account to read"
            )
        try:
            return tomllib.loads((found.get("data") or {}).get("gatelog.toml", "")).get(name)
        except tomllib.TOMLDecodeError as error:
            raise CommandFailed(f"{path}: gatelog.toml is not TOML: {error}") from error
    return None


def unfinished(deployment: Object) -> str:
    """Say how far a roll-out is, "" when it is over."""
    meta, status = deployment["metadata"], deployment.get("status") or {}
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    updated, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
    known = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    if known and updated >= wanted and ready >= wanted and status.get("replicas", 0) <= wanted:
        return ""
    return f"{meta['name']} has {updated} of {wanted} replicas updated, {ready} ready"


async def rolled_out(kube: KubeClient, namespace: str, wait_s: float) -> dict[str, Object]:
    """Return the deployments once all their replicas are what was applied last.

    Raises:
        CommandFailed: not so within `wait_s`.
    """
    end = time.monotonic() + wait_s
    while True:
        found = await deployments(kube, namespace)
        late = [said for one in found.values() if (said := unfinished(one))]
        if not late:
            return found
        if time.monotonic() >= end:
            raise CommandFailed(
                f"the roll-out is not over after {wait_s:.0f} s: {'; '.join(late)} "
                f"(kubectl -n {namespace} describe pods says why); then run the same command again"
            )
        await asyncio.sleep(_POLL_S)


async def listed(kube: KubeClient, plural: str) -> list[Object]:
    """Return the objects of a kind of Kueue's API; [] where it is not served."""
    version = (await clusterinfo.kueue(kube)).version
    kind = Kind(f"/apis/{clusterinfo.KUEUE_GROUP}/{version}", plural, plural)
    return [one async for one in each(kube, kind)] if version else []


def holds_quota(workload: Object) -> bool:
    """Tell whether a Workload holds quota."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    return QUOTA_RESERVED in true and FINISHED not in true
