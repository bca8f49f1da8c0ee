"""A webhook server over HTTPS with certificates made for the test."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: Any, ca: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName(subject),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if not ca:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())


class Authority:
    """A CA, and one server certificate for ``hook.tests.svc`` and 127.0.0.1."""

    def __init__(self, where: Path) -> None:
        ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        ca = _certificate("ca", ca_key, "ca", ca_key, True)
        server = _certificate("hook.tests.svc", key, "ca", ca_key, False)
        pem = serialization.Encoding.PEM
        self.bundle = base64.b64encode(ca.public_bytes(pem)).decode()
        plain = serialization.NoEncryption()
        (where / "key.pem").write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        )
        (where / "cert.pem").write_bytes(server.public_bytes(pem))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(where / "cert.pem", where / "key.pem")


@asynccontextmanager
async def serving(authority: Authority, answer: Answer) -> AsyncIterator[str]:
    """A webhook server; yields ``host:port``. ``answer`` makes the response from the request."""

    async def handle(request: web.BaseRequest) -> web.Response:
        review = json.loads(await request.read())
        response = {"uid": review["request"]["uid"], **await answer(review["request"])}
        return web.json_response({**review, "response": response})

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.context)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def json_patch(operations: list[dict[str, Any]]) -> dict[str, Any]:
    raw = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": raw}
