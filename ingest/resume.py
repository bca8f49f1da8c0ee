"""Where to go on: this deployment's memory is the last message it published.

The newest message of the watch says, per kind, which resource version is in the log, whichever of
several ingesters has written it; kinds it does not name need a relist. While running we also know
what the log has acknowledged; if
the stream does not have that any more (it was recreated, or restored from before), what follows
would continue a history that is not there, so everything is listed again.

Invariant: resuming may repeat events, never skip one.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from podgroup.log import codec, subjects


class LogMessage(Protocol):
    """A stored message, as far as resuming needs it."""

    @property
    def sequence(self) -> int:
        """The stream sequence."""

    @property
    def body(self) -> bytes:
        """The bytes of a batch."""

    @property
    def msg_id(self) -> str:
        """The Nats-Msg-Id it was published with."""


class LogState(Protocol):
    """The state of a stream, as far as resuming needs it."""

    @property
    def created(self) -> datetime:
        """When the stream was created."""

    @property
    def first_sequence(self) -> int:
        """The sequence of its oldest message."""

    @property
    def last_sequence(self) -> int:
        """The sequence of its newest message, 0 when it is new."""


class Log(Protocol):
    """What resuming asks of the log; `runtime.jetstream.Bus` is one."""

    async def last(self, stream: str, subject: str) -> LogMessage | None:
        """Return the newest message on a subject."""

    async def get(self, stream: str, sequence: int) -> LogMessage | None:
        """Return the message at a sequence."""

    async def stream_state(self, stream: str) -> LogState:
        """Return the stream's state."""


class Resume(Struct, frozen=True):
    """Where to go on: versions per kind, and why the kinds not named must be relisted.

    `lasts` is the sequence of the newest message of each shard, 0 for none: what ours must follow.
    """

    positions: Mapping[str, str]
    reason: str
    created: datetime
    last_sequence: int
    lasts: dict[int, int] = {}


async def from_log(log: Log, cluster: str, shards: int) -> Resume:
    """Return what the log says was published last.

    The newest message over all shards decides, as messages are stored in the order in which they
    were published. A shard without any message has no frames either: then everything is listed.
    """
    state = await log.stream_state(subjects.EVENTS)
    newest: LogMessage | None = None
    lasts: dict[int, int] = {}
    reason = ""
    for shard in range(shards):
        message = await log.last(subjects.EVENTS, subjects.events(cluster, shard, "watch"))
        lasts[shard] = message.sequence if message is not None else 0
        if message is None:
            where = f"shard {shard} of the log" if shards > 1 else "the log"
            reason = reason or f"nothing is in {where} yet"
        elif newest is None or message.sequence > newest.sequence:
            newest = message
    positions: Mapping[str, str] = {}
    if not reason:
        positions = codec.decode_batch(newest.body).positions if newest else {}
        reason = "the log has no complete list of this kind"
    return Resume(positions, reason, state.created, state.last_sequence, lasts)


class Known(Struct, frozen=True):
    """What is certain to be stored, from the point of view of one session.

    `created` tells which stream it was and `last_sequence` how far that had come at the beginning.
    `acked_sequence` (0: none) is our newest message that was acknowledged, `acked_msg_id` its id.
    """

    created: datetime
    last_sequence: int
    acked_sequence: int
    acked_msg_id: str


async def lost(log: Log, known: Known) -> str:
    """Return why the log can no longer be continued, "" when it can.

    A stream that was rolled back may have grown again before we look, by our own repetitions
    even, so the newest message we know is also looked at.
    """
    state = await log.stream_state(subjects.EVENTS)
    if state.created != known.created:
        return f"the stream was recreated at {state.created.isoformat()}"
    newest = max(known.last_sequence, known.acked_sequence)
    if state.last_sequence < newest:
        return (
            f"the stream was rolled back: its last message is {state.last_sequence}, "
            f"but {newest} had been stored"
        )
    if known.acked_sequence >= max(state.first_sequence, 1):
        message = await log.get(subjects.EVENTS, known.acked_sequence)
        if message is None or message.msg_id != known.acked_msg_id:
            return (
                f"the stream was rolled back: message {known.acked_sequence} is not the one "
                "that was stored there"
            )
    return ""
