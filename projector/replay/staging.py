"""A stage in a process of its own, for long logs.

Theory. Folding keeps one processor busy, and so does writing what comes of it; Python has one
interpreter lock per process. So a pool of one process has the stage. Calls are few and rows are
many, so the rows of a call are flat lists in msgpack, which cost a third of what pickle takes.

Who dies leaves what a stage leaves: when its caller is gone the process ends at once, whatever it
is doing, and the database takes back what was not committed.

Invariant: a call has the effect and the result, errors included, that it would have in the caller.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from typing import Any

import msgspec

from projector.replay.postgres_stage import PostgresStage
from projector.replay.sqlite_stage import SqliteStage
from projector.replay.stage import Stage
from projector.schema.layout import COLUMNS, DOCUMENTS
from projector.storage.database import DatabaseError, parse
from projector.writing.checkpoint import Checkpoint
from projector.writing.rows import Rows
from projector.writing.values import Json


def _document(value: object) -> bytes:
    if type(value) is not Json:
        raise TypeError(f"a row has a {type(value).__name__}, which no column holds")
    return bytes(value)


_encode = msgspec.msgpack.Encoder(enc_hook=_document).encode
_decode: "msgspec.msgpack.Decoder[dict[str, list[Any]]]" = msgspec.msgpack.Decoder(
    dict[str, list[Any]]
)


_NOTHING = "nothing was put in place"
_LEFT = {"merge": "either all of it was put in place or nothing"}
"""What became of the live read model when the child ended during a call."""


def open_stage(url: str, cluster: str, *, apart: bool = False) -> Stage:
    """Make the stage that belongs to the database at `url`; `apart`: in a process of its own.

    Raises:
        DatabaseError: another rebuild is at work, or the database does not allow one.
    """
    if apart:
        return _Apart(url, cluster)
    postgres = parse(url).get_backend_name() == "postgresql"
    return (PostgresStage if postgres else SqliteStage)(url, cluster)


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


class _Apart:
    """A stage that another process has; see `stage.Stage`."""

    def __init__(self, url: str, cluster: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin)
        self._merged = False
        try:
            self.left_over: str = self._call("open", _open, url, cluster)
        except BaseException:
            self._pool.shutdown()
            raise

    def append(self, rows: Rows) -> None:
        bare = msgspec.structs.replace(rows, tables={})
        self._call("append", _append, bare, pack(rows.tables))

    def prepare(self) -> None:
        self._call("prepare", _do, "prepare")

    def checkpoint(self) -> Checkpoint | None:
        found: Checkpoint | None = self._call("checkpoint", _do, "checkpoint")
        return found

    def merge(self, old: Checkpoint, new: Checkpoint, floor: int, *, loose: bool) -> int:
        changed: int = self._call("merge", _merge, old, new, floor, loose)
        self._merged = True
        return changed

    def undo(self) -> None:
        self._call("undo", _do, "undo")

    def close(self) -> None:
        try:
            self._call("close", _do, "close")
        except DatabaseError:
            if not self._merged:  # else all is in place, and a process that is gone has closed
                raise
        finally:
            self._pool.shutdown()

    def _call(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._pool.submit(function, *args).result()
        except BrokenProcessPool:
            raise DatabaseError(
                "the process that writes the new read model ended: "
                f"{_LEFT.get(name, _NOTHING)}; run it again"
            ) from None


# What the process does.

_stages: list[Stage] = []
"""Its one stage."""


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets it as well, and closes
    gc.disable()  # rows form no cycles
    threading.Thread(target=_end_with_caller, daemon=True).start()


def _end_with_caller() -> None:
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os._exit(1)


def _open(url: str, cluster: str) -> str:
    _stages.append(open_stage(url, cluster))
    return _stages[0].left_over


def _append(bare: Rows, tables: bytes) -> None:
    bare.tables = unpack(tables)
    _stages[0].append(bare)


def _merge(old: Checkpoint, new: Checkpoint, floor: int, loose: bool) -> int:
    return _stages[0].merge(old, new, floor, loose=loose)


def _do(name: str) -> Any:
    return getattr(_stages[0], name)()
