"""Databases at today's schema, copied from one that was migrated once in this process."""

import tempfile
import uuid
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from projector.upkeep import migrate


def migrated(url: str) -> str:
    """Bring an empty database, of either kind, to today's schema; returns `url`."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        assert parsed.database
        Path(parsed.database).write_bytes(_sqlite())
        return url
    server, name = _server(url), sql.Identifier(parsed.database or "")
    template = sql.Identifier(_template(server))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {}").format(name))
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        connection.execute(copy.format(name, template))
    return url


@cache
def _sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "read-model.sqlite3"
        migrate.upgrade(f"sqlite:///{file}")
        return file.read_bytes()


def _server(url: str) -> str:
    """The same server's maintenance database."""
    head, _, query = url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/postgres?{query}"


@cache
def _template(server: str) -> str:
    name = f"template_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    migrate.upgrade(server.replace("/postgres?", f"/{name}?"))
    return name
