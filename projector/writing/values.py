"""Values as they are written: documents, whole numbers, texts of keys.

Invariant: every value that users may declare fits its column.
"""

import hashlib
from typing import Any

import msgspec

from podgroup.model.names import MAX_INT32

_MAX_INT64 = 2**63 - 1
_KEY_CHARS = 256


class Json(bytes):
    """A JSON document as text in UTF-8, so that it is encoded once for any database."""

    __slots__ = ()


_encoder = msgspec.json.Encoder()


def as_json(value: Any) -> Json:
    """Return a document."""
    return Json(_encoder.encode(value))


def int64(value: int) -> int:
    """Return the nearest number a BIGINT can hold: users may declare any total count."""
    return max(-_MAX_INT64, min(_MAX_INT64, value))


def int32(value: int) -> int:
    """Return the nearest number an INTEGER can hold."""
    return max(-MAX_INT32, min(MAX_INT32, value))


def key_text(text: str) -> str:
    """Return text that fits an index entry: users choose group names and role annotations.

    A B-tree entry of PostgreSQL ends at about 2,700 bytes, and several columns share it.
    """
    if len(text) <= _KEY_CHARS:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[: _KEY_CHARS - 17]}~{digest}"
