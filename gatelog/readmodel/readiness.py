"""When is it ready? When every kind was listed once and the log is folded up to its end.

Theory. The parts say themselves whether they follow (their checks), and the projector's checkpoint
says how far the tables are that people read: once both are satisfied, so is a query.

Invariant: only reads; returns once and never for a log that is still being caught up with.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import CheckpointRow
from runtime.settings import Settings

if TYPE_CHECKING:
    from runtime.health import Checks
    from runtime.jetstream import Bus

_POLL_S = 0.1
WENT_BACK = "the cluster went back to a backup of its etcd, or is another one"
LISTS_REMEDY = (
    "does an ingester run, and may it list them? One that is older than the projector may not "
    "watch them: upgrade it (docs/upgrade.md)"
)


class Ready(Struct, frozen=True):
    """The facts about a ready installation. `missing` are kinds that are not installed.

    `sequence` is that of the stream, `position` that of the read model: they differ after an epoch.
    """

    kinds: int
    missing: tuple[str, ...]
    sequence: int
    position: int


def expecting(*parts: str) -> "Checks":
    """Return checks by which parts are not ready before they say so."""
    from runtime.health import Checks

    checks = Checks()
    for part in parts:
        checks.ready(part, lambda: "not started yet")
    return checks


async def wait_ready(settings: Settings, bus: "Bus", checks: "Checks") -> Ready:
    """Wait until all parts follow, every kind was listed, and the log is folded up to its end."""
    import asyncio

    from podgroup.log import subjects
    from projector.storage.urls import database_url

    model = ReadModel(database_url(settings), settings.cluster)
    try:
        while True:
            row = None
            if not await checks.readiness():
                row = await asyncio.to_thread(model.checkpoint)
            if row is not None:
                ready = _ready(row)
                last = (await bus.stream_state(subjects.EVENTS)).last_sequence
                if ready is not None and row.stream_seq >= last:
                    return ready
            await asyncio.sleep(_POLL_S)
    finally:
        model.close()


def awaited(row: CheckpointRow | None) -> str:
    """Say which kinds have to be listed before anything is decided, and were not; "" for none."""
    meta = row.meta if row is not None else None
    if meta is None or meta.settings is None or (meta.frames and not meta.rewound):
        return ""
    kinds = sorted(set(meta.settings.kinds) - meta.synced)
    if not kinds:
        return ""
    cause = f"{WENT_BACK} (gatelog epochs): " if meta.rewound else ""
    return f"{cause}nothing is decided before these kinds are listed: {', '.join(kinds)}"


def _ready(row: CheckpointRow) -> Ready | None:
    meta = row.meta
    if meta.settings is None or not meta.synced.issuperset(meta.settings.kinds):
        return None
    return Ready(
        kinds=len(meta.synced - meta.missing),
        missing=tuple(sorted(meta.missing)),
        sequence=row.stream_seq,
        position=row.seq,
    )
