"""A stage in a process of its own, for long logs.

Theory. Folding keeps one processor busy, and so does writing what comes of it; Python has one
interpreter lock per process. So a child (`python -m` this module) has the stage. It reads from its
stdin what to call, and answers on its stdout. Calls are few and rows are many, so a call is pickled
and the rows in it are flat lists in msgpack, which cost a third of that.

Who dies leaves what a stage leaves: when its caller is gone the child ends at once, whatever it is
doing, and the database takes back what was not committed.

Invariant: a call has the effect and the result, errors included, that it would have in the caller.
"""

import gc
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec

from projector.replay.postgres_stage import PostgresStage
from projector.replay.sqlite_stage import SqliteStage
from projector.replay.stage import Stage
from projector.schema.layout import COLUMNS, DOCUMENTS
from projector.storage.database import DatabaseError, parse
from projector.writing.checkpoint import Checkpoint
from projector.writing.record_rows import Json
from projector.writing.rows import Rows


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


def open_stage(url: str, cluster: str, shard: int, *, apart: bool = False) -> Stage:
    """Make the stage that belongs to the database at `url`; `apart`: in a process of its own.

    Raises:
        DatabaseError: another rebuild is at work, or the database does not allow one.
    """
    if apart:
        return _Apart(url, cluster, shard)
    postgres = parse(url).get_backend_name() == "postgresql"
    return (PostgresStage if postgres else SqliteStage)(url, cluster, shard)


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
    """A stage that a child has; see `stage.Stage`. Threads take turns, a call at a time."""

    def __init__(self, url: str, cluster: str, shard: int) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "projector.replay.staging"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._calls, self._answers = self._child.stdin, self._child.stdout
        # Who is interrupted closes while a call is under way in another thread.
        self._turn = threading.RLock()
        self._merged = False
        try:
            self.left_over: str = self._call("open", url, cluster, shard)
        except BaseException:
            self._end()
            raise

    def append(self, rows: Rows) -> None:
        bare = msgspec.structs.replace(rows, tables={})
        self._call("append", bare, pack(rows.tables))

    def prepare(self) -> None:
        self._call("prepare")

    def checkpoint(self) -> Checkpoint | None:
        found: Checkpoint | None = self._call("checkpoint")
        return found

    def merge(self, old: Checkpoint, new: Checkpoint, floor: int, *, loose: bool) -> int:
        changed: int = self._call("merge", old, new, floor, loose)
        self._merged = True
        return changed

    def undo(self) -> None:
        self._call("undo")

    def close(self) -> None:
        with self._turn:
            try:
                self._call("close")
            except DatabaseError:
                if not self._merged:  # else all is in place, and a child that is gone has closed
                    raise
            finally:
                self._end()

    def _call(self, name: str, *args: Any) -> Any:
        with self._turn:
            try:
                pickle.dump((name, args), self._calls, pickle.HIGHEST_PROTOCOL)
                self._calls.flush()
                error, result = pickle.load(self._answers)
            except (OSError, EOFError):
                raise DatabaseError(
                    "the process that writes the new read model ended with "
                    f"{self._child.wait()}: {_LEFT.get(name, _NOTHING)}; run it again"
                ) from None
        if error is not None:
            raise error
        return result

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()
        self._answers.close()
        with suppress(BrokenPipeError):  # of what was not read of the last call
            self._calls.close()


class _Stages:
    """What the child does: one stage, call by call."""

    def open(self, url: str, cluster: str, shard: int) -> str:
        self._stage = open_stage(url, cluster, shard)
        return self._stage.left_over

    def append(self, bare: Rows, tables: bytes) -> None:
        bare.tables = unpack(tables)
        self._stage.append(bare)

    def merge(self, old: Checkpoint, new: Checkpoint, floor: int, loose: bool) -> int:
        return self._stage.merge(old, new, floor, loose=loose)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)


def main() -> None:
    """Do what stdin says until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets it as well, and closes
    gc.disable()  # rows form no cycles
    calls: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(calls,), daemon=True).start()
    stages = _Stages()
    while True:
        name, args = calls.get()
        try:
            answer = _packed(None, getattr(stages, name)(*args))
        except Exception as error:
            error.add_note(f"in the process that writes:\n{traceback.format_exc()}")
            answer = _packed(error, None)
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


def _packed(error: Exception | None, result: Any) -> bytes:
    try:
        return pickle.dumps((error, result), pickle.HIGHEST_PROTOCOL)
    except Exception:  # an error may hold anything, such as a connection
        bare = DatabaseError("".join(traceback.format_exception(error)))
        return pickle.dumps((bare, None), pickle.HIGHEST_PROTOCOL)


def _listen(calls: "queue.SimpleQueue[tuple[str, tuple[Any, ...]]]") -> None:
    try:
        while True:
            calls.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)  # the caller is gone


if __name__ == "__main__":
    main()
