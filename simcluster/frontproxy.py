"""Certificates: our own server's, and the front proxy's, by which extension servers know us.

Theory: the API server presents a client certificate of an authority of its own, which it names in
ConfigMap ``kube-system/extension-apiserver-authentication``, and says in headers who asks. A client
that has no such certificate may write the headers and is not believed.

Invariant: the files live as long as the object; the keys are never shared.
"""

from __future__ import annotations

import json
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from simcluster.errors import Obj

NAME = "front-proxy-client"
_LIFE = timedelta(days=2)


class FrontProxy:
    """An authority and the proxy's client certificate, in a directory of their own."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="simcluster-")
        folder = Path(self._directory.name)
        self.ca_file, self.client_file = folder / "ca.crt", folder / "client.pem"
        self.server_file = folder / "server.pem"
        self._ca_key = ec.generate_private_key(ec.SECP256R1())
        ca = _certificate("front-proxy-ca", self._ca_key, "front-proxy-ca", self._ca_key, ca=True)
        self.ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
        self.issue(NAME, self.client_file)
        self.issue("kube-apiserver", self.server_file, server=True)

    def server_context(self) -> ssl.SSLContext:
        """The TLS context of the API server itself."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file)
        return context

    def issue(self, name: str, file: Path, *, server: bool = False) -> Path:
        """Write a certificate of this authority, with its key, for a common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(name, key, "front-proxy-ca", self._ca_key, ca=False, server=server)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file.touch(mode=0o600)
        file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
        return file

    def config_map(self) -> Obj:
        """What extension servers read to know us by."""
        return {
            "metadata": {"name": "extension-apiserver-authentication"},
            "data": {
                "requestheader-client-ca-file": self.ca_file.read_text(),
                "requestheader-allowed-names": json.dumps([NAME]),
                "requestheader-username-headers": json.dumps(["X-Remote-User"]),
                "requestheader-uid-headers": json.dumps(["X-Remote-Uid"]),
                "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
                "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
            },
        }

    def close(self) -> None:
        """Remove the files."""
        self._directory.cleanup()


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
    server: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(usage, critical=True)
    if not ca:
        use = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    if server:
        loopback = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
        names = x509.SubjectAlternativeName(loopback)
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
