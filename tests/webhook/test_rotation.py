"""Rotation: a TLS server serves the new certificate to the next client."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from runtime.certificates import (
    SERVING_LIFE,
    CertificateError,
    OwnCertificates,
    server_context,
)
from runtime.rotation import GivenFiles, ServerCertificate, keep_fresh

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def served_serial(port: int) -> int:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(der).serial_number


async def test_own_certificate_is_renewed_under_a_running_server(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    own = OwnCertificates(tmp_path, ["127.0.0.1"])
    context = server_context()

    def refresh(into: ssl.SSLContext) -> bool:
        renewed = own.ensure(now)
        if renewed:
            own.load(into)
        return renewed

    assert refresh(context)
    assert not refresh(context)
    server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    task = asyncio.create_task(keep_fresh(lambda: refresh(context), interval_s=0.01))
    try:
        before = await served_serial(port)
        now += SERVING_LIFE - timedelta(days=1)
        async with asyncio.timeout(10):
            while await served_serial(port) == before:
                await asyncio.sleep(0.01)
        assert not task.done()
    finally:
        task.cancel()
        server.close()
        await server.wait_closed()


async def test_given_files_are_loaded_when_they_change(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    OwnCertificates(tmp_path, ["a.example"]).ensure(now)
    file = tmp_path / "serving.pem"
    given = GivenFiles(file, file)
    context = server_context()
    assert given.refresh(context)
    assert not given.refresh(context)
    OwnCertificates(tmp_path, ["b.example"]).ensure(now)
    assert given.refresh(context)
    good = file.read_bytes()
    file.write_text("rubbish")
    with pytest.raises(CertificateError, match=r"serving\.pem"):
        given.refresh(context)
    # A failing refresh does not end the loop, and a mended file is picked up.
    task = asyncio.create_task(keep_fresh(lambda: given.refresh(context), interval_s=0.005))
    await asyncio.sleep(0.05)
    assert not task.done()
    file.unlink()
    with pytest.raises(CertificateError, match="cannot read"):
        given.refresh(context)
    await asyncio.sleep(0.02)
    file.write_bytes(good)
    await asyncio.sleep(0.05)
    assert not task.done()
    task.cancel()
    assert not given.refresh(context)


def test_a_server_shows_given_files_or_certificates_of_its_own(tmp_path: Path) -> None:
    own = OwnCertificates(tmp_path / "own", ["a.example"])
    mine = ServerCertificate("", "", own)
    assert mine.authority == own.ca_bundle() and mine.problem() == ""
    assert not mine.refresh(), "it lives long"
    (tmp_path / "own" / "serving.pem").unlink()
    assert mine.refresh()
    OwnCertificates(tmp_path / "given", ["b.example"]).ensure(datetime.now(UTC))
    file = tmp_path / "given" / "serving.pem"
    given = ServerCertificate(str(file), "", OwnCertificates(tmp_path / "none", ["b.example"]))
    assert given.authority == b"" and not given.refresh()
    assert not (tmp_path / "none").exists(), "none of its own is made"
    file.unlink()
    with pytest.raises(CertificateError, match="cannot read"):
        given.refresh()
