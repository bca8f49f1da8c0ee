"""From gatelog's own queues to Kueue's scheduler, and back: `gatelog switch`.

Theory. Both read the same queues and write the same Workloads, but what holds quota under one is
not known to the other, and while both run both would admit. So the queues are held first (what runs
runs on, nothing more is admitted), Kueue comes or goes and the mode changes when nothing is
admitted, and the queues that were held here are let go again. The mode belongs to the chart, the
overlay or the user of `gatelog up`: a command that patched deployments would be undone by the next
apply. So the same command runs before that change, which it asks for, and after it.

Invariant: only queues that this switch stopped are resumed by it; with `dry` nothing is written.
"""

from collections.abc import Callable
from typing import Literal

from gatelog.cluster import clusterinfo, crds, intent
from gatelog.cluster.ownership import NAME_LABEL, OWN_NAME, each
from gatelog.examine import gating
from gatelog.removal.released import PODS, inspect, made_by_us
from gatelog.shell.errors import CommandFailed
from gatelog.switching import parts
from podgroup.model.names import GROUP_NAME, MANAGED_LABEL, MANAGED_VALUE, REASON_ANNOTATION
from runtime.kube import KubeClient
from runtime.manifests import Object

Mode = Literal["builtin", "kueue"]
Tell = Callable[[str], None]
_REASON = "gatelog switch"
_NAMED = 5
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_VISIBILITY = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.visibility.kueue.x-k8s.io"
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"


