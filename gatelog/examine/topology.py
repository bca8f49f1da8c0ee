"""Pods that ask for a topology, and whether they wait until it is assigned.

Theory. Kueue's topology ungater can place a pod only while the topology gate holds it. Without the
gate a pod of a flavor with a topology runs wherever the scheduler likes, and nothing says so.

Invariant: nothing is written; a bounded number of pods is read.
"""

from typing import Any

from gatelog.cluster import clusterinfo
from gatelog.examine.findings import Finding, ok, warn
from ingest.webhook.settings import topology_gate
from podgroup.model import names
from runtime.kube import KubeClient
from runtime.settings import Settings

AREA = "cluster"
_LOOKED_AT = 500
_ASKING = (names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED, names.TOPOLOGY_UNCONSTRAINED)
_POLICY = f"{clusterinfo.ADMISSION}/mutatingadmissionpolicies/{clusterinfo.POLICY}"


async def examine(kube: KubeClient, settings: Settings, policy: bool) -> list[Finding]:
    """Report on topologies; [] where no pod asks for a topology.

    `policy`: pods get their gates by the policy, not by the settings here.
    """
    asking = await _asking(kube)
    if not asking:
        return []
    if settings.mode == "builtin":
        return [ok(AREA, "topology", f"{asking}; builtin mode places pods when it admits them")]
    gated = await _in_policy(kube) if policy else topology_gate(settings)
    if gated:
        return [ok(AREA, "topology", f"{asking}; queued pods get the gate {names.TOPOLOGY_GATE}")]
    return [
        warn(
            AREA,
            "topology",
            f"{asking}, but queued pods do not get the gate {names.TOPOLOGY_GATE}: they may run "
            "before Kueue has placed them",
            "apply deploy/components/policy (its variable topologyGate is true), or gatelog up "
            "--install policy with webhook.topology_gate = auto"
            if policy
            else "set webhook.topology_gate = auto (or true) and "
            "queueing.topology_aware_scheduling = true where the webhook is served",
        )
    ]


async def flavor_naming_one(kube: KubeClient) -> str:
    """Name a flavor that has a topology; "" for none."""
    kind = (await clusterinfo.kueue(kube)).version
    path = f"/apis/{clusterinfo.KUEUE_GROUP}/{kind}/resourceflavors"
    for flavor in _items(await clusterinfo.get(kube, path) if kind else {}):
        if (flavor.get("spec") or {}).get("topologyName"):
            return f"flavor {flavor['metadata']['name']} has a topology"
    return ""


async def _asking(kube: KubeClient) -> str:
    """Name a flavor or a pod that asks for a topology; "" for none."""
    if named := await flavor_naming_one(kube):
        return named
    selector = f"labelSelector={names.MANAGED_LABEL}%3D{names.MANAGED_VALUE}"
    for pod in _items(await clusterinfo.get(kube, f"/api/v1/pods?limit={_LOOKED_AT}&{selector}")):
        meta = pod["metadata"]
        if any(key in (meta.get("annotations") or {}) for key in _ASKING):
            return f"pod {meta['namespace']}/{meta['name']} asks for a topology"
    return ""


async def _in_policy(kube: KubeClient) -> bool:
    spec = (await clusterinfo.get(kube, _POLICY)).get("spec") or {}
    return any(
        variable.get("name") == "topologyGate" and variable.get("expression") == "true"
        for variable in spec.get("variables") or ()
    )


def _items(listed: dict[str, Any]) -> list[dict[str, Any]]:
    return listed.get("items") or []
