"""From certificates of our own (by helm or by each ingest) to cert-manager's, and back.

Theory. What the API server trusts is in the two registrations, what it meets is in the Secret that
ingest mounts or in ingest itself. cert-manager writes the first while the registrations bear its
annotation; without it a bundle stays as it is, and an ingest that makes its own certificates adds
its authority to what is there. So to cert-manager the certificate is issued before anything mounts
it; back, the annotation goes first, so that old and new are trusted together.

Invariant: no authority is taken out of a registration here.
"""

import asyncio
import base64
import time
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from gatelog.cluster import clusterinfo, manifests
from gatelog.cluster.install import FIELD_MANAGER
from gatelog.cluster.manifests import Object
from gatelog.shell.errors import CommandFailed
from gatelog.switching import parts, probe
from gatelog.switching.admission import RBAC
from gatelog.switching.course import Tell
from ingest.webhook.ca_bundle import registered, trusts
from runtime.kube import KubeClient

Way = Literal["own", "cert-manager"]
INJECT = "cert-manager.io/inject-ca-from"
NAME = "gatelog-webhook"
_API = "/apis/cert-manager.io/v1"
_CONTROLLERS = "app.kubernetes.io/name%20in%20(cert-manager,cainjector)"
_SECRETS = ("gatelog-webhook-tls", "gatelog-webhook-issued")
_POLL_S = 0.5


