"""The checkpoint: how far the log is folded, and the state that belongs to that position.

Theory. It is committed in the same transaction as the rows it covers. `seq` is a position; `seq -
base` is the stream sequence of the last message folded. `stream_created_at` and `at` show whether
the stream is still the one of that message.

Invariant: a checkpoint replaces only the checkpoint that it was made from
(`projector.storage.store`).
"""

from datetime import datetime

from msgspec import Struct


class Checkpoint(Struct, frozen=True, kw_only=True):
    """One row of table `checkpoints`; the columns there say what each field means."""

    cluster: str
    mode: str
    seq: int = 0
    writes: int = 0
    writer: str = ""
    epoch: int = 1
    base: int = 0
    stream_created_at: datetime | None = None
    at: datetime | None = None
    published: int = 0
    decisions_created_at: datetime | None = None
    decisions_seq: int = 0
    parked_seq: int = 0
    written_at: datetime | None = None
    folded: bytes = b""

    @property
    def stream_seq(self) -> int:
        """Stream sequence of the last message folded, 0 before the first of the epoch."""
        return self.seq - self.base
