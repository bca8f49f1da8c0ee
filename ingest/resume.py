"""Where to go on: this deployment's memory is the last message it published.

The newest message of the watch has, per kind, the resource version that is in the log, whichever of
several ingesters wrote the message; kinds that it does not name need a relist. While running we
also know which messages the log has acknowledged; if the stream lacks the last of them (the stream
was recreated, or restored from a backup), new messages would continue a history that is gone, so
everything is listed again.

The message also names the cluster, its incarnation, and the object seen last: these show whether
the cluster was restored since (`lookout`).

Invariant: resuming may repeat events, and never skips any.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from msgspec import Struct

from podgroup.log import codec, subjects
from podgroup.log.events import (
    Batch,
    ClusterRestored,
    Event,
    ObjectApplied,
    PodApplied,
    Undecodable,
    WorkloadApplied,
)
from podgroup.model.ids import newer
from podgroup.model.objects import PodView, QueueObject, WorkloadView, kind_of

LOOKED_THROUGH: Final = 64
"""Messages of the log, newest first, that are searched for the object seen last."""


class LogMessage(Protocol):
    """A stored message, as far as resuming needs it."""

    @property
    def sequence(self) -> int:
        """The stream sequence."""

    @property
    def at(self) -> datetime:
        """When it was stored."""

    @property
    def subject(self) -> str:
        """The subject it was published on."""

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
    """The part of the log that resuming needs, such as `runtime.jetstream.Bus`."""

    async def last(self, stream: str, subject: str) -> LogMessage | None:
        """Return the newest message on a subject."""

    async def get(self, stream: str, sequence: int) -> LogMessage | None:
        """Return the message at a sequence."""

    async def stream_state(self, stream: str) -> LogState:
        """Return the stream's state."""


class Witness(Struct, frozen=True):
    """An object that was seen at a version: the history that the log follows has it there."""

    kind: str
    namespace: str
    name: str
    uid: str
    version: str


def witnessed(event: Event | Undecodable) -> Witness | None:
    """Return the object that an event shows to exist, else None."""
    view: PodView | WorkloadView | QueueObject
    match event:
        case PodApplied(pod=view):
            kind = "Pod"
        case WorkloadApplied(workload=view):
            kind = "Workload"
        case ObjectApplied(object=view):
            kind = kind_of(view)
        case _:
            return None
    return Witness(kind, view.namespace, view.name, view.uid, view.resource_version)


class Resume(Struct, frozen=True):
    """Where to go on: versions per kind, and why the kinds not named must be relisted.

    `last` is the sequence of the newest message of the watch, 0 for none: our next message must
    follow it. `versions` are the versions in the log, also where no kind is resumed, `age_s` old;
    they are of `incarnation` of the cluster `cluster_uid` ("": not known). `restored` must be the
    first event.
    """

    positions: Mapping[str, str]
    reason: str
    created: datetime
    last_sequence: int
    last: int = 0
    versions: Mapping[str, str] = {}
    age_s: float = 0.0
    cluster_uid: str = ""
    incarnation: str = ""
    witness: Witness | None = None
    restored: ClusterRestored | None = None


async def from_log(log: Log, cluster: str) -> Resume:
    """Return where the log's last message says to go on; an empty log has all kinds listed."""
    state = await log.stream_state(subjects.EVENTS)
    newest = await log.last(subjects.EVENTS, subjects.events(cluster, "watch"))
    head = codec.decode_batch(newest.body) if newest else Batch(source="watch", events=())
    return Resume(
        head.positions,
        "the log has no complete list of this kind" if newest else "nothing is in the log yet",
        state.created,
        state.last_sequence,
        newest.sequence if newest else 0,
        versions={kind: at for kind, at in head.positions.items() if at.isdigit()},
        age_s=max(0.0, (datetime.now(UTC) - newest.at).total_seconds()) if newest else 0.0,
        cluster_uid=head.cluster_uid,
        incarnation=head.incarnation,
        witness=await _seen_last(log, cluster, newest) if newest else None,
    )


async def _seen_last(log: Log, cluster: str, newest: LogMessage) -> Witness | None:
    """Return the object of the highest version that the latest messages of the watch show."""
    found: Witness | None = None
    own = subjects.events(cluster, "watch").split(".")
    for sequence in range(newest.sequence, max(0, newest.sequence - LOOKED_THROUGH), -1):
        message = await log.get(subjects.EVENTS, sequence)
        parts = message.subject.split(".") if message is not None else []
        if message is None or parts[:2] != own[:2] or parts[-1] != own[-1]:
            continue
        batch = codec.decode_batch(message.body)
        for event in batch.events:
            if isinstance(event, ClusterRestored):
                return found
            seen = witnessed(event)
            if seen is not None and (found is None or newer(seen.version, found.version)):
                found = seen
        if found is not None:
            break
    return found


class Known(Struct, frozen=True):
    """The messages that are certain to be stored, as one session knows.

    `created` identifies the stream, `last_sequence` was its end when the session began.
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
