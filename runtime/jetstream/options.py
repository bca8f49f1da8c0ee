"""From `NatsSettings` to the options of one nats-py client.

Invariant: files named by settings (password, seed, credentials, certificates) are read each time a
client is made, so that rotated secrets are picked up by the next reconnect; their content is
neither kept nor shown.
"""

import re
import ssl
from pathlib import Path
from typing import Any

from runtime.jetstream.values import BusError
from runtime.settings import NatsSettings

_PENDING_BYTES = 8 * 1024 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def client_options(settings: NatsSettings, name: str) -> dict[str, Any]:
    """Return keyword arguments for `nats.aio.client.Client.connect`.

    Raises:
        BusError: a setting that cannot be used, by name.
    """
    if not settings.url:
        raise BusError(
            "nats.url is empty: only `gatelog up` runs a server of its own; set nats.url"
        )
    options: dict[str, Any] = {
        "servers": [part.strip() for part in settings.url.split(",") if part.strip()],
        "name": name,
        # A client is used once; see `connection`.
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,
        "reconnect_time_wait": 0,
        "connect_timeout": settings.connect_timeout_s,
        # The library's 120 s x 2 would take minutes to notice a dead peer.
        "ping_interval": settings.ping_interval_s,
        "max_outstanding_pings": 2,
        "pending_size": _PENDING_BYTES,
        "flush_timeout": 10.0,
    }
    if settings.credentials:
        options["user_credentials"] = _file("nats.credentials", settings.credentials)
    if settings.nkey_seed:
        options["nkeys_seed"] = _file("nats.nkey_seed", settings.nkey_seed)
    if settings.user:
        options["user"] = settings.user
        if _TOKEN.fullmatch(settings.user):
            # So that users can be kept from hearing each other's answers (nats.conf).
            options["inbox_prefix"] = f"_INBOX.{settings.user}".encode()
    if settings.password_file:
        path = _file("nats.password_file", settings.password_file)
        options["password"] = Path(path).read_text(encoding="utf-8").strip()
    tls = _tls(settings)
    if tls is not None:
        options["tls"] = tls
    return options


def shown_url(settings: NatsSettings) -> str:
    """Return the server addresses without any user:password@ in them."""
    return ",".join(part.strip().rsplit("@", 1)[-1] for part in settings.url.split(","))


def _tls(settings: NatsSettings) -> ssl.SSLContext | None:
    if not (settings.tls_ca or settings.tls_cert or "tls://" in settings.url):
        return None
    ca = _file("nats.tls_ca", settings.tls_ca) if settings.tls_ca else None
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca)
    if settings.tls_cert:
        key = _file("nats.tls_key", settings.tls_key) if settings.tls_key else None
        context.load_cert_chain(_file("nats.tls_cert", settings.tls_cert), key)
    return context


def _file(setting: str, path: str) -> str:
    if not Path(path).is_file():
        raise BusError(f"{setting} = {path!r}: there is no such file")
    return path
