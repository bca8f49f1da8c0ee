"""Messages of the stream PARKED: the dead letters, in the form in which they are sent.

Theory. The stream has what the read model lacks: all bytes of a message that was cut, and all
forged decisions. Projector and actuator send one form, so the stream has one reader
(`gatelog parked stream`). Rows of the read model come from the log, which has an event for
everything that was parked.

Invariant: `decode_parked(encode_parked(x)) == x`; what earlier releases sent is read as well.
"""

from datetime import datetime

import msgspec
from msgspec import Struct

from podgroup.log.journal import ParkedRow


class ParkedMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A parked message: why, by which part, and where it was in its `stream`.

    `seq` is a position of the log in EVENTS and a stream sequence in DECISIONS, `ord` the place in
    that message, `at` its time. `body` is what was parked, untouched (base64 on the wire).
    """

    by: str
    reason: str
    message: str
    stream: str
    seq: int
    ord: int
    at: datetime
    body: bytes
    group: str = ""
    object: str = ""


def of_row(row: ParkedRow) -> ParkedMessage:
    """Return the message about a row of the read model."""
    return ParkedMessage(
        by="projector",
        reason=row.reason,
        message=row.message,
        stream="EVENTS",
        seq=row.seq,
        ord=row.ord,
        at=row.at,
        body=row.raw,
        group=row.group,
        object=row.object,
    )


def encode_parked(message: ParkedMessage) -> bytes:
    """Return the bytes for PARKED."""
    return msgspec.json.encode(message)


def decode_parked(body: bytes) -> ParkedMessage:
    """Return the message in `body`.

    Raises:
        msgspec.MsgspecError: `body` is no message of this stream.
    """
    return msgspec.json.decode(body, type=ParkedMessage)
