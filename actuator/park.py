"""Parked decisions: a message nobody could deal with, kept as it was, with the reason beside it.

Theory. A poison message must neither block those behind it nor vanish. A copy goes to PARKED,
wrapped in JSON that says where it came from and why it is there; the original bytes are inside,
base64, untouched, so that a repaired version can release it.

Invariant: `msgspec.json.decode(parked_body(m, b, r), type=Parked).body == b`.
"""

from datetime import datetime

import msgspec
from msgspec import Struct

from podgroup.runtime.jetstream import Message


class Parked(Struct, frozen=True, kw_only=True):
    """A parked message: `stream` and `sequence` are its place, `at` its time."""

    reason: str
    by: str
    stream: str
    subject: str
    sequence: int
    at: datetime
    msg_id: str
    body: bytes


class DecisionHead(Struct, frozen=True):
    """As much of a decision as is needed to say that it failed."""

    id: str
    group: str


def parked_body(message: Message, body: bytes, reason: str, stream: str = "DECISIONS") -> bytes:
    """Return the bytes for PARKED; `body` is the decision's part of `message`."""
    return msgspec.json.encode(
        Parked(
            reason=reason,
            by="actuator",
            stream=stream,
            subject=message.subject,
            sequence=message.sequence,
            at=message.at,
            msg_id=message.msg_id,
            body=body,
        )
    )


def decision_head(body: bytes) -> DecisionHead | None:
    """Return id and group of a decision that cannot be read as a whole, None if not even those."""
    try:
        return msgspec.json.decode(body, type=DecisionHead)
    except msgspec.MsgspecError:
        return None
