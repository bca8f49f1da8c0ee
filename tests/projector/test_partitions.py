"""Weeks of history on PostgreSQL: made when needed, whatever the year, by any number of writers."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from projector import tables
from projector.schema import partitions
from projector.storage.database import writer
from projector.storage.store import SqlStore
from projector.upkeep import migrate
from tests.projector.support import Writer, busy_toy
from tests.support.databases import migrated
from tests.support.toy import Toy

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def database(postgres_database: str) -> str:
    migrated(postgres_database)
    return postgres_database


def weeks(url: str, table: str = "history") -> list[datetime]:
    engine = writer(url)
    with engine.connect() as connection:
        found = [part.begin for part in partitions.found(connection, table)]
    engine.dispose()
    return found


def test_a_week_begins_on_monday_in_utc() -> None:
    sunday = MONDAY - timedelta(microseconds=1)
    assert partitions.week_of(sunday) == MONDAY - timedelta(days=7)
    assert partitions.week_of(MONDAY) == MONDAY
    kiritimati = datetime.fromisoformat("2026-01-05T13:59:59.999999+14:00")
    assert partitions.week_of(kiritimati) == MONDAY - timedelta(days=7)


def test_rows_name_their_weeks() -> None:
    def row(at: datetime) -> tuple[Any, ...]:
        return ("c", 0, 1, 0, at)

    late = MONDAY + timedelta(days=100)
    rows = [row(MONDAY), row(late), row(MONDAY + timedelta(days=30))]
    assert partitions.weeks_of({"history": rows, "pods": [("x",)]}) == {
        partitions.week_of(r[4]) for r in rows
    }
    assert partitions.weeks_of({}) == set()


def test_migrating_makes_this_week_and_the_next_of_each_cluster(database: str) -> None:
    Writer(database, 50, "c").feed(busy_toy().messages)
    before = len(weeks(database))
    migrate.upgrade(database)
    now = datetime.now(UTC)
    for table in partitions.PARTITIONED:
        assert set(weeks(database, table)) >= set(partitions.around(now))
    assert len(weeks(database)) == before + 2


def test_a_log_of_past_years_gets_its_weeks(database: str) -> None:
    toy = busy_toy()
    old = [(seq, at - timedelta(days=9000), batch) for seq, at, batch in toy.messages]
    Writer(database).feed(old)
    assert partitions.week_of(old[0][1]) in weeks(database)
    engine = writer(database)
    with engine.connect() as connection:
        count = connection.scalar(sa.select(sa.func.count()).select_from(tables.history))
    engine.dispose()
    assert count


@pytest.mark.parametrize("size", [1, 1000], ids=["few", "copy"])
def test_a_week_that_was_dropped_is_made_again(database: str, size: int) -> None:
    toy = Toy(cpu=6)
    again = Writer(database, size).feed(toy.messages)
    engine = writer(database)
    before = len(toy.messages)
    for i in range(30):
        toy.pod(f"p{i}")
    with engine.begin() as connection:
        for table in partitions.PARTITIONED:
            for part in partitions.found(connection, table):
                connection.exec_driver_sql(f"DROP TABLE {part.quoted}")
    again.feed(toy.messages[before:])
    assert partitions.week_of(toy.now) in weeks(database)
    with engine.connect() as connection:
        query = sa.select(sa.func.count()).where(tables.history.c.kind == "PodSeen")
        assert connection.scalar(query) == 30
    engine.dispose()


def at_once(works: list[Callable[[], object]]) -> list[BaseException]:
    """Do all of them at the same time; returns what went wrong."""
    errors: list[BaseException] = []

    def do(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=do, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return errors


def test_clusters_of_one_database_begin_at_once(database: str) -> None:
    toy = busy_toy()
    writers = [Writer(database, 50, f"c{n}") for n in range(4)]
    assert at_once([partial(one.feed, toy.messages) for one in writers]) == []
    assert weeks(database).count(partitions.week_of(toy.now)) == 4


def test_many_need_the_same_partitions_at_once(database: str) -> None:
    def ensure() -> None:
        engine = writer(database)
        with engine.begin() as connection:
            partitions.ensure(connection, "it's", [MONDAY])
        engine.dispose()

    assert at_once([ensure] * 4) == []
    assert weeks(database) == [MONDAY]
    engine = writer(database)
    with engine.connect() as connection:
        assert set(partitions.own(connection, "it's")) == set(partitions.PARTS)
    engine.dispose()


def test_a_new_week_waits_for_no_query_and_lets_none_wait(database: str) -> None:
    """A reader stays in its transaction; a writer makes a week; another reader comes after it."""
    Writer(database, 50, "c").feed(busy_toy().messages)
    engines = [writer(database, 5) for _ in range(3)]
    with engines[0].connect() as reading, engines[1].connect() as making:
        reading.execute(sa.select(sa.func.count()).select_from(tables.history))
        making.exec_driver_sql("SET lock_timeout = '3s'")
        assert len(partitions.ensure(making, "c", [MONDAY])) == 2
        with engines[2].connect() as reading_too:
            reading_too.exec_driver_sql("SET lock_timeout = '3s'")
            reading_too.execute(sa.select(sa.func.count()).select_from(tables.history))
        making.commit()
    for engine in engines:
        engine.dispose()
    assert MONDAY in weeks(database)


def test_a_new_week_does_not_wait_for_a_vacuum_of_an_old_one(database: str) -> None:
    Writer(database, 50, "c").feed(busy_toy().messages)
    old, making = writer(database, 5), writer(database, 5)
    with old.connect() as vacuum, making.connect() as connection:
        for table in partitions.PARTITIONED:
            quoted = partitions.found(vacuum, table)[0].quoted
            # What VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY hold.
            vacuum.exec_driver_sql(f"LOCK TABLE {quoted} IN SHARE UPDATE EXCLUSIVE MODE")
        connection.exec_driver_sql("SET lock_timeout = '500ms'")
        assert len(partitions.ensure(connection, "c", [MONDAY])) == len(partitions.PARTITIONED)
    for engine in (old, making):
        engine.dispose()


def test_weeks_lie_beside_their_table_whatever_the_schema(database: str) -> None:
    engine = writer(database)
    with engine.begin() as connection:
        connection.exec_driver_sql('CREATE SCHEMA "next model"')
        connection.exec_driver_sql('SET LOCAL search_path = "next model"')
        for table in partitions.PARTS:
            connection.exec_driver_sql(
                f"CREATE TABLE {table} (LIKE public.{table}) PARTITION BY LIST (cluster)"
            )
        assert len(partitions.ensure(connection, "c", [MONDAY])) == 2
        assert [p.begin for p in partitions.found(connection, "history")] == [MONDAY]
    engine.dispose()
    assert MONDAY not in weeks(database)


def test_the_first_commit_of_a_store_needs_no_preparation(database: str) -> None:
    store = SqlStore(database, "c")
    assert store.load() is None
    store.close()
    Writer(database, 5, "c").feed(busy_toy().messages)
