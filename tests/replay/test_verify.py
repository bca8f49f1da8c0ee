"""`gatelog replay --verify`: the read model is what the log says, and what is not is named."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from gatelog.replay.online import verify
from projector import tables
from projector.schema.layout import COMPARED as TABLES
from projector.storage.database import writer
from runtime.settings import DatabaseSettings, Settings
from tests.replay.conftest import Ran
from tests.replay.support import CLUSTER, Played

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]
TAMPERED = {
    "groups": ("reason", "Tampered"),
    "roles": ("pods_seen", 77),
    "pods": ("node", "elsewhere"),
    "gates": ("removed_by", "somebody"),
    "pod_waits": ("subject", "elsewhere"),
    "history": ("message", "something else"),
    "waits": ("reason", "Boredom"),
    "admissions": ("cluster_queue", "other"),
    "usage": ("borrowed", 77),
    "shortages": ("limited_by", "the weather"),
    "nodes": ("unschedulable", True),
    "topologies": ("levels", ["moon"]),
    "placements": ("pods", 77),
    "preemptions": ("policy", "Lottery"),
    "decisions": ("rule", "whim"),
    "outcomes": ("http_status", 418),
    "reserved_starts": ("cluster_queue", "other"),
}
UNPLAYED = {"reserved_starts"}
"""Tables without rows in what is played here: a start is reserved after seconds of waiting."""
PLAYED = [table for table in TABLES if table.name not in UNPLAYED]


def test_every_table_is_tried() -> None:
    assert set(TAMPERED) == {table.name for table in TABLES}


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_nothing_differs_and_whatever_is_changed_is_found(gatelog: Gatelog, played: Played) -> None:
    code, out, err = gatelog("replay", "--verify", *played.options)
    assert (code, err) == (0, ""), out
    assert out.count(" equal") == len(TABLES)
    assert f"{len(played.toy.messages)} messages" in out
    for table in PLAYED:
        rows = next(line for line in out.splitlines() if line.startswith(f"{table.name} "))
        assert int(rows.split()[1]) > 0, f"{table.name} has no rows: nothing was compared"

    engine = writer(played.url)
    for table in PLAYED:
        column, value = TAMPERED[table.name]
        keys = list(table.primary_key)
        with engine.begin() as connection:
            query = sa.select(table)
            if table.name == "history":
                query = query.where(table.c.seq > 5)  # the epoch's own line is not from the log
            row = connection.execute(query.limit(1)).mappings().one()
            where = sa.and_(*(c == row[c.name] for c in keys))
            connection.execute(sa.update(table).where(where).values({column: value}))
        code, out, _ = gatelog("replay", "--verify", *played.options)
        assert code == 1, table.name
        (line,) = (line for line in out.splitlines() if "DIFFERENT" in line)
        assert line.startswith(f"{table.name} ") and "1 DIFFERENT" in line
        for key in keys:
            if key.name != "cluster":
                assert f"{key.name}={row[key.name]}" in out, table.name
        assert f"{column} is {value!r}, replay {row[column]!r}" in out
        with engine.begin() as connection:
            connection.execute(sa.update(table).where(where).values({column: row[column]}))
    engine.dispose()


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_rows_that_are_missing_or_too_many_are_found(gatelog: Gatelog, played: Played) -> None:
    engine = writer(played.url)
    with engine.begin() as connection:
        waits = list(connection.execute(sa.select(tables.waits)).mappings())
        first = waits[0]
        where = (tables.waits.c.group_id == first["group_id"]) & (
            tables.waits.c.from_seq == first["from_seq"]
        )
        connection.execute(sa.delete(tables.waits).where(where))
        connection.execute(sa.insert(tables.waits).values({**first, "from_seq": 99_999}))
    engine.dispose()
    code, out, _ = gatelog("replay", "--verify", *played.options)
    assert code == 1
    assert out.count("DIFFERENT") == 1 and "2 DIFFERENT" in out
    assert f"from_seq={first['from_seq']}: only in the replay" in out
    assert "from_seq=99999: not in the replay" in out


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
async def test_only_tables_that_differ_are_read(played: Played) -> None:
    settings = Settings(
        cluster=CLUSTER, database=DatabaseSettings(url=played.url), nats=played.nats
    )
    _, found = await verify(settings, lambda _: None)
    assert [table.table for table in found if table.read] == []
    engine = writer(played.url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.waits).values(reason="Boredom"))
    engine.dispose()
    _, found = await verify(settings, lambda _: None)
    assert [table.table for table in found if table.read] == ["waits"]
    assert [table.table for table in found if table.different] == ["waits"]


async def test_a_decision_that_was_not_sent_yet_is_no_difference(simple: Played) -> None:
    """Committed, then the projector died: the decision is in the database only."""
    settings = Settings(
        cluster=CLUSTER, database=DatabaseSettings(url=simple.url), nats=simple.nats
    )
    engine = writer(simple.url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.checkpoints).values(published=3))
    engine.dispose()
    result, found = await verify(settings, lambda _: None)
    assert sum(table.different for table in found) == 0
    assert not result.differences


def test_no_log_and_no_read_model_end_with_a_sentence(
    gatelog: Gatelog, simple: Played, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    code, _, err = gatelog("replay", "--verify", "--db", simple.url, "--cluster", CLUSTER)
    assert code == 1 and "no log in" in err
    code, _, err = gatelog("replay", "--verify", "--state-dir", str(empty))
    assert code == 1 and "no such database" in err
    where = ("--db", simple.url, "--set", f"nats.url={simple.nats.url}")
    code, _, err = gatelog("replay", "--verify", *where)
    assert code == 1 and "no checkpoint of cluster 'default'" in err
