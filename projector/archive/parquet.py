"""The read model as Parquet files, by day: history for any query tool, for as long as wanted.

    <table>/day=2026-11-21/<cluster>.2026-11-21.parquet   rows that were over on that day (UTC)
    <table>/day=open/<cluster>.open.parquet               rows that were not over on a complete day
    views/duckdb.sql                                      the views of docs/sql.md, for DuckDB

Theory. A row that is over (a pod that is gone, a wait that ended, a line of history) never changes,
so the file of a complete day is written once and never again, and stays when the row is pruned from
the database. A day is complete when the log has been folded an hour beyond it. All other rows are
few, and are written anew each time: days first, then `open`, so a reader in between may see a row
twice and misses none. Columns are those of the tables, less private columns; documents are JSON
text.

The names of files show which days are written; there is no other state.

Invariant: after a run every row of the read model is in exactly one file.
"""

import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from podgroup.log.subjects import check_cluster
from projector.archive.archive_store import ArchiveStore, ArchiveStoreUnavailable
from projector.schema.dialect import DUCKDB, home
from projector.schema.views import VIEWS
from projector.tables import UtcTime, metadata
from projector.times import utc_text

FOLDER = "parquet"
"""Where in an archive the files are."""
OPEN = "open"
SETTLED = timedelta(hours=1)
"""How far beyond a day the log has to be folded."""
TOGETHER = 10_000
"""Rows of a row group at most."""
TIMEOUT_S = 3600.0
"""For the statements: each sorts a table by day."""
LEFT_OUT = {"conclusions"}
PRIVATE = {"folded"}

OVER = {
    "history": "t.at",
    "outcomes": "t.at",
    "quotas": "t.at",
    "failures": "t.at",
    "pods": "t.gone_at",
    "groups": "t.gone_at",
    "gates": "(SELECT p.gone_at FROM pods p WHERE p.cluster = t.cluster AND p.uid = t.pod_uid)",
    "pod_waits": "coalesce(t.to_at, "
    "(SELECT p.gone_at FROM pods p WHERE p.cluster = t.cluster AND p.uid = t.pod_uid))",
    "roles": "(SELECT g.gone_at FROM groups g WHERE g.cluster = t.cluster AND g.id = t.group_id)",
    "waits": "t.to_at",
    "shortages": "t.to_at",
    "reserved_starts": "t.to_at",
    "nodes": "t.to_at",
    "topologies": "t.to_at",
    "preemptions": "t.at",
    "admissions": "t.released_at",
    "placements": "t.to_at",
    "decisions": "t.resolved_at",
    "parked": "t.resolved_at",
}
"""When a row of a table is over; rows of other tables never are."""


