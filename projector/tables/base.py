"""The shared parts of tables: names of constraints, column types, the databases' differences.

Theory. One schema for PostgreSQL and SQLite. They differ in two types only: a time is TIMESTAMPTZ
or text of one fixed width (`2026-11-21T10:00:00.000000Z`, which sorts as time and which SQLite's
date functions read), and a document is JSONB or JSON text.

Invariant: every time is aware and is read as UTC.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal

from msgspec import Struct
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    literal_column,
)
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine

from projector.times import utc_text

Mode = Literal["append", "keep", "replace"]
"""append: a key never comes twice. keep: the first row stays. replace: the last row stays."""


class Written(Struct, frozen=True, kw_only=True):
    """How the projection writes a table; `rows` puts it into the definition.

    `compared`: replay compares its rows with the live rows. `merged`: they are made from the log
    alone, so a new read model has its own; on PostgreSQL each cluster has a partition. `owner` is
    (column, table and key of the row it belongs to), for tables without a shard. `kept` is the
    condition on `{t}` that holds for rows from before position `:floor`.
    """

    KEY: ClassVar[str] = "written"

    mode: Mode
    compared: bool = False
    merged: bool = True
    owner: tuple[str, str, str] | None = None
    kept: str = ""


def rows(
    mode: Mode,
    *,
    compared: bool = False,
    merged: bool = True,
    owner: tuple[str, str, str] | None = None,
    kept: str = "",
) -> dict[str, Written]:
    """Return the `info` of a table that the projection writes; see `Written`."""
    how = Written(mode=mode, compared=compared, merged=merged, owner=owner, kept=kept)
    return {Written.KEY: how}


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)

HOT = {"fillfactor": 80}
"""Storage of tables whose rows change: PostgreSQL finds room for the new version on its page."""

BY_TIME = "RANGE (at)"
"""Partitioning of append-only tables, on PostgreSQL; SQLite has one table of the same rows."""
BY_CLUSTER = "LIST (cluster)"
"""Partitioning of all tables made from the log: a read model replaces another by attaching its
partitions (`schema.partitions`); views, grants and so on of the tables stay.
"""


class Part(Struct, frozen=True):
    """The form of a cluster's partition of a table on PostgreSQL."""

    KEY: ClassVar[str] = "part"

    by_time: bool
    """The table is divided into weeks itself."""
    storage: Mapping[str, Any]
    """Storage parameters, which a table that only has partitions cannot have."""


def divide(tables: Iterable[Table]) -> None:
    """Give each cluster a partition of every table that is made from the log."""
    for table in tables:
        how: Written | None = table.info.get(Written.KEY)
        if how is None or not how.merged:
            continue
        options = table.dialect_options["postgresql"]
        table.info[Part.KEY] = Part(options["partition_by"] == BY_TIME, options["with"] or {})
        options["partition_by"], options["with"] = BY_CLUSTER, {}


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time; TIMESTAMPTZ on PostgreSQL, `utc_text` on SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type the database has for it."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Turn a time into the driver's form."""
        if value is None:
            return None
        text = utc_text(value)
        return value if dialect.name == "postgresql" else text

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn the driver's value into an aware UTC time."""
        if value is None:
            return None
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return time if time.tzinfo is UTC else time.astimezone(UTC)


Document = JSON().with_variant(JSONB(), "postgresql")


def text(
    name: str, comment: str, *, key: bool = False, null: bool = False, default: str | None = None
) -> Column[str]:
    """A text column; "" means none unless `null`. `default` is what older rows have."""
    return Column(
        *(name, Text),
        primary_key=key,
        nullable=null,
        server_default=None if default is None else literal_column(f"'{default}'"),
        comment=comment,
    )


def number(
    name: str, comment: str, *, key: bool = False, null: bool = False, default: int | None = None
) -> Column[int]:
    """A 64-bit integer column. `default` is what older rows have."""
    return Column(
        *(name, BigInteger),
        primary_key=key,
        nullable=null,
        autoincrement=False,
        server_default=None if default is None else literal_column(str(default)),
        comment=comment,
    )


def count(name: str, comment: str, *, key: bool = False, default: int | None = None) -> Column[int]:
    """A 32-bit integer column: counters and small numbers. `default` is what older rows have."""
    return Column(
        *(name, Integer),
        primary_key=key,
        nullable=False,
        autoincrement=False,
        server_default=None if default is None else literal_column(str(default)),
        comment=comment,
    )


def real(name: str, comment: str) -> Column[float]:
    """A column of a 64-bit float, null without a value."""
    return Column(name, Double, nullable=True, comment=comment)


def flag(name: str, comment: str) -> Column[bool]:
    """A yes/no column."""
    return Column(name, Boolean, nullable=False, comment=comment)


def time(name: str, comment: str, *, null: bool = True, key: bool = False) -> Column[datetime]:
    """A UTC time column."""
    return Column(name, UtcTime, nullable=null, primary_key=key, comment=comment)


def document(name: str, comment: str, *, default: str | None = None) -> Column[Any]:
    """A JSON column. `default` is what older rows have."""
    return Column(
        *(name, Document),
        nullable=False,
        server_default=None if default is None else literal_column(f"'{default}'"),
        comment=comment,
    )


def blob(name: str, comment: str) -> Column[bytes]:
    """A column of bytes; null when there are none."""
    return Column(name, LargeBinary, nullable=True, comment=comment)


def cluster() -> Column[str]:
    """The first key column of every table."""
    return text("cluster", "Name of the Kubernetes cluster (setting cluster)", key=True)


SHARD: Final = 0
"""Value of column `shard`: a log had several shards once, each with a projector of its own."""


def shard(*, key: bool = False) -> Column[int]:
    """The shard of the log that the row comes from."""
    return count("shard", "Shard of the log the row comes from", key=key)


def counters() -> list[Column[int]]:
    """The counters that groups and roles have in common."""
    return [
        count("pods_seen", "Pods that ever belonged"),
        count("pods_gated", "Pods that carry our scheduling gate now"),
        count("pods_ungated", "Pods whose gate was ever seen to go"),
        count("pods_running", "Pods in phase Running now"),
        count("pods_succeeded", "Pods that ever succeeded"),
        count("pods_failed", "Pods that ever failed"),
        count("pods_excess", "Pods beyond the declared count that were given up"),
        count("pods_replaced", "Failed or lost pods whose place another pod took"),
    ]
