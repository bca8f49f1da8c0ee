"""The webhook in this process: its certificate, its server, and its entry at the API server.

With certificates made by another system (`webhook.cert_file`) the registration is that system's
task too, since it knows the authority. With certificates of our own only we know the authority, so
we write it into both webhook configurations, by server-side apply, in front of the authorities of
other replicas (`runtime.ca_bundle`), and again when it is missing there. Behind a Service the chart
or an overlay installs the configurations, and we write only the field caBundle: while the
configurations are missing (a GitOps tool is under way) the API server does not call us, which is no
problem. With `webhook.url` (`gatelog up` on a user's machine) we write the whole configurations. A
removed registration of that kind stays away until the next start: it was removed for a reason
(removal, a switch to policies), and restored while we end it would refuse every pod.

A registration that cannot be read is not overwritten: only 200 and 404 show what is registered. A
write names the version that was read, so that another replica's authority is not lost. A refused
registration is reported and retried; the server goes on, as the registration may be in place
already.

No pod is refused while replicas come and go: a new replica is not ready before the API server has
had time to learn its authority, and an ending replica answers for `webhook.linger_s` more, until it
gets no more requests.

Invariant: the registration names an authority only after a certificate of it is served.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ingest.webhook.admission import AdmissionWebhooks
from ingest.webhook.install import (
    CONFIGURATION_NAME,
    Registration,
    ServiceEndpoint,
    UrlEndpoint,
    configurations,
)
from ingest.webhook.lookup import ApiLookup
from ingest.webhook.server import Limits, WebhookServer
from ingest.webhook.settings import actuator_user, label_kinds, policy_for
from podgroup.model.names import FIELD_MANAGER
from runtime.ca_bundle import bundle_of, merged, trusts
from runtime.certificates import OwnCertificates
from runtime.health import Checks
from runtime.kube_answer import HttpAnswer, HttpClient
from runtime.kube_errors import KubeError
from runtime.log import get_logger
from runtime.rotation import ServerCertificate, keep_fresh
from runtime.settings import Settings

RENEW_S = 12 * 3600.0
"""Seconds between looks at the certificate; it is renewed long before it ends."""

RETRY_S = 5.0
"""Seconds until a refused registration is retried, and a missing registration looked for."""
LOOK_S = 60.0
"""Seconds between looks at whether we are still trusted: other replicas register, too."""
HEARD_S = 2.0
"""Seconds after which the API server acts by a registration that was written."""

AUTHORITY_MANAGER = "gatelog-authority"
"""Field manager that applies authorities alone: `gatelog` may own the rest, which its apply would
then drop.
"""
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}

log = get_logger("webhook")


class RegistrationRefused(Exception):
    """An answer of the API server that shows neither the registration nor that it was written."""


class Overtaken(Exception):
    """Another replica wrote the registration since it was read."""


class Trust:
    """Whether the API server can verify this replica; `problem` is a readiness check."""

    def __init__(self, heard_s: float, look_s: float) -> None:
        self.heard_s = heard_s
        self.look_s = look_s
        self.problem = "not registered with the API server yet"
        self.there = True
        """Whether the last look found a registration, as far as is known."""


@asynccontextmanager
async def webhook(
    settings: Settings,
    api: HttpClient,
    checks: Checks | None = None,
    heard_s: float = HEARD_S,
    look_s: float = LOOK_S,
    restored: asyncio.Event | None = None,
) -> AsyncIterator[WebhookServer]:
    """Serve the webhook while the context lasts, and `webhook.linger_s` longer.

    `restored` is set by the caller each time the cluster was restored, and cleared here: the
    registration may then name an earlier address, or be missing, and is written again.

    Raises:
        OSError: the address cannot be listened on, or the certificate directory written.
        CertificateError: the certificate files cannot be used.
    """
    chosen = settings.webhook
    certificate = ServerCertificate(chosen.cert_file, chosen.key_file, own_certificates(settings))
    server = WebhookServer(
        AdmissionWebhooks(policy_for(settings), ApiLookup(_getter(api))),
        tls=certificate.context,
        host=chosen.host,
        port=chosen.port,
        # An answer after the API server has given up is of no use.
        limits=Limits(timeout_s=max(0.5, chosen.timeout_s - 0.5)),
    )
    await server.start()
    # What made the files (cert-manager, mostly) also renews them, under the same paths.
    if certificate.authority:
        trust = Trust(heard_s, look_s)
        if checks is not None and not chosen.url:  # behind a Service others answer meanwhile
            checks.ready("ingest: webhook", lambda: trust.problem)
        keeper = asyncio.create_task(
            _renew_for_ever(settings, api, certificate, server, trust, restored or asyncio.Event())
        )
    else:
        if checks is not None:
            checks.ready("ingest: webhook", certificate.problem)
        keeper = asyncio.create_task(keep_fresh(certificate.refresh))
    try:
        yield server
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        try:
            await server.linger(chosen.linger_s)
        finally:
            await server.stop()


def own_certificates(settings: Settings) -> OwnCertificates:
    """Return the certificates we make for the name by which the API server reaches us."""
    chosen = settings.webhook
    directory = Path(chosen.cert_dir) if chosen.cert_dir else Path(settings.state_dir) / "webhook"
    if chosen.url:
        host = urlsplit(chosen.url).hostname or "localhost"
        return OwnCertificates(directory, (host,))
    service = f"{chosen.service_name}.{chosen.service_namespace}"
    return OwnCertificates(directory, (f"{service}.svc", f"{service}.svc.cluster.local", service))


def registration(settings: Settings, ca_bundle: bytes, served_at: str) -> Registration:
    """Return what to register; `served_at` replaces a port 0 in `webhook.url`."""
    chosen = settings.webhook
    endpoint: UrlEndpoint | ServiceEndpoint = ServiceEndpoint(
        namespace=chosen.service_namespace, name=chosen.service_name
    )
    if chosen.url:
        url = urlsplit(chosen.url)
        port = url.port or urlsplit(served_at).port
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        endpoint = UrlEndpoint(f"{url.scheme}://{host}:{port}")
    return Registration(
        endpoint=endpoint,
        ca_bundle=ca_bundle,
        failure_policy=chosen.failure_policy,
        excluded_namespaces=chosen.excluded_namespaces,
        every_pod=chosen.manage_jobs_without_queue_name,
        actuator_user=actuator_user(settings),
        label_kinds=label_kinds(settings),
        timeout_s=chosen.timeout_s,
    )


async def there_are(api: HttpClient) -> list[dict[str, Any]]:
    """Return the configurations that are registered, the mutating one first.

    Raises:
        KubeError: the API server could not be reached.
        RegistrationRefused: an answer does not say what is registered.
    """
    found = []
    for kind, plural in _PLURALS.items():
        answer = await api.request("GET", f"{_REGISTRATIONS}/{plural}/{CONFIGURATION_NAME}")
        if answer.status == 404:
            continue
        if answer.status != 200:
            raise RegistrationRefused(_said("read", plural, answer))
        try:
            found.append({"kind": kind} | msgspec.json.decode(answer.body, type=dict[str, Any]))
        except msgspec.MsgspecError as error:
            raise RegistrationRefused(_said("read", plural, answer)) from error
    return found


def authorities(found: list[dict[str, Any]], bundle: bytes) -> list[dict[str, Any]]:
    """Return what to apply so that configurations of an installation trust a bundle (PEM)."""
    text = base64.b64encode(bundle).decode()
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": one["kind"],
            "metadata": {"name": one["metadata"]["name"]},
            "webhooks": [
                {"name": hook["name"], "clientConfig": {"caBundle": text}}
                for hook in one["webhooks"]
            ],
        }
        for one in found
        if one.get("webhooks")
    ]


async def register(
    api: HttpClient, wanted: Iterable[dict[str, Any]], manager: str = FIELD_MANAGER
) -> None:
    """Apply configurations as a field manager.

    Raises:
        KubeError: the API server could not be reached.
        Overtaken: a configuration is not the version that `metadata.resourceVersion` names.
        RegistrationRefused: the API server refused.
    """
    for configuration in wanted:
        plural = _PLURALS[configuration["kind"]]
        answer = await api.request(
            "PATCH",
            f"{_REGISTRATIONS}/{plural}/{configuration['metadata']['name']}",
            params={"fieldManager": manager, "force": "true"},
            body=msgspec.json.encode(configuration),
            content_type="application/apply-patch+yaml",
        )
        if answer.status == 409:
            raise Overtaken(_said("write", plural, answer))
        if answer.status not in (200, 201):
            raise RegistrationRefused(_said("write", plural, answer))


def _said(verb: str, plural: str, answer: HttpAnswer) -> str:
    text = answer.body[:300].decode(errors="replace")
    return f"cannot {verb} {plural}/{CONFIGURATION_NAME}: {answer.status} {text}"


async def _renew_for_ever(
    settings: Settings,
    api: HttpClient,
    certificate: ServerCertificate,
    server: WebhookServer,
    trust: Trust,
    restored: asyncio.Event,
) -> None:
    """Renew the certificate when due, and see to it that the registration trusts our authority."""
    renewed_at = -RENEW_S
    while True:
        if time.monotonic() - renewed_at >= RENEW_S:
            try:
                certificate.refresh()
                renewed_at = time.monotonic()
            except OSError as error:
                log.error("webhook_certificate_not_renewed", problem=str(error))
        wait_s = await _registered(settings, api, certificate.authority, server, trust)
        with suppress(TimeoutError):
            await asyncio.wait_for(restored.wait(), wait_s)
            restored.clear()
            trust.problem = "the cluster was restored, and not registered with again yet"


async def _registered(
    settings: Settings,
    api: HttpClient,
    mine: bytes,
    server: WebhookServer,
    trust: Trust,
) -> float:
    """Register if we are not trusted; return the seconds until the next look."""
    try:
        found = await there_are(api)
        hooks = [hook for one in found for hook in one.get("webhooks") or ()]
        if not hooks and (trust.problem == "" or not settings.webhook.url):
            return _not_there(settings, trust)
        trust.there = True
        bundles = [bundle_of(hook) for hook in hooks]
        fits = bool(hooks) and all(trusts(one, mine) for one in bundles)
        # The other configuration may be on its way, and must trust us soon, too.
        look_s = trust.look_s if len(found) == len(_PLURALS) else RETRY_S
        if fits and (trust.problem == "" or not settings.webhook.url):
            trust.problem = ""
            return look_s
        bundle = merged(mine, b"".join(bundles), datetime.now(UTC))
        if settings.webhook.url:
            # Also where the authority is known: the registration may be an earlier release's.
            whole = configurations(registration(settings, bundle, server.url))
            await register(api, _as_read(whole, found))
        else:
            await register(api, _as_read(authorities(found, bundle), found), AUTHORITY_MANAGER)
    except Overtaken as error:
        log.info("webhook_registration_overtaken", note=str(error))
        return trust.heard_s
    except (KubeError, RegistrationRefused) as error:
        log.warning("webhook_not_registered", problem=str(error))
        return RETRY_S
    log.info("webhook_registered")
    if fits:
        trust.problem = ""
        return look_s
    # Another replica may have registered at the same moment: look whether ours has stayed.
    return trust.heard_s


def _not_there(settings: Settings, trust: Trust) -> float:
    """Take note that nothing is registered; return the seconds until the next look."""
    trust.problem = ""  # no requests come
    if settings.webhook.url:
        log.warning("webhook_registration_removed", note="restart ingest to register again")
        return trust.look_s
    if trust.there:
        log.info("webhook_registration_awaited", note="the chart or the overlay installs it")
        trust.there = False
    return min(trust.look_s, RETRY_S)


def _as_read(wanted: Iterable[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return configurations to apply that name the version of those which were read."""
    versions = {one["kind"]: one["metadata"]["resourceVersion"] for one in found}
    return [
        one | {"metadata": one["metadata"] | {"resourceVersion": versions[one["kind"]]}}
        if one["kind"] in versions
        else one
        for one in wanted
    ]


def _getter(api: HttpClient) -> Any:
    async def get(path: str) -> tuple[int, dict[str, Any]]:
        answer = await api.request("GET", path)
        try:
            return answer.status, msgspec.json.decode(answer.body, type=dict[str, Any])
        except msgspec.MsgspecError:
            # A proxy's error page: the status says enough.
            return answer.status, {}

    return get
