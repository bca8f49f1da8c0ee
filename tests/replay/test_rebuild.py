"""`gatelog replay --rebuild`: whatever happened to the rows, the log makes them good again."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from projector import tables
from projector.schema import partitions
from projector.schema.layout import COMPARED as TABLES
from projector.schema.layout import MERGED
from projector.storage.database import reader, writer
from projector.upkeep.pruning import prune
from tests.replay.conftest import Ran
from tests.replay.support import CLUSTER, Played
from tests.replay.test_verify import PLAYED, TAMPERED

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]
EVERY = (
    *TABLES,
    tables.parked,
    tables.objects,
    tables.standings,
    tables.quotas,
    tables.failures,
)


def everything(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, but for the position as of which a row was written."""
    engine = reader(url)
    with engine.connect() as connection:
        found = {}
        for table in EVERY:
            left_out = set() if table.name == "decisions" else {"as_of_seq"}
            rows = connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()
            found[table.name] = [{k: v for k, v in r.items() if k not in left_out} for r in rows]
    engine.dispose()
    return found


def checkpoint(url: str) -> dict[str, Any]:
    engine = reader(url)
    with engine.connect() as connection:
        row = dict(connection.execute(sa.select(tables.checkpoints)).mappings().one())
    engine.dispose()
    return row


def test_every_table_is_made_from_the_log_or_taken_over() -> None:
    told = {"checkpoints", "conclusions", "epochs", "estimates", "forecasts", "pruned", "replicas"}
    assert set(MERGED) | told == set(tables.metadata.tables)
    assert {table.name for table in EVERY} == set(MERGED)


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_a_good_read_model_stays_as_it_is(gatelog: Gatelog, played: Played) -> None:
    before, stood = everything(played.url), checkpoint(played.url)
    code, out, err = gatelog("replay", "--rebuild", *played.options)
    assert (code, err) == (0, ""), out
    assert everything(played.url) == before
    now = checkpoint(played.url)
    assert now["writes"] == stood["writes"] + 1 and now["writer"].startswith("rebuilt/")
    kept = [name for name in stood if name not in ("writes", "writer", "written_at", "folded")]
    assert {name: now[name] for name in kept} == {name: stood[name] for name in kept}
    assert " rows written" in out
    assert f"switched over at position {len(played.toy.messages)}" in out


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
def test_whatever_was_changed_lost_or_added_is_made_good(gatelog: Gatelog, played: Played) -> None:
    before = everything(played.url)
    engine = writer(played.url)
    with engine.begin() as connection:
        for table in PLAYED:
            column, value = TAMPERED[table.name]
            where = table.c.seq > 5 if table.name == "history" else sa.true()
            rows = connection.execute(sa.select(table).where(where)).mappings().all()
            first, last = (
                sa.and_(*(c == row[c.name] for c in table.primary_key))
                for row in (rows[0], rows[-1])
            )
            connection.execute(sa.update(table).where(first).values({column: value}))
            connection.execute(sa.delete(table).where(last))
            if table.name == "decisions":
                extra = {"id": "d1-never", "number": -1}
            else:
                names = [c.name for c in table.primary_key.columns]
                key = next(name for name in reversed(names) if name not in ("shard", "at"))
                extra = {key: 77_777 if isinstance(rows[0][key], int) else "never"}
            connection.execute(sa.insert(table).values({**rows[0], **extra}))
        connection.execute(sa.delete(tables.objects))
        connection.execute(sa.update(tables.pods).values(folded=None))
    engine.dispose()
    assert everything(played.url) != before
    code, out, err = gatelog("replay", "--rebuild", *played.options)
    assert (code, err) == (0, ""), out
    assert everything(played.url) == before
    code, out, _ = gatelog("replay", "--verify", *played.options)
    assert code == 0, out


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_rows_of_others_in_the_same_database_are_not_touched(
    gatelog: Gatelog, played: Played
) -> None:
    engine = writer(played.url)
    with engine.begin() as connection:
        weeks = {part.begin for part in partitions.found(connection, "history")}
        partitions.ensure(connection, "other", weeks)
        for table in (*EVERY, tables.checkpoints):
            for row in connection.execute(sa.select(table)).mappings().all():
                connection.execute(sa.insert(table).values({**row, "cluster": "other"}))
    engine.dispose()
    before = everything(played.url)
    code, out, err = gatelog("replay", "--rebuild", *played.options)
    assert (code, err) == (0, ""), out
    assert everything(played.url) == before


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
def test_what_was_pruned_does_not_come_back(gatelog: Gatelog, played: Played) -> None:
    later = partitions.week_of(datetime.now(UTC)) + timedelta(weeks=1)
    full = everything(played.url)
    assert prune(played.url, later)
    before = everything(played.url)
    assert len(before["history"]) < len(full["history"]) and len(before["pods"]) < len(full["pods"])
    code, out, err = gatelog("replay", "--rebuild", *played.options)
    assert (code, err) == (0, ""), out
    assert everything(played.url) == before
    assert " rows written" in out
    assert gatelog("replay", "--verify", *played.options)[0] == 0


@pytest.mark.parametrize("words", [("--from-epoch", "--verify"), ("x.gz", "--rebuild")])
def test_words_that_make_no_sense_together(gatelog: Gatelog, words: tuple[str, ...]) -> None:
    code, _, err = gatelog("replay", *words)
    assert code == 2 and "--rebuild" in err


def test_another_cluster_has_no_checkpoint(gatelog: Gatelog, simple: Played) -> None:
    options = [o if o != CLUSTER else "elsewhere" for o in simple.options]
    code, _, err = gatelog("replay", "--rebuild", *options)
    assert code == 1 and "no checkpoint of cluster 'elsewhere'" in err
