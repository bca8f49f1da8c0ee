"""The caBundle of a registration: the authorities that the API server trusts, ours among them.

Theory. Each replica with certificates of its own has an authority of its own, and a registration (a
webhook configuration, an APIService) holds one bundle. So a bundle lists several authorities: a
replica that registers puts its own in front of those that are there already. Requests reach the old
replica until the new replica is ready, and both certificates verify. An authority that a restart
left behind goes when newer authorities push it out, or when its certificate ends.

Invariant: a new bundle keeps every authority that may still be in use, but for the oldest beyond
`MOST`.
"""

import base64
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

MOST: Final = 8
"""Authorities in a bundle; about 600 bytes each."""


def registered(configuration: dict[str, Any]) -> bytes:
    """Return the bundle of a webhook configuration's first webhook, b"" for none."""
    return bundle_of(next(iter(configuration.get("webhooks") or ({},))))


def bundle_of(hook: dict[str, Any]) -> bytes:
    """Return the bundle of a webhook of a configuration as PEM, b"" for none that can be read."""
    try:
        return base64.b64decode((hook.get("clientConfig") or {}).get("caBundle") or "")
    except ValueError:
        return b""


def merged(own: bytes, there: bytes, now: datetime) -> bytes:
    """Return a bundle with our authority in front of those that are there and have not ended."""
    kept = (c for c in _read(there) if c.not_valid_after_utc > now)
    chain = dict.fromkeys(c.public_bytes(Encoding.PEM) for c in (*_read(own), *kept))
    return b"".join(list(chain)[:MOST])


def trusts(there: bytes, own: bytes) -> bool:
    """Return whether a bundle has our authority."""
    known = set(_read(there))
    return all(certificate in known for certificate in _read(own))


def _read(pem: bytes) -> Iterable[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except ValueError:
        return []
