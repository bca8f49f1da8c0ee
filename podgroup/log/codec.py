"""Bytes <-> batches and decisions: the one place where wire formats are known.

JSON, because people read the stream with `nats stream view` at three in the morning, and because
msgspec decodes it into Structs faster than anything else here could use it.

Invariant: `decode_batch` never raises for content. An event that cannot be decoded comes back as
`Undecodable` in its place in the order, so that a bad event cannot hide its neighbours.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec

from podgroup.log.events import SAID_BY, STRANGE, Batch, Decision, Event, Undecodable, event_id
from podgroup.log.records import Concluded

VERSION = 1
"""Version of the envelope. Events carry versions of their own in their tags."""


class _Envelope(msgspec.Struct, omit_defaults=True):
    v: int
    source: str
    events: tuple[Event, ...]
    positions: Mapping[str, str] = {}
    incarnation: str = ""
    cluster_uid: str = ""


class _Lenient(msgspec.Struct, omit_defaults=True):
    v: int
    source: str
    events: tuple[msgspec.Raw, ...]
    positions: Mapping[str, str] = {}
    incarnation: str = ""
    cluster_uid: str = ""


class Concerned(msgspec.Struct, frozen=True):
    """What identifies an object; `labels` and `annotations` are of any shape."""

    uid: str
    namespace: str
    name: str
    labels: Any = None
    annotations: Any = None
    kind: str = ""


class _About(msgspec.Struct):
    pod: Concerned | None = None
    workload: Concerned | None = None


class _Joined(msgspec.Struct):
    decisions: tuple[msgspec.Raw, ...]
    records: tuple[msgspec.Raw, ...] = ()


class _Conclusions(msgspec.Struct):
    decisions: tuple[Decision, ...]
    records: tuple[Concluded, ...] = ()


class _Number(msgspec.Struct):
    number: int


_NOTHING: frozenset[type] = frozenset()
_MANY = b'{"decisions":['
_RECORDS = b'{"number":'
"""The first bytes of `Concluded`, and of no decision."""

_encoder = msgspec.json.Encoder()
_envelopes: msgspec.json.Decoder[_Envelope] = msgspec.json.Decoder(_Envelope)
_lenient: msgspec.json.Decoder[_Lenient] = msgspec.json.Decoder(_Lenient)
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_about: msgspec.json.Decoder[_About] = msgspec.json.Decoder(_About)
_joined: msgspec.json.Decoder[_Joined] = msgspec.json.Decoder(_Joined)
_conclusions: msgspec.json.Decoder[_Conclusions] = msgspec.json.Decoder(_Conclusions)
_numbers: msgspec.json.Decoder[_Number] = msgspec.json.Decoder(_Number)
_decisions: msgspec.json.Decoder[Decision] = msgspec.json.Decoder(Decision)
_concluded: msgspec.json.Decoder[Concluded] = msgspec.json.Decoder(Concluded)

Conclusions = Decision | Concluded
"""What the stream DECISIONS carries: decisions, and the records of one message of the log."""


def encode_batch(batch: Batch) -> bytes:
    """Return the bytes of a message of EVENTS.

    Raises:
        ValueError: the batch contains an event that was not decodable in the first place.
    """
    events: list[Event] = []
    for event in batch.events:
        if isinstance(event, Undecodable):
            raise ValueError(f"cannot publish an undecodable event: {event.error}")
        events.append(event)
    said = batch.positions, batch.incarnation, batch.cluster_uid
    return _encoder.encode(_Envelope(VERSION, batch.source, tuple(events), *said))


def encode_event(event: Event) -> bytes:
    """Return the bytes of one event, for `join_events`."""
    return _encoder.encode(event)


def join_events(
    source: str,
    events: Iterable[bytes],
    positions: dict[str, str],
    incarnation: str = "",
    cluster_uid: str = "",
) -> bytes:
    """Return the bytes of a message of EVENTS made of encoded events, in order."""
    parts = tuple(map(msgspec.Raw, events))
    return _encoder.encode(_Lenient(VERSION, source, parts, positions, incarnation, cluster_uid))


def decode_batch(body: bytes, source: str = "") -> Batch:
    """Return the batch in `body`; undecodable parts are `Undecodable`, whole bodies included.

    `source` is the publisher that the message's subject names. The batch is from that source,
    whatever the body says, and events that the source may not publish come back as `Undecodable`
    too.
    """
    try:
        known = _envelopes.decode(body)
        if known.v == VERSION:
            batch = Batch(
                source=known.source,
                events=known.events,
                positions=known.positions,
                incarnation=known.incarnation,
                cluster_uid=known.cluster_uid,
            )
            return said_by(batch, source) if source else batch
    except msgspec.MsgspecError:
        pass
    batch = _decode_leniently(body)
    return said_by(batch, source) if source else batch


def said_by(batch: Batch, source: str) -> Batch:
    """Return the batch with the events that `source` may publish; others become `Undecodable`.

    Such an event is parked in a wrapper, so that no reader takes it for an event of its object.
    """
    theirs = SAID_BY.get(source, _NOTHING)
    if batch.source == source and theirs.issuperset(map(type, batch.events)):
        return batch
    events = tuple(
        event
        if isinstance(event, Undecodable) or type(event) in theirs
        else _strange(event, source)
        for event in batch.events
    )
    return msgspec.structs.replace(batch, source=source, events=events)


def _strange(event: Event, source: str) -> Undecodable:
    kind = type(event)
    speakers = " or ".join(sorted(each for each, said in SAID_BY.items() if kind in said))
    error = (
        f"{STRANGE}{kind.__name__} came from {source!r}, and only {speakers} may say such a thing: "
        "another client uses an account of the log server that is not its own"
    )
    return Undecodable(error=error, raw=_encoder.encode({"from": source, "said": event}))


def is_strange(event: Event | Undecodable) -> bool:
    """Tell whether `said_by` set an event aside."""
    return isinstance(event, Undecodable) and event.error.startswith(STRANGE)


def is_from(body: bytes, source: str) -> bool:
    """Tell whether a message of EVENTS names `source`, at the place where our messages do."""
    return body.startswith(b'{"v":%d,"source":"%b",' % (VERSION, source.encode()))


def _decode_leniently(body: bytes) -> Batch:
    try:
        outer = _lenient.decode(body)
    except msgspec.MsgspecError as error:
        return Batch(source="?", events=(Undecodable(error=f"no batch: {error}", raw=body),))
    if outer.v != VERSION:
        message = f"envelope version {outer.v} is not {VERSION}: written by a later gatelog?"
        return Batch(source=outer.source, events=(Undecodable(error=message, raw=body),))
    events: list[Event | Undecodable] = []
    for raw in outer.events:
        try:
            events.append(_events.decode(raw))
        except msgspec.MsgspecError as error:
            events.append(Undecodable(error=str(error), raw=bytes(raw)))
    return Batch(
        source=outer.source,
        events=tuple(events),
        positions=outer.positions,
        incarnation=outer.incarnation,
        cluster_uid=outer.cluster_uid,
    )


def concerned(raw: bytes) -> Concerned | None:
    """Return which object an undecodable event is about, None if the event does not say.

    Every version of an event about a pod or a Workload has its object under these names.
    """
    try:
        named = _about.decode(raw)
    except msgspec.MsgspecError:
        return None
    if named.pod is not None:
        return msgspec.structs.replace(named.pod, kind="Pod")
    if named.workload is not None:
        return msgspec.structs.replace(named.workload, kind="Workload")
    return None


def message_id(batch: Batch) -> str:
    """Return the Nats-Msg-Id of a batch, derived from its incarnation and the ids of its events.

    Resource versions that come again after a restore of etcd name other events.
    """
    digest = hashlib.blake2b(batch.incarnation.encode(), digest_size=16)
    for event in batch.events:
        digest.update((event.error if isinstance(event, Undecodable) else event_id(event)).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def encode_decision(decision: Decision) -> bytes:
    """Return the bytes of a decision, which may be a message of DECISIONS by itself."""
    return _encoder.encode(decision)


def join_decisions(bodies: Sequence[bytes]) -> bytes:
    """Return a message of DECISIONS with several decisions, in order; a lone decision is unchanged.

    A stream that syncs every write takes thousands of messages a second but a hundred thousand
    decisions (bench/NOTES.md), and each message is acknowledged by a round trip of its own.
    Records are beside the decisions, in a field that actuators of all releases ignore.
    """
    said = [body for body in bodies if body.startswith(_RECORDS)]
    if not said:
        return bodies[0] if len(bodies) == 1 else _MANY + b",".join(bodies) + b"]}"
    made = [body for body in bodies if not body.startswith(_RECORDS)]
    return _MANY + b",".join(made) + b'],"records":[' + b",".join(said) + b"]}"


def split_decisions(body: bytes) -> list[bytes]:
    """Return the decisions in a message of DECISIONS, each as its own bytes.

    Never raises: a message that cannot be split is one part, which `decode_decision` refuses.
    """
    if not body.startswith(_MANY):
        return [body]
    try:
        return [bytes(part) for part in _joined.decode(body).decisions]
    except msgspec.MsgspecError:
        return [body]


def split_conclusions(body: bytes) -> list[bytes]:
    """Return decisions and records in a message of DECISIONS, in the order of their numbers.

    Never raises: a message that cannot be split is treated as in `split_decisions`.
    """
    if not body.startswith(_MANY):
        return [body]
    try:
        joined = _joined.decode(body)
        parts = [bytes(part) for part in (*joined.decisions, *joined.records)]
        if joined.records:
            parts.sort(key=lambda part: _numbers.decode(part).number)
    except msgspec.MsgspecError:
        return [body]
    return parts


def decode_conclusions(body: bytes) -> list[Conclusions]:
    """Return the conclusions in a message of DECISIONS, in the order of their numbers.

    Never raises: conclusions that this version does not know are left out.
    """
    found: list[Conclusions] = []
    if body.startswith(_MANY):
        with suppress(msgspec.MsgspecError):
            joined = _conclusions.decode(body)
            found += (*joined.decisions, *joined.records)
            found.sort(key=attrgetter("number"))
            return found
    for part in split_conclusions(body):
        with suppress(msgspec.MsgspecError):
            found.append(decode_conclusion(part))
    return found


def is_records(body: bytes) -> bool:
    """Tell whether a part of a message of DECISIONS is records, in place of a decision."""
    return body.startswith(_RECORDS)


def encode_concluded(concluded: Concluded) -> bytes:
    """Return the bytes of the records of a message of the log."""
    return _encoder.encode(concluded)


def decode_concluded(body: bytes) -> Concluded:
    """Return the records in `body`.

    Raises:
        msgspec.MsgspecError: `body` is no records that this version knows.
    """
    return _concluded.decode(body)


def decode_conclusion(body: bytes) -> Conclusions:
    """Return the decision or the records in `body`.

    Raises:
        msgspec.MsgspecError: `body` is neither, of a kind that this version knows.
    """
    return _concluded.decode(body) if body.startswith(_RECORDS) else _decisions.decode(body)


def decode_decision(body: bytes) -> Decision:
    """Return the decision in `body`.

    Raises:
        msgspec.MsgspecError: `body` is no decision that this version knows; the caller parks it.
    """
    return _decisions.decode(body)
