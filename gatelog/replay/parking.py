"""Parked events and decisions, and what a person decides about them.

Theory. A person's decision is a fact of the log like any other: `OperatorActed` is published, the
projector folds it, lets the group go on and closes the row. So a replay has it too. The command
waits for the row, because only then the decision has taken effect.

Invariant: this module writes to the log, never to the database.
"""

import asyncio
import uuid
from datetime import datetime

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from gatelog.replay.online import open_bus
from gatelog.shell.errors import CommandFailed, UsageFailed
from podgroup.log import subjects
from podgroup.log.codec import encode_batch
from podgroup.log.events import Batch, OperatorActed
from podgroup.log.parked import ParkedMessage, decode_parked
from podgroup.log.subjects import events
from podgroup.model.reasons import parks_decision
from projector import tables
from projector.storage.database import reading
from projector.storage.urls import database_url
from projector.tables.base import SHARD
from runtime.jetstream import Message
from runtime.settings import Settings

PATIENCE_S = 15.0
POLL_S = 0.1
STREAM_WAIT_S = 2.0
"""Seconds without a message after which the stream is taken to be at its end."""
MOST = 500
RAW_SHOWN = 100_000
"""Bytes of a parked event that are shown at most."""


class ParkedEvent(Struct, frozen=True, kw_only=True):
    """One parked event; `raw` is the event as it was, as text.

    `group` is the group that the event concerns, as NAMESPACE/NAME, "" if unknown; `stuck`: the
    group is stuck because of the event. `decision` is the parked decision, as JSON; "" for an
    event, or in a list.
    """

    seq: int
    ord: int
    at: datetime
    reason: str
    message: str
    group_id: str
    object: str
    resolution: str = ""
    resolved_by: str = ""
    resolved_at: datetime | None = None
    raw: str = ""
    group: str = ""
    stuck: bool = False
    decision: str = ""

    @property
    def key(self) -> str:
        """The key of the row in commands."""
        return f"{self.seq}/{self.ord}"


def parse_key(text: str) -> tuple[int, int]:
    """Return position and ordinal of `SEQ/ORD`.

    Raises:
        UsageFailed: the text has another form.
    """
    seq, slash, ordinal = text.partition("/")
    if not (slash and seq.isdecimal() and ordinal.isdecimal() and len(text) < 30):
        raise UsageFailed(f"{text!r}: name what is parked as SEQ/ORD, e.g. 1234/0 (parked list)")
    return int(seq), int(ordinal)


def found(settings: Settings, *, settled: bool, namespace: str = "") -> list[ParkedEvent]:
    """Return parked rows, oldest first; with `settled` also released and discarded rows.

    A row belongs to a namespace if it concerns a group or an object in it.
    """
    table = tables.parked
    query = _query(settings).order_by(table.c.seq, table.c.ord).limit(MOST)
    if namespace:
        inside = table.c.object.contains(f" {namespace}/", autoescape=True)
        query = query.where((tables.groups.c.namespace == namespace) | inside)
    if not settled:
        query = query.where(table.c.resolution == "")
    return _rows(settings, query)


def one(settings: Settings, key: str) -> ParkedEvent:
    """Return one parked event.

    Raises:
        CommandFailed: there is none of that key.
    """
    seq, ordinal = parse_key(key)
    table = tables.parked
    rows = _rows(settings, _query(settings).where(table.c.seq == seq, table.c.ord == ordinal))
    if not rows:
        raise CommandFailed(f"nothing is parked at {key} (gatelog parked list --all)")
    if not parks_decision(rows[0].reason):
        return rows[0]
    return msgspec.structs.replace(rows[0], decision=_decision(settings, rows[0]))


def _decision(settings: Settings, row: ParkedEvent) -> str:
    """Return the decision that was parked, as the projector made it."""
    d = tables.decisions.c
    identity = row.object.removeprefix("decision ").partition(",")[0]
    columns = (d.id, d.rule, d.action, d.target, d.reason, d.message, d.issued_at, d.command)
    query = sa.select(*columns).where(d.cluster == settings.cluster, d.id == identity)
    with reading(database_url(settings)) as connection:
        made = connection.execute(query).mappings().first()
    return "" if made is None else msgspec.json.encode(dict(made)).decode()


