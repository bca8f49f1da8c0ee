"""Certificates: ours, and whose client certificates are believed.

Theory. The API server reaches us by the name of our Service and verifies the certificate against
the caBundle of our APIServices. Either another system makes certificates (cert-manager; give the
files), or we do and write our authority into the APIServices that name our Service. Client
certificates are asked for, not demanded: people with a bearer token have none.

Invariant: only the front proxy's authority is ever loaded to verify clients.
"""

import base64
import ssl
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gatelog.serve.api.discovery import VERSIONS
from runtime.certificates import OwnCertificates
from runtime.kube_errors import KubeError
from runtime.log import get_logger
from runtime.rotation import ServerCertificate
from runtime.settings import Settings

_APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"

log = get_logger("serve")


class Api(Protocol):
    """What is needed of the API server; `runtime.kube.KubeClient` is one."""

    async def json(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Ask, and return status and decoded body."""


class Certificates(ServerCertificate):
    """What `serve` shows, and whose client certificates it believes."""

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


async def announce(api: Api, settings: Settings, bundle: bytes) -> str:
    """Write our authority into the APIServices that name our Service; return what failed.

    What is not there, or names another Service, is left alone.
    """
    chosen = settings.serve
    ours = {"name": chosen.service_name, "namespace": chosen.service_namespace}
    text = base64.b64encode(bundle).decode()
    problems = []
    for group, version in VERSIONS.items():
        path = f"{_APISERVICES}/{version}.{group}"
        try:
            status, found = await api.json("GET", path)
            if status == 404:
                continue
            spec = found.get("spec") or {} if isinstance(found, dict) else {}
            service = spec.get("service") or {}
            if status == 200 and service.items() >= ours.items() and spec.get("caBundle") != text:
                patch = {"spec": {"caBundle": text, "insecureSkipTLSVerify": None}}
                status, found = await api.json(
                    "PATCH", path, body=patch, content_type="application/merge-patch+json"
                )
            if status != 200:
                said = found.get("message") if isinstance(found, dict) else ""
                problems.append(f"{version}.{group}: {status} {said}")
        except (KubeError, msgspec.MsgspecError) as error:
            problems.append(f"{version}.{group}: {error}")
    return "; ".join(problems)
