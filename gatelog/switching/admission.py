"""From webhook to policies and back, on a cluster where pods keep coming.

Theory. Both may be there together, and one whose server is gone refuses every queued pod. So the
new way is found in place before the old one is taken away, and a pod that is created in earnest but
for being stored (dryRun) shows that it gets its gate afterwards.

Invariant: the old way goes only after the new one was found in place.
"""

from typing import Literal

from gatelog.cluster import clusterinfo
from gatelog.examine import gating
from gatelog.shell.errors import CommandFailed
from gatelog.switching import probe
from gatelog.switching.course import Tell
from runtime.kube import KubeClient

Way = Literal["policy", "webhook"]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OLD: dict[Way, tuple[str, ...]] = {
    "webhook": tuple(
        f"{clusterinfo.ADMISSION}/{plural}/{name}"
        for kind, name in (
            ("mutating", clusterinfo.POLICY),
            ("mutating", "gatelog-owner-labels"),
            ("validating", "gatelog-pods"),
        )
        for plural in (f"{kind}admissionpolicybindings", f"{kind}admissionpolicies")
    ),
    "policy": (
        *clusterinfo.REGISTRATIONS,
        *(
            f"{RBAC}/{plural}/{name}"
            for name in ("gatelog-webhook", "gatelog-webhook-registration")
            for plural in ("clusterrolebindings", "clusterroles")
        ),
    ),
}
"""What is taken away when gates are to come from the key."""


class Admission:
    """What gates pods: `policy` or `webhook`; the pod is tried in `namespace`."""

    def __init__(self, kube: KubeClient, to: Way, namespace: str) -> None:
        self._kube = kube
        self._to: Way = to
        self._namespace = namespace
        self.how = (
            f"apply the component of deploy/, or helm upgrade with admission.way={to}, or gatelog "
            f"up --install {to}"
        )
        other = "webhook" if to == "policy" else "policy"
        self.back = f"apply the other way again, then gatelog switch admission {other}"

    async def in_place(self) -> bool:
        """Tell whether pods are gated that way, beside another or not."""
        return self._gates(await clusterinfo.admission(self._kube))

    def _gates(self, found: clusterinfo.Admission) -> bool:
        return bool(found.policy if self._to == "policy" else found.webhook)

    async def before(self, tell: Tell) -> None:
        """See that the way to switch to works, where it is in place."""
        found = await clusterinfo.admission(self._kube)
        if not self._gates(found):
            tell(f"nothing gates pods by {self._to} here yet")
        elif self._to == "policy":
            tell("the policies are in place")
        else:
            state = await gating.examine(self._kube, found)
            if state.verdict != "ok":
                raise CommandFailed(f"{state.detail}: {state.remedy}; then switch")
            await probe.gated(self._kube, self._namespace)
            tell("the webhook answers, and a pod gets its gate")

    async def prepare(self, tell: Tell, *, dry: bool) -> None:
        """Nothing: both ways may be there together."""

    async def finish(self, tell: Tell, *, dry: bool) -> None:
        """Take the other way of gating pods away."""
        await probe.remove(self._kube, OLD[self._to], tell, dry=dry)

    async def after(self, tell: Tell) -> None:
        """See that a pod gets its gate."""
        await probe.gated(self._kube, self._namespace)
        tell(f"a pod that names a queue gets its gate, by {self._to} alone")
