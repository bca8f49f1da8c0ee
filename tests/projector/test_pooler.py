"""PostgreSQL behind a pooler in transaction mode: nothing of a session is relied on.

The store's contract, pruning and rebuilding are played once more through such a pooler.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import make_url, text

from projector.storage import database
from projector.upkeep import migrate
from projector.writing import postgres_writer
from tests.projector.support import Messages, Writer, busy_toy, comparable, fold
from tests.projector.test_pruning import (  # noqa: F401  # played here on this module's `url`
    filled,
    test_the_projector_goes_on_after_pruning,
    test_what_was_over_goes_and_what_lives_stays,
)
from tests.projector.test_store import (  # noqa: F401
    messages,
    test_a_reader_cannot_write,
    test_a_restart_at_any_point_leads_to_the_same_world,
    test_a_second_projector_cannot_write,
    test_decisions_are_an_outbox_and_learn_their_outcome,
    test_few_and_many_rows_are_written_alike,
    test_odd_values_neither_stop_the_projector_nor_get_lost,
    test_times_come_back_as_utc_with_microseconds,
    test_what_is_loaded_is_what_was_committed,
)
from tests.support.databases import migrated
from tests.support.pooler import Pooler, pooling


@pytest.fixture
def pooler(postgres_database: str) -> Iterator[Pooler]:
    """A pooler before the database, on a thread of its own."""
    url = make_url(postgres_database)
    place = url.host or str(url.query.get("host"))
    made = Pooler(place, url.port or 5432, url.username or "postgres", url.database or "")
    ready = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    over = asyncio.Event()

    async def serve() -> None:
        async with pooling(made):
            loops.append(asyncio.get_running_loop())
            ready.set()
            await over.wait()

    # Its end cancels what still serves a client, and closes the loop.
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    yield made
    loops[0].call_soon_threadsafe(over.set)
    thread.join(10)


@pytest.fixture
def url(pooler: Pooler, postgres_database: str) -> str:
    """The migrated database as a client of the pooler names it."""
    migrated(postgres_database)
    return pooler.url


def test_the_pooler_is_as_hostile_as_one_that_people_have(pooler: Pooler) -> None:
    """What worked before, for as long as one client alone used one session."""
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
        psycopg.connect(pooler.url, options="-c default_transaction_read_only=on")
    with (
        psycopg.connect(pooler.url, autocommit=True, prepare_threshold=0) as connection,
        pytest.raises(psycopg.Error, match="prepared statement"),
    ):
        for number in range(20):
            connection.execute("SELECT %s::int", (number,))
    with psycopg.connect(pooler.url, autocommit=True, prepare_threshold=None) as connection:
        seen = {connection.execute("SELECT pg_backend_pid()").fetchone() for _ in range(20)}
        assert len(seen) > 1
        assert (connection.info.backend_pid,) not in seen


def test_a_pooler_is_recognised_and_a_server_is_not_taken_for_one(
    pooler: Pooler, postgres_database: str
) -> None:
    for where, found in ((pooler.url, True), (postgres_database, False)):
        engine = database.writer(where)
        with engine.connect() as connection:
            assert postgres_writer.pooled(connection.connection.driver_connection) is found  # type: ignore[arg-type]
        engine.dispose()
    assert not pooler.refused


def test_settings_hold_for_a_transaction_and_leave_no_trace(url: str) -> None:
    engine = database.reader(url, 7.0)
    for _ in range(8):
        with engine.connect() as connection:
            shown = connection.execute(text("SHOW statement_timeout")).scalar()
            only = connection.execute(text("SHOW transaction_read_only")).scalar()
            assert (shown, only) == ("7s", "on")
    engine.dispose()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as other:
        for _ in range(8):
            found = other.execute(
                "SELECT current_setting('statement_timeout'), "
                "current_setting('default_transaction_read_only'), "
                "(SELECT count(*) FROM pg_class WHERE relpersistence = 't')"
            ).fetchone()
            assert found == ("0", "off", 0)


def test_one_migrates_and_the_others_wait(pooler: Pooler) -> None:
    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(migrate.upgrade, pooler.url) for _ in range(3)]:
            done.result(60)
    migrate.check(pooler.url)


def test_a_lock_is_held_for_as_long_as_it_should_be(url: str) -> None:
    with database.locked(url, 42, wait=False) as mine:
        assert mine
        with database.locked(url, 42, wait=False) as theirs:
            assert not theirs
    with database.locked(url, 42, wait=False) as again:
        assert again


def test_a_lock_keeps_no_snapshot(url: str) -> None:
    """A partition whose detachment was begun is detached by the holder of pruning's lock."""
    asked = text(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND "
        "datname = current_database() AND pid <> pg_backend_pid()"
    )
    engine = database.reader(url)
    with database.locked(url, 42), engine.connect() as connection:
        assert connection.execute(asked).scalar() == 0
    engine.dispose()


def test_many_batches_while_others_read(url: str) -> None:
    """As `gatelog up` under load: one writes again and again, others ask meanwhile."""
    story: Messages = busy_toy().messages
    over = threading.Event()

    def ask() -> int:
        asked = 0
        engine = database.reader(url, pool_size=1)
        while not over.is_set():
            with engine.connect() as connection:
                connection.execute(text("SELECT count(*) FROM history WHERE seq > :n"), {"n": 0})
            asked += 1
        engine.dispose()
        return asked

    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask) for _ in range(2)]
        one = Writer(url, size=1).feed(story)
        over.set()
        assert all(done.result(30) > 5 for done in asking)
    one.store.close()
    assert comparable(Writer(url).load().world) == comparable(fold(story))
