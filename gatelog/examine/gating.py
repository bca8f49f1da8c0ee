"""The gating of pods: what is registered, whether it answers, and what a pod gets.

Theory. A registration outlives its server: where no server answers, each pod that names a queue is
refused. The address of a registration with a URL is dialled from here; a registration that names a
Service is followed to the Service's endpoints, as the API server would. A pod created with dryRun
shows whether the API server trusts the server there.

Invariant: objects that this account may not see are never called absent; the pod that is tried is
never stored.
"""

from typing import Any

from gatelog.cluster import clusterinfo, install
from gatelog.examine.findings import Finding, fail, ok, skip, warn
from gatelog.shell.remedies import UNKNOWN, Installation, remedy
from podgroup.model.names import ADMISSION_GATE, QUEUE_NAME
from runtime.access import Right, allowed
from runtime.kube import KubeClient

AREA, WHAT = "cluster", "gating"
_REMOVE = "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration gatelog-pods"
_TRIED_IN = "default"
_SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "gatelog-trial", "labels": {QUEUE_NAME: "trial"}},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "trial", "image": "trial", "securityContext": _SAFE}],
    },
}
"""A pod of a queue that every Pod Security Standard lets pass."""


async def examine(
    kube: KubeClient, found: clusterinfo.GateRegistrations, at: Installation = UNKNOWN
) -> Finding:
    """Check how pods get their gate in an installation, and whether that works."""
    if found.webhook:
        url = await install.registered_url(kube)
        if url and not await install.listens_at(url):
            return fail(
                AREA,
                WHAT,
                f"the webhook is registered at {url}, but nothing listens there (seen from here): "
                "pods that name a queue are refused",
                f"start gatelog up, or {_REMOVE}",
            )
        empty = await _without_endpoints(kube)
        if empty:
            return fail(
                AREA,
                WHAT,
                f"the webhook is registered for Service {empty}, behind which nothing is ready: "
                "pods that name a queue are refused"
                + (", though the policies would gate them" if found.policy else ""),
                _REMOVE if found.policy else _served_again(at),
            )
    known = {"webhook": found.webhook, "policy": found.policy}
    gates = [name for name, there in known.items() if there]
    if gates:
        return ok(AREA, WHAT, f"pods get their gate by {' and '.join(gates)}")
    hidden = [name for name, there in known.items() if there is None]
    if hidden:
        said = f"this account may not see whether there is a {' or a '.join(hidden)}"
        return skip(AREA, WHAT, said)
    return fail(
        AREA,
        WHAT,
        "neither webhook nor policy is registered: new pods start without waiting",
        remedy("objects", at),
    )


def _served_again(at: Installation) -> str:
    """Return what to do where no server answers; a registration that was installed stays."""
    if at.applied:
        return remedy("part away", at, "ingest")
    return f"start ingest with webhook.enabled, or {_REMOVE}"


async def tried(kube: KubeClient) -> Finding:
    """Create a pod that names a queue, but for storing it, and say whether it gets its gate."""
    what = "trial pod"
    if not await allowed(kube, Right("", "pods", "create")):
        return skip(AREA, what, "this account may not create pods, so none is tried")
    path = f"/api/v1/namespaces/{_TRIED_IN}/pods"
    status, made = await kube.json("POST", path, body=_POD, params={"dryRun": "All"})
    if status not in (200, 201):
        said = (made or {}).get("message")
        # Below 500 another policy of the cluster may refuse this pod, which is only a trial.
        return (fail if status >= 500 else warn)(
            AREA,
            what,
            f"a pod that names a queue is refused in namespace {_TRIED_IN} ({status}: {said})",
            "the message says who refuses it; of a webhook that is not reached or not trusted the "
            "log of ingest says more",
        )
    if ADMISSION_GATE not in (gate["name"] for gate in made["spec"].get("schedulingGates") or ()):
        return warn(
            AREA,
            what,
            f"a pod that names a queue gets no gate in namespace {_TRIED_IN}",
            "is it among webhook.excluded_namespaces?",
        )
    return ok(AREA, what, "a pod that names a queue gets its gate (tried, not stored)")


async def _without_endpoints(kube: KubeClient) -> str:
    """Name the Service of the registration if nothing is ready behind it; "" if that is not known.

    Examined from EndpointSlices, as the API server's own resolver does.
    """
    registered = await clusterinfo.get(kube, install.WEBHOOK_PATH)
    for hook in registered.get("webhooks") or ():
        service = hook.get("clientConfig", {}).get("service")
        if not service:
            continue
        namespace, name = service["namespace"], service["name"]
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        query = f"labelSelector=kubernetes.io/service-name%3D{name}"
        slices = await clusterinfo.seen(kube, f"{path}?{query}")
        if slices is None or "items" not in slices:
            return ""
        ready = [
            endpoint
            for one in slices["items"]
            for endpoint in one.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("ready", True)
        ]
        return "" if ready else f"{namespace}/{name}"
    return ""
