"""Removing gatelog in an order in which nothing hangs and no running pod is stopped.

1. admission    registrations and policies, so that new pods are neither gated nor refused; the
                aggregated APIs, an absent one of which keeps namespaces from being deleted
2. deployments  all parts, and the wait until their pods are gone: nothing decides any more. Then 1
                once more, since ingest may have registered itself meanwhile
3. pods         finalizers and labels off; gates too, or kept
4. workloads    finalizers off, of queues too; those made by gatelog are deleted, or kept with the
                gates
5. objects      accounts, roles, settings, services and the rest of ours
6. crds         if asked for: Kueue's kinds, if gatelog installed them, with all queues
7. data         if asked for: the log's volume, Secrets, the namespace, if gatelog made it

Rights go after the steps that need them, and kinds after their objects. Each step lists the present
objects, so an interrupted removal is repeated from the beginning and finds less to do.

Invariant: queues, CRDs and data go only when asked for by name; with `dry` nothing is written.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from gatelog.cluster import clusterinfo
from gatelog.cluster.ownership import (
    COMPONENT_LABEL,
    NAME_LABEL,
    OWN_NAME,
    Kind,
    each,
    ours,
    path_of,
)
from gatelog.removal.released import (
    PODS,
    QUEUE_KINDS,
    Gates,
    finalizer_patch,
    inspect,
    made_by_us,
    release,
)
from gatelog.shell.errors import CommandFailed
from runtime.kube import KubeClient
from runtime.manifests import Object

Extra = Literal["crds", "data"]
AT_ONCE = 32
"""Requests to the API server at once."""
GONE_S = 120.0
"""Seconds that pods of the deployments, or kinds, are waited for."""
_POLL_S = 0.5
_TELL_S = 2.0

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NET = "/apis/networking.k8s.io/v1"


def _wide(api: str, kind: str, plural: str = "") -> Kind:
    """Return a kind whose objects belong to no namespace."""
    return Kind(api, plural or f"{kind.lower()}s", kind, namespaced=False)


ADMISSION_KINDS = (
    _wide(_ADMISSION, "MutatingWebhookConfiguration"),
    _wide(_ADMISSION, "ValidatingWebhookConfiguration"),
    _wide(_ADMISSION, "MutatingAdmissionPolicyBinding"),
    _wide(_ADMISSION, "ValidatingAdmissionPolicyBinding"),
    _wide(_ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    _wide(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    _wide("/apis/apiregistration.k8s.io/v1", "APIService"),
)
DEPLOYMENT_KINDS = (
    Kind("/apis/apps/v1", "deployments", "Deployment"),
    Kind("/apis/batch/v1", "jobs", "Job"),
)
_STATEFUL = Kind("/apis/apps/v1", "statefulsets", "StatefulSet")
OBJECT_KINDS = (
    _STATEFUL,
    Kind("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Kind(_NET, "networkpolicies", "NetworkPolicy"),
    Kind("/apis/monitoring.coreos.com/v1", "prometheusrules", "PrometheusRule"),
    Kind("/apis/monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor"),
    Kind("/apis/cert-manager.io/v1", "certificates", "Certificate"),
    Kind("/apis/cert-manager.io/v1", "issuers", "Issuer"),
    Kind("/api/v1", "services", "Service"),
    Kind("/api/v1", "configmaps", "ConfigMap"),
    Kind("/apis/coordination.k8s.io/v1", "leases", "Lease"),
    Kind(_RBAC, "rolebindings", "RoleBinding"),
    Kind(_RBAC, "roles", "Role"),
    _wide(_RBAC, "ClusterRoleBinding"),
    _wide(_RBAC, "ClusterRole"),
    Kind("/api/v1", "serviceaccounts", "ServiceAccount"),
)
_CLAIMS = Kind("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_SECRETS = Kind("/api/v1", "secrets", "Secret")
_SECRET_NAMES = (
    "gatelog-nats",
    "gatelog-database",
    "gatelog-database-reader",
    "gatelog-webhook-tls",
    "gatelog-webhook-issued",
    "gatelog-serve-tls",
)
_NAMESPACES = _wide("/api/v1", "Namespace")
_CRDS = _wide("/apis/apiextensions.k8s.io/v1", "CustomResourceDefinition")
_LEASES = ("gatelog-ingest-", "gatelog-projector-")


class Step(NamedTuple):
    """The findings and actions of a step: words for people, and how many objects."""

    name: str
    objects: int
    detail: str


class Wish(NamedTuple):
    """The requested steps."""

    namespace: str
    gates: Gates
    also: Collection[Extra]
    dry: bool


Tell = Callable[[str], None]


class Removal:
    """A removal; `tell` is called with lines of progress."""

    def __init__(self, kube: KubeClient, wish: Wish, tell: Tell) -> None:
        self._kube = kube
        self._wish = wish
        self._tell = tell
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._reported_at = time.monotonic()

    async def steps(self) -> Sequence[Callable[[], Awaitable[Step]]]:
        """Return the steps in their order; each looks and acts when it is called.

        Raises:
            CommandFailed: CRDs are to go that are Kueue's.
        """
        if "crds" in self._wish.also:
            await self._no_kueue()
        found = [self._admission, self._deployments, self._pods, self._workloads, self._objects]
        if "crds" in self._wish.also:
            found.append(self._crds)
        if "data" in self._wish.also:
            found.append(self._data)
        return found

    async def _no_kueue(self) -> None:
        hooks = ADMISSION_KINDS[0]
        async for hook in each(self._kube, hooks):
            name = hook["metadata"]["name"]
            if name.startswith("kueue-") and not ours(hooks, hook):
                raise CommandFailed(
                    f"Kueue is installed here (MutatingWebhookConfiguration {name}), and the CRDs "
                    "are its own: leave --also crds out, or remove Kueue first"
                )

    async def _admission(self) -> Step:
        names = await self._delete_ours(ADMISSION_KINDS, "")
        return Step("admission", len(names), _counted(names))

    async def _deployments(self) -> Step:
        names = await self._delete_ours(DEPLOYMENT_KINDS, self._wish.namespace)
        names += await self._delete_ours((_STATEFUL,), self._wish.namespace, "standalone")
        detail = _counted(names)
        if not self._wish.dry:
            await self._wait_for_parts()
            again = await self._delete_ours(ADMISSION_KINDS, "")
            detail += f"; registered again meanwhile: {_counted(again)}" if again else ""
        return Step("deployments", len(names), detail)

    async def _wait_for_parts(self) -> None:
        parts = ("standalone", "ingest", "projector", "actuator", "serve", "migrate")
        selector = f"{NAME_LABEL}={OWN_NAME},{COMPONENT_LABEL} in ({','.join(parts)})"
        try:
            async with asyncio.timeout(GONE_S):
                while True:
                    names = [
                        pod["metadata"]["name"]
                        async for pod in each(self._kube, PODS, self._wish.namespace, selector)
                    ]
                    if not names:
                        return
                    self._progress(f"waiting for {len(names)} pods of gatelog to end")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise CommandFailed(
                f"pods of gatelog are still there after {GONE_S:.0f} s: {', '.join(names[:5])} in "
                f"namespace {self._wish.namespace}. Nothing of any user's pod was changed; see why "
                "they do not end (kubectl describe pod), then run gatelog uninstall again"
            ) from None

    async def _pods(self) -> Step:
        gated = running = other = 0
        async with asyncio.TaskGroup() as writes:
            async for pod in each(self._kube, PODS):
                has = inspect(pod)
                if not has.touched(self._wish.gates):
                    continue
                gated += has.gated
                running += has.running
                other += not (has.gated or has.running)
                if not self._wish.dry:
                    await self._slots.acquire()
                    writes.create_task(self._release(PODS, pod))
                self._progress(f"{gated + running + other} pods released")
        gates = "gates kept" if self._wish.gates == "keep" else "gates off: they start"
        detail = f"{running} running, which run on; {gated} waiting, {gates}; {other} others"
        return Step("pods", gated + running + other, detail)

    async def _release(self, kind: Kind, obj: Object) -> None:
        try:
            await release(self._kube, kind, obj, self._wish.gates)
        finally:
            self._slots.release()

    async def _release_and_delete(self, kind: Kind, obj: Object, delete: bool) -> None:
        await self._slots.acquire()
        await self._release(kind, obj)
        if delete:
            await self._delete(path_of(kind, obj), obj["metadata"]["uid"])

    async def _workloads(self) -> Step:
        api = await self._kueue_api()
        if api is None:
            return Step("workloads", 0, "no such kind")
        keep = self._wish.gates == "keep"
        released = deleted = queues = 0
        async with asyncio.TaskGroup() as writes:
            kind = Kind(api, "workloads", "Workload")
            async for workload in each(self._kube, kind):
                if not made_by_us(workload):
                    continue
                delete = not keep
                if not (delete or finalizer_patch(workload)):
                    continue
                released += 1
                deleted += delete
                if not self._wish.dry:
                    writes.create_task(self._release_and_delete(kind, workload, delete))
                self._progress(f"{released} Workloads released")
            for plural, name in QUEUE_KINDS if not await self._kueue_runs() else ():
                kind = Kind(api, plural, name)
                async for queue in each(self._kube, kind):
                    if finalizer_patch(queue):
                        queues += 1
                        if not self._wish.dry:
                            writes.create_task(self._release_and_delete(kind, queue, False))
        freed = f"{queues} queues, flavors and checks freed"
        detail = f"{released} released, {deleted} of them deleted; {freed}"
        return Step("workloads", released + queues, detail)

    async def _kueue_api(self) -> str | None:
        found = await clusterinfo.kueue(self._kube)
        return f"/apis/{clusterinfo.KUEUE_GROUP}/{found.version}" if found.version else None

    async def _kueue_runs(self) -> bool:
        try:
            await self._no_kueue()
        except CommandFailed:
            return True
        return False

    async def _objects(self) -> Step:
        names = await self._delete_ours(OBJECT_KINDS, self._wish.namespace)
        return Step("objects", len(names), _counted(names))

    async def _crds(self) -> Step:
        api = await self._kueue_api()
        definitions = [crd async for crd in each(self._kube, _CRDS) if ours(_CRDS, crd)]
        queues = 0
        if api is not None:
            for plural, name in (*QUEUE_KINDS, ("workloads", "Workload")):
                kind = Kind(api, plural, name)
                async for obj in each(self._kube, kind):
                    queues += name != "Workload"
                    if not self._wish.dry:
                        await self._slots.acquire()
                        await self._release(kind, obj)
        for crd in definitions:
            if not self._wish.dry:
                await self._delete(path_of(_CRDS, crd), crd["metadata"]["uid"])
        if not self._wish.dry:
            await self._wait_for_crds({crd["metadata"]["name"] for crd in definitions})
        detail = f"{len(definitions)} kinds, with {queues} queues and flavors"
        return Step("crds", len(definitions), detail)

    async def _wait_for_crds(self, names: set[str]) -> None:
        try:
            async with asyncio.timeout(GONE_S):
                while left := {
                    name
                    async for crd in each(self._kube, _CRDS)
                    if (name := crd["metadata"]["name"]) in names
                }:
                    self._progress(f"waiting for {len(left)} kinds to go")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise CommandFailed(
                f"kinds are still being deleted after {GONE_S:.0f} s ({', '.join(sorted(left))}): "
                "objects of them have finalizers of others, see kubectl describe crd"
            ) from None

    async def _data(self) -> Step:
        namespace = self._wish.namespace
        found: list[tuple[str, Object]] = []
        async for claim in each(self._kube, _CLAIMS, namespace):
            labels = claim["metadata"].get("labels") or {}
            if ours(_CLAIMS, claim) or labels.get(COMPONENT_LABEL) == "nats":
                found.append((path_of(_CLAIMS, claim), claim))
        async for one in each(self._kube, _NAMESPACES):
            if one["metadata"]["name"] == namespace and ours(_NAMESPACES, one):
                found.append((path_of(_NAMESPACES, one), one))
        names = [path.rsplit("/", 2)[1] for path, _ in found]
        for name in _SECRET_NAMES:
            if await self._delete_unread(_SECRETS.path(namespace, name)):
                names.append(_SECRETS.plural)
        for path, obj in found if not self._wish.dry else ():
            await self._delete(path, obj["metadata"]["uid"])
        return Step("data", len(names), _counted(sorted(names)))

    async def _delete_unread(self, path: str) -> bool:
        """Delete a Secret without reading it; return whether it existed."""
        params = {"dryRun": "All"} if self._wish.dry else {}
        answer = await self._kube.request("DELETE", path, params=params)
        if answer.status >= 400 and answer.status != 404:
            raise CommandFailed(
                f"cannot delete {path}: the API server answered {answer.status}: {answer.message()}"
            )
        return answer.status != 404

    async def _delete_ours(
        self, kinds: Collection[Kind], namespace: str, component: str = ""
    ) -> list[str]:
        """Delete our objects of some kinds, or of one component; return the plural of each."""
        found: list[tuple[Kind, Object]] = []
        for kind in kinds:
            everywhere = kind.kind == "RoleBinding"  # serve has one in kube-system
            place = namespace if kind.namespaced and not everywhere else ""
            async for obj in each(self._kube, kind, place):
                name = obj["metadata"]["name"]
                lease = kind.kind == "Lease" and name.startswith(_LEASES)
                labels = obj["metadata"].get("labels") or {}
                if component and labels.get(COMPONENT_LABEL) != component:
                    continue
                if lease or ours(kind, obj):
                    found.append((kind, obj))
        for kind, obj in found if not self._wish.dry else ():
            await self._delete(path_of(kind, obj), obj["metadata"]["uid"])
        return [kind.plural for kind, _ in found]

    async def _delete(self, path: str, uid: str) -> None:
        body = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        answer = await self._kube.request("DELETE", path, body=msgspec.json.encode(body))
        if answer.status >= 400 and answer.status not in (404, 409):
            raise CommandFailed(
                f"cannot delete {path}: the API server answered {answer.status}: {answer.message()}"
            )

    def _progress(self, line: str) -> None:
        now = time.monotonic()
        if not self._wish.dry and now - self._reported_at >= _TELL_S:
            self._reported_at = now
            self._tell(line)


def _counted(names: Collection[str]) -> str:
    counts = {name: list(names).count(name) for name in dict.fromkeys(names)}
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"


async def leftovers(kube: KubeClient, gates: Gates) -> int:
    """Return how many pods still have something of ours: another writer puts it back."""
    return len([1 async for pod in each(kube, PODS) if inspect(pod).touched(gates)])
