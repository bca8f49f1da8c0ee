"""The configuration of the three streams, and how they are brought to it.

File storage, S2 compression, limits retention, oldest out first, no deletes and no purges (the log
is append-only for everyone, operators included), direct get allowed, duplicate window at least as
long as any publish is retried.

Invariant: after `ensure` each stream exists as described or an error says what differs. Limits
(age, bytes, replicas, window) follow the settings; what cannot be changed in place is refused.
"""

from datetime import datetime
from typing import Any

import msgspec

from podgroup.log.subjects import DECISIONS, EVENTS, PARKED
from runtime.jetstream.api import STREAM_NOT_FOUND, ApiRefused, api, ask
from runtime.jetstream.connection import Connection
from runtime.jetstream.values import StreamMismatch, StreamMissing, StreamState
from runtime.settings import StreamSettings

_NS = 1_000_000_000
PARKED_MAX_BYTES = 256 * 1024**2
DUPLICATE_WINDOW_S = 120
"""Seconds in which the server drops a repeated message id."""
_FIXED = ("storage", "retention", "discard")
_FOLLOWS = (
    "max_age",
    "max_bytes",
    "num_replicas",
    "duplicate_window",
    "compression",
    "allow_direct",
    "deny_delete",
    "deny_purge",
    "subjects",
    "description",
)


class _State(msgspec.Struct):
    messages: int
    bytes: int
    first_seq: int
    last_seq: int


class _Info(msgspec.Struct):
    config: dict[str, Any]
    created: datetime
    state: _State


_infos = msgspec.json.Decoder(_Info)


async def ensure(connection: Connection, settings: StreamSettings) -> None:
    """Create the streams that are missing, and bring changed limits of the others up to date.

    Raises:
        StreamMismatch: a stream of that name exists and cannot be turned into ours.
        BusUnavailable: no JetStream, or no answer.
    """
    for wanted in _wanted(settings):
        name = wanted["name"]
        try:
            config = _infos.decode(await ask(connection, f"STREAM.INFO.{name}")).config
        except ApiRefused as refused:
            if refused.error.err_code != STREAM_NOT_FOUND:
                raise
            await _change(connection, "CREATE", wanted)
            continue
        for key in _FIXED:
            if config.get(key) != wanted[key]:
                raise StreamMismatch(
                    f"stream {name} exists with {key} = {config.get(key)!r}, gatelog needs "
                    f"{wanted[key]!r}, which cannot be changed in place: move that stream away"
                )
        if any(config.get(key) != wanted[key] for key in _FOLLOWS):
            await _change(connection, "UPDATE", {**config, **wanted})


async def state(connection: Connection, stream: str) -> StreamState:
    """Return the state of a stream.

    Raises:
        StreamMissing: there is no such stream.
    """
    try:
        info = _infos.decode(await ask(connection, f"STREAM.INFO.{stream}"))
    except ApiRefused as refused:
        if refused.error.err_code == STREAM_NOT_FOUND:
            raise missing(stream) from refused
        raise
    kept = info.state
    return StreamState(
        name=stream,
        created=info.created,
        # A stream that never held anything answers 0 and 0.
        first_sequence=max(kept.first_seq, 1) if kept.messages else kept.last_seq + 1,
        last_sequence=kept.last_seq,
        messages=kept.messages,
        bytes=kept.bytes,
    )


def missing(stream: str) -> StreamMissing:
    """Return the error for a stream that is not there."""
    return StreamMissing(
        f"there is no stream {stream}: the server has lost its storage, or gatelog was never "
        "started on it; gatelog migrate creates it (gatelog up does so by itself)"
    )


async def _change(connection: Connection, verb: str, config: dict[str, Any]) -> None:
    name = config["name"]
    try:
        # On a slow disk the server may take seconds to sync a new stream's files.
        await api(connection, f"STREAM.{verb}.{name}", config, timeout_s=15.0)
    except ApiRefused as refused:
        raise StreamMismatch(
            f"cannot {verb.lower()} stream {name}: {refused.error.description}; look at the "
            "streams section of the settings and at the server's limits for this account"
        ) from refused


def _wanted(settings: StreamSettings) -> list[dict[str, Any]]:
    descriptions = {
        EVENTS: ("events.>", settings.max_bytes, "gatelog: everything that happened, in order"),
        DECISIONS: ("decisions.>", settings.decisions_max_bytes, "gatelog: decisions to carry out"),
        PARKED: ("parked.>", PARKED_MAX_BYTES, "gatelog: parked messages"),
    }
    return [
        {
            "name": name,
            "description": description,
            "subjects": [subject],
            "storage": "file",
            "retention": "limits",
            "discard": "old",
            "compression": "s2",
            "num_replicas": settings.replicas,
            "max_age": settings.max_age_s * _NS,
            "max_bytes": max_bytes,
            "duplicate_window": DUPLICATE_WINDOW_S * _NS,
            "allow_direct": True,
            "deny_delete": True,
            "deny_purge": True,
        }
        for name, (subject, max_bytes, description) in descriptions.items()
    ]
