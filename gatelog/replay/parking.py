"""What was set aside, and what a person says about it.

Theory. A person's word is a fact of the log like any other: `OperatorActed` is published, the
projector folds it, lets the group go on and closes the row. So a replay knows of it too. What is
waited for is the row, because only then has the word taken effect.

Invariant: this module writes to the log, never to the database.
"""

import asyncio
import uuid
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct

from gatelog.errors import CommandFailed, UsageFailed
from gatelog.replay.running import open_bus
from podgroup.codec import encode_batch
from podgroup.events import Batch, OperatorActed
from podgroup.runtime.settings import Settings
from podgroup.subjects import events
from projector import tables
from projector.database import database_url, reader

PATIENCE_S = 15.0
POLL_S = 0.1
MOST = 500
RAW_SHOWN = 100_000
"""Bytes of a parked event that are shown at most."""


class Parked(Struct, frozen=True, kw_only=True):
    """One parked event; `raw` is the event as it was, as text.

    `group` is the group it concerns as NAMESPACE/NAME, "" if none is known; `stands` says that the
    group stands still because of it.
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
    stands: bool = False

    @property
    def key(self) -> str:
        """What commands name it by."""
        return f"{self.seq}/{self.ord}"


def parse_key(text: str) -> tuple[int, int]:
    """Return position and ordinal of `SEQ/ORD`.

    Raises:
        UsageFailed: it is not of that form.
    """
    seq, slash, ordinal = text.partition("/")
    if not (slash and seq.isdecimal() and ordinal.isdecimal() and len(text) < 30):
        raise UsageFailed(f"{text!r}: name what is parked as SEQ/ORD, e.g. 1234/0 (parked list)")
    return int(seq), int(ordinal)


def found(settings: Settings, *, settled: bool) -> list[Parked]:
    """Return what is parked, oldest first; with `settled` also what was released or discarded."""
    table = tables.parked
    query = _query(settings).order_by(table.c.seq, table.c.ord).limit(MOST)
    if not settled:
        query = query.where(table.c.resolution == "")
    return _rows(settings, query)


def one(settings: Settings, key: str) -> Parked:
    """Return one parked event.

    Raises:
        CommandFailed: there is none of that key.
    """
    seq, ordinal = parse_key(key)
    table = tables.parked
    rows = _rows(settings, _query(settings).where(table.c.seq == seq, table.c.ord == ordinal))
    if not rows:
        raise CommandFailed(f"nothing is parked at {key} (gatelog parked list --all)")
    return rows[0]


async def settle(settings: Settings, action: str, keys: list[str], by: str, note: str) -> list[str]:
    """Publish what a person decided and wait until the projector has taken it in.

    Returns the groups (NAMESPACE/NAME) that stood still because of it and go on now.

    Raises:
        CommandFailed: one of them is not parked (any more), or the projector does not answer.
    """
    stood = set()
    for key in keys:
        row = one(settings, key)
        if row.resolution:
            raise CommandFailed(f"{key}: was settled already ({row.resolution}, {row.resolved_by})")
        if row.stands:
            stood.add(row.group)
    acted = tuple(OperatorActed(action=action, target=key, by=by, message=note) for key in keys)
    body = encode_batch(Batch(source="operator", events=acted))
    subject = events(settings.cluster, settings.projector.shard, "operator")
    async with open_bus(settings) as bus:
        # An id of its own: what is parked again may be released again within the stream's window.
        sequence = await bus.publish(subject, body, f"operator/{uuid.uuid4().hex}")
    until = asyncio.get_running_loop().time() + PATIENCE_S
    while [key for key in keys if not one(settings, key).resolution]:
        if asyncio.get_running_loop().time() > until:
            raise CommandFailed(
                f"the log has it (message {sequence}), but no projector took it in within "
                f"{PATIENCE_S:.0f} s: it will as soon as one runs (gatelog doctor)"
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
        table.c.cluster == settings.cluster, table.c.shard == settings.projector.shard
    )


def _rows(settings: Settings, query: "sa.Select[tuple[object, ...]]") -> list[Parked]:
    engine = reader(database_url(settings))
    try:
        with engine.connect() as connection:
            rows = list(connection.execute(query).mappings())
    finally:
        engine.dispose()
    return [_parked(row) for row in rows]


def _parked(row: sa.RowMapping) -> Parked:
    made = ("raw", "group", "stands")
    given = {name: row[name] for name in Parked.__struct_fields__ if name not in made}
    raw = bytes(row["raw"] or b"")[:RAW_SHOWN].decode(errors="replace")
    group = f"{row['space']}/{row['name']}" if row["name"] else ""
    stands = (row["stopped"] or "").startswith(f"{row['seq']}/{row['ord']} ")
    return Parked(**given, raw=raw, group=group, stands=stands)
