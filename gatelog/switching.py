"""From webhook to policies and back, on a cluster where pods keep coming.

Theory. Both may be there together, and one whose server is gone refuses every queued pod. So the
new way is found in place before the old one is taken away, and a pod that is created in earnest but
for being stored (`dryRun`) shows that it gets its gate afterwards.

Invariant: the old way goes only after the new one was found in place.
"""

from collections.abc import Callable
from typing import Any, Literal

from gatelog.cluster import clusterinfo
from gatelog.examine import gating
from gatelog.shell.errors import CommandFailed
from podgroup.names import ADMISSION_GATE, QUEUE_NAME
from podgroup.runtime.kube import KubeClient

Way = Literal["policy", "webhook"]
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_POLICY = "gatelog-queued-pods"
OLD: dict[Way, tuple[str, ...]] = {
    "webhook": tuple(
        f"{clusterinfo.ADMISSION}/{plural}/{name}"
        for kind, name in (
            ("mutating", "gatelog-queued-pods"),
            ("mutating", "gatelog-owner-labels"),
            ("validating", "gatelog-pods"),
        )
        for plural in (f"{kind}admissionpolicybindings", f"{kind}admissionpolicies")
    ),
    "policy": (
        f"{clusterinfo.ADMISSION}/mutatingwebhookconfigurations/gatelog-pods",
        f"{clusterinfo.ADMISSION}/validatingwebhookconfigurations/gatelog-pods",
        *(
            f"{_RBAC}/{plural}/{name}"
            for name in ("gatelog-webhook", "gatelog-webhook-registration")
            for plural in ("clusterrolebindings", "clusterroles")
        ),
    ),
}
"""What is taken away when gates are to come from the key."""


async def switch(
    kube: KubeClient, to: Way, namespace: str, tell: Callable[[str], None], *, dry: bool
) -> None:
    """Take the other way of gating pods away.

    Raises:
        CommandFailed: the way to switch to is not in place, or a pod gets no gate afterwards.
    """
    found = await clusterinfo.admission(kube, "gatelog-pods", _POLICY)
    if not (found.policy if to == "policy" else found.webhook):
        raise CommandFailed(
            f"nothing gates pods by {to} here yet: apply the component of deploy/, or helm upgrade "
            f"with admission.way={to}, or gatelog up --install {to}; then switch"
        )
    if to == "webhook":
        state = await gating.examine(kube, found)
        if state.verdict != "ok":
            raise CommandFailed(f"{state.detail}: {state.remedy}; then switch")
        await _gated(kube, namespace)
        tell("before: the webhook answers, and a pod gets its gate")
    else:
        tell("before: the policies are in place")
    for path in OLD[to]:
        there = await clusterinfo.seen(kube, path)
        if there is None:
            raise CommandFailed(f"this account may not look at {path}: switch as an administrator")
        if not there:
            continue
        _, plural, name = path.rsplit("/", 2)
        tell(f"{'would remove' if dry else 'removed'} {plural} {name}")
        if not dry:
            status, answer = await kube.json("DELETE", path)
            if status >= 400 and status != 404:
                raise CommandFailed(f"cannot delete {path}: {(answer or {}).get('message')}")
    if not dry:
        await _gated(kube, namespace)
        tell(f"after: a pod that names a queue gets its gate, by {to} alone")


async def _gated(kube: KubeClient, namespace: str) -> None:
    """Create a pod that names a queue, but for storing it.

    Raises:
        CommandFailed: it is refused, or has no gate.
    """
    limits = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gatelog-switch-probe", "labels": {QUEUE_NAME: "probe"}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "probe", "image": "probe", "securityContext": limits}],
        },
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    status, made = await kube.json("POST", path, body=pod, params={"dryRun": "All"})
    if status not in (200, 201):
        raise CommandFailed(
            f"a pod that names a queue is refused in namespace {namespace} ({status}): "
            f"{(made or {}).get('message')}"
        )
    gates = [gate["name"] for gate in made["spec"].get("schedulingGates") or ()]
    if ADMISSION_GATE not in gates:
        raise CommandFailed(
            f"a pod that names a queue gets no gate in namespace {namespace}: is it among "
            "webhook.excluded_namespaces? gatelog doctor says what gates pods"
        )
