"""Pruning on both databases: what goes, what stays, and that it is told."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from projector import tables
from projector.replay.compare import compare
from projector.schema import partitions
from projector.storage.database import DatabaseUnavailable, reader, writer
from projector.upkeep import pruning
from projector.upkeep.retention import retaining
from tests.projector.support import Messages, Writer, busy_toy
from tests.support.databases import migrated

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

MONDAY = partitions.week_of(busy_toy().now)
"""The week of the story, of which the first part is moved 20 weeks back."""


def messages() -> Messages:
    """The story twice: one long ago, and the rest of it (with what is alive) now."""
    found = busy_toy().messages
    cut = len(found) * 2 // 3
    old, new = found[:cut], found[cut:]
    long_ago = timedelta(weeks=20)
    return [(seq, at - long_ago, batch) for seq, at, batch in old] + new


@pytest.fixture
def filled(url: str) -> str:
    one = Writer(url).feed(messages())
    one.store.close()
    engine = writer(url)
    with engine.begin() as connection:
        # As if everything had been sent, which the outbox writes down.
        connection.execute(sa.update(tables.checkpoints).values(published=10**6))
    engine.dispose()
    return url


def counts(url: str) -> dict[str, int]:
    engine = reader(url)
    with engine.connect() as connection:
        found = {
            name: connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for name, table in tables.metadata.tables.items()
        }
    engine.dispose()
    return found


def rows(url: str, table: sa.Table, *where: Any) -> list[Any]:
    engine = reader(url)
    with engine.connect() as connection:
        found = list(connection.execute(sa.select(table).where(*where)).mappings())
    engine.dispose()
    return found


def test_the_limit_is_a_monday() -> None:
    now = datetime(2026, 11, 21, 20, tzinfo=UTC)
    assert pruning.limit(now, timedelta(days=90)) == datetime(2026, 8, 17, tzinfo=UTC)
    with pytest.raises(ValueError, match="not a Monday"):
        pruning.prune("sqlite:////nowhere", now)


def test_what_was_over_goes_and_what_lives_stays(filled: str) -> None:
    before, had = MONDAY, counts(filled)
    gone = pruning.prune(filled, before)
    have = counts(filled)
    by_table: dict[str, int] = {}
    for one in gone:
        by_table[one.table] = by_table.get(one.table, 0) + one.rows
    for name in had:
        if name != "pruned":
            assert had[name] - have[name] == by_table.get(name, 0), name
    assert {"history", "outcomes", "pods", "gates", "groups", "roles", "waits"} <= set(by_table)
    assert {"decisions", "admissions"} <= set(by_table)
    assert all(row["at"] >= before for row in rows(filled, tables.history))
    assert not rows(filled, tables.groups, tables.groups.c.gone_at < before)
    live = [g["name"] for g in rows(filled, tables.groups, tables.groups.c.gone_at.is_(None))]
    assert {"a", "b", "c", "d"} <= set(live)
    assert not rows(filled, tables.decisions, tables.decisions.c.issued_at < before)
    told = {row["name"]: row for row in rows(filled, tables.pruned)}
    assert {name: row["rows"] for name, row in told.items() if row["rows"]} == by_table
    assert {row["before"] for row in told.values()} == {before}
    engine = reader(filled)
    with engine.connect() as connection:
        assert pruning.limits(connection, "test") == dict.fromkeys(pruning.WHERE_OVER, before)
        assert pruning.limits(connection, "other") == {}
        weeks = [part.begin for part in partitions.found(connection, "history")]
    engine.dispose()
    assert all(week >= before for week in weeks)


def test_a_dry_run_tells_the_same_and_changes_nothing(filled: str) -> None:
    had = counts(filled)
    would = pruning.prune(filled, MONDAY, dry_run=True)
    assert counts(filled) == had
    told: list[pruning.Gone] = []
    assert pruning.prune(filled, MONDAY, tell=told.append) == would == told
    history = [one for one in would if one.table == "history"]
    assert sum(one.rows for one in history) == had["history"] - counts(filled)["history"]
    assert all(one.first and one.last and one.first <= one.last for one in history)
    assert pruning.prune(filled, MONDAY) == []


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_the_projector_goes_on_after_pruning(filled: str) -> None:
    pruning.prune(filled, MONDAY)
    toy = busy_toy()
    toy.delete("late")
    again = Writer(filled).load()
    again.feed([m for m in toy.messages if m[0] > len(messages())])
    (pod,) = rows(filled, tables.pods, tables.pods.c.name == "late")
    assert pod["gone_at"] is not None


def test_a_run_that_was_stopped_is_taken_up_again(filled: str) -> None:
    would = pruning.prune(filled, MONDAY, dry_run=True)
    asked = iter([False] * 3 + [True] * 100)
    pruning.prune(filled, MONDAY, stop=lambda: next(asked))
    pruning.prune(filled, MONDAY)
    assert pruning.prune(filled, MONDAY, dry_run=True) == []
    told = {row["name"]: row["rows"] for row in rows(filled, tables.pruned)}
    assert sum(told.values()) == sum(one.rows for one in would)


def test_a_comparison_leaves_out_what_was_pruned(filled: str, tmp_path: Any) -> None:
    pruning.prune(filled, MONDAY)
    other = f"sqlite:///{tmp_path}/replay.sqlite3"
    migrated(other)
    Writer(other).feed(messages()).store.close()
    live, again = reader(filled), reader(other)
    with live.connect() as one, again.connect() as two:
        found = compare(one, two, "test", 0)
        assert [(r.table, r.different, r.examples) for r in found if r.different] == []
        assert {r.table: r.rows for r in found}["history"] == counts(filled)["history"]
    live.dispose()
    again.dispose()
    engine = writer(filled)
    with engine.begin() as connection:
        connection.execute(sa.delete(tables.history).where(tables.history.c.kind == "PodSeen"))
    engine.dispose()
    live, again = reader(filled), reader(other)
    with live.connect() as one, again.connect() as two:
        found = compare(one, two, "test", 0)
    live.dispose()
    again.dispose()
    assert {r.table for r in found if r.different} == {"history"}


def test_a_query_that_runs_is_not_stopped_and_the_dropped_week_is(postgres_database: str) -> None:
    """While a reader is in the middle of its transaction the week waits to be detached."""
    migrated(postgres_database)
    Writer(postgres_database).feed(messages())
    reading = reader(postgres_database)
    with reading.connect() as connection:
        connection.execute(sa.select(sa.func.count()).select_from(tables.history))
        engine = writer(postgres_database)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
            other.exec_driver_sql("SET lock_timeout = '500ms'")
            part = partitions.found(other, "history")[0]
            with pytest.raises(sa.exc.OperationalError):
                other.exec_driver_sql(
                    f"ALTER TABLE {part.parent} DETACH PARTITION {part.quoted} CONCURRENTLY"
                )
            assert partitions.found(other, "history")[0].detaching
        engine.dispose()
        assert connection.execute(sa.select(sa.func.count()).select_from(tables.history)).scalar()
    reading.dispose()
    pruning.prune(postgres_database, MONDAY)
    engine = reader(postgres_database)
    with engine.connect() as connection:
        assert part.begin not in [p.begin for p in partitions.found(connection, "history")]
        names = sa.inspect(connection).get_table_names()
    engine.dispose()
    assert part.name not in names


def test_what_was_detached_and_not_dropped_goes_the_next_time(postgres_database: str) -> None:
    migrated(postgres_database)
    Writer(postgres_database).feed(messages())
    engine = writer(postgres_database)
    with engine.begin() as connection:
        part = partitions.found(connection, "history")[0]
        connection.exec_driver_sql(f"ALTER TABLE {part.parent} DETACH PARTITION {part.quoted}")
        connection.exec_driver_sql(f"COMMENT ON TABLE {part.quoted} IS '{pruning.DROPPED}'")
        connection.exec_driver_sql("CREATE TABLE history_20000103 (kept int)")
    pruning.prune(postgres_database, MONDAY)
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
    engine.dispose()
    assert part.name not in names
    assert "history_20000103" in names  # what people keep is theirs


def test_two_do_not_prune_at_once(postgres_database: str) -> None:
    migrated(postgres_database)
    Writer(postgres_database).feed(messages())
    engine = writer(postgres_database)
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT pg_advisory_lock(%s)", (pruning.LOCK,))
        assert pruning.prune(postgres_database, MONDAY) == []
        connection.exec_driver_sql("SELECT pg_advisory_unlock(%s)", (pruning.LOCK,))
    engine.dispose()
    assert pruning.prune(postgres_database, MONDAY) != []


def test_a_database_that_is_away_is_told() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1"):
        pruning.prune("postgresql://x:secret@127.0.0.1:1/none", MONDAY)


async def test_the_projector_prunes_by_itself(filled: str) -> None:
    had = counts(filled)["history"]
    days = (datetime.now(UTC) - MONDAY).days
    async with retaining(filled, 0, first_s=0, every_s=0.01):
        await asyncio.sleep(0.1)
    assert counts(filled)["history"] == had
    async with retaining(filled, days, first_s=0, every_s=0.05):
        for _ in range(200):
            await asyncio.sleep(0.05)
            if counts(filled)["history"] < had:
                break
    assert 0 < counts(filled)["history"] < had
    assert all(row["at"] >= MONDAY for row in rows(filled, tables.history))


def test_compacting_gives_the_space_back(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/m.sqlite3"
    migrated(url)
    Writer(url).feed(messages()).store.close()
    engine = writer(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM history")
        connection.exec_driver_sql("DELETE FROM decisions")
    engine.dispose()
    before = (tmp_path / "m.sqlite3").stat().st_size
    pruning.compact(url)
    assert (tmp_path / "m.sqlite3").stat().st_size < before
