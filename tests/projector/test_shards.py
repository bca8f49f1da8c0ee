"""Two shards, each with a projector of its own, are together what one shard is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from podgroup.log.subjects import events, shard_of
from projector.live.projection import Projection
from projector.storage.database import reader
from projector.storage.store import SqlStore
from projector.tables import UtcTime, metadata
from projector.upkeep import migrate
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, connect
from runtime.settings import (
    DatabaseSettings,
    ProjectorSettings,
    Settings,
    SettingsError,
    StreamSettings,
)
from tests.projector.running import eventually, running
from tests.projector.sharded import NAMESPACES, SHARDS, Sharded

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

# Times are those of two streams, numbers count within a shard, as_of_seq is where a transaction
# ended, and what the fold keeps for itself contains times as well. Each shard has every queue, and
# keeps their quotas.
LEFT_OUT = {"cluster", "shard", "number", "folded", "as_of_seq"}
RELISTS = ("RelistStarted", "RelistCompleted")
OF_THE_STREAM = {"conclusions", "checkpoints", "epochs", "objects", "quotas"}


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[tuple[Bus, Bus]]:
    """Two empty logs, so that positions are the same in both."""
    async with AsyncExitStack() as stack:
        found = []
        for name in ("one", "two"):
            server = EmbeddedNats(tmp_path / name, sync_always=False)
            await server.start()
            stack.push_async_callback(server.stop)
            bus = await connect(server.settings(), "test", deadline_s=20)
            stack.push_async_callback(bus.close)
            await bus.ensure_streams(StreamSettings())
            found.append(bus)
        yield found[0], found[1]


def settings(database: str, cluster: str, shards: int, shard: int) -> Settings:
    return Settings(
        cluster=cluster,
        mode="kueue",
        shards=shards,
        database=DatabaseSettings(url=database),
        projector=ProjectorSettings(shard=shard),
    )


async def publish(logs: tuple[Bus, Bus], story: Sharded) -> None:
    one, two = (bus.publisher() for bus in logs)
    for n, laid in enumerate(story.laid):
        source: Any = laid.source
        await one.send(events("one", 0, source), laid.one, f"one/{n}")
        await two.send(events("two", laid.shard, source), laid.many, f"two/{n}")
    await one.flush()
    await two.flush()


def rows(database: str, cluster: str) -> dict[str, list[tuple[Any, ...]]]:
    engine = reader(database)
    found: dict[str, list[tuple[Any, ...]]] = {}
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            if table.name in OF_THE_STREAM or "cluster" not in table.c:
                continue
            columns = [
                column
                for column in table.c
                if column.name not in LEFT_OUT and not isinstance(column.type, UtcTime)
            ]
            query = sa.select(*columns).where(table.c.cluster == cluster)
            if table.name == "history":
                # Each shard has lists of its own, and says so.
                own = ("EpochStarted", "SettingsRecorded", *RELISTS)
                query = query.where(table.c.kind.not_in(own))
            found[table.name] = sorted(map(tuple, connection.execute(query)), key=repr)
    engine.dispose()
    return found


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
async def test_two_shards_are_together_what_one_is(empty_url: str, logs: tuple[Bus, Bus]) -> None:
    story = Sharded(groups=12, size=3)
    homes = {shard_of(name, SHARDS) for name in NAMESPACES}
    assert homes == set(range(SHARDS))
    migrate.upgrade(empty_url)
    await publish(logs, story)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(running(settings(empty_url, "one", 1, 0), logs[0]))
        both = [
            await stack.enter_async_context(running(settings(empty_url, "two", 2, n), logs[1]))
            for n in range(SHARDS)
        ]
        every = (one, *both)
        await eventually(lambda: not any(p.problem for p in every), "caught up", 40)
        for each in every:
            # Folded is not written: the next batch is folded while one is being written.
            await eventually(
                lambda p=each: p._committed_seq >= p.world.meta.position, "written", 40
            )
    single, together = rows(empty_url, "one"), rows(empty_url, "two")
    assert single.keys() == together.keys()
    assert len(single["pods"]) == 36
    assert len(single["groups"]) == 12
    assert len(single["decisions"]) == story.decisions
    for table, expected in single.items():
        assert together[table] == expected, table


async def test_a_shard_refuses_groups_that_belong_elsewhere(
    empty_url: str, logs: tuple[Bus, Bus]
) -> None:
    """The number of shards was changed while groups were there."""
    story = Sharded(groups=4, size=2)
    del story.laid[len(story.laid) // 2 :]
    migrate.upgrade(empty_url)
    await publish(logs, story)
    async with running(settings(empty_url, "one", 1, 0), logs[0]) as one:
        await eventually(lambda: not one.problem, "caught up", 40)
        assert one.world.groups
    stored = SqlStore(empty_url, "one")
    assert stored.load() is not None
    stored.close()
    changed = msgspec.structs.replace(settings(empty_url, "one", 1, 0), shards=3)
    again = Projection(changed, logs[0], SqlStore(empty_url, "one"), asyncio.Event())
    with pytest.raises(SettingsError, match="number of shards"):
        async with asyncio.timeout(20):
            await again.run()
