"""Pruning: rows that were over before a time are deleted, and table `pruned` records it.

Theory. Append-only rows go by whole weeks: on PostgreSQL a partition is detached (concurrently, so
no query waits) and dropped, whatever its size. Rows that opened and closed go by the time of their
close: a pod that is gone with its gates, a group that is gone with its roles, a wait that ended, an
admission whose quota was given back, a decision that was sent and has its outcome, a parked event
that a person settled. They are few beside history, and go in pieces of `CHUNK` rows, each in a
transaction of its own, in the order of the key: one pass over the table, and the projector never
waits long. SQLite has no partitions, so there history goes in pieces too.

The limit is always a Monday, 00:00 UTC, so that all tables end at the same time. The limit is
stored before rows are deleted; a comparison (`replay --verify`) leaves out rows that `WHERE_OVER`
selects.

Rows of live objects stay, however old. Pruning is of the database, with all its clusters.

Invariant: a row goes only if it was over before the limit in `pruned`.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DBAPIError

from projector.schema import partitions
from projector.storage.database import DatabaseUnavailable, locked, shown, writer
from projector.tables import metadata, pruned
from projector.times import utc_text

CHUNK = 5_000
TIMEOUT_S = 3600.0
LOCK = 0x6761_7465_7072_756E  # "gateprun"; one prunes at a time
_HELD = """
SELECT a.usename, a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND a.usename <> current_user
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""Other holders of the lock: an advisory lock is open to all roles."""
DROPPED = "gatelog: pruned, to be dropped"

WHERE_OVER: dict[str, str] = {
    "history": "at < :before",
    "outcomes": "at < :before",
    "gates": "EXISTS (SELECT 1 FROM {schema}pods p WHERE p.cluster = gates.cluster "
    "AND p.uid = gates.pod_uid AND p.gone_at < :before)",
    "pod_waits": "(to_at < :before OR EXISTS (SELECT 1 FROM {schema}pods p "
    "WHERE p.cluster = pod_waits.cluster AND p.uid = pod_waits.pod_uid AND p.gone_at < :before))",
    "pods": "gone_at < :before",
    "roles": "EXISTS (SELECT 1 FROM {schema}groups g WHERE g.cluster = roles.cluster "
    "AND g.id = roles.group_id AND g.gone_at < :before)",
    "groups": "gone_at < :before",
    "waits": "to_at < :before",
    "admissions": "released_at < :before",
    "placements": "to_at < :before",
    "usage": "to_at < :before",
    "shortages": "to_at < :before",
    "reserved_starts": "to_at < :before",
    "nodes": "to_at < :before",
    "topologies": "to_at < :before",
    "preemptions": "at < :before",
    "standings": "gone_at < :before",
    "decisions": "issued_at < :before AND status IS NOT NULL",
    "failures": "at < :before",
    "parked": "resolved_at < :before AND resolution <> ''",
    "estimates": "came_at < :before",
}
"""Which rows of a table are over, in the order the tables are pruned; see `over`."""

_BUT = {
    "decisions": " AND EXISTS (SELECT 1 FROM checkpoints c WHERE c.cluster = decisions.cluster "
    "AND c.shard = decisions.shard AND c.published >= decisions.number)",
}
"""Further conditions for a row to be deleted."""

_WHEN = {
    "history": "at",
    "outcomes": "at",
    "gates": "added_at",
    "pod_waits": "from_at",
    "pods": "created_at",
    "roles": "",
    "groups": "created_at",
    "waits": "from_at",
    "admissions": "admitted_at",
    "placements": "from_at",
    "usage": "from_at",
    "shortages": "from_at",
    "reserved_starts": "from_at",
    "nodes": "from_at",
    "topologies": "from_at",
    "preemptions": "at",
    "standings": "at",
    "decisions": "issued_at",
    "failures": "at",
    "parked": "at",
    "estimates": "given_at",
}


class Gone(Struct, frozen=True):
    """Rows of a table (or of a partition) that were or would be deleted."""

    table: str
    rows: int
    first: datetime | None = None
    last: datetime | None = None
    partition: str = ""
    bytes: int | None = None
    """Bytes on disk that are free afterwards; None where rows are deleted and their space is used
    again.
    """


def limit(now: datetime, older_than: timedelta) -> datetime:
    """Return the limit of pruning: the Monday at or before the time that lies so far back."""
    return partitions.week_of(now - older_than)


def prune(
    url: str,
    before: datetime,
    *,
    dry_run: bool = False,
    tell: Callable[[Gone], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Gone]:
    """Delete rows that were over before `before` (a Monday, see `limit`); returns their counts.

    Does nothing while another process prunes. `dry_run`: nothing is changed. `stop` is called
    between pieces; the rest is deleted the next time.

    Raises:
        DatabaseUnavailable: the database does not answer, or ended a statement; deleted rows stay
            deleted, and the rest follows the next time.
        ValueError: `before` is not the begin of a week.
    """
    if partitions.week_of(before) != before:
        raise ValueError(f"{before.isoformat()} is not a Monday, 00:00 UTC")
    engine = writer(url, TIMEOUT_S)
    done: list[Gone] = []
    try:
        with _alone(engine) as connection:
            if connection is not None:
                for gone in _Pruning(connection, before, stop).run(dry_run=dry_run):
                    tell(gone)
                    done.append(gone)
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise DatabaseUnavailable(f"{shown(url)}: {reason}") from error
    finally:
        engine.dispose()
    return done


def over(table: str, schema: str = "") -> str:
    """Return the condition that a row is over; `:before` is the limit, `schema` ends in a dot."""
    return WHERE_OVER[table].format(schema=schema)


def limits(connection: Connection, cluster: str) -> dict[str, datetime]:
    """Return the limit of every table of a cluster that was pruned."""
    rows = connection.execute(
        select(pruned.c.name, pruned.c.before).where(pruned.c.cluster == cluster)
    )
    return {row.name: row.before for row in rows}


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection | None]:
    """A connection with autocommit, None if another process prunes."""
    postgres = engine.dialect.name == "postgresql"
    options = {"isolation_level": "AUTOCOMMIT"} if postgres else {}
    with engine.connect().execution_options(**options) as connection:
        if not postgres:
            yield connection
            return
        with locked(engine.url.render_as_string(hide_password=False), LOCK, wait=False) as got:
            if not got and (strangers := connection.exec_driver_sql(_HELD, (LOCK >> 32,)).all()):
                raise DatabaseUnavailable(
                    f"role {strangers[0][0]} holds the lock of pruning, which is none of its "
                    f"business: end its session, SELECT pg_terminate_backend({strangers[0][1]})"
                )
            yield connection if got else None


class _Pruning:
    """One run over all tables."""

    def __init__(self, connection: Connection, before: datetime, stop: Callable[[], bool]) -> None:
        self._connection = connection
        self._before = before
        self._stop = stop
        self._postgres = connection.dialect.name == "postgresql"

    def run(self, *, dry_run: bool) -> Iterator[Gone]:
        if not dry_run:
            self._write_down()
            self._drop_left_over()
        for table in WHERE_OVER:
            if self._postgres and table in partitions.PARTITIONED:
                yield from self._weeks(table, dry_run=dry_run)
                continue
            gone = self._counted(table)
            if gone.rows and not dry_run:
                gone = msgspec.structs.replace(gone, rows=self._delete(table))
            if gone.rows:
                yield gone
            if self._stop():
                return

    # -- whole weeks ---

    def _weeks(self, table: str, *, dry_run: bool) -> Iterator[Gone]:
        for part in partitions.found(self._connection, table):
            if part.end is None or part.end > self._before:
                continue
            if self._stop():
                return
            by_cluster, gone = self._measured(part)
            if not dry_run:
                self._drop(part)
                self._add(table, by_cluster)
            yield gone

    def _measured(self, part: partitions.Partition) -> tuple[Counter[str], Gone]:
        # A partition whose detachment began is not seen through its table, but it is seen here.
        found = self._connection.exec_driver_sql(
            f"SELECT cluster, count(*), min(at), max(at) FROM {part.quoted} GROUP BY cluster"
        ).all()
        size = self._connection.exec_driver_sql(
            "SELECT pg_total_relation_size(CAST(%s AS regclass))", (part.quoted,)
        ).scalar()
        return Counter({row[0]: row[1] for row in found}), Gone(
            part.table,
            sum(row[1] for row in found),
            min((row[2] for row in found), default=None),
            max((row[3] for row in found), default=None),
            part.name,
            size,
        )

    def _drop(self, part: partitions.Partition) -> None:
        """Detach, waiting for queries that use it and letting none wait, then drop."""
        execute = self._connection.exec_driver_sql
        execute(f"COMMENT ON TABLE {part.quoted} IS '{DROPPED}'")
        how = "FINALIZE" if part.detaching else "CONCURRENTLY"
        execute(f"ALTER TABLE {part.parent} DETACH PARTITION {part.quoted} {how}")
        execute(f"DROP TABLE {part.quoted}")

    def _drop_left_over(self) -> None:
        """Drop partitions that an earlier run detached and did not drop."""
        if not self._postgres:
            return
        quote = self._connection.dialect.identifier_preparer.quote
        for schema, name in self._connection.exec_driver_sql(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND NOT c.relispartition "
            "AND pg_get_userbyid(c.relowner) = current_user "
            "AND obj_description(c.oid, 'pg_class') = %s",
            (DROPPED,),
        ).all():
            self._connection.exec_driver_sql(f"DROP TABLE {quote(schema)}.{quote(name)}")

    # -- rows ---

    def _counted(self, table: str) -> Gone:
        when = _WHEN[table]
        span = f"min({when}), max({when})" if when else "NULL, NULL"
        with self._piece():
            rows, first, last = self._connection.execute(
                text(f"SELECT count(*), {span} FROM {table} WHERE {_over(table)}"),
                {"before": self._value(self._before)},
            ).one()
        return Gone(table, rows, _time(first), _time(last))

    def _delete(self, table: str) -> int:
        """Delete rows that are over, piece by piece in the order of the key."""
        names = [column.name for column in metadata.tables[table].primary_key]
        keys = f"({', '.join(names)})"
        over = _over(table)
        low, high = (f"({', '.join(f':{p}{i}' for i in range(len(names)))})" for p in "lh")
        select_keys = f"SELECT {', '.join(names)} FROM {table} WHERE {over}"
        order = f"ORDER BY {', '.join(names)} LIMIT {CHUNK}"
        given: dict[str, Any] = {"before": self._value(self._before)}
        count, after = 0, ""
        while not self._stop():
            with self._piece():
                found = self._connection.execute(
                    text(f"{select_keys} {after} {order}"), given
                ).all()
                if not found:
                    break
                for i in range(len(names)):
                    given[f"l{i}"], given[f"h{i}"] = found[0][i], found[-1][i]
                done = self._connection.execute(
                    text(
                        f"DELETE FROM {table} WHERE {over} AND {keys} >= {low} AND {keys} <= {high}"
                    ),
                    given,
                )
                count += done.rowcount
                self._add(table, Counter(row[0] for row in found))
            given = {"before": given["before"]} | {
                name: value for name, value in given.items() if name.startswith("h")
            }
            after = f"AND {keys} > {high}"
        return count

    # -- the record ---

    def _write_down(self) -> None:
        """Record what will be missing before rows are deleted."""
        with self._piece():
            clusters = self._connection.execute(
                text("SELECT DISTINCT cluster FROM checkpoints")
            ).scalars()
            rows = [
                {
                    "cluster": cluster,
                    "name": table,
                    "before": self._value(self._before),
                    "at": self._value(datetime.now(UTC)),
                }
                for cluster in clusters.all()
                for table in WHERE_OVER
            ]
            for row in rows:
                self._connection.execute(text(_WRITE_DOWN), row)

    def _add(self, table: str, by_cluster: Counter[str]) -> None:
        for cluster, rows in by_cluster.items():
            given = {"cluster": cluster, "name": table, "count": rows}
            self._connection.execute(text(_ADD), given)

    def _piece(self) -> AbstractContextManager[object]:
        """A transaction on SQLite; on PostgreSQL every statement is a transaction."""
        return nullcontext() if self._postgres else self._connection.begin()

    def _value(self, at: datetime) -> Any:
        return at if self._postgres else utc_text(at)


_WRITE_DOWN = """
INSERT INTO pruned (cluster, name, before, at, rows) VALUES (:cluster, :name, :before, :at, 0)
    ON CONFLICT (cluster, name) DO UPDATE SET at = excluded.at,
       before = CASE WHEN excluded.before > pruned.before
                     THEN excluded.before ELSE pruned.before END
"""
_ADD = "UPDATE pruned SET rows = rows + :count WHERE cluster = :cluster AND name = :name"


def _over(table: str) -> str:
    return over(table) + _BUT.get(table, "")


def _time(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def compact(url: str) -> None:
    """Give the free pages of an SQLite file back to the disk; nothing to do on PostgreSQL.

    Raises:
        DatabaseUnavailable: the file is in use, or the disk is too small for a second copy.
    """
    engine = writer(url)
    if engine.dialect.name == "sqlite":
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("VACUUM")
        except sqlite3.OperationalError as error:
            raise DatabaseUnavailable(f"{shown(url)}: {error}") from error
        finally:
            raw.close()
    engine.dispose()