async def stream(settings: Settings) -> list[ParkedMessage]:
    """Return the newest messages of the stream PARKED, oldest first: all of them, and whole.

    Raises:
        CommandFailed, BusError: the log cannot be reached.
    """
    found: list[ParkedMessage] = []
    async with open_bus(settings) as bus:
        state = await bus.stream_state(subjects.PARKED)
        subject = subjects.parked(settings.cluster)
        first = max(1, state.first_sequence, state.last_sequence - MOST + 1)
        if await bus.last(subjects.PARKED, subject) is None:
            return []
        reader = bus.read(subjects.PARKED, subject, first, batch=MOST)
        try:
            while messages := await reader.next(STREAM_WAIT_S):
                for message in messages:
                    try:
                        found.append(decode_parked(message.body))
                    except msgspec.MsgspecError as error:
                        found.append(_strange(message, str(error)))
                if messages[-1].sequence >= state.last_sequence:
                    break
        finally:
            await reader.close()
    return found


def _strange(message: Message, error: str) -> ParkedMessage:
    return ParkedMessage(
        by="unknown",
        reason="Undecodable",
        message=f"no message of this stream: {error}",
        stream=subjects.PARKED,
        seq=message.sequence,
        ord=0,
        at=message.at,
        body=message.body,
    )


async def resolve(
    settings: Settings,
    action: str,
    keys: list[str],
    by: str,
    note: str,
    patience_s: float = PATIENCE_S,
) -> list[str]:
    """Publish a person's decision and wait `patience_s` until the projector has folded it.

    Returns the groups (NAMESPACE/NAME) that were stuck because of the rows, or whose decision was
    parked and is made again now.

    Raises:
        CommandFailed: a key is not parked (any more), or the projector does not answer.
    """
    stood = set()
    for key in keys:
        row = one(settings, key)
        if row.resolution:
            raise CommandFailed(f"{key}: was settled already ({row.resolution}, {row.resolved_by})")
        again = parks_decision(row.reason) and action == "release" and row.group
        if row.stuck or again:
            stood.add(row.group)
    acted = tuple(OperatorActed(action=action, target=key, by=by, message=note) for key in keys)
    body = encode_batch(Batch(source="operator", events=acted))
    subject = events(settings.cluster, "operator")
    async with open_bus(settings) as bus:
        # An id of its own: a row that is parked again may be released again within the stream's
        # window.
        sequence = await bus.publish(subject, body, f"operator/{uuid.uuid4().hex}")
    until = asyncio.get_running_loop().time() + patience_s
    while [key for key in keys if not one(settings, key).resolution]:
        if asyncio.get_running_loop().time() > until:
            raise CommandFailed(
                f"the log has it (message {sequence}), but no projector took it in within "
                f"{patience_s:.0f} s: it will as soon as one runs (gatelog doctor)"
            )
        await asyncio.sleep(POLL_S)
    return sorted(stood)


def _query(settings: Settings) -> "sa.Select[tuple[object, ...]]":
    table, groups = tables.parked, tables.groups
    same = (groups.c.cluster == table.c.cluster) & (groups.c.id == table.c.group_id)
    query = sa.select(
        table,
        groups.c.namespace.label("space"),
        groups.c.name.label("name"),
        groups.c.parked.label("stopped"),
    )
    return query.select_from(table.outerjoin(groups, same)).where(
        table.c.cluster == settings.cluster, table.c.shard == SHARD
    )


def _rows(settings: Settings, query: "sa.Select[tuple[object, ...]]") -> list[ParkedEvent]:
    with reading(database_url(settings)) as connection:
        rows = list(connection.execute(query).mappings())
    return [_parked(row) for row in rows]


def _parked(row: sa.RowMapping) -> ParkedEvent:
    made = ("raw", "group", "stuck", "decision")
    given = {name: row[name] for name in ParkedEvent.__struct_fields__ if name not in made}
    raw = bytes(row["raw"] or b"")[:RAW_SHOWN].decode(errors="replace")
    group = f"{row['space']}/{row['name']}" if row["name"] else ""
    stuck = (row["stopped"] or "").startswith(f"{row['seq']}/{row['ord']} ")
    return ParkedEvent(**given, raw=raw, group=group, stuck=stuck)
