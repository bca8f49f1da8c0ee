"""The sink of a fold: rows written to a database as a projector would write them.

Theory. Another thread writes a batch while the next is folded: databases work outside of the
interpreter's lock. For a long log (`apart`) a process of its own writes, since making statements of
rows is work for the interpreter as well. Rows go there as flat lists in msgpack, at a third of
pickle's cost. That process ends when its caller is gone.

Invariant: batches are written in order, each on top of its predecessor's checkpoint; when `close`
returns, all is written, or an error was raised.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Self

import msgspec

from podgroup.folding import drain_journal
from podgroup.state.world import World
from projector.schema.layout import COLUMNS, DOCUMENTS
from projector.storage.database import DatabaseError, Draft
from projector.storage.store import SqlStore
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import pack_meta
from projector.writing.parked_rows import Settled
from projector.writing.rows import Rows, build
from projector.writing.values import Json

TIMEOUT_S = 3600.0
"""Seconds for one statement of a batch."""
_ENDED = "the process that writes the new read model ended: nothing was put in place; run it again"


class Sink:
    """A read model that rows are written to; it must be empty and have its tables.

    `draft`: how a read model in the making is reached. `finish` is called with the last checkpoint
    when all is written, with None when the sink is dropped. `rows` counts written rows.
    """

    def __init__(
        self, url: str, cluster: str, mode: str, *, draft: Draft | None = None, apart: bool = False
    ) -> None:
        self._blank = Checkpoint(cluster=cluster, mode=mode)
        self._pool: Executor
        self._writer: _Writer | None = None
        if apart:
            context = multiprocessing.get_context("spawn")
            given = (url, cluster, draft)
            self._pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=given)
        else:
            self._writer = _Writer(url, cluster, draft)
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="replay-store")
        self._writing: Future[Checkpoint] | None = None
        self.finish: Callable[[Checkpoint | None], None] | None = None
        self.rows = 0

    def write(self, world: World, at: datetime, done: list[Settled]) -> None:
        """Write the changes since the last call; `done`: parked events settled meanwhile.

        Raises:
            DatabaseError: the writing process has ended.
        """
        rows = build(world, drain_journal(world))
        rows.settled = done
        self.rows += rows.count()
        new = msgspec.structs.replace(
            self._blank,
            seq=world.meta.position,
            epoch=world.meta.epoch,
            at=at,
            written_at=datetime.now(UTC),
            folded=pack_meta(world.meta),
        )
        if self._writer is not None:
            self._submit(self._writer.commit, rows, new)
            return
        packed, rows.tables = pack(rows.tables), {}
        self._submit(_commit, rows, packed, new)

    def _submit(self, work: Callable[..., Checkpoint], *given: Any) -> None:
        self.written()
        try:
            self._writing = self._pool.submit(work, *given)
        except BrokenProcessPool:  # it ended since, or before the first batch
            raise DatabaseError(_ENDED) from None

    def written(self) -> Checkpoint | None:
        """Wait for the batch under way; return its checkpoint, None if there was none.

        Raises:
            DatabaseError: the writing process has ended.
        """
        try:
            return None if self._writing is None else self._writing.result()
        except BrokenProcessPool:
            raise DatabaseError(_ENDED) from None

    def close(self) -> None:
        """Write the rest, and release the database."""
        try:
            last = self.written()
        except BaseException:
            self.drop()
            raise
        self._release()
        if self.finish is not None:
            self.finish(last)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.drop()

    def drop(self) -> None:
        """Release the database without writing the rest: the new read model is thrown away."""
        with suppress(Exception):  # the first error is to be raised
            self._release()
            if self.finish is not None:
                self.finish(None)

    def _release(self) -> None:
        self._pool.shutdown()
        if self._writer is not None:
            self._writer.store.close()


class _Writer:
    """Commits batch after batch."""

    def __init__(self, url: str, cluster: str, draft: Draft | None) -> None:
        self.store = SqlStore(url, cluster, statement_timeout_s=TIMEOUT_S, draft=draft)
        self._last: Checkpoint | None = None

    def commit(self, rows: Rows, new: Checkpoint) -> Checkpoint:
        self._last = self.store.commit(rows, new, self._last)
        return self._last


def _document(value: object) -> bytes:
    if type(value) is not Json:
        raise TypeError(f"a row has a {type(value).__name__}, which no column holds")
    return bytes(value)


_encode = msgspec.msgpack.Encoder(enc_hook=_document).encode
_decode: "msgspec.msgpack.Decoder[dict[str, list[Any]]]" = msgspec.msgpack.Decoder(
    dict[str, list[Any]]
)


def pack(tables: dict[str, list[Any]]) -> bytes:
    """Return the bytes of rows by table."""
    return _encode({name: list(chain.from_iterable(rows)) for name, rows in tables.items()})


def unpack(data: bytes) -> dict[str, list[Any]]:
    """Return the rows in `data`."""
    tables = {}
    for name, flat in _decode.decode(data).items():
        width = len(COLUMNS[name])
        for index in DOCUMENTS[name]:
            flat[index::width] = map(Json, flat[index::width])
        tables[name] = list(zip(*[iter(flat)] * width, strict=True))
    return tables


# The writer's process.

_writers: list[_Writer] = []
"""Its one writer."""


def _begin(url: str, cluster: str, draft: Draft | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets it as well, and ends
    gc.disable()  # rows form no cycles
    threading.Thread(target=_end_with_caller, daemon=True).start()
    _writers.append(_Writer(url, cluster, draft))


def _end_with_caller() -> None:
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os._exit(1)


def _commit(bare: Rows, packed: bytes, new: Checkpoint) -> Checkpoint:
    bare.tables = unpack(packed)
    return _writers[0].commit(bare, new)
