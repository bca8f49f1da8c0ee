"""Databases at today's schema, and with rows in them, copied from those made in this process once.

Invariant: a copy is what the making would give; nothing that a test does to one reaches another.
"""

import sqlite3
import tempfile
import uuid
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from projector.upkeep import migrate

Fill = Callable[[str], None]
"""Writes into the migrated database of a URL, and leaves no connection."""


def migrated(url: str) -> str:
    """Bring an empty database, of either kind, to today's schema; returns `url`."""
    return _copied(url, None)


def filled(url: str, fill: Fill) -> str:
    """The same, with what `fill` writes, which is asked once: pass the same function each time."""
    return _copied(url, fill)


def _copied(url: str, fill: Fill | None) -> str:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        assert parsed.database
        Path(parsed.database).write_bytes(_sqlite(fill))
        return url
    server, name = _server(url), sql.Identifier(parsed.database or "")
    template = sql.Identifier(_template(server, fill))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {}").format(name))
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        connection.execute(copy.format(name, template))
    return url


@cache
def _sqlite(fill: Fill | None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "read-model.sqlite3"
        if fill is None:
            migrate.upgrade(f"sqlite:///{file}")
            return file.read_bytes()
        fill(migrated(f"sqlite:///{file}"))
        with closing(sqlite3.connect(file)) as connection:
            return connection.serialize()


def _server(url: str) -> str:
    """The same server's maintenance database."""
    head, _, query = url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/postgres?{query}"


@cache
def _template(server: str, fill: Fill | None) -> str:
    name = f"template_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = server.replace("/postgres?", f"/{name}?")
    if fill is None:
        migrate.upgrade(url)
    else:
        fill(migrated(url))
    return name
