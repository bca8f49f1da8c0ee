"""Nodes and their clocks: kubelets that are away, nodes that are not ready, wrong clocks.

Theory. A kubelet itself reports its node as not ready (Ready is False); for a silent kubelet the
API server says Unknown. A kubelet renews a Lease every ten seconds by its own clock. A Lease ahead
of the API server's time means a clock that is ahead for certain; a Lease that is behind is read
again: if it was renewed meanwhile the clock is wrong, else the kubelet is away. So Leases separate
the two causes, which a pod that is not ready does not.

Invariant: reads only; this machine's own clock decides nothing.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gatelog.cluster import clusterinfo
from gatelog.cluster.ownership import NAME_LABEL, OWN_NAME
from gatelog.examine.findings import Finding, fail, ok, skip, warn
from gatelog.readmodel.timeline import duration
from gatelog.shell.remedies import Installation, remedy
from runtime.clock import CLOCK, MOST_S
from runtime.kube import KubeClient

AREA = "cluster"
CLOCKS, NODES, NOT_READY = "clock", "nodes", "nodes not ready"
RENEWED_S = 10.0
"""Seconds between two renewals of a kubelet's Lease."""
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_NAMED = 5


class Node(Struct, frozen=True):
    """A node: whether its kubelet is heard of, its words on why it is not ready ("": it is ready),
    and the time of its Lease: `renewed_s` is by its own clock.
    """

    name: str
    heard: bool = True
    not_ready: str = ""
    renewed_s: float | None = None


def by_server() -> float:
    """Return the time by the API server's clock (s since the epoch), to a second or so."""
    return CLOCK.now() - CLOCK.ahead_s


async def examine(kube: KubeClient, at: Installation) -> list[Finding]:
    """Say which nodes are away and which clocks are wrong, this machine's included."""
    found = await _nodes(kube)
    own = _own_clock(at)
    if found is None:
        return [own, skip(AREA, NODES, "this account may not list nodes")]
    ours = await _with_our_pods(kube, at)
    late = [node for node in found if node.heard and _ahead_s(node) < -RENEWED_S - MOST_S]
    if late:
        await asyncio.sleep(RENEWED_S + 1)
        again = {node.name: node for node in await _nodes(kube) or ()}
        silent = {one.name for one in late if again.get(one.name, one).renewed_s == one.renewed_s}
        found = [
            replace(one, heard=one.heard and one.name not in silent)
            for one in (again.get(node.name, node) for node in found)
        ]
    clocks = _clocks(found, at)
    if await _leases(kube) is None:
        clocks = [skip(AREA, CLOCKS, "this account may not list the Leases of kubelets")]
    return [own, _away(found, ours), *_not_ready(found, ours), *clocks]


async def _leases(kube: KubeClient) -> list[dict[str, Any]] | None:
    return await clusterinfo.every(kube, _LEASES)


def _own_clock(at: Installation) -> Finding:
    what = f"{CLOCKS} here"
    if abs(CLOCK.ahead_s) <= MOST_S:
        return ok(AREA, what, "this machine's is the API server's, to a second or so")
    said = f"this machine's is {skewed(CLOCK.ahead_s)} the API server's"
    return warn(AREA, what, said, remedy("clock", at))


def skewed(ahead_s: float) -> str:
    """Say by how much a clock is ahead or behind."""
    return f"{duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'}"


def _ahead_s(node: Node) -> float:
    return 0.0 if node.renewed_s is None else node.renewed_s - by_server()


def _away(found: list[Node], ours: set[str]) -> Finding:
    away = sorted(node.name for node in found if not node.heard)
    if not away:
        return ok(AREA, NODES, f"{len(found)}, and every kubelet is heard of")
    said = f"the kubelet is away of {_named(away)}"
    hit = ours.intersection(away)
    if hit:
        said += f"; pods of gatelog are on {_named(sorted(hit))}, and count as not ready for it"
    doing = (
        f"see that node and kubelet run (kubectl describe node {away[0]}; systemctl status "
        f"kubelet); if it is gone for good: kubectl delete node {away[0]}"
    )
    return (fail if hit else warn)(AREA, NODES, said, doing)


def _not_ready(found: list[Node], ours: set[str]) -> list[Finding]:
    """Say which kubelets answer, but say themselves that their nodes are not ready."""
    words = {node.name: node.not_ready for node in found if node.heard and node.not_ready}
    if not words:
        return []
    names = sorted(words)
    said = _named([f"{name} ({words[name]})" for name in names], "; ")
    said = f"the kubelet answers, and says that its node is not ready, of {said}"
    hit = ours.intersection(names)
    if hit:
        said += f"; pods of gatelog are on {_named(sorted(hit))}, and are moved off after a while"
    doing = (
        f"mend what the kubelet names (kubectl describe node {names[0]}): container runtime, "
        "network plugin, disk; pods there run on, new ones do not start"
    )
    return [warn(AREA, NOT_READY, said, doing)]


def _named(names: list[str], between: str = ", ") -> str:
    more = f" and {len(names) - _NAMED} more" if names[_NAMED:] else ""
    return between.join(names[:_NAMED]) + more


def _clocks(found: list[Node], at: Installation) -> list[Finding]:
    heard = [node for node in found if node.heard and node.renewed_s is not None]
    if not heard:
        return []
    wrong = [
        (node, ahead)
        for node in heard
        if not -RENEWED_S - MOST_S <= (ahead := _ahead_s(node)) <= MOST_S
    ]
    if not wrong:
        return [ok(AREA, CLOCKS, f"of {len(heard)} nodes none is more than {MOST_S:g} s off")]
    named = "; ".join(f"node {node.name} is {skewed(ahead)}" for node, ahead in wrong[:_NAMED])
    return [warn(AREA, CLOCKS, f"{named} the API server's", remedy("clock", at))]


async def _nodes(kube: KubeClient) -> list[Node] | None:
    """Return the nodes by name; None: they may not be listed."""
    nodes = await clusterinfo.every(kube, "/api/v1/nodes")
    if nodes is None:
        return None
    renewed = {
        str(one["metadata"]["name"]): _seconds((one.get("spec") or {}).get("renewTime"))
        for one in await _leases(kube) or ()
    }
    return [_node(one, renewed.get(str(one["metadata"]["name"]))) for one in nodes]


def _node(obj: dict[str, Any], renewed_s: float | None) -> Node:
    """Return a node; a kubelet without a condition Ready is not called away."""
    name = str(obj["metadata"]["name"])
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one.get("type") == "Ready":
            words = ": ".join(filter(None, (one.get("reason"), one.get("message"))))
            says = (words or "without a reason") if one.get("status") == "False" else ""
            return Node(name, one.get("status") != "Unknown", says, renewed_s)
    return Node(name, renewed_s=renewed_s)


async def _with_our_pods(kube: KubeClient, at: Installation) -> set[str]:
    path = f"/api/v1/namespaces/{at.namespace}/pods?labelSelector={NAME_LABEL}%3D{OWN_NAME}"
    found = await clusterinfo.seen(kube, path) or {}
    return {
        str(name)
        for one in found.get("items") or ()
        if (name := (one.get("spec") or {}).get("nodeName"))
    }


def _seconds(text: Any) -> float | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at.replace(tzinfo=at.tzinfo or UTC).timestamp()
