"""Certificates: what makes the API server trust the webhook.

The API server calls webhooks over TLS only and checks the certificate against the caBundle of
the registration. Either another system makes certificates (cert-manager; give the files), or
`OwnCertificates` keeps a small authority of its own in a directory: a CA that lives for ten
years, whose certificate is the caBundle, and a serving certificate that is renewed when a third
of its life is left, without touching the registration.

Replicas must share the directory (a mounted Secret) or use given files, since a registration
holds one bundle. Private keys are readable by their owner alone (0600, directory 0700).

Invariant: a key and its certificate are replaced together or not at all, and a file that cannot
be read or has expired is replaced, never served.
"""

import ipaddress
import os
import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFE: Final[timedelta] = timedelta(days=3650)
SERVING_LIFE: Final[timedelta] = timedelta(days=365)
_CLOCK_SKEW: Final[timedelta] = timedelta(minutes=5)


class CertificateError(Exception):
    """A certificate that cannot be used; the message names the file and what to do."""


class Pair(NamedTuple):
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def to_pem(self) -> bytes:
        """Both in one PEM file, key first."""
        key = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return key + self.certificate.public_bytes(serialization.Encoding.PEM)


class OwnCertificates:
    """A self-made authority and serving certificate, kept in a directory.

    Args:
        directory: where the files are; made if absent.
        names: DNS names and IP addresses the webhook is reached by; the first is the subject.

    Raises:
        ValueError: ``names`` is empty.
    """

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        if not names:
            raise ValueError("a serving certificate needs at least one DNS name or IP address")
        self._directory = directory
        self._names = tuple(names)
        self._ca_file = directory / "ca.pem"
        self._serving_file = directory / "serving.pem"

    def ensure(self, now: datetime) -> bool:
        """Makes or renews what is missing, unusable, for other names, or near its end.

        Args:
            now: the time to judge by, aware.

        Returns:
            Whether anything was written, so that the server must `load` again.

        Raises:
            OSError: the directory cannot be written.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ca = _read(self._ca_file)
        new_ca = ca is None or _worn(ca.certificate, now)
        if ca is None or new_ca:
            ca = _make_ca(now)
            _write(self._ca_file, ca.to_pem())
        serving = _read(self._serving_file)
        if (
            serving is None
            or new_ca
            or _worn(serving.certificate, now)
            or not _covers(serving.certificate, self._names)
            or serving.certificate.issuer != ca.certificate.subject
        ):
            _write(self._serving_file, _make_serving(ca, self._names, now).to_pem())
            return True
        return False

    def ca_bundle(self) -> bytes:
        """The authority's certificate in PEM, without its key: the registration's caBundle.

        Raises:
            CertificateError: `ensure` has not made one yet.
        """
        ca = _read(self._ca_file)
        if ca is None:
            raise CertificateError(f"{self._ca_file} holds no certificate: call ensure() first")
        return ca.certificate.public_bytes(serialization.Encoding.PEM)

    def load(self, context: ssl.SSLContext) -> None:
        """Makes ``context`` serve the present certificate, for connections from now on."""
        load_files(context, self._serving_file, self._serving_file)


def server_context() -> ssl.SSLContext:
    """A TLS server context as the API server expects it: TLS 1.2 or newer, no client check."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load_files(context: ssl.SSLContext, cert_file: Path, key_file: Path) -> None:
    """Loads a certificate made by another system.

    Raises:
        CertificateError: a file is missing, unreadable, or the two do not belong together.
    """
    try:
        context.load_cert_chain(cert_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(
            f"cannot serve with certificate {cert_file} and key {key_file}: {error}; both must be "
            "PEM files, readable by this process, and belong together"
        ) from error


def validity(pem: bytes) -> tuple[datetime, datetime]:
    """Return from when until when the first certificate of a PEM file is valid."""
    found = x509.load_pem_x509_certificate(pem)
    return found.not_valid_before_utc, found.not_valid_after_utc


def _make_ca(now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial in the name keeps two generations of the authority apart.
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gatelog-webhook-ca-{serial:x}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key, now, CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(key, certificate)


def _make_serving(ca: Pair, names: Sequence[str], now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key())
    certificate = (
        _builder(subject, ca.certificate.subject, key, now, SERVING_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca.key, hashes.SHA256())
    )
    return Pair(key, certificate)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _covers(certificate: x509.Certificate, names: Sequence[str]) -> bool:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return False
    return {_general(name) for name in names} <= set(extension.value)


def _worn(certificate: x509.Certificate, now: datetime) -> bool:
    """Not valid yet, or with less than a third of its life left."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now < begin or end - now < (end - begin) / 3


def _read(file: Path) -> Pair | None:
    """The pair in a file; None if the file is missing or holds no usable pair."""
    try:
        pem = file.read_bytes()
        key = serialization.load_pem_private_key(pem, password=None)
        certificate = x509.load_pem_x509_certificate(pem)
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or (
        key.public_key() != certificate.public_key()
    ):
        return None
    return Pair(key, certificate)


def _write(file: Path, content: bytes) -> None:
    """Replaces a file at once; no moment exists in which others could read the key."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
