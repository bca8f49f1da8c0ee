"""Certificates: our own, and the authority of trusted client certificates.

Theory. The API server reaches us by the name of our Service and verifies the certificate against
the caBundle of our APIServices. Either another system makes certificates (cert-manager; give the
files), or each replica does and writes its authority into the APIServices that name our Service,
beside the others' (`runtime.ca_bundle`). Client certificates are asked for, not demanded: people
with a bearer token have none.

Invariant: only the front proxy's authority is ever loaded to verify clients.
"""

import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gatelog.serve.api.discovery import VERSIONS
from runtime.ca_bundle import merged, trusts
from runtime.certificates import OwnCertificates
from runtime.kube_errors import KubeError
from runtime.log import get_logger
from runtime.rotation import ServerCertificate
from runtime.settings import Settings

_TRIES = 5
_APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"

log = get_logger("serve")


class Api(Protocol):
    """The part of an API client that is used here, such as `runtime.kube.KubeClient`."""

    async def json(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Ask, and return status and decoded body."""


class Certificates(ServerCertificate):
    """The certificate of `serve`, and the authority of trusted client certificates."""

    def __init__(self, settings: Settings) -> None:
        chosen = settings.serve
        service = f"{chosen.service_name}.{chosen.service_namespace}"
        names = (f"{service}.svc", f"{service}.svc.cluster.local", service, "localhost")
        own = OwnCertificates(Path(settings.state_dir) / "serve", (*names, "127.0.0.1", "::1"))
        super().__init__(chosen.cert_file, chosen.key_file, own)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self._believed = ""

    def believe(self, authority: str) -> None:
        """Believe client certificates of this authority (PEM) from now on."""
        if authority != self._believed:
            self.context.load_verify_locations(cadata=authority)
            self._believed = authority


async def announce(api: Api, settings: Settings, own: bytes) -> str:
    """See to it that the APIServices that name our Service trust our authority, beside others.

    An APIService that is missing or names another Service stays unchanged. `own` is our authority's
    certificate, PEM. Returns what failed, "" for nothing.
    """
    problems = []
    for group, version in VERSIONS.items():
        try:
            refused = await _announced(api, settings, f"{_APISERVICES}/{version}.{group}", own)
        except (KubeError, msgspec.MsgspecError) as error:
            refused = str(error)
        if refused:
            problems.append(f"{version}.{group}: {refused}")
    return "; ".join(problems)


async def _announced(api: Api, settings: Settings, path: str, own: bytes) -> str:
    ours = {"name": settings.serve.service_name, "namespace": settings.serve.service_namespace}
    for _ in range(_TRIES):
        status, found = await api.json("GET", path)
        if status == 404:
            return ""
        spec = found.get("spec") or {} if isinstance(found, dict) else {}
        if status == 200:
            there = _decoded(spec.get("caBundle") or "")
            service = spec.get("service") or {}
            if not service.items() >= ours.items() or trusts(there, own):
                return ""
            text = base64.b64encode(merged(own, there, datetime.now(UTC))).decode()
            patch = {
                # Refused if another replica has written its own meanwhile.
                "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"caBundle": text, "insecureSkipTLSVerify": None},
            }
            status, found = await api.json(
                "PATCH", path, body=patch, content_type="application/merge-patch+json"
            )
        if status == 200:
            return ""
        if status != 409:
            break
    return f"{status} {found.get('message') if isinstance(found, dict) else ''}"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