class Certificates:
    """Whose certificates the webhook serves; `space` is gatelog's namespace.

    `wait_s`: seconds that a certificate, its way into the registrations, and a roll-out have.
    """

    def __init__(
        self,
        kube: KubeClient,
        to: Way,
        space: str,
        namespace: str,
        wait_s: float = parts.ROLLED_OUT_S,
    ) -> None:
        self._kube = kube
        self._wait_s = wait_s
        self._to: Way = to
        self._space = space
        self._namespace = namespace
        self._secret = _SECRETS[0]
        self.back = "gatelog switch certificates " + (
            "own" if to == "cert-manager" else "cert-manager"
        )

    @property
    def how(self) -> str:
        """What to apply."""
        if self._to == "own":
            return (
                "helm upgrade with admission.webhook.certificates=generated and another "
                "admission.webhook.secretName, or apply the overlay with "
                "components/webhook-own-certificates"
            )
        return (
            "helm upgrade with admission.webhook.certificates=certManager and "
            f"admission.webhook.secretName={self._secret}, or apply the overlay with "
            "components/webhook"
        )

    async def in_place(self) -> bool:
        """Tell whether registrations and ingest are as they are with the new way."""
        ingest = await self._ingest()
        mounted = parts.secret(ingest, "webhook") if ingest else ""
        found = await self._registrations()
        injected = all(INJECT in _annotations(one) for one in found)
        if self._to == "cert-manager":
            return injected and bool(mounted) and mounted == await self._issued_to()
        return not injected and (not mounted or mounted != await self._issued_to())

    async def before(self, tell: Tell) -> None:
        """Look at the webhook, at cert-manager, and at what gates pods meanwhile."""
        found = await self._registrations()
        if not all(found):
            raise CommandFailed(
                "the webhook is not registered here (webhook configurations gatelog-pods), so "
                "there are no certificates to switch; gatelog switch admission webhook comes first"
            )
        if any("url" in hook["clientConfig"] for one in found for hook in one["webhooks"]):
            raise CommandFailed(
                "the webhook is registered with an address, as gatelog up does, which makes its "
                "own certificates: gatelog switch processes three comes first"
            )
        if not await self._ingest():
            raise CommandFailed(
                f"there is no deployment of ingest in {self._space}: -N names another namespace"
            )
        tell("the webhook is registered, and ingest is a deployment")
        if self._to == "cert-manager":
            await self._cert_manager(tell)
        policy = (await clusterinfo.admission(self._kube)).policy
        tell(
            "the policies gate pods as well"
            if policy
            else "no policy gates pods: while the roll-out is stuck, queued pods are refused"
        )

    async def prepare(self, tell: Tell, *, dry: bool) -> None:
        """Have the certificate issued; or let the registrations keep what they trust."""
        if self._to == "own":
            for path, one in zip(
                clusterinfo.REGISTRATIONS, await self._registrations(), strict=True
            ):
                if INJECT in _annotations(one):
                    if not dry:
                        await self._merge(path, {"metadata": {"annotations": {INJECT: None}}})
                    tell(
                        f"taken {INJECT} off {path.rsplit('/', 2)[1]}: it goes on trusting "
                        "what it trusts now"
                    )
            return
        ingest = await self._ingest()
        mounted = parts.secret(ingest, "webhook")
        # One that helm made goes with the upgrade, so it cannot be the one that is issued to.
        self._secret = _SECRETS[mounted == _SECRETS[0] and await self._issued_to() != mounted]
        marks = parts.ownership(ingest)
        for obj in manifests.read("webhook/certificate.yaml"):
            made = _fitted(obj, self._space, self._secret, marks)
            if not dry:
                await self._apply(f"{_API}/namespaces/{self._space}/{made['kind'].lower()}s", made)
        if not dry:
            await self._issued(self._secret)
            if marks:
                # Registered by ingest itself: without these helm would not take it over.
                for path in clusterinfo.REGISTRATIONS:
                    await self._merge(path, {"metadata": marks})
        tell(f"had a certificate issued into Secret {self._space}/{self._secret}")

    async def finish(self, tell: Tell, *, dry: bool) -> None:
        """Take away rights and issued certificates that are not needed any more.

        Replicas of before may need them as long as they serve: they are waited for.
        """
        if not dry:
            await parts.rolled_out(self._kube, self._space, self._wait_s)
        if self._to == "cert-manager":
            name = "gatelog-webhook-registration"
            old = [f"{RBAC}/{plural}/{name}" for plural in ("clusterrolebindings", "clusterroles")]
        else:
            issued = await self._issued_to()
            space = f"{_API}/namespaces/{self._space}"
            old = [f"{space}/certificates/{NAME}", f"{space}/issuers/{NAME}"]
            if issued:
                old.append(f"/api/v1/namespaces/{self._space}/secrets/{issued}")
        await probe.remove(self._kube, old, tell, dry=dry)

    async def after(self, tell: Tell) -> None:
        """See that what is served is trusted, by all replicas, and that a pod gets its gate."""
        found = await parts.rolled_out(self._kube, self._space, self._wait_s)
        mounted = parts.secret(found["ingest"], "webhook")
        if mounted:
            authority = await self._issued(mounted)
            await self._trusted(authority, mounted)
            tell(f"both registrations trust the authority of Secret {self._space}/{mounted}")
        else:
            await self._trusted(b"", "ingest")
            tell(
                "both registrations trust an authority, and every ingest is ready, which it is "
                "only while the API server trusts its own"
            )
        await probe.gated(self._kube, self._namespace)
        tell("a pod that names a queue gets its gate")

    async def _cert_manager(self, tell: Tell) -> None:
        served = await clusterinfo.get(self._kube, _API)
        kinds = {one["name"] for one in served.get("resources") or ()}
        absent = {"certificates", "issuers"} - kinds
        if absent:
            raise CommandFailed(
                f"cert-manager is not installed: {' and '.join(sorted(absent))} of "
                "cert-manager.io/v1 are not served; install it, then switch"
            )
        path = f"/apis/apps/v1/deployments?labelSelector={_CONTROLLERS}"
        listed = (await clusterinfo.get(self._kube, path)).get("items") or []
        idle = [
            o["metadata"]["name"]
            for o in listed
            if not (o.get("status") or {}).get("readyReplicas")
        ]
        if idle:
            raise CommandFailed(
                f"no replica of {' and '.join(idle)} is ready: nothing would issue or trust the "
                "certificate; kubectl get deployments -A shows them"
            )
        tell(
            "cert-manager's kinds are served"
            + (f", {len(listed)} of its deployments are ready" if listed else "")
        )

    async def _issued_to(self) -> str:
        """Return the Secret that cert-manager keeps for the webhook, "" for none."""
        path = f"{_API}/namespaces/{self._space}/certificates/{NAME}"
        found = await clusterinfo.get(self._kube, path)
        return str((found.get("spec") or {}).get("secretName") or "")

    async def _issued(self, secret: str) -> bytes:
        """Wait until a Secret has a certificate that fits; return its authority as PEM."""
        end = time.monotonic() + self._wait_s
        while True:
            wrong, authority = await self._wrong_with(secret)
            if not wrong:
                return authority
            if time.monotonic() >= end:
                raise CommandFailed(
                    f"Secret {self._space}/{secret} {wrong}, after {self._wait_s:.0f} s: "
                    f"{await self._why()}"
                )
            await asyncio.sleep(_POLL_S)

    async def _why(self) -> str:
        path = f"{_API}/namespaces/{self._space}/certificates/{NAME}"
        found = await clusterinfo.get(self._kube, path)
        for one in (found.get("status") or {}).get("conditions") or ():
            if one.get("type") == "Ready":
                return f"Certificate {NAME} says {one.get('reason')}: {one.get('message')}"
        return f"kubectl -n {self._space} describe certificate {NAME} says why"

    async def _wrong_with(self, secret: str) -> tuple[str, bytes]:
        """Say what is wrong with a Secret ("" for nothing), and its authority."""
        path = f"/api/v1/namespaces/{self._space}/secrets/{secret}"
        found = await clusterinfo.seen(self._kube, path)
        if found is None:
            raise CommandFailed(f"this account may not read {path}: switch as an administrator")
        data = found.get("data") or {}
        absent = [key for key in ("tls.crt", "tls.key") if not data.get(key)]
        if absent:
            return f"has no {' and no '.join(absent)}", b""
        served = base64.b64decode(data["tls.crt"])
        authority = base64.b64decode(data.get("ca.crt") or "")
        return _wrong_with(served, authority, f"{NAME}.{self._space}.svc"), authority

    async def _trusted(self, authority: bytes, whose: str) -> None:
        """Wait until both registrations trust an authority; b"": any."""
        end = time.monotonic() + self._wait_s
        while True:
            bundles = [registered(one) for one in await self._registrations()]
            if all(bundle and trusts(bundle, authority) for bundle in bundles):
                return
            if time.monotonic() >= end:
                raise CommandFailed(
                    f"the webhook configurations gatelog-pods do not trust what {whose} serves "
                    f"(caBundle), after {self._wait_s:.0f} s: pods that name a queue are refused. "
                    "With cert-manager look at its cainjector, else at the log of ingest"
                )
            await asyncio.sleep(_POLL_S)

    async def _ingest(self) -> Object:
        return (await parts.deployments(self._kube, self._space)).get("ingest") or {}

    async def _registrations(self) -> list[Object]:
        return [await clusterinfo.get(self._kube, path) for path in clusterinfo.REGISTRATIONS]

    async def _merge(self, path: str, patch: Object) -> None:
        await self._write(path, patch, "application/merge-patch+json", {})

    async def _apply(self, folder: str, obj: Object) -> None:
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = f"{folder}/{obj['metadata']['name']}"
        await self._write(path, obj, "application/apply-patch+yaml", params)

    async def _write(self, path: str, body: Any, form: str, params: dict[str, str]) -> None:
        answer = await self._kube.request(
            "PATCH", path, body=msgspec.json.encode(body), content_type=form, params=params
        )
        if answer.status >= 400:
            raise CommandFailed(f"cannot write {path}: {answer.status}: {answer.message()}")


