"""Values that the log's client returns, and its errors.

Invariant: nothing of the client library leaves this package; callers see these values and errors
only. Sequences count from 1; times are aware and in UTC.
"""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Message(Struct, frozen=True, gc=False):
    """One stored message.

    `sequence` is its place in the stream, `at` the stream's own timestamp (the only clock the fold
    knows), `msg_id` the publisher's Nats-Msg-Id or empty, `signature` its publisher's signature
    (`runtime.signing`; read by workers only).
    """

    sequence: int
    at: datetime
    subject: str
    body: bytes
    msg_id: str = ""
    signature: str = ""


class StreamState(Struct, frozen=True):
    """A stream at one moment. `first_sequence` is `last_sequence + 1` when the stream is empty."""

    name: str
    created: datetime
    first_sequence: int
    last_sequence: int
    messages: int
    bytes: int


class Consumption(Struct, frozen=True):
    """The state of a durable consumer: how far the workers of a stream are.

    `delivered` is the last sequence handed to a worker, `waiting` counts the messages after it,
    `held` the messages that are handed out and not acknowledged.
    """

    delivered: int
    waiting: int
    held: int


class BusError(Exception):
    """Base of all errors of the log: refusals and failures."""


class BusUnavailable(BusError):
    """No server, no leader or no answer in time. What was sent may be stored or not: retry."""


class BusClosed(BusUnavailable):
    """The bus was closed by its owner; nothing will come back."""


class OrderLost(BusUnavailable):
    """Messages of one publisher were stored out of order (a leader failed between them).

    Nothing is missing from the log, but the last message on the subject does not prove that its
    predecessors came earlier: the owner should relist rather than resume.
    """


class Overtaken(BusError):
    """Another writer has published to the subject since the message that ours was to follow.

    Ours is not stored and must not be repeated as it is: look at the log again.
    """


class StreamMissing(BusError):
    """The stream does not exist: `ensure_streams` first, or look at the server's storage."""


class StreamChanged(BusError):
    """The stream was made anew, or ends before what was already read: a new epoch begins."""


class MessagesLost(StreamChanged):
    """Messages of the subject are missing amid others: `first` to `last` hold them."""

    def __init__(self, stream: str, first: int, last: int) -> None:
        what = f"message {first}" if first == last else f"messages {first} to {last}"
        super().__init__(
            f"{what} of stream {stream} cannot be read though later ones can: the server's files "
            "are damaged (its log may say more)"
        )
        self.first = first
        self.last = last


class StreamMismatch(BusError):
    """A stream of that name exists and cannot be what we need; the message says how it differs."""


class PublishRefused(BusError):
    """The server will never take this message as it is (too large, no permission, sealed)."""


class LoginRefused(BusError):
    """The server does not accept our credentials; retrying will not help."""


class ServerTooOld(BusError):
    """The server is older than 2.12.3, below which acknowledged messages can be lost."""


def from_rfc3339(text: str) -> datetime:
    """Return the time the server wrote, cut (not rounded) to microseconds as in `from_nanoseconds`.

    The server writes UTC with up to nine digits of a second, without trailing zeros.
    """
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


def from_nanoseconds(value: int) -> datetime:
    """Return the UTC time of a Unix timestamp in nanoseconds, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=value // 1000)