class Queueing:
    """Who admits: `builtin` or `kueue`; `drain` evicts what is admitted instead of waiting."""

    def __init__(self, kube: KubeClient, to: Mode, space: str, *, drain: bool) -> None:
        self._kube = kube
        self._to: Mode = to
        self._space = space
        self._drain = drain
        other = "builtin" if to == "kueue" else "kueue"
        self._back = f"gatelog switch {other}, which resumes the queues that were held here"

    async def switch(self, tell: Tell, *, dry: bool) -> None:
        """Take the switch as far as it can be taken now.

        Raises:
            CommandFailed: a check failed, or the mode has to be applied first.
        """

        def before(line: str) -> None:
            tell(f"before: {line}")

        def done(line: str) -> None:
            tell(f"would have {line}" if dry else line)

        there = await self._in_place()
        if self._to == "builtin":
            await self._only_what_builtin_has(before)
        if there:
            await self._kueue(before)
            await self._finish(done, dry=dry)
            if not dry:
                await self._after(lambda line: tell(f"after: {line}"))
        else:
            await self._prepare(done, dry=dry)
            tell(
                f"next: helm upgrade with mode={self._to} (and crds.install="
                f"{str(self._to == 'builtin').lower()}), or apply the overlay with "
                f"GATELOG_MODE={self._to} for all parts"
            )
        tell(f"back: {self._back}")
        if not (there or dry):
            raise CommandFailed(
                "not switched yet: the checks before are passed; do what is after next:, then run "
                "the same command again"
            )

    async def _in_place(self) -> bool:
        """Tell whether all parts have the mode.

        Raises:
            CommandFailed: there are no deployments, or they have different modes.
        """
        found = await parts.deployments(self._kube, self._space)
        if not found:
            raise CommandFailed(
                f"no deployment of gatelog is in {self._space} (-N names another namespace). With "
                "gatelog up: stop it when gatelog list groups shows nothing admitted, and start "
                f"it again with --set mode={self._to}"
            )
        modes = {
            p: await parts.setting(self._kube, one, "mode") or "builtin"
            for p, one in found.items()
            if p in parts.PARTS
        }
        if len(set(modes.values())) > 1:
            said = ", ".join(f"{part} {mode}" for part, mode in sorted(modes.items()))
            raise CommandFailed(f"the parts are set to different modes ({said}): apply one for all")
        return set(modes.values()) == {self._to}

    async def _prepare(self, tell: Tell, *, dry: bool) -> None:
        """Hold the queues; see that nothing is admitted, and that Kueue is there, or away."""
        tried: intent.DryRun = "server" if dry else "none"
        stop: intent.Stop = "HoldAndDrain" if self._drain else "Hold"
        for queue in await self._queues():
            name, present = queue["metadata"]["name"], queue["spec"].get("stopPolicy") or "None"
            if present == stop or not (present == "None" or _held_here(queue)):
                continue
            one, why = intent.Queue("clusterqueue", "", name), f"{_REASON} {self._to}"
            await intent.set_queue(self._kube, one, stop, why, dry=tried)
            tell(f"stopped clusterqueue {name} ({stop})")
        held = await self._admitted()
        if held and not dry:
            named = ", ".join(held[:_NAMED]) + (", ..." if len(held) > _NAMED else "")
            raise CommandFailed(
                f"{len(held)} {_holders(held)} hold quota ({named}), and the next scheduler would "
                "not know: wait until they have ended, or evict them with --drain; then run the "
                f"same command again. Back: {self._back}"
            )
        tell(f"found {len(held)} {_holders(held)} that hold quota")
        await self._kueue(tell)

    async def _finish(self, tell: Tell, *, dry: bool) -> None:
        """Let the queues go, and take away what answers in Kueue's place."""
        if self._to == "kueue":
            service = await clusterinfo.get(self._kube, _VISIBILITY)
            labels = (service.get("metadata") or {}).get("labels") or {}
            if labels.get(NAME_LABEL) == OWN_NAME:
                await self._remove_visibility(tell, dry=dry)
        if not dry:
            await parts.rolled_out(self._kube, self._space, parts.ROLLED_OUT_S)
        tried: intent.DryRun = "server" if dry else "none"
        for queue in await self._queues():
            if not _held_here(queue):
                continue
            name = queue["metadata"]["name"]
            one = intent.Queue("clusterqueue", "", name)
            await intent.set_queue(self._kube, one, "None", "", dry=tried)
            tell(f"resumed clusterqueue {name}")

    async def _after(self, tell: Tell) -> None:
        """See that every replica runs in the mode, and that a pod gets its gate."""
        found = await parts.rolled_out(self._kube, self._space, parts.ROLLED_OUT_S)
        ready = sum((one.get("status") or {}).get("readyReplicas", 0) for one in found.values())
        tell(f"{ready} replicas run with mode {self._to}")
        held = [
            q["metadata"]["name"]
            for q in await self._queues()
            if (q["spec"].get("stopPolicy") or "None") != "None"
        ]
        tell(
            "no ClusterQueue is stopped"
            if not held
            else f"stopped by another client: {', '.join(held)}"
        )
        gate = await gating.tried(self._kube)
        if gate.verdict != "ok":
            raise CommandFailed(f"{gate.detail}: {gate.remedy}")
        tell(gate.detail)

    async def _remove_visibility(self, tell: Tell, *, dry: bool) -> None:
        if not dry:
            status, answer = await self._kube.json("DELETE", _VISIBILITY)
            if status >= 400 and status != 404:
                said = (answer or {}).get("message")
                raise CommandFailed(f"cannot delete {_VISIBILITY}: {said}")
        tell(f"removed apiservices {_VISIBILITY.rpartition('/')[2]}")

    async def _kueue(self, tell: Tell) -> None:
        configurations = await self._kueue_webhooks()
        if self._to == "kueue":
            await self._kueue_is_there(configurations, tell)
        else:
            await self._kueue_is_away(configurations, tell)

    async def _kueue_is_there(self, configurations: list[str], tell: Tell) -> None:
        if not configurations:
            raise CommandFailed(
                "Kueue is not installed (no webhook configuration kueue-*): install it with "
                f"{', '.join(clusterinfo.POD_FRAMEWORKS)} taken out of integrations.frameworks, "
                "then switch"
            )
        ready, seen = await self._controllers()
        if seen and not ready:
            raise CommandFailed(
                "no replica of Kueue's controller is ready: nothing would be admitted (kubectl -n "
                "kueue-system get pods)"
            )
        taken = await clusterinfo.kueue_pod_frameworks(self._kube)
        if taken:
            raise CommandFailed(
                f"Kueue queues pods itself ({', '.join(taken)} in integrations.frameworks of "
                "kueue-manager-config): both would gate and ungate the same pods; take them out "
                "and restart Kueue, then switch"
            )
        foreign = (await crds.compare(self._kube)).foreign
        missing = [kind for kind in clusterinfo.NEEDED_KINDS if kind not in foreign]
        if missing:
            raise CommandFailed(
                f"the CRDs of {', '.join(missing)} are gatelog's: Kueue needs its own. Apply its "
                "manifests (kubectl apply --server-side --force-conflicts); queues stay"
            )
        tell(
            f"Kueue is installed ({configurations[0]}), its CRDs are its own"
            + (", and it leaves pods alone" if taken is not None else "")
        )
        if taken is None:
            tell(
                "its configuration cannot be read: see that integrations.frameworks has none of "
                + ", ".join(clusterinfo.POD_FRAMEWORKS)
            )

    async def _kueue_is_away(self, configurations: list[str], tell: Tell) -> None:
        ready, _ = await self._controllers()
        if configurations or ready:
            what = ", ".join(configurations) or "its controller runs"
            raise CommandFailed(
                f"Kueue is still here ({what}): two would admit the same Workloads. When nothing "
                "is admitted remove its webhook configurations, then its Deployment, and keep its "
                "CRDs; then switch"
            )
        dead = []
        for wanted in crds.definitions():
            path = f"{_CRDS}/{wanted['metadata']['name']}"
            spec = (await clusterinfo.get(self._kube, path)).get("spec") or {}
            if (spec.get("conversion") or {}).get("strategy") == "Webhook":
                dead.append(spec["names"]["plural"])
        if dead:
            raise CommandFailed(
                f"the CRDs of {', '.join(dead)} convert through Kueue's webhook, which is away: "
                f"{crds.BY_HAND} puts gatelog's in their place (queues stay); then switch"
            )
        missing = (await clusterinfo.kueue(self._kube)).missing
        if missing:
            raise CommandFailed(f"{', '.join(missing)} are not served: {crds.BY_HAND}, then switch")
        tell("Kueue is away, and its kinds are served without it")

    async def _only_what_builtin_has(self, tell: Tell) -> None:
        asking = [
            f"AdmissionCheck {one['metadata']['name']} (MultiKueue)"
            for one in await parts.listed(self._kube, "admissionchecks")
            if one["spec"].get("controllerName") == _MULTIKUEUE
        ]
        if asking:
            raise CommandFailed(
                f"builtin has no MultiKueue, which is asked for by "
                f"{', '.join(asking[:_NAMED])}: take that away first"
            )
        for part, one in (await parts.deployments(self._kube, self._space)).items():
            shards = await parts.setting(self._kube, one, "shards")
            if shards and int(shards) > 1:
                raise CommandFailed(
                    f"{part} has {shards} shards, and builtin shares quota over all namespaces: "
                    "set shards = 1 (a new epoch of the log), then switch"
                )
        tell("nothing asks for MultiKueue")

    async def _kueue_webhooks(self) -> list[str]:
        found = await clusterinfo.seen(
            self._kube, f"{clusterinfo.ADMISSION}/mutatingwebhookconfigurations"
        )
        if found is None:
            raise CommandFailed(
                "this account may not list webhook configurations: switch as an administrator"
            )
        names = [str(one["metadata"]["name"]) for one in found.get("items") or ()]
        return [name for name in names if name.startswith("kueue-")]

    async def _controllers(self) -> tuple[int, int]:
        """Return how many replicas of Kueue's controller are ready, of how many deployments."""
        selector = "control-plane%3Dcontroller-manager,app.kubernetes.io/name%3Dkueue"
        found = await clusterinfo.get(
            self._kube, f"/apis/apps/v1/deployments?labelSelector={selector}"
        )
        items = found.get("items") or []
        return sum((o.get("status") or {}).get("readyReplicas", 0) for o in items), len(items)

    async def _admitted(self) -> list[str]:
        """Name the Workloads of pods that hold quota, and pods that run without a Workload.

        Those are single pods under `queueing.workloads = "groups"`.
        """
        workloads = await parts.listed(self._kube, "workloads")
        held = [
            f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in workloads
            if made_by_us(one) and parts.holds_quota(one)
        ]
        owners = {
            owner["uid"]
            for one in workloads
            for owner in one["metadata"].get("ownerReferences") or ()
        }
        if self._to == "kueue":
            async for pod in each(self._kube, PODS, selector=f"{MANAGED_LABEL}={MANAGED_VALUE}"):
                meta, found = pod["metadata"], inspect(pod)
                alone = GROUP_NAME not in (meta.get("labels") or {}) and meta["uid"] not in owners
                ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
                if alone and found.finalizer and not found.gated and not ended:
                    held.append(f"pod {meta['namespace']}/{meta['name']}")
        return held

    async def _queues(self) -> list[Object]:
        return await parts.listed(self._kube, "clusterqueues")


def _holders(held: list[str]) -> str:
    alone = any(name.startswith("pod ") for name in held)
    return "Workloads and pods without one" if alone else "Workloads"


def _held_here(queue: Object) -> bool:
    reason = (queue["metadata"].get("annotations") or {}).get(REASON_ANNOTATION, "")
    return str(reason).startswith(_REASON)
