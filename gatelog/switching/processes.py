"""From `gatelog up` to three deployments, and back.

Theory. Two that decide on the same pods with a log each are what must not be, so the old one has
ended before the new one is applied. What holds quota is known from the Workloads, which the new one
reads: nothing that runs is stopped, and nothing is admitted twice. Log and read model are files or
servers of the old one; history comes along as an export that is imported into the new database.

Invariant: nothing is switched while both run.
"""

from typing import Literal

from gatelog.cluster import clusterinfo
from gatelog.cluster.install import registered_url
from gatelog.cluster.ownership import each
from gatelog.examine import gating
from gatelog.removal.released import PODS, look
from gatelog.shell.errors import CommandFailed
from gatelog.shell.statedir import StateDir
from gatelog.switching import parts, probe
from gatelog.switching.course import Tell
from podgroup.model.names import MANAGED_LABEL, MANAGED_VALUE
from runtime.kube import KubeClient

Way = Literal["one", "three"]
_EXPORT = "gatelog export old.jsonl.gz"
_IMPORT = "gatelog import old.jsonl.gz --to"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces"


class Processes:
    """What gatelog runs as: `one` process with a state directory, or `three` deployments."""

    def __init__(
        self, kube: KubeClient, to: Way, space: str, namespace: str, state: StateDir
    ) -> None:
        self._kube = kube
        self._to: Way = to
        self._space = space
        self._namespace = namespace
        self._state = state
        if to == "three":
            self.how = (
                f"to keep history, {_EXPORT} here, and {_IMPORT} with the empty database of the "
                "deployments; then docs/install.md#in-a-cluster: helm install with "
                "--take-ownership --force-conflicts, or kubectl apply --server-side "
                "--force-conflicts of an overlay"
            )
            self.back = "gatelog switch processes one"
        else:
            self.how = (
                f"to keep history, {_IMPORT} {state.model} of an export; then gatelog up, with "
                "--install policy or webhook"
            )
            self.back = "gatelog switch processes three"

    async def in_place(self) -> bool:
        """Tell whether the new one is there."""
        if self._to == "one":
            return self._state.held()
        return set(parts.PARTS) <= set(await parts.deployments(self._kube, self._space))

    async def before(self, tell: Tell) -> None:
        """See that the old one has ended, and what gates pods without it."""
        deployed = await parts.deployments(self._kube, self._space)
        running, held = [name for name in deployed if name in parts.PARTS], self._state.held()
        if self._to == "three" and held:
            raise CommandFailed(
                f"gatelog up still runs on {self._state.path} (process {self._state.holder()}), "
                "and two would decide on the same pods: export its log if history is to be kept "
                f"({_EXPORT}), end it with Ctrl-C or SIGTERM, then run the same command again"
            )
        if self._to == "one" and running:
            raise CommandFailed(
                f"{', '.join(running)} are deployments in {self._space}, and two would decide on "
                f"the same pods: export the log if history is to be kept ({_EXPORT}), then gatelog "
                "uninstall --gates keep, then run the same command again"
            )
        tell("gatelog up does not run here" if self._to == "three" else "no deployment is left")
        url = await registered_url(self._kube)
        policy = (await clusterinfo.admission(self._kube)).policy
        if self._to == "three" and url and not policy:
            raise CommandFailed(
                f"pods are gated by the webhook of gatelog up at {url} alone: they are refused "
                "until a webhook answers there. Kubernetes 1.36: gatelog up --install policy, end "
                "it again, and switch. Before that: kubectl delete mutatingwebhookconfiguration,"
                "validatingwebhookconfiguration gatelog-pods right before you install; pods that "
                "are created in between start at once"
            )
        tell(
            "policies gate pods meanwhile"
            if policy
            else "nothing gates pods meanwhile: those that are created now start at once"
        )
        tell(await self._counts())

    async def prepare(self, tell: Tell, *, dry: bool) -> None:
        """Take away the registration of a webhook that has ended."""
        if self._to == "three" and await registered_url(self._kube):
            await probe.remove(self._kube, clusterinfo.REGISTRATIONS, tell, dry=dry)

    async def finish(self, tell: Tell, *, dry: bool) -> None:
        """Take away the registration of a webhook that has ended."""
        await self.prepare(tell, dry=dry)

    async def after(self, tell: Tell) -> None:
        """See that the new one works, and has what runs in its books."""
        if self._to == "three":
            await self._deployments_work(tell)
        else:
            tell(f"gatelog up runs on {self._state.path} (process {self._state.holder()})")
        found = await clusterinfo.admission(self._kube)
        state = await gating.examine(self._kube, found)
        if state.verdict != "ok":
            raise CommandFailed(f"{state.detail}: {state.remedy}")
        await probe.gated(self._kube, self._namespace)
        tell("a pod that names a queue gets its gate")
        tell(await self._counts())

    async def _deployments_work(self, tell: Tell) -> None:
        found = await parts.rolled_out(self._kube, self._space, parts.ROLLED_OUT_S)
        tell(f"all replicas of {', '.join(sorted(found))} are ready")
        listed = await clusterinfo.get(self._kube, f"{_LEASES}/{self._space}/leases")
        for part in ("ingest", "projector"):
            held = [
                one
                for one in listed.get("items") or ()
                if one["metadata"]["name"].startswith(f"gatelog-{part}-")
                and one["spec"].get("holderIdentity")
            ]
            if not held:
                raise CommandFailed(
                    f"no replica holds the Lease of {part} in {self._space}: its log says why "
                    f"(kubectl -n {self._space} logs deploy/gatelog-{part})"
                )
        tell("the Leases of ingest and projector are held")

    async def _counts(self) -> str:
        """Say how many pods of queues run and wait at their gate, and how many hold quota."""
        waiting = running = 0
        async for pod in each(self._kube, PODS, selector=f"{MANAGED_LABEL}={MANAGED_VALUE}"):
            found = look(pod)
            waiting += found.gated
            running += found.running
        holders = sum(map(parts.holds_quota, await parts.listed(self._kube, "workloads")))
        return f"{running} pods of queues run, {waiting} wait; {holders} Workloads hold their quota"
