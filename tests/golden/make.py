"""Golden logs of a log format: `python -m tests.golden.make FOLDER`.

The facts are those of `v1`, among them a day of teams that share (`sharing`), decided on by today's
rules from their first message on, with all that was concluded, and the rows that were made live,
not by a replay. A folder that is there is left alone: a released format is never written again.
"""

import asyncio
import gzip
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import msgspec

from podgroup.engine import new_world, step
from podgroup.log.events import SettingsRecorded
from podgroup.rules import decides_by
from projector.replay.files import Export, FileLog, Header
from projector.replay.log import Entry
from projector.replay.sink import Sink
from projector.upkeep import migrate
from projector.writing.parked_rows import keep_raw, settled
from tests.golden import rows as golden
from tests.golden import sharing
from tests.whatif.logs import log_of


async def made(path: Path, target: Path, url: str) -> None:
    """Decide on the facts of a log anew, as a projector would; write log and rows."""
    log, cluster = FileLog(path), path.name.partition(".")[0]
    header = log.header
    world = new_world(cluster, header.mode, header.policy)
    sink = Sink(url, cluster, header.mode)
    said = decides_by(header.mode, header.policy, metadata.version("gatelog"))
    async for entry in log.entries():
        for event in entry.batch.events:
            if isinstance(event, SettingsRecorded):  # what it lists is what it waits for
                said = msgspec.structs.replace(said, kinds=event.kinds)
    name = target / path.name
    begin = Header(cluster=cluster, mode=header.mode, policy=header.policy, last=header.last)
    with Export(name, begin) as out:
        async for entry in log.entries():
            facts = (e for e in entry.batch.events if not isinstance(e, SettingsRecorded))
            first = (said,) if world.meta.settings is None else ()
            batch = msgspec.structs.replace(entry.batch, events=(*first, *facts))
            parked = len(world.journal.parked)
            step(world, entry.position, entry.at, batch)
            keep_raw(world.journal.parked, parked, batch)
            journal = world.journal
            decisions = {decision.id: decision for decision in journal.decisions}
            concluded = journal.concluded[0] if journal.concluded else None
            out.add(Entry(entry.position, entry.at, batch, decisions, concluded))
            sink.write(world, entry.at, settled(batch, entry.at))
    sink.close()
    text = golden.text(golden.rows(url, cluster))
    beside = name.with_name(name.name.replace(".jsonl.gz", ".rows.gz"))
    beside.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main(folder: str) -> None:
    """Make a folder of logs."""
    target = golden.HERE / folder
    target.mkdir()
    with tempfile.TemporaryDirectory() as home:
        url = f"sqlite:///{home}/rows.sqlite3"
        migrate.upgrade(url)
        trace, objects, shared = (Path(home) / n for n in ("j.csv", "q.yaml", "sharing.jsonl.gz"))
        trace.write_text(sharing.jobs())
        objects.write_text(sharing.objects())
        log_of(trace, objects, shared, sharing.POLICY)
        others = (path for path in golden.logs("v1") if path.name != shared.name)
        for path in (shared, *others):
            asyncio.run(made(path, target, url))


if __name__ == "__main__":
    main(sys.argv[1])
