"""Setting a cluster up: CRDs where Kueue's kinds are absent, and the way pods get their gate.

Theory. All objects are server-side applied under one field manager, so that a repetition changes
nothing and managedFields show who owns what. The objects are those of `deploy/`, with policies
fitted to the settings and to our user (`policies`). The webhook is served and registered by ingest
(its address and CA differ per installation, and no request may go to a server that does not listen
yet); here it is only switched on and waited for.

Invariant: only policies of earlier releases are deleted, and CRDs that are not ours are never
written (Kueue's own stay as they are).
"""

import asyncio
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from gatelog.cluster import clusterinfo, crds, policies
from gatelog.shell.errors import CommandFailed, UsageFailed
from runtime.kube import KubeClient
from runtime.manifests import Object
from runtime.settings import Settings

Way = Literal["none", "webhook", "policy"]

FIELD_MANAGER = "gatelog-install"
POLICY_SINCE = (1, 36)
WEBHOOK_SINCE = (1, 30)
WEBHOOK_PATH = clusterinfo.REGISTRATIONS[0]
_PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
"""Kinds that are installed; all are cluster-scoped."""


def path_of(obj: Object) -> str:
    """Return the path of a cluster-scoped object that we install.

    Raises:
        CommandFailed: its kind is not one that we install.
    """
    plural = _PLURALS.get(obj["kind"])
    if plural is None:
        raise CommandFailed(f"deploy/ holds a {obj['kind']}, which gatelog does not install")
    return f"/apis/{obj['apiVersion']}/{plural}/{obj['metadata']['name']}"


async def apply(kube: KubeClient, objects: Iterable[Object]) -> list[str]:
    """Server-side apply objects in order; return `kind name` of each.

    Raises:
        CommandFailed: the API server refuses an object; the message says which and why.
    """
    done: list[str] = []
    for obj in objects:
        name = f"{obj['kind']} {obj['metadata']['name']}"
        answer = await kube.request(
            "PATCH",
            path_of(obj),
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=msgspec.json.encode(obj),
            content_type="application/apply-patch+yaml",
        )
        if answer.status >= 400:
            raise CommandFailed(
                f"cannot install {name}: the API server answered {answer.status}: "
                f"{answer.message()}"
            )
        done.append(name)
    return done


class Kinds(NamedTuple):
    """The result for Kueue's kinds: CRDs that were installed or updated, and CRDs left alone."""

    applied: list[str]
    left: list[str]
    """In sentences."""


async def install_kinds(kube: KubeClient) -> Kinds:
    """Install the CRDs of `deploy/crds` where Kueue's kinds are absent, and bring ours up to date.

    Raises:
        CommandFailed: the kinds are being deleted; some exist that are not ours and others are
            missing; a new CRD is refused, or not served within 30 s.
    """
    if await clusterinfo.kinds_are_going(kube):
        raise CommandFailed(
            f"Kueue's kinds are being deleted on {kube.server}, with all queues and Workloads, and "
            "whatever runs under a Workload would be stopped: finish that first with gatelog "
            "uninstall --gates keep, which frees them and stops nothing, then install again"
        )
    found = await crds.compare(kube)
    missing = (await clusterinfo.kueue(kube)).missing
    if found.foreign and missing:
        raise CommandFailed(
            f"{kube.server} has CRDs of some of Kueue's kinds that are not gatelog's "
            f"({', '.join(found.foreign)}), but not {', '.join(missing)}: finish or remove that "
            "installation first, gatelog does not mix its CRDs with Kueue's"
        )
    if found.foreign:
        return Kinds([], [f"the CRDs of {', '.join(found.foreign)} are not gatelog's: left alone"])
    done = Kinds(await apply(kube, found.absent), [])
    for outdated in found.outdated:
        try:
            done.applied.extend(await apply(kube, [outdated]))
        except CommandFailed as error:
            done.left.append(f"{error}. It stays as another release made it; {crds.BY_HAND}")
    if found.absent:
        await crds.until_served(kube)
    return done


