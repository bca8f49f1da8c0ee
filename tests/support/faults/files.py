"""Faults of files: an SQLite file that is locked, bits that flip in the files of the log.

Invariant: a flipped file keeps its length, and exactly one byte of it is another.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from podgroup.log.subjects import EVENTS
from runtime.embedded import EmbeddedNats


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold SQLite's write lock for a while, as another program would."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def flip(file: Path, at: int) -> None:
    """Turn one bit of byte `at` over."""
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 0x10]))


def blocks(server: EmbeddedNats, stream: str = EVENTS) -> list[Path]:
    """Return the files that hold a stream's messages, oldest first."""
    folder = next((server.store_dir / "jetstream").glob(f"**/streams/{stream}/msgs"))
    return sorted(folder.glob("*.blk"), key=lambda path: int(path.stem))


def flip_in_message(server: EmbeddedNats, msg_id: str) -> None:
    """Damage the message of that id in EVENTS, behind its id; the server must not run.

    Raises:
        LookupError: it is in no file, or in one that the server has compressed.
    """
    for block in blocks(server):
        place = block.read_bytes().find(msg_id.encode())
        if place >= 0:
            flip(block, place + len(msg_id) + 20)
            return
    raise LookupError(f"no message {msg_id} in {blocks(server)}")
