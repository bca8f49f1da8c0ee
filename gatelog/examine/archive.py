"""Looking at the archive: whether it exists, its end, and what the stream dropped unarchived.

Invariant: lists names only; reads no segment.
"""

import asyncio

from gatelog.examine.findings import Finding, fail, ok, skip, warn
from gatelog.readmodel.rows import CheckpointRow
from runtime.jetstream import StreamState
from runtime.settings import Settings

AREA = "log"
WHAT = "archive"
_NARROW = 0.2
"""Share of what the stream holds below which the distance to its oldest message is too short."""


async def examine(
    settings: Settings, checkpoint: CheckpointRow | None, stream: StreamState
) -> Finding:
    """Compare the archive with the stream EVENTS."""
    if checkpoint is None:
        return skip(AREA, WHAT, "no checkpoint to compare with")
    base = checkpoint.base
    kept = stream.first_sequence + base
    if not settings.archive.url:
        if stream.first_sequence == 1 or kept > checkpoint.seq:
            return ok(AREA, WHAT, "none is kept; the stream still has everything")
        return warn(
            AREA,
            WHAT,
            f"none is kept, and the stream has dropped what came before position {kept}: "
            "gatelog replay cannot start there",
            "set archive.url to a directory or bucket; it takes effect for what comes",
        )
    from projector.archive.archive_store import ArchiveStoreUnavailable, open_archive_store
    from projector.archive.segments import folder_of, parse

    folder = folder_of(settings.cluster)
    try:
        store = await asyncio.to_thread(open_archive_store, settings.archive.url)
        names = await asyncio.to_thread(store.names, folder)
    except ArchiveStoreUnavailable as error:
        return fail(AREA, WHAT, str(error), "nothing is archived meanwhile, and the stream goes on")
    found = [one for one in map(parse, names) if one is not None]
    end = max((one.last for one in found), default=0)
    lag, headroom = max(0, checkpoint.seq - end), end + 1 - kept
    how = "the projector does it by itself" if settings.archive.every_s else "gatelog archive"
    remedy = f"archive more often ({how}), or raise streams.max_age_s and max_bytes"
    if headroom < 0 and stream.first_sequence > 1:
        return fail(
            AREA,
            WHAT,
            f"positions {end + 1} to {kept - 1} were dropped by the stream before they were "
            "archived: no replay can pass them",
            remedy,
        )
    detail = f"{len(found)} segments in {store.url}, {lag} messages not archived yet"
    if stream.first_sequence > 1 and headroom < _NARROW * (lag + headroom):
        return warn(
            AREA, WHAT, f"{detail}; only {headroom} more may be dropped before those", remedy
        )
    return ok(AREA, WHAT, detail)
