"""Messages of the stream PARKED: the dead letters, as the part that parks them sends them.

Theory. The stream is for what the read model cannot give: bytes that were cut, decisions
that are forged, all of them and whole. Projector and actuator send one shape, so it has one reader
(`gatelog parked stream`). The read model does not come from it: rows come from the log, which says
of everything that is parked that it was.

Invariant: `decode_parked(encode_parked(x)) == x`; what earlier releases sent is read as well.
"""

from datetime import datetime

import msgspec
from msgspec import Struct

from podgroup.log.journal import ParkedRow


class ParkedMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something parked: why, by whom, and where it was in its `stream`.

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
        msgspec.MsgspecError: no message of this stream.
    """
    return msgspec.json.decode(body, type=ParkedMessage)