def _annotations(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _fitted(obj: Object, space: str, secret: str, marks: Object) -> Object:
    """Return an object of deploy/webhook/certificate.yaml for a namespace and a Secret."""
    text = msgspec.json.encode(obj).decode().replace("gatelog-system", space)
    made: Object = msgspec.json.decode(text)
    if made["kind"] == "Certificate":
        made["spec"]["secretName"] = secret
    made["metadata"] |= marks
    made["metadata"]["labels"] = {**marks.get("labels", {}), "app.kubernetes.io/name": "gatelog"}
    return made


def _wrong_with(served: bytes, authority: bytes, name: str) -> str:
    """Say what is wrong with a certificate that is to be served under a name, "" for nothing."""
    try:
        certificate = x509.load_pem_x509_certificates(served)[0]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        if name not in names.value.get_values_for_type(x509.DNSName):
            return f"has a certificate that is not for {name}"
        if certificate.not_valid_after_utc <= datetime.now(UTC):
            return f"has a certificate that ended {certificate.not_valid_after_utc:%Y-%m-%d}"
        if authority:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificates(authority)[0])
    except (ValueError, x509.ExtensionNotFound) as error:
        return f"has a certificate that cannot be used ({error})"
    except InvalidSignature:
        return "has a certificate that its ca.crt did not sign"
    return ""
