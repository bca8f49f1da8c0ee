"""The database goes away and comes back; the projector waits, says so, and loses nothing."""

import asyncio

import psycopg
import pytest

from projector.bootstrap import run_projector
from projector.storage.database import DatabaseError, writer
from projector.upkeep import migrate
from runtime.health import Checks
from runtime.jetstream import Bus
from tests.projector.running import eventually, publish, running, settings_for
from tests.projector.support import busy_toy, comparable
from tests.projector.test_projection import batches, reloaded
from tests.support.databases import migrated

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


class Database:
    """Lets a PostgreSQL database refuse connections, and accept them again."""

    def __init__(self, url: str) -> None:
        head, _, query = url.partition("?")
        self.name = head.rsplit("/", 1)[1]
        self.admin = f"{head.rsplit('/', 1)[0]}/postgres?{query}"

    def run(self, statement: str) -> None:
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(statement)

    def refuse(self) -> None:
        self.run(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS false')
        self.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'"
        )

    def accept(self) -> None:
        self.run(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS true')


async def test_a_database_that_was_away_gets_everything(
    postgres_database: str, bus: Bus, cluster: str
) -> None:
    url, database, toy = postgres_database, Database(postgres_database), busy_toy()
    migrated(url)
    async with running(settings_for(url, cluster, batch_messages=5), bus) as projection:
        await publish(bus, cluster, batches(toy)[:20])
        await eventually(lambda: not projection.problem, "caught up")
        database.refuse()
        last = await publish(bus, cluster, batches(toy)[20:])
        problem = await eventually(lambda: projection.problem, "noticed")
        assert problem.startswith("database: ")
        assert "secret" not in problem
        await asyncio.sleep(0.3)
        database.accept()
        await eventually(lambda: projection.world.meta.position == last, "all folded")
        await eventually(lambda: not projection.problem, "well again")
        world = projection.world
    assert comparable(reloaded(url, cluster)) == comparable(world)


async def test_stopping_does_not_wait_for_a_database_that_is_away(
    postgres_database: str, bus: Bus, cluster: str
) -> None:
    url, database, toy = postgres_database, Database(postgres_database), busy_toy()
    migrated(url)
    async with running(settings_for(url, cluster), bus) as projection:
        await publish(bus, cluster, batches(toy)[:20])
        await eventually(lambda: not projection.problem, "caught up")
        database.refuse()
        await publish(bus, cluster, batches(toy)[20:])
        await eventually(lambda: projection.problem, "noticed")
        clock = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - clock < 8
    database.accept()
    async with running(settings_for(url, cluster), bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        assert set(projection.world.pods) == set(toy.world.pods)


async def test_bootstrap_waits_for_tables_and_says_what_makes_them(
    empty_url: str, bus: Bus, cluster: str
) -> None:
    """The first installation migrates while the parts start."""
    stop, checks = asyncio.Event(), Checks()
    task = asyncio.create_task(
        run_projector(settings_for(empty_url, cluster), stop, bus=bus, checks=checks)
    )

    async def waits() -> bool:
        return any("gatelog migrate" in said for said in (await checks.readiness()).values())

    async def ready() -> bool:
        return "projector" in checks._ready and not await checks.readiness()

    async with asyncio.timeout(60):
        await eventually(waits, "it waits")
        await asyncio.to_thread(migrate.upgrade, empty_url)
        await eventually(ready, "ready")
        stop.set()
        await task


async def test_bootstrap_refuses_tables_of_another_version(
    url: str, bus: Bus, cluster: str
) -> None:
    engine = writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    async with asyncio.timeout(60):
        with pytest.raises(DatabaseError, match="newer than this gatelog knows"):
            await run_projector(settings_for(url, cluster), asyncio.Event(), bus=bus)


async def test_bootstrap_runs_and_tells_when_it_is_ready(url: str, bus: Bus, cluster: str) -> None:
    stop, checks = asyncio.Event(), Checks()
    task = asyncio.create_task(
        run_projector(settings_for(url, cluster), stop, bus=bus, checks=checks)
    )

    async def ready() -> bool:
        return "projector" in checks._ready and not await checks.readiness()

    await eventually(ready, "ready")
    stop.set()
    async with asyncio.timeout(60):
        await task
    assert bus.connected
