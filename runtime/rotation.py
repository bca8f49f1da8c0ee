"""Rotation: a running server picks up new certificates without a restart.

Certificates end; a webhook that serves an ended one is a webhook that is away, and pods that
name a queue then wait for it. Given files (cert-manager replaces them in the mounted Secret) are
looked at once an interval and loaded again when they changed; our own are renewed with their
registration (`ingest.registration`). TLS contexts use what was loaded last for connections from
then on.

Invariant: a failure to renew or load leaves the present certificate in use and is logged each
time until it is mended; the loop itself never ends but by cancellation.
"""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from runtime.certificates import (
    CertificateError,
    OwnCertificates,
    load_files,
    server_context,
    validity,
)
from runtime.log import get_logger

_log = get_logger("webhook")

INTERVAL_S = 30.0
"""Seconds between two looks: a server with an ended certificate is away until the next."""


class GivenFiles:
    """A certificate and key made by others, and whether they changed since the last look."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._files = (cert_file, key_file)
        self._seen: tuple[bytes, ...] | None = None
        self._valid: tuple[datetime, datetime] | None = None

    def problem(self, now: datetime | None = None) -> str:
        """Say that the certificate in use has ended or not begun at `now`, "" if it is good."""
        now = now or datetime.now(UTC)
        if self._valid is None or self._valid[0] <= now < self._valid[1]:
            return ""
        begin, end = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in self._valid)
        when = f"expired at {end}" if now >= self._valid[1] else f"is not valid before {begin}"
        return f"the certificate {self._files[0]} {when}: put a good one in its place"

    def refresh(self, context: ssl.SSLContext) -> bool:
        """Loads the files if their content changed; returns whether it did.

        Raises:
            CertificateError: a file is missing or unusable.
        """
        cert_file, key_file = self._files
        try:
            content = tuple(file.read_bytes() for file in self._files)
        except OSError as error:
            raise CertificateError(f"cannot read {error.filename}: {error.strerror}") from error
        if content == self._seen:
            return False
        load_files(context, cert_file, key_file)
        self._seen, self._valid = content, validity(content[0])
        return True


class ServerCertificate:
    """The certificate of a server: files that another system makes, or else our own.

    `context` is for the server; a certificate that `refresh` loads is for connections from then on.

    Raises:
        CertificateError, OSError: as `refresh`.
    """

    def __init__(self, cert_file: str, key_file: str, own: OwnCertificates) -> None:
        self.context = server_context()
        self._given = (
            GivenFiles(Path(cert_file), Path(key_file or cert_file)) if cert_file else None
        )
        self._own = own
        self.refresh()

    @property
    def authority(self) -> bytes:
        """The certificate of our authority in PEM; empty when files are given."""
        return self._own.ca_bundle() if self._given is None else b""

    def problem(self) -> str:
        """Say that the certificate in use has ended, "" if it is good."""
        return self._given.problem() if self._given is not None else ""

    def refresh(self) -> bool:
        """Load a new certificate; return whether there was one.

        Raises:
            CertificateError: the files cannot be used.
            OSError: the directory of our own cannot be written.
        """
        if self._given is not None:
            return self._given.refresh(self.context)
        made = self._own.ensure(datetime.now(UTC))
        self._own.load(self.context)
        return made


async def keep_fresh(refresh: Callable[[], bool], *, interval_s: float = INTERVAL_S) -> None:
    """Call `refresh` every `interval_s` seconds until cancelled; True from it is logged."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            if refresh():
                _log.info("certificate_loaded")
        except (CertificateError, OSError) as error:
            _log.error("certificate_not_renewed", message=str(error))
