"""`gatelog migrate`: bring the database and the streams to this version's schema.

Theory. Run it before the deployments of a new version start. It is safe to repeat and safe to run
in several places at once. Streams and the actuators' consumer are made or updated when nats.url is
set, with an account of their own (`streams` in deploy/components/nats); `gatelog up` does both by
itself. Before a projector (`--wait`) it outlasts a database and a log server that are away, as the
projector does: the kubelet restarts a container that ends, after five minutes at worst.

Invariant: nothing is dropped; a database of a newer version is refused.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from gatelog.shell import options
from gatelog.shell.errors import CommandFailed
from gatelog.shell.narrator import Narrator
from podgroup.log import subjects
from runtime.backoff import Backoff
from runtime.settings import Settings

EXAMPLES = """
gatelog migrate --config gatelog.toml
gatelog migrate --db postgresql://gatelog@db/gatelog --set nats.url=nats://nats:4222
gatelog migrate --db postgresql://gatelog@db/gatelog --reader analysts
"""

_CONNECT_S = 30.0
_CONNECT_AGAIN_S = 5.0
"""Seconds for a log server to answer, alone and where it is tried again."""


def migrate(
    where: options.DatabaseOptions,
    reader: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="PostgreSQL: let this role read all tables and views, and nothing else. It must "
            "exist. Default: database.reader_role.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait for a database and a log server that are away, as long as it takes.",
        ),
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Bring the database to the schema of this version, and create the NATS streams and the
    actuators' consumer (or bring them up to date). Run it before the deployments; safe to
    repeat.
    """
    settings = where.settings(database__reader_role=reader)
    narrator = Narrator(settings.log, "migrate", verbose=verbose)

    from gatelog.shell.whereabouts import read_model_at
    from projector.storage.urls import database_url
    from projector.upkeep import migrate as migrations

    url = database_url(settings)
    _refuse_new_directory(settings.database.url)
    role = settings.database.reader_role
    with _ended_by_sigterm():
        _done(narrator, "database", partial(migrations.upgrade, url, reader_role=role), wait=wait)
        schema = migrations.head()
        narrator.done("database", f"{read_model_at(url)} is at schema {schema}", schema=schema)
        if role:
            narrator.done("reader", f"role {role} may read it", role=role)
        if settings.nats.url:
            within_s = _CONNECT_AGAIN_S if wait else _CONNECT_S
            _done(narrator, "nats", lambda: asyncio.run(_streams(settings, within_s)), wait=wait)
            narrator.done("streams", f"streams are in place on {settings.nats.url}")
        else:
            narrator.info("streams_skipped", "nats.url is not set: no streams to prepare here")


def _done(narrator: Narrator, what: str, act: Callable[[], None], *, wait: bool) -> None:
    """Act; with `wait` again and again until database and log server are there.

    Raises:
        DatabaseUnavailable, BusUnavailable: the server is away, without `wait`.
        DatabaseError, BusError: a retry does not help.
    """
    from projector.storage.urls import DatabaseUnavailable
    from runtime.jetstream import BusUnavailable

    backoff = Backoff(first_s=0.5, ceiling_s=10.0)
    while True:
        try:
            return act()
        except (DatabaseUnavailable, BusUnavailable) as error:
            if not wait:
                raise
            wait_s = round(next(backoff), 2)
            said = f"{error}; tried again in {wait_s} s"
            narrator.warning(f"{what}_unavailable", said, error=str(error), wait_s=wait_s)
            time.sleep(wait_s)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM interrupt: the first process of a container has no other end by it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _refuse_new_directory(url: str) -> None:
    """Refuse an SQLite file in a missing directory, which was probably mistyped."""
    from projector.storage.database import parse

    parsed = parse(url) if url else None
    if parsed is None or parsed.get_backend_name() != "sqlite":
        return
    folder = Path(parsed.database or "").resolve().parent
    if not folder.is_dir():
        raise CommandFailed(
            f"database.url: there is no directory {folder}: make it first, or name another file "
            "with --db"
        )


async def _streams(settings: Settings, within_s: float) -> None:
    from runtime.jetstream import connect

    bus = await connect(settings.nats, "gatelog-migrate", deadline_s=within_s)
    try:
        await bus.ensure_streams(msgspec.structs.replace(settings.streams, create=True))
        await bus.ensure_consumer(
            subjects.DECISIONS,
            subjects.actuator_consumer(settings.cluster),
            subjects.decisions(settings.cluster),
            settings.actuator.ack_wait_s,
        )
    finally:
        await bus.close()
