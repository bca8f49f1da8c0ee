"""Rows of a read model as text: one line per row, in the order of the table's key.

Invariant: two read models with equal rows give equal text, whatever database they are in.
"""

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from podgroup.model.policy import Policy
from projector import tables
from projector.replay.files import FileLog
from projector.replay.fold import Beginning, Result, fold
from projector.replay.sink import Sink
from projector.schema.layout import COMPARED as TABLES
from projector.storage.database import reader

HERE = Path(__file__).parent
PRIVATE = {"folded", "as_of_seq", "shard", "cluster"}
"""Columns that say nothing of what happened: where and how a row is stored."""
Rows = dict[str, list[dict[str, Any]]]


def logs(folder: str) -> list[Path]:
    """Return the golden logs of a folder, by name."""
    return sorted((HERE / folder).glob("*.jsonl.gz"))


async def folded(path: Path, url: str, mode: str = "", policy: Policy | None = None) -> Result:
    """Fold a log into the database at `url`, as the cluster that it names.

    `mode` and `policy` are those of whoever replays it; what the file says if not given.
    """
    log = FileLog(path)
    header = log.header
    mode, policy = mode or header.mode, policy or header.policy
    begin = Beginning(header.cluster, mode, policy, header.epoch, header.base)
    with Sink(url, header.cluster, mode) as sink:
        result = await fold(log.entries(), begin, sink=sink)
    assert not log.unread, log.unread
    return result


def rows(url: str, cluster: str) -> Rows:
    """Return the rows of a cluster: table -> rows in the order of the key."""
    engine = reader(url)
    found: Rows = {}
    with engine.connect() as connection:
        for table in (*TABLES, tables.parked):
            keys = list(table.primary_key)
            query = sa.select(table).where(table.c.cluster == cluster).order_by(*keys)
            public = [c.name for c in table.columns if c.name not in PRIVATE]
            if table is tables.decisions:
                public.append("as_of_seq")
            found[table.name] = [
                {name: row[name] for name in public} for row in connection.execute(query).mappings()
            ]
    engine.dispose()
    return found


def text(found: Rows) -> str:
    """Return rows as text."""
    return "".join(_lines(found))


def _lines(found: Rows) -> Iterator[str]:
    for name, some in found.items():
        for row in some:
            yield json.dumps({"table": name, **row}, default=_plain, sort_keys=True) + "\n"


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    assert isinstance(value, bytes | memoryview)
    return bytes(value).decode()


def kept(path: Path) -> str:
    """Return the text that was kept beside a log."""
    beside = path.with_name(path.name.replace(".jsonl.gz", ".rows.gz"))
    return gzip.decompress(beside.read_bytes()).decode()


def parsed(dump: str) -> Rows:
    """Return rows from text; values are as in the text."""
    found: Rows = {}
    for line in dump.splitlines():
        row = json.loads(line)
        found.setdefault(row.pop("table"), []).append(row)
    return found


DERIVED: frozenset[tuple[str, str]] = frozenset({("pods", "told_reason"), ("pods", "told_message")})
"""(table, column) of columns that came after logs were kept, and whose values those logs give."""


def as_kept(found: Rows, before: Rows) -> Rows:
    """Return rows as an earlier release would have had them: without columns that came later.

    A column that came later has to have its default, which for a log from before it is nothing,
    unless it is worked out of what those logs have as well (`DERIVED`).
    """
    now = parsed(text(found))
    for name, some in now.items():
        known = set(before[name][0]) if before.get(name) else None
        for row in some:
            for column in set(row) - known if known is not None else ():
                value = row.pop(column)
                assert not value or (name, column) in DERIVED, (
                    f"{name}.{column} is {value!r} in a log from before it: if it is worked out of "
                    "what that log has, name it in DERIVED"
                )
    return now
