"""Looking at the log: is NATS there, are the streams, and do projector and actuators keep up?

Invariant: reads stream states only; consumes nothing.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gatelog.examine import archive, backlog
from gatelog.examine.findings import Finding, fail, ok, skip, warn
from gatelog.readmodel.rows import CheckpointRow
from gatelog.readmodel.timeline import duration
from gatelog.shell import statedir
from gatelog.shell.errors import explain
from gatelog.shell.remedies import UNKNOWN, Installation, remedy
from podgroup.log import subjects
from runtime.settings import NatsSettings, Settings

if TYPE_CHECKING:
    from runtime.jetstream import Bus, StreamState

AREA = "log"
_CONNECT_S = 5.0
_BEHIND_S = 30.0
_STREAMS = (subjects.EVENTS, subjects.DECISIONS, subjects.PARKED)


async def examine(
    settings: Settings, checkpoint: CheckpointRow | None, at: Installation = UNKNOWN
) -> list[Finding]:
    """Look at the log of the settings; `checkpoint` is how far the projector says it is.

    `at` is the installation that remedies are for.
    """
    from runtime.jetstream import BusError, StreamMissing, connect

    server = _server(settings, at)
    if isinstance(server, Finding):
        return [server]
    try:
        bus = await connect(server, "gatelog-doctor", deadline_s=_CONNECT_S)
    except BusError as error:
        doing = f"is it 2.12.3 or later? {remedy('nats away', at)}"
        return [fail(AREA, "reachable", explain(error).sentence, doing)]
    try:
        findings = [ok(AREA, "reachable", server.url), _durability(settings)]
        for name in _STREAMS:
            try:
                state = await bus.stream_state(name)
            except StreamMissing as error:
                said = explain(error).sentence
                findings.append(fail(AREA, name, said, remedy("streams", at)))
                continue
            except BusError as error:
                # The server answers others: what this account may not ask gets no answer.
                said = explain(error).sentence
                findings.append(skip(AREA, name, f"user {server.user or '(none)'}: {said}"))
                continue
            size = f"{state.messages} messages, {_bytes(state.bytes)}, last {state.last_sequence}"
            findings.append(ok(AREA, name, size))
            if name == subjects.EVENTS:
                findings.append(await lag(settings, bus, state, checkpoint, datetime.now(UTC)))
                findings.append(await archive.examine(settings, checkpoint, state))
            if name == subjects.DECISIONS:
                findings.append(await backlog.examine(settings, bus, state, datetime.now(UTC)))
        return findings
    finally:
        await bus.close()


def _server(settings: Settings, at: Installation) -> NatsSettings | Finding:
    from runtime.embedded import running

    if settings.nats.url:
        return settings.nats
    store = statedir.of(settings).nats
    found = running(store)
    if found is not None:
        return found
    return warn(
        AREA,
        "reachable",
        f"the embedded server of {store} does not run, and nats.url is not set",
        remedy("nats away", at) if at.pod else "start gatelog up, or set nats.url to that in use",
    )


def _durability(settings: Settings) -> Finding:
    if not settings.nats.url:
        return ok(AREA, "durability", "the embedded server syncs every write to disk")
    if settings.streams.replicas >= 3:
        return ok(AREA, "durability", f"{settings.streams.replicas} replicas")
    return skip(
        AREA,
        "durability",
        f"{settings.streams.replicas} replica, and the server does not say how often it syncs: "
        "deploy/components/nats every write (sync_interval: always), others by default every two "
        "minutes, and a power cut loses what came since",
    )


async def lag(
    settings: Settings,
    bus: "Bus",
    stream: "StreamState",
    checkpoint: CheckpointRow | None,
    now: datetime,
) -> Finding:
    """Compare the checkpoint with the end of the stream, and say since when it is behind."""
    from runtime.jetstream import BusError

    if checkpoint is None:
        return skip(AREA, "lag", "no checkpoint to compare with")
    first, last = stream.first_sequence, stream.last_sequence
    behind = last - checkpoint.stream_seq
    if behind < 0:
        return fail(
            AREA,
            "lag",
            f"the log ends at {last}, before the checkpoint {checkpoint.stream_seq}",
            "is it the right NATS server? If its storage was lost, start the projector: it opens "
            "a new epoch and lists everything again",
        )
    if checkpoint.stream_seq + 1 < first:
        return warn(
            AREA,
            "lag",
            f"messages {checkpoint.stream_seq + 1} to {first - 1} were dropped unread",
            "start the projector (it opens a new epoch); raise streams.max_age_s or max_bytes",
        )
    subject = subjects.events_of(settings.cluster)
    try:
        unread = await bus.at_or_after(subjects.EVENTS, checkpoint.stream_seq + 1, subject)
    except BusError as error:
        return fail(AREA, "lag", explain(error).sentence, "is the NATS server up?")
    if not behind or unread is None:
        return ok(AREA, "lag", "none")
    behind_s = (now - unread.at).total_seconds()
    written_s = (now - checkpoint.written_at).total_seconds()
    since = f"since {unread.at:%Y-%m-%d %H:%M:%S} UTC"
    detail = f"{behind} messages behind, by {duration(behind_s)}: {since}"
    if behind_s <= _BEHIND_S:
        return ok(AREA, "lag", detail)
    if written_s > _BEHIND_S:
        return fail(
            AREA,
            "lag",
            f"{detail}; last write {duration(written_s)} ago",
            "is the projector running? Its log says why it stopped, or what it waits for",
        )
    return warn(
        AREA,
        "lag",
        f"{detail}; it is catching up, last write {duration(written_s)} ago",
        "nothing is decided until it has caught up. If the number grows: is the database slow "
        "(gatelog_projector_commit_seconds), or more than one projector's work "
        "(docs/performance.md)?",
    )


def _bytes(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
