"""Facts about a cluster: version, Kueue's kinds, registrations for admission.

Theory. `up --install` and `doctor` ask the same few questions through discovery and plain GETs;
the answers are values, so that printing and judging them is the caller's business.

Invariant: this module only reads the cluster.
"""

import re
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from gatelog.shell.errors import CommandFailed
from runtime.kube import KubeClient

KUEUE_GROUP = "kueue.x-k8s.io"
KUEUE_VERSIONS = ("v1beta2", "v1beta1")
"""Served versions that we speak, the preferred first."""
NEEDED_KINDS = ("workloads", "localqueues", "clusterqueues", "resourceflavors")
"""Without these no group can be admitted."""
OPTIONAL_KINDS = ("workloadpriorityclasses", "cohorts", "admissionchecks", "topologies")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WEBHOOK, POLICY = "gatelog-pods", "gatelog-queued-pods"
"""The gating of pods: the name of the webhook configurations, and of the policy."""
REGISTRATIONS = tuple(
    f"{ADMISSION}/{kind}webhookconfigurations/{WEBHOOK}" for kind in ("mutating", "validating")
)
POD_FRAMEWORKS = ("pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")
"""Integrations of Kueue that queue pods: the last three switch the first on by themselves."""
PAGE = 500
"""Objects of a page of a list."""
_KUEUE_CONFIG = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def get(kube: KubeClient, path: str) -> dict[str, Any]:
    """Return an object or discovery document, {} when the server has none to give.

    Some servers answer a missing path with text (404 page not found).
    """
    return await seen(kube, path) or {}


async def seen(kube: KubeClient, path: str) -> dict[str, Any] | None:
    """Return an object, {} when there is none, None when this account may not look."""
    answer = await kube.request("GET", path)
    if answer.status in (401, 403):
        return None
    if answer.status != 200:
        return {}
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


async def every(kube: KubeClient, path: str) -> list[dict[str, Any]] | None:
    """Return all objects of a kind, page by page, [] when there are none, None when this account
    may not list them. If a page has expired meanwhile, all are read in one.
    """
    found: list[dict[str, Any]] = []
    more = ""
    while True:
        going_on = f"&continue={quote(more, safe='')}" if more else ""
        page = await seen(kube, f"{path}?limit={PAGE}{going_on}")
        if more and not page:
            whole = await seen(kube, path)
            return None if whole is None else whole.get("items") or []
        if page is None:
            return None
        found += page.get("items") or ()
        more = (page.get("metadata") or {}).get("continue") or ""
        if not more:
            return found


async def user(kube: KubeClient) -> str:
    """Return the name under which the API server knows us, "" when it does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    status, answer = await kube.json("POST", _WHO, body=body)
    if status != 201:
        return ""  # the body is then from a proxy, or an overloaded server
    name = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
    return str(name or "")


class Version(NamedTuple):
    """Version of the API server; `text` as it reports it."""

    major: int
    minor: int
    text: str

    def at_least(self, major: int, minor: int) -> bool:
        """Return whether the version is this or a later one."""
        return (self.major, self.minor) >= (major, minor)


async def version(kube: KubeClient) -> Version:
    """Return the version of the API server.

    Raises:
        CommandFailed: the answer has no version.
    """
    found = await get(kube, "/version")
    numbers = [re.match(r"\d+", str(found.get(key, ""))) for key in ("major", "minor")]
    if None in numbers:
        raise CommandFailed(
            f"{kube.server}/version tells no version: is it a Kubernetes API server?"
        )
    major, minor = (int(number[0]) for number in numbers if number is not None)
    return Version(major, minor, str(found.get("gitVersion") or f"v{major}.{minor}"))


class Kueue(NamedTuple):
    """The served kinds of Kueue; `version` is "" without a version that we speak."""

    version: str
    kinds: frozenset[str]

    @property
    def missing(self) -> list[str]:
        """Kinds without which nothing can be admitted, in the order of `NEEDED_KINDS`."""
        return [kind for kind in NEEDED_KINDS if kind not in self.kinds]


async def kueue(kube: KubeClient) -> Kueue:
    """Return which of Kueue's kinds the server has, in the version we would use."""
    group = await get(kube, f"/apis/{KUEUE_GROUP}")
    served = {entry["version"] for entry in group.get("versions", ())}
    for name in KUEUE_VERSIONS:
        if name in served:
            listed = await get(kube, f"/apis/{KUEUE_GROUP}/{name}")
            plurals = [r["name"] for r in listed.get("resources", ())]
            return Kueue(name, frozenset(p for p in plurals if "/" not in p))
    return Kueue("", frozenset())


async def kinds_are_going(kube: KubeClient) -> bool:
    """Return whether the CRD of Workloads is being deleted and waits for finalizers to go."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.{KUEUE_GROUP}"
    return bool((await get(kube, path)).get("metadata", {}).get("deletionTimestamp"))


class GateRegistrations(NamedTuple):
    """The gating of pods on this cluster; None: this account may not see it."""

    webhook: bool | None
    policy: bool | None
    kueue_pods: str
    """Name of the configuration through which Kueue's own pod integration sees pods, or ""."""


async def admission(kube: KubeClient) -> GateRegistrations:
    """Return which of the ways to gate pods are registered."""
    mutating = f"{ADMISSION}/mutatingwebhookconfigurations"
    hook = await seen(kube, f"{mutating}/{WEBHOOK}")
    policy = await seen(kube, f"{ADMISSION}/mutatingadmissionpolicies/{POLICY}")
    return GateRegistrations(
        webhook=None if hook is None else bool(hook),
        policy=None if policy is None else bool(policy),
        kueue_pods=_kueue_pods((await get(kube, mutating)).get("items", ())),
    )


def _kueue_pods(configurations: Any) -> str:
    """Name the configuration that hands pods to Kueue (its webhooks are called `*.kb.io`)."""
    for configuration in configurations:
        name = str(configuration["metadata"]["name"])
        for hook in configuration.get("webhooks", ()):
            if hook.get("name") == "mpod.kb.io" and "kueue" in name:
                return name
    return ""


async def kueue_pod_frameworks(kube: KubeClient) -> list[str] | None:
    """Return the integrations in Kueue's configuration that queue pods; None: not readable."""
    import yaml

    found = await get(kube, _KUEUE_CONFIG)
    try:
        config: Any = yaml.safe_load(found["data"]["controller_manager_config.yaml"])
        named = (config.get("integrations") or {}).get("frameworks") or ()
    except (KeyError, TypeError, AttributeError, yaml.YAMLError):
        return None
    return [name for name in POD_FRAMEWORKS if name in named]
