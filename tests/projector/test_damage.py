"""Bits flipped on disk: what NATS keeps quiet about is noticed, and of a database it is told."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from gatelog.examine import readmodel
from podgroup.fold import synced
from podgroup.log import subjects
from podgroup.log.codec import encode_batch, message_id
from podgroup.log.events import Batch, OperatorActed
from projector import tables
from projector.live.epochs import examine
from projector.live.projection import Projection
from projector.live.unreadable import unreadable
from projector.storage.database import DatabaseError
from projector.storage.store import SqlStore, StoreDamaged
from projector.upkeep import migrate
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, MessagesLost, connect
from runtime.settings import StreamSettings
from tests.projector.running import eventually, publish, running, settings_for
from tests.projector.support import busy_toy, comparable
from tests.projector.test_epochs import ALog, relisted, standing_at
from tests.projector.test_projection import batches, reloaded
from tests.projector.test_store import rows_of
from tests.support.databases import migrated
from tests.support.faults.files import blocks, flip, flip_in_message

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

READ, STORED = 20, 40
NOISE = 100
"""Messages of 90 kB that fill a block of the server and begin another."""


def hit_of(found: list[Batch]) -> int:
    """A message of the watch behind one of the watch: only it can be missing."""
    return next(
        n for n in range(READ + 2, STORED) if {b.source for b in found[n - 2 : n]} == {"watch"}
    )


async def follow(bus: Bus, cluster: str, found: list[Batch], after: int) -> int:
    """Publish as an ingester does: each message of the watch names the one before it.

    Returns the sequence of the last one. Other sources speak on their own subjects.
    """
    for batch in found:
        if batch.source != "watch":
            await publish(bus, cluster, [batch])
            continue
        after = await bus.publish(
            subjects.events(cluster, "watch"),
            encode_batch(batch),
            f"{cluster}/{message_id(batch)}",
            after=after,
        )
    return after


async def test_what_the_reader_missed_is_a_gap_with_the_same_base() -> None:
    log, missed = ALog(1, 200), MessagesLost(subjects.EVENTS, 101, 104)
    change = await examine(log, log.state, standing_at(100, 1000), missed)
    assert change is not None and change.same_base
    assert (change.first, change.lost_from, change.lost_to) == (105, 1101, 1104)
    assert "damaged" in change.reason
    # What the actuators wrote after them was read and folded: positions go on behind that.
    change = await examine(log, log.state, standing_at(150, 1000), missed)
    assert change is not None and not change.same_base
    assert (change.first, change.lost_from, change.lost_to) == (151, 1101, 1104)


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
@pytest.mark.parametrize("between", [0, 3])
async def test_a_message_that_a_flipped_bit_has_taken_is_missed_and_everything_listed_again(
    url: str, own_nats: EmbeddedNats, own_bus: Bus, cluster: str, between: int
) -> None:
    toy, settings = busy_toy(), settings_for(url, cluster)
    found = batches(toy)
    hit = hit_of(found)
    async with running(settings, own_bus) as projection:
        last = await follow(own_bus, cluster, found[:READ], 0)
        await eventually(lambda: projection.world.meta.position == READ, "folded")
    # What others write between the messages of the watch does not hide that one is missing.
    last = await follow(own_bus, cluster, found[READ:hit], last)
    done = OperatorActed(action="release", target="nobody", by="test")
    for i in range(between):
        act = Batch(source="operator", events=(structs.replace(done, target=f"nobody{i}"),))
        await publish(own_bus, cluster, [act])
    await follow(own_bus, cluster, found[hit:STORED], last)
    await own_bus.close()
    await own_nats.stop()
    flip_in_message(own_nats, f"{cluster}/{message_id(found[hit - 1])}")
    await own_nats.start()
    bus = await connect(own_nats.settings(), "test", deadline_s=20)
    state = await bus.stream_state(subjects.EVENTS)
    stored = STORED + between
    assert (state.first_sequence, state.last_sequence, state.messages) == (1, stored, stored)
    async with running(settings, bus) as projection:
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed")
        await eventually(lambda: not projection.problem, "caught up")
        assert not synced(projection.world), "decides on the strength of a log with a hole"
        # It says in each epoch by which settings it decides: one message more.
        end = stored + 1 + (1 if between else 0)
        await eventually(lambda: projection.world.meta.position == end, "settings said")
        await publish(bus, cluster, found[STORED:])
        await publish(bus, cluster, relisted(toy, "again"))
        await eventually(lambda: synced(projection.world), "everything listed")
        world = projection.world
        assert set(world.pods) == set(toy.world.pods)
    await bus.close()
    assert comparable(reloaded(url, cluster)) == comparable(world)
    row = rows_of(url, tables.epochs)[1]
    assert (row["lost_from"], row["lost_to"], row["base"]) == (hit, hit, 1 if between else 0)
    assert f"message {hit} of stream EVENTS cannot be read" in row["reason"]


async def test_a_block_that_cannot_be_read_is_found_from_end_to_end(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path / "nats", sync_always=False)
    await server.start()
    bus = await connect(server.settings(), "test", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    subject = subjects.events("c", "watch")
    publisher = bus.publisher()
    for i in range(NOISE):
        await publisher.send(subject, bytes(90_000), f"m{i}")
    await publisher.flush()
    assert await unreadable(bus, subject, 0) is None
    await bus.close()
    await server.stop()
    full, newest = blocks(server)
    assert full.stat().st_size < newest.stat().st_size, "a full block is compressed, no other is"
    flip(full, full.stat().st_size // 2)
    await server.start()
    bus = await connect(server.settings(), "test", deadline_s=20)
    reader = bus.read(subjects.EVENTS, subject, 1)
    assert await reader.next(0.5) == [], "it stands before the block and says nothing"
    lost = await unreadable(bus, subject, 0)
    assert lost is not None
    assert lost.first == 1
    assert await bus.get(subjects.EVENTS, lost.last) is None
    rest = bus.read(subjects.EVENTS, subject, lost.last + 1)
    assert (await rest.next(20))[0].sequence == lost.last + 1
    assert await unreadable(bus, subject, lost.last) is None
    await reader.close()
    await rest.close()
    await bus.close()
    await server.stop()


async def test_a_damaged_file_ends_the_projector_with_what_to_do_and_that_helps(
    bus: Bus, cluster: str, tmp_path: Path
) -> None:
    file, toy = tmp_path / "db.sqlite3", busy_toy()
    settings = settings_for(f"sqlite:///{file}", cluster)
    migrated(settings.database.url)
    found = batches(toy)
    async with running(settings, bus) as projection:
        last = await publish(bus, cluster, found[:-5])
        await eventually(lambda: projection.world.meta.position == last, "folded")
        await eventually(lambda: not projection.problem, "caught up")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'history'"
        root = connection.execute(query).fetchone()[0]
        page = connection.execute("PRAGMA page_size").fetchone()[0]
    flip(file, (root - 1) * page)  # the byte that says what kind of page it is
    await publish(bus, cluster, found[-5:])
    said = "Stop gatelog, move the file and those beside it"
    with pytest.raises(StoreDamaged, match=f"db.sqlite3: database disk image is malformed.*{said}"):
        async with asyncio.timeout(20):
            store = SqlStore(settings.database.url, cluster)
            await Projection(settings, bus, store, asyncio.Event()).run()
    seen = await asyncio.to_thread(readmodel.examine, settings)
    (told,) = (one for one in seen.findings if one.what == "integrity")
    assert told.verdict == "fail" and said in told.remedy

    # What the operator is told to do.
    for one in tmp_path.glob("db.sqlite3*"):
        one.rename(tmp_path / f"damaged-{one.name}")
    migrate.upgrade(settings.database.url)
    async with running(settings, bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        world = projection.world
    assert set(world.pods) == set(toy.world.pods)
    assert comparable(reloaded(settings.database.url, cluster)) == comparable(world)
    seen = await asyncio.to_thread(readmodel.examine, settings)
    assert [one.verdict for one in seen.findings if one.what == "integrity"] == ["ok"]


async def test_a_file_that_is_no_database_is_told_before_anything_is_done(tmp_path: Path) -> None:
    file = tmp_path / "db.sqlite3"
    url = f"sqlite:///{file}"
    migrated(url)
    flip(file, 3)
    with pytest.raises(DatabaseError, match="file is not a database: the file is damaged"):
        migrate.check(url)
