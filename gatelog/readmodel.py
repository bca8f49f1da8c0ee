"""What the command line asks of the read model: plain SQL over the public tables.

Theory. The tables are a public contract, so the commands use them as anybody could: every
statement here can be printed (`statement`) and pasted into sqlite3 or psql. Both databases take
the same text; what differs (times as text or as values, documents) is evened out on reading.

Invariant: read-only, parameterised, and bounded: every list has a LIMIT.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from gatelog import sql
from gatelog.errors import CommandFailed
from gatelog.timeline import Entry
from gatelog.told import place
from projector import database
from projector.tables.base import utc_text

MOST_ENTRIES = 20_000

T = TypeVar("T", bound=msgspec.Struct)


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a group, as in table `groups`."""

    id: str
    namespace: str
    name: str
    kind: str
    queue: str
    cluster_queue: str
    priority: int
    priority_class: str
    total_count: int
    state: str
    reason: str
    message: str
    workload_name: str
    pods_seen: int
    pods_gated: int
    pods_ungated: int
    pods_running: int
    pods_succeeded: int
    pods_failed: int
    pods_excess: int
    pods_replaced: int
    wait_reason: str
    wait_message: str
    wait_since: datetime | None
    parked: str
    created_at: datetime
    complete_at: datetime | None
    queued_at: datetime | None
    admitted_at: datetime | None
    finished_at: datetime | None
    gone_at: datetime | None
    as_of_seq: int

    @property
    def title(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class WaitRow(msgspec.Struct, frozen=True):
    """A wait that is over or goes on (`to_at` None)."""

    reason: str
    message: str
    from_at: datetime
    to_at: datetime | None


class HolderRow(msgspec.Struct, frozen=True):
    """A group that holds quota of a ClusterQueue; amounts by flavor and resource."""

    namespace: str
    name: str
    state: str
    priority: int
    admitted_at: datetime
    resources: dict[str, dict[str, int]]


class CheckpointRow(msgspec.Struct, frozen=True):
    """Where a projector is. `folded` is its private record of the log."""

    seq: int
    base: int
    epoch: int
    mode: str
    at: datetime | None
    written_at: datetime
    published: int
    folded: bytes

    @property
    def stream_seq(self) -> int:
        """Sequence in the stream EVENTS up to which it has folded."""
        return self.seq - self.base


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list: its state, its admissions and how many decisions it took."""

    id: str
    namespace: str
    name: str
    kind: str
    state: str
    reason: str
    total_count: int
    pods_seen: int
    pods_excess: int
    pods_replaced: int
    created_at: datetime
    finished_at: datetime | None
    admissions: int
    first_admitted_at: datetime | None
    decisions: int

    @property
    def waited_s(self) -> float | None:
        """Seconds from its first pod to its first admission; None while there was none."""
        if self.first_admitted_at is None:
            return None
        return (self.first_admitted_at - self.created_at).total_seconds()


class ReadModel:
    """Read access for one cluster. Blocking calls; close it."""

    def __init__(self, url: str, cluster: str) -> None:
        self.place = place(url)
        self.cluster = cluster
        self._engine: Engine = database.reader(url)

    def close(self) -> None:
        """Close connections."""
        self._engine.dispose()

    def __enter__(self) -> "ReadModel":
        """Nothing to do: connections are made on demand."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def groups(self, namespace: str, name: str, limit: int = 100) -> list[GroupRow]:
        """Return the lives of a name, newest first; the name of a pod finds its group."""
        given = {"namespace": namespace, "name": name, "limit": limit}
        found = list(self._rows(GroupRow, sql.GROUPS, given))
        return found or list(self._rows(GroupRow, sql.GROUPS_OF_POD, given))

    def similar(self, namespace: str, name: str) -> list[str]:
        """Return `namespace/name` of groups that may have been meant, best first."""
        import difflib

        with self._asked(sql.RECENT_NAMES, {"limit": 2000}) as rows:
            known = [f"{row['namespace']}/{row['name']}" for row in rows]
        wanted = f"{namespace}/{name}"
        same_name = [title for title in known if title.partition("/")[2] == name]
        close = difflib.get_close_matches(wanted, known, n=4, cutoff=0.6)
        return list(dict.fromkeys([*same_name[:3], *close]))[:4]

    def entries(self, group_id: str) -> list[Entry]:
        """Return everything that is told about a group, in order of the log."""
        given = {"group_id": group_id, "limit": MOST_ENTRIES}
        with self._asked(sql.ENTRIES, given) as rows:
            return [_entry(row) for row in rows]

    def waits(self, group_id: str) -> list[WaitRow]:
        """Return the waits of a group, newest first."""
        return list(self._rows(WaitRow, sql.WAITS, {"group_id": group_id, "limit": 50}))

    def holders(self, cluster_queue: str, limit: int = 5) -> list[HolderRow]:
        """Return who holds quota of a ClusterQueue, oldest admission first."""
        given = {"cluster_queue": cluster_queue, "limit": limit}
        return list(self._rows(HolderRow, sql.HOLDERS, given))

    def ahead(self, group: GroupRow) -> int:
        """Return how many queued groups come before this one in its ClusterQueue."""
        given = {
            "cluster_queue": group.cluster_queue,
            "priority": group.priority,
            "queued_at": group.queued_at,
            "id": group.id,
        }
        return int(self._value(sql.AHEAD, given))

    def summary(self, since_seq: int = 0, limit: int = 1000) -> list[SummaryRow]:
        """Return the groups first seen after a position, in that order."""
        given = {"since": since_seq, "limit": limit}
        return list(self._rows(SummaryRow, sql.SUMMARY, given))

    def checkpoint(self, shard: int = 0) -> CheckpointRow | None:
        """Return the checkpoint of a shard, None before the first one."""
        return next(self._rows(CheckpointRow, sql.CHECKPOINT, {"shard": shard}), None)

    def clusters(self) -> list[str]:
        """Return the clusters this database knows."""
        with self._asked(sql.CLUSTERS, {}) as rows:
            return [str(row["cluster"]) for row in rows]

    def parked(self) -> int:
        """Return how many events are set aside and wait for a person."""
        return int(self._value(sql.PARKED, {}))

    def unresolved(self, before: datetime) -> int:
        """Return how many decisions from before a time have no outcome yet."""
        return int(self._value(sql.UNRESOLVED, {"before": before}))

    def statement(self, query: str, given: Mapping[str, Any]) -> str:
        """Return a statement as it may be pasted into sqlite3 or psql."""
        return sql.filled(query, {"cluster": self.cluster, "limit": MOST_ENTRIES, **given})

    def _rows(self, kind: type[T], query: str, given: Mapping[str, Any]) -> Iterator[T]:
        with self._asked(query, given) as rows:
            for row in rows:
                yield msgspec.convert(row, kind, strict=False)

    def _value(self, query: str, given: Mapping[str, Any]) -> Any:
        with self._asked(query, given) as rows:
            return next(iter(rows[0].values()))

    @contextmanager
    def _asked(self, query: str, given: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
        sqlite = self._engine.dialect.name == "sqlite"
        values = {
            name: utc_text(value) if sqlite and isinstance(value, datetime) else value
            for name, value in {"cluster": self.cluster, **given}.items()
        }
        try:
            with self._engine.connect() as connection:
                found = connection.execute(text(query), values).mappings().all()
        except SQLAlchemyError as error:
            raise CommandFailed(self._why(error)) from error
        yield [{name: _plain(name, value) for name, value in row.items()} for row in found]

    def _why(self, error: SQLAlchemyError) -> str:
        said = str(getattr(error, "orig", None) or error).splitlines()[0]
        if "no such table" in said or "does not exist" in said:
            return f"{self.place} has no read model of gatelog yet: run `gatelog migrate`"
        return f"cannot read {self.place}: {said}"


def _plain(name: str, value: Any) -> Any:
    """Even out what the two databases and drivers give."""
    if isinstance(value, memoryview):
        return bytes(value)
    if name == "resources" and isinstance(value, str):
        return msgspec.json.decode(value)
    return value


def _entry(row: Mapping[str, Any]) -> Entry:
    values = dict(row)
    target = str(values.pop("target") or "").split(" ")
    if target[0] == "Pod" and len(target) > 1:
        values["pod"] = target[1].rpartition("/")[2]
    values["pod"] = values["pod"] or ""
    return msgspec.convert(values, Entry, strict=False)
