"""`gatelog export`: from the log to a file.

Theory. The whole log takes one pass. A selection of groups needs a pass before it, to learn their
pods and Workloads, and pseudonyms another pass, to learn which names sentences may mention.

Invariant: the file gets its name when it is complete; the log is only read.
"""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from gatelog.replay.archiving import joined, live_position
from gatelog.replay.online import Progress, beginning, open_bus
from gatelog.shell.errors import CommandFailed
from projector.replay.files import Export, Header
from projector.replay.fold import Callbacks, fold
from projector.replay.log import Entry, Log
from projector.replay.pseudonyms import Pseudonyms
from projector.replay.selecting import Selection, Wanted
from projector.storage.database import reading
from projector.storage.opening import policy_of
from projector.storage.urls import database_url
from runtime.settings import Settings

MOST_KEY_BYTES = 64


async def export(
    settings: Settings, path: Path, wanted: Wanted, key: bytes | None, progress: Progress
) -> Export:
    """Write the wanted part of the log to `path`; `key` is for pseudonyms (None: real names).

    Raises:
        CommandFailed: there is no log, its beginning is gone, or no message is wanted.
        OSError: the file cannot be written.
    """
    with reading(database_url(settings)) as connection:
        at = live_position(connection, settings.cluster)
    async with open_bus(settings) as bus:
        log = await joined(bus, settings, at)
        selection = Selection(wanted)
        if not wanted.everything:
            await fold(
                _until(log, wanted.until),
                beginning(settings, at),
                calls=Callbacks(selection.learn, progress=progress),
            )
            selection.close()
            if not selection.groups:
                raise CommandFailed(f"nothing to write: the log has nothing of {wanted.words()}")
        names = Pseudonyms(key[:MOST_KEY_BYTES]) if key is not None else None
        if names is not None:
            async for entry in _chosen(log, selection):
                names.learn(entry)
        words = wanted.words()
        header = Header(
            cluster=settings.cluster if names is None else names.name(settings.cluster),
            mode=at.mode,
            policy=policy_of(settings.queueing),
            epoch=at.epoch,
            base=at.base,
            last=at.last,
            written_at=datetime.now(UTC),
            selection=words if names is None or not words else "a selection",
            unknown=selection.unknown,
            pseudonymised=names is not None,
        )
        with Export(path, header) as out:
            async for entry in _chosen(log, selection):
                out.add(entry if names is None else names.entry(entry))
                if out.messages % 500 == 0:
                    progress(entry.position)
    return out


def new_key() -> bytes:
    """Return a key for pseudonyms that is not kept: they cannot be repeated."""
    return secrets.token_bytes(32)


async def _chosen(log: Log, selection: Selection) -> AsyncIterator[Entry]:
    everything = selection.wanted.everything
    async for entry in _until(log, selection.wanted.until):
        kept = entry if everything else selection.select(entry)
        if kept is not None:
            yield kept


async def _until(log: Log, until: datetime | None) -> AsyncIterator[Entry]:
    async for entry in log.entries():
        if until is not None and entry.at > until:
            return
        yield entry
