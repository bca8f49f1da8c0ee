"""A new read model: made beside the one in force, and put in its place in one step.

    SQLite       another file; the path becomes a symbolic link to it
    PostgreSQL   another schema; its tables become the cluster's partitions of the public tables

Theory. A new read model is filled out of sight, by the store that a projector writes with, so it is
like any other. The process that puts it in place holds the checkpoint in force, for which the
projector waits; by then all rows but the last are written, and only names change. The projector's
next transaction fails (`storage.store.ReadModelReplaced`); it loads the new read model, and goes on
from the old position.

A process that dies before that leaves the old read model in force, and a leftover that the next
rebuild removes.

Invariant: a transaction reads all of the old rows or all of the new ones, unless it is REPEATABLE
READ in PostgreSQL: a table that it reads first after the step is empty for it. A reader of many
tables in such a snapshot calls `storage.database.hold` first, and the step waits for it.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from projector.replay.new_in_sqlite import NewInSqlite
from projector.replay.sink import Sink
from projector.storage.database import Draft, file_of, parse
from projector.storage.store import REBUILT
from projector.upkeep import migrate
from projector.writing.checkpoint import Checkpoint


class NewModel(Protocol):
    """A read model in the making. Calls block and belong to one thread at a time."""

    url: str
    draft: Draft
    """How the new read model is reached."""
    left_over: str
    """The removed leftover of an unfinished new read model; "" for none."""

    def complete(self, floor: int) -> None:
        """Add the rows that the log lacks: nearly all others are written (`carry`)."""

    def take(self) -> Checkpoint | None:
        """Take the checkpoint in force: its projector waits until `put_in_place` or `give_back`."""

    def give_back(self) -> None:
        """Let the projector go on in the read model in force."""

    def put_in_place(self, old: Checkpoint | None, new: Checkpoint) -> None:
        """Put it in the place of the read model whose checkpoint was taken.

        Raises:
            StillRead: a query has been running for too long; nothing has changed.
        """

    def close(self) -> None:
        """Remove the new read model if it was not put in place, else the old one."""


def open_new_model(url: str, cluster: str) -> NewModel:
    """Begin a new read model of a cluster beside that in the database at `url`.

    Raises:
        DatabaseError: another new read model is being made, or the database does not allow it.
    """
    if parse(url).get_backend_name() == "postgresql":
        # Here, since it imports the driver.
        from projector.replay.new_in_postgres import NewInPostgres

        return NewInPostgres(url, cluster)
    return NewInSqlite(url, cluster)


def replaced(old: Checkpoint, folded: bytes) -> Checkpoint:
    """Return the checkpoint of the new read model in place of `old`."""
    return msgspec.structs.replace(
        old,
        writes=old.writes + 1,
        writer=f"{REBUILT}{uuid.uuid4().hex}",
        written_at=datetime.now(UTC),
        folded=folded,
    )


def fill(url: str, cluster: str, mode: str) -> Sink:
    """Return a sink whose read model is put in place when the sink is closed.

    There must be no read model of the cluster at `url` yet. A process that dies leaves none.

    Raises:
        DatabaseError: as `open_new_model`.
    """
    if parse(url).get_backend_name() == "postgresql" or file_of(url).exists():
        migrate.upgrade(url)
    model = open_new_model(url, cluster)

    def finish(last: Checkpoint | None) -> None:
        try:
            if last is not None:
                with taken(model) as old:
                    model.put_in_place(old, last)
        finally:
            model.close()

    sink = Sink(model.url, cluster, mode, draft=model.draft)
    sink.finish = finish
    return sink


@contextmanager
def taken(model: NewModel) -> Iterator[Checkpoint | None]:
    """Hold the checkpoint in force; after any error, the projector goes on."""
    try:
        yield model.take()
    except BaseException:
        model.give_back()
        raise
