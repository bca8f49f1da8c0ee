"""Digests of a table's rows, the same in PostgreSQL and in SQLite for the same rows.

Theory. Rows that are equal in two databases need not be read. Each database makes one text of a
row, and sends one digest for all rows whose own digests begin with the same byte, in their order.
So a server is only read, without a sort by keys, and can be while the log is still being folded.

A row's text is its cells with a mark between them: times as SQLite has them, documents as
PostgreSQL prints them. A row that has the mark in a cell has a digest that no row has on the other
side. A value without such a text becomes the mark: a time out of Python's years, text with a NUL
(where `printf` would end the text), a document that is a bare number (as SQLite would make it) or
no Unicode.

Invariant: equal digests mean equal rows. Equal rows may have different digests: a number in a
document can be written in two ways.
"""

from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from json.encoder import encode_basestring as quoted
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa

from projector.tables.base import Document, UtcTime

_MARK = "\x1f"
_TIME = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
_YEARS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
"""The years that Python and SQLite's text have; PostgreSQL has infinity and years BC as well."""

Digests = list[tuple[int, int, bytes]]
"""First byte of rows' digests, how many rows have it, and the digest of all these."""


def digests(connection: sa.Connection, columns: list[sa.Column[Any]], mine: list[Any]) -> Digests:
    """Return the digests of the rows that fulfil `mine`, as far as these columns go."""
    form = _MARK.join(["%s"] * len(columns))
    if connection.dialect.name == "postgresql":
        text = sa.func.format(form, *map(_in_postgres, columns))
        digest = sa.func.sha256(sa.func.convert_to(text, "UTF8"))
        # Sorted before it is grouped: an ORDER BY within the aggregate takes three times as long,
        # and another order would only mean that rows are read.
        row = sa.select(digest.label("row")).where(*mine).order_by("row").subquery().c.row
        first = sa.func.get_byte(row, 0).label("first")
        rows = sa.func.string_agg(row, sa.literal_column("''::bytea"))
        query = sa.select(first, sa.func.count(), sa.func.sha256(rows)).group_by(first)
        return sorted((*some,) for some in connection.execute(query))
    raw: Any = connection.connection.driver_connection
    raw.create_function("as_jsonb", 1, as_jsonb, deterministic=True)
    raw.create_function("digest", 2, _digest, deterministic=True)
    text = sa.func.printf(form, *map(_in_sqlite, columns))
    own = sa.func.digest(text, len(columns) - 1).label("own")
    # Past SQLAlchemy's rows, which would cost a third of all this.
    cursor: Any = connection.execute(sa.select(own).where(*mine).order_by(own)).cursor
    return [
        (first, len(part), sha256(b"".join(part)).digest())
        for first, some in groupby(map(itemgetter(0), cursor), itemgetter(0))
        if (part := list(some))
    ]


def _in_postgres(column: sa.Column[Any]) -> Any:
    if isinstance(column.type, UtcTime):
        return sa.case((~column.between(*_YEARS), _MARK), else_=sa.func.to_char(column, _TIME))
    if isinstance(column.type, sa.Boolean):
        return sa.cast(column, sa.Integer)
    return column if isinstance(column.type, type(Document)) else _plain(column)


def _in_sqlite(column: sa.Column[Any]) -> Any:
    if isinstance(column.type, type(Document)):
        return sa.func.as_jsonb(column)
    if isinstance(column.type, sa.Text):
        return sa.case((sa.func.instr(column, "\0") > 0, _MARK), else_=_plain(column))
    return column if isinstance(column.type, UtcTime | sa.Boolean) else _plain(column)


def _plain(column: sa.Column[Any]) -> Any:
    """A column's value with the same text in both databases; a text gets a mark, so that null
    differs from "".
    """
    assert isinstance(column.type, sa.Integer | sa.Text), f"{column} has no text of its own"
    if column.nullable and isinstance(column.type, sa.Text):
        return sa.literal("=") + column
    return column


def _digest(text: str, marks: int) -> bytes:
    return sha256(text.encode() if text.count(_MARK) == marks else b"").digest()


@lru_cache(1024)
def as_jsonb(text: Any) -> str:
    """Return a document as PostgreSQL prints its JSONB: keys by length, then by bytes."""
    try:
        return _printed(msgspec.json.decode(text))
    except (TypeError, msgspec.DecodeError):
        return _MARK


def _printed(value: Any) -> str:
    # One pass, in half the time of json.dumps of a sorted copy; most documents are commands, and
    # no two of these are alike.
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is dict:
        names = sorted(value, key=_place)
        return "{" + ", ".join([f"{quoted(n)}: {_printed(value[n])}" for n in names]) + "}"
    if kind is list:
        return "[" + ", ".join(map(_printed, value)) + "]"
    return msgspec.json.encode(value).decode()


@lru_cache(1024)
def _place(key: str) -> tuple[int, bytes]:
    data = key.encode()
    return len(data), data