async def install_policy(kube: KubeClient, settings: Settings) -> list[str]:
    """Install the admission policies and the fence; return the names of installed objects.

    Raises:
        CommandFailed: the server is older than Kubernetes 1.36, or refuses an object.
    """
    found = await clusterinfo.version(kube)
    if not found.at_least(*POLICY_SINCE):
        raise CommandFailed(
            f"--install policy needs Kubernetes {_dotted(POLICY_SINCE)} "
            f"(MutatingAdmissionPolicy v1); {kube.server} is {found.text}: use --install webhook"
        )
    return await apply(kube, policies.policies(settings))


async def install_fence(kube: KubeClient, settings: Settings) -> list[str]:
    """Install the fence round the actuator's account; return the names of installed objects.

    Raises:
        CommandFailed: the server refuses it.
    """
    return await apply(kube, policies.fence(settings))


async def as_ourselves(kube: KubeClient, settings: Settings) -> Settings:
    """Return the settings with our own user at the API server as the actuator's.

    Raises:
        CommandFailed: the server does not say who we are.
    """
    if settings.webhook.actuator_user:
        return settings
    user = await clusterinfo.user(kube)
    if not user:
        raise CommandFailed(
            f"{kube.server} does not say which user this is (no answer to a "
            "SelfSubjectReview): set webhook.actuator_user to the name under which the API server "
            "knows it"
        )
    webhook = msgspec.structs.replace(settings.webhook, actuator_user=user)
    return msgspec.structs.replace(settings, webhook=webhook)


async def check_webhook(kube: KubeClient, url: str) -> None:
    """Refuse a webhook that could not work on this server.

    Raises:
        CommandFailed: the server is too old.
        UsageFailed: the server cannot reach the address, as far as can be seen from here.
    """
    found = await clusterinfo.version(kube)
    if not found.at_least(*WEBHOOK_SINCE):
        raise CommandFailed(
            f"--install webhook needs Kubernetes {_dotted(WEBHOOK_SINCE)} (matchConditions); "
            f"{kube.server} is {found.text}"
        )
    if url and _loopback(url) and not _loopback(kube.server):
        raise UsageFailed(
            f"the API server {kube.server} cannot reach the webhook at {url}: set webhook.host to "
            "an address to listen on and webhook.url to https://ADDRESS:PORT as the API server "
            "sees this machine (--set webhook.url=...)"
        )


async def webhook_settings(kube: KubeClient, settings: Settings) -> Settings:
    """Return the settings with the webhook on, at an address of this machine unless one is set.

    Raises:
        CommandFailed: the server is too old.
        UsageFailed: the server could not reach the address, as far as can be seen from here.
    """
    chosen = settings.webhook
    url = own_url(settings)
    if not url.startswith("https://"):
        raise UsageFailed(f"webhook.url = {url!r}: the API server calls webhooks over https only")
    await check_webhook(kube, url)
    webhook = msgspec.structs.replace(chosen, enabled=True, url=url)
    return msgspec.structs.replace(settings, webhook=webhook)


def own_url(settings: Settings) -> str:
    """Return the address under which this process would register its webhook."""
    chosen = settings.webhook
    host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
    return chosen.url.rstrip("/") or f"https://{host}:{chosen.port}"


async def registered_url(kube: KubeClient) -> str:
    """Return the address the webhook is registered under; "" when it is not, or by a Service."""
    found = await clusterinfo.get(kube, WEBHOOK_PATH)
    for hook in found.get("webhooks") or ():
        url = urlsplit(hook.get("clientConfig", {}).get("url", ""))
        if url.netloc:
            return f"{url.scheme}://{url.netloc}"
    return ""


async def wait_registered(kube: KubeClient, deadline_s: float = 30.0) -> str:
    """Wait until the webhook is registered and a server listens there; return its address.

    Raises:
        CommandFailed: the webhook is not registered or does not listen within `deadline_s`.
    """
    url = ""
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                url = await registered_url(kube)
                if url and await listens_at(url):
                    return url
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise CommandFailed(
            f"the webhook is not in place after {deadline_s:.0f} s (registered: "
            f"{url or 'nothing'}): the log says what the API server refused; may this user write "
            "webhook configurations?"
        ) from None


async def listens_at(url: str) -> bool:
    """Return whether a server accepts connections at an address."""
    parts = urlsplit(url)
    try:
        # Not wait_for: before Python 3.12 it may swallow a cancellation.
        async with asyncio.timeout(1.0):
            _, writer = await asyncio.open_connection(parts.hostname or "", parts.port or 443)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
