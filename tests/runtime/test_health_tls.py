"""Health and metrics over TLS, with a certificate that somebody else makes and renews."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from runtime.certificates import OwnCertificates
from runtime.health import Checks, serve_health
from runtime.settings import HealthSettings, SettingsError
from tests.deploy.compose import free_port


def certificate(directory: Path) -> tuple[Path, bytes]:
    made = OwnCertificates(directory, ("localhost",))
    made.ensure(datetime.now(UTC))
    return directory / "serving.pem", made.ca_bundle()


async def ask(port: int, authority: bytes) -> int:
    context = ssl.create_default_context(cadata=authority.decode())
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://localhost:{port}/readyz", ssl=context) as answer,
    ):
        return answer.status


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    first, authority = certificate(tmp_path / "first")
    second, renewed = certificate(tmp_path / "second")
    file = tmp_path / "tls.pem"
    file.write_bytes(first.read_bytes())
    settings = HealthSettings(port=free_port(), cert_file=str(file))
    async with serve_health(settings, Checks()) as port:
        assert await ask(port, authority) == 200
        file.write_bytes(second.read_bytes())
        assert await ask(port, renewed) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(port, authority)
        file.write_text("half a file")
        assert await ask(port, renewed) == 200, "the one before stays"


async def test_a_certificate_that_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    settings = HealthSettings(port=free_port(), cert_file=str(tmp_path / "absent.pem"))
    with pytest.raises(SettingsError, match=r"health\.cert_file.*absent\.pem"):
        async with serve_health(settings, Checks()):
            pass
