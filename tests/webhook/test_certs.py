"""Certificates: made once, kept while good, renewed in time, private to their owner."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from runtime.certificates import (
    SERVING_LIFE,
    CertificateError,
    OwnCertificates,
    load_files,
    server_context,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NAMES = ["gatelog-webhook.gatelog-system.svc", "127.0.0.1"]


def serving(directory: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((directory / "serving.pem").read_bytes())


def test_made_once_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "certs"
    own = OwnCertificates(directory, NAMES)
    with pytest.raises(CertificateError, match="ensure"):
        own.ca_bundle()
    assert own.ensure(NOW)
    first = {file.name: file.read_bytes() for file in directory.iterdir()}
    assert sorted(first) == ["ca.pem", "serving.pem"]
    assert not own.ensure(NOW + timedelta(days=1))
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == first
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {0o600}
    assert b"PRIVATE" not in own.ca_bundle()
    names = serving(directory).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == NAMES[:1]
    assert [str(ip) for ip in names.value.get_values_for_type(x509.IPAddress)] == NAMES[1:]


def test_renewed_before_the_end_under_the_same_authority(tmp_path: Path) -> None:
    own = OwnCertificates(tmp_path, NAMES)
    own.ensure(NOW)
    bundle, old = own.ca_bundle(), serving(tmp_path)
    assert not own.ensure(NOW + SERVING_LIFE * 0.6)
    assert own.ensure(NOW + SERVING_LIFE * 0.7)
    assert own.ca_bundle() == bundle
    assert serving(tmp_path).serial_number != old.serial_number
    own.load(server_context())
    # Near the end of the authority both are replaced.
    assert own.ensure(NOW + timedelta(days=3000))
    assert own.ca_bundle() != bundle
    authority = x509.load_pem_x509_certificate(own.ca_bundle())
    serving(tmp_path).verify_directly_issued_by(authority)


def test_replaced_when_unusable_or_for_other_names(tmp_path: Path) -> None:
    own = OwnCertificates(tmp_path, NAMES)
    own.ensure(NOW)
    (tmp_path / "serving.pem").write_text("rubbish")
    assert own.ensure(NOW)
    assert OwnCertificates(tmp_path, ["other.example"]).ensure(NOW)
    assert not OwnCertificates(tmp_path, ["other.example"]).ensure(NOW)
    # A key that does not belong to its certificate.
    mixed = (tmp_path / "ca.pem").read_bytes().split(b"-----BEGIN CERT")[0]
    mixed += (
        b"-----BEGIN CERT" + (tmp_path / "serving.pem").read_bytes().split(b"-----BEGIN CERT")[1]
    )
    (tmp_path / "serving.pem").write_bytes(mixed)
    assert OwnCertificates(tmp_path, ["other.example"]).ensure(NOW)
    # A lost authority takes its serving certificate with it.
    bundle = own.ca_bundle()
    (tmp_path / "ca.pem").unlink()
    assert OwnCertificates(tmp_path, ["other.example"]).ensure(NOW)
    assert own.ca_bundle() != bundle
    # A clock set back finds certificates that are not valid yet.
    assert own.ensure(NOW - timedelta(days=30))


def test_given_files(tmp_path: Path) -> None:
    own = OwnCertificates(tmp_path, NAMES)
    own.ensure(NOW)
    context = server_context()
    load_files(context, tmp_path / "serving.pem", tmp_path / "serving.pem")
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    for cert, key in [("serving.pem", "ca.pem"), ("absent.pem", "ca.pem")]:
        with pytest.raises(CertificateError, match=cert):
            load_files(context, tmp_path / cert, tmp_path / key)
    with pytest.raises(ValueError, match="at least one"):
        OwnCertificates(tmp_path, [])