class Written(Struct, kw_only=True):
    """The rows and files that a run wrote."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    complete_to: datetime | None = None
    """Begin of the first day that is not complete; None: no log was folded."""

    def days(self) -> str:
        """Return which days are complete, for a sentence."""
        if self.complete_to is None:
            return "no day is complete"
        return f"days before {self.complete_to:%Y-%m-%d} (UTC) are complete"


class ParquetMissing(ArchiveStoreUnavailable):
    """The package that writes Parquet is not installed."""


def tables() -> list[sa.Table]:
    """Return the tables that are written."""
    return [table for table in metadata.sorted_tables if table.name not in LEFT_OUT]


def columns(table: sa.Table) -> "list[sa.Column[Any]]":
    """Return the columns that are written."""
    return [column for column in table.columns if column.name not in PRIVATE]


def write(
    connection: sa.Connection,
    cluster: str,
    store: ArchiveStore,
    *,
    prefix: str = "",
    progress: Callable[[int], None] = lambda _: None,
) -> Written:
    """Write the new rows of a cluster; `prefix` is a folder of the store, `progress` gets rows.

    Raises:
        ParquetMissing: pyarrow is not installed.
        ArchiveStoreUnavailable: the place cannot be used.
    """
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise ParquetMissing(
            "Parquet needs the package pyarrow: pip install 'gatelog[parquet]'"
        ) from error
    check_cluster(cluster)
    done = Written(complete_to=_complete_to(connection, cluster))
    for table in tables():
        rows = partial(_rows, connection, table, cluster, done.complete_to)
        _table(table, rows, store, (_folder(prefix, table.name), f"{cluster}."), done, progress)
    with tempfile.TemporaryDirectory(prefix="gatelog-parquet-") as home:
        script = Path(home) / "duckdb.sql"
        root = f"{store.url.rstrip('/')}/{prefix}".rstrip("/")
        script.write_text(duckdb_script(root))
        store.put(script, _folder(prefix, "views"), script.name)
    return done


def duckdb_script(root: str) -> str:
    """Return statements that give DuckDB the tables and views over the files below `root`."""
    lines = [
        "-- Tables and views of gatelog (docs/sql.md) over its Parquet files, for DuckDB.",
        "SET TimeZone = 'UTC';",
    ]
    for table in tables():
        place = f"{root}/{table.name}/*/*.parquet".replace("'", "''")
        lines.append(
            f'CREATE OR REPLACE VIEW "{table.name}" AS SELECT * EXCLUDE (day) '
            f"FROM read_parquet('{place}', hive_partitioning = true, union_by_name = true);"
        )
    for name, body in VIEWS.items():
        lines.append(f"CREATE OR REPLACE VIEW {name} AS {body(DUCKDB).strip()};")
    return "\n".join(lines) + "\n"


def _folder(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name


def _complete_to(connection: sa.Connection, cluster: str) -> datetime | None:
    c = metadata.tables["checkpoints"].c
    found = connection.scalars(sa.select(c.at).where(c.cluster == cluster)).all()
    if not found or any(at is None for at in found):
        return None
    last: datetime = min(found) - SETTLED
    return last.replace(hour=0, minute=0, second=0, microsecond=0)


def _table(
    table: sa.Table,
    rows_after: Callable[[str], Iterator[Any]],
    store: ArchiveStore,
    place: tuple[str, str],
    done: Written,
    progress: Callable[[int], None],
) -> None:
    """Write the new rows of a table; `place` is the folder, and the begin of names in it."""
    folder, head = place
    names, tail = store.names(folder), ".parquet"
    known = [name[len(head) : -len(tail)] for name in names if name.startswith(head)]
    last = max((day for day in known if day != OPEN), default="")

    def put(day: str, rows: Iterator[Any]) -> None:
        with tempfile.TemporaryDirectory(prefix="gatelog-parquet-") as home:
            path = Path(home) / "part.parquet"
            for count in _written(table, rows, path):
                done.rows += count
                progress(done.rows)
            store.put(path, f"{folder}/day={day}", f"{head}{day}{tail}")
            done.files += 1
            done.bytes += path.stat().st_size

    day = ""
    for day, rows in groupby(rows_after(last), key=itemgetter(0)):
        put(day, rows)
    if day != OPEN:  # which is written anew each time
        put(OPEN, iter(()))


def _rows(
    connection: sa.Connection, table: sa.Table, cluster: str, complete: datetime | None, last: str
) -> Iterator[Any]:
    """Rows that are not in a file of a day: (day, columns...), days first."""
    postgres = connection.dialect.name == "postgresql"
    dialect = home(connection.dialect.name)
    day: Any = sa.literal(OPEN)
    if complete is not None and table.name in OVER:
        over = OVER[table.name]
        date = dialect.date.format(t=over)
        # A literal of our own making: the database has it twice, and sorts by it.
        limit = f"'{utc_text(complete)}'"
        day = sa.literal_column(f"CASE WHEN {over} < {limit} THEN {date} ELSE '{OPEN}' END")
    source = table.alias("t")
    query = sa.select(day.label("day"), *(source.c[c.name] for c in columns(table)))
    query = query.where(source.c.cluster == cluster)
    if last:
        query = query.where(day > last)
    # "open" sorts behind every date, by bytes.
    first = sa.collate(day, "C") if postgres else day
    query = query.order_by(first, *(source.c[key.name] for key in table.primary_key))
    streamed = connection.execution_options(stream_results=True, yield_per=1000)
    yield from streamed.execute(query)


def _written(table: sa.Table, rows: Iterator[Any], path: Path) -> Iterator[int]:
    """Write rows of (day, columns...) to a file, and yield of each row group how many it has."""
    import pyarrow as pa
    from pyarrow import parquet

    kept = columns(table)
    schema = pa.schema(
        [pa.field(c.name, _type(c.type), metadata={"comment": str(c.comment)}) for c in kept]
    )
    with parquet.ParquetWriter(path, schema, compression="zstd") as out:
        while some := list(islice(rows, TOGETHER)):
            found = [
                pa.array(map(_plain(c.type), cells), _type(c.type))
                for c, cells in zip(kept, list(zip(*some, strict=True))[1:], strict=True)
            ]
            out.write_table(pa.Table.from_arrays(found, schema=schema))
            yield len(some)


def _type(kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(kind, UtcTime):
        return pa.timestamp("us", tz="UTC")
    for known, made in (
        (sa.BigInteger, pa.int64()),
        (sa.Boolean, pa.bool_()),
        (sa.Double, pa.float64()),
        (sa.Integer, pa.int32()),
        (sa.LargeBinary, pa.binary()),
    ):
        if isinstance(kind, known):
            return made
    return pa.string()


def _plain(kind: Any) -> Callable[[Any], Any]:
    if isinstance(kind, sa.JSON):
        return lambda value: None if value is None else msgspec.json.encode(value).decode()
    return lambda value: value
