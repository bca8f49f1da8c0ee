"""A database of schema 0001 with rows in every table is upgraded: nothing is lost, views answer."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command

from podgroup import events as e
from projector import tables
from projector.schema import partitions, views
from projector.storage.database import DatabaseError, reader, writer
from projector.tables.base import UtcTime, utc_text
from projector.upkeep import migrate
from tests.golden import rows as golden
from tests.projector.support import NOW, Writer, busy_toy

Rows = list[dict[str, Any]]
LATER = (
    "conclusions",
    "failures",
    "preemptions",
    "quotas",
    "shortages",
    "standings",
    "usage",
)
"""Tables that came after the first version, with a log that fills them."""
FORECASTS = ("estimates", "forecasts")
"""Those that no log fills."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Rows of every table, as the fold writes them."""
    url = f"sqlite:///{tmp_path_factory.mktemp('model')}/head.sqlite3"
    migrate.upgrade(url)
    toy = busy_toy()
    toy.send(
        e.DeltaRefused(
            kind="Pod",
            namespace="ns",
            name="odd",
            uid="u9",
            resource_version=toy.bump(),
            field="f",
            message="m",
        )
    )
    writer_of = Writer(url).feed(toy.messages)
    writer_of.store.close()
    engine = writer(url)
    with engine.begin() as connection:
        epoch = {"cluster": "test", "shard": 0, "number": 1, "base": 0, "reason": "new", "at": NOW}
        connection.execute(sa.insert(tables.epochs).values(epoch))
    found = contents(engine)
    engine.dispose()
    assert {name for name, rows in found.items() if not rows} == {
        *("pruned", "failures", "preemptions", "standings", "usage"),
        *FORECASTS,
    }
    for name in LATER:
        found[name] = []  # the first version had no such table
    return found


def contents(engine: sa.Engine) -> dict[str, Rows]:
    """All rows of all tables, each in the order of its key."""
    found = {}
    with engine.connect() as connection:
        for name, table in tables.metadata.tables.items():
            keys = [
                c.collate("C") if isinstance(c.type, sa.Text) and is_postgres(engine) else c
                for c in table.primary_key
            ]
            query = sa.select(table).order_by(*keys)
            found[name] = [dict(row) for row in connection.execute(query).mappings()]
    return found


def is_postgres(engine: sa.Engine) -> bool:
    return engine.dialect.name == "postgresql"


def at_0001(url: str, model: dict[str, Rows]) -> sa.Engine:
    """A database as the first version made it, with the rows in it."""
    engine = writer(url)
    with engine.connect() as connection:
        command.upgrade(migrate.config(connection), "0001")
        connection.commit()
        for name, rows in model.items():
            if not rows:
                continue
            old = sa.Table(name, sa.MetaData(), autoload_with=connection)
            types = {c.name: c.type for c in tables.metadata.tables[name].columns}
            for column in old.columns:
                column.type = types[column.name]
            values = [{k: v for k, v in row.items() if k in old.c} for row in rows]
            connection.execute(sa.insert(old), values)
        connection.commit()
    return engine


def views_of(engine: sa.Engine) -> dict[str, set[tuple[str, ...]]]:
    """What the views say, but for what depends on the time of asking."""
    found = {}
    with engine.connect() as connection:
        for name in views.VIEWS:
            result = connection.execute(sa.text(f"SELECT * FROM {name}"))
            keep = [i for i, key in enumerate(result.keys()) if key in STABLE]
            found[name] = {tuple(str(row[i]) for i in keep) for row in result}
    return found


STABLE = {"group_id", "name", "seq", "ord", "reason", "message", "admission", "cluster_queue"}


def test_everything_is_there_after_the_upgrade(
    empty_url: str, model: dict[str, Rows], tmp_path: Path
) -> None:
    at_0001(empty_url, model).dispose()
    migrate.upgrade(empty_url)
    migrate.check(empty_url)
    engine = writer(empty_url)
    assert contents(engine) == {
        name: [
            row | {"qos": "", "owner": "", "restarts": 0} if name == "pods" else row for row in rows
        ]
        for name, rows in model.items()
    }
    fresh = f"sqlite:///{tmp_path}/fresh.sqlite3"
    migrate.upgrade(fresh)
    other = writer(fresh)
    with other.begin() as connection:
        for name, rows in model.items():
            if rows:
                connection.execute(sa.insert(tables.metadata.tables[name]), rows)
    told = views_of(engine)
    assert told == views_of(other)
    without = {name for name, rows in told.items() if not rows}
    assert without == {
        *("v_quota_spans", "v_pod_used", "v_expected_starts", "v_estimates_tried"),
        *("v_borrowed", "v_share_hourly"),
    }
    if is_postgres(engine):
        with engine.connect() as connection:
            weeks = {part.begin for part in partitions.found(connection, "history")}
        assert weeks >= {partitions.week_of(row["at"]) for row in model["history"]}
    other.dispose()
    engine.dispose()


def test_the_projector_goes_on_after_the_upgrade(empty_url: str, model: dict[str, Rows]) -> None:
    at_0001(empty_url, model).dispose()
    migrate.upgrade(empty_url)
    toy = busy_toy()
    done = model["checkpoints"][0]["seq"]
    for name in ("late", "later"):
        toy.delete(name)
    again = Writer(empty_url).load()
    again.feed([m for m in toy.messages if m[0] > done])
    engine = reader(empty_url)
    found = contents(engine)
    engine.dispose()
    assert len(found["history"]) > len(model["history"])
    assert found["checkpoints"][0]["seq"] == toy.position
    gone = {p["name"] for p in found["pods"] if p["gone_at"] is not None}
    assert {"late", "later"} <= gone


def test_one_revision_back_and_forth_keeps_every_row(
    empty_url: str, model: dict[str, Rows]
) -> None:
    engine = at_0001(empty_url, model)
    with engine.connect() as connection:
        command.upgrade(migrate.config(connection), "head")
        connection.commit()
        command.downgrade(migrate.config(connection), "0001")
        connection.commit()
        for name, rows in model.items():
            if name in (*LATER, *FORECASTS, "pruned"):
                continue
            old = sa.Table(name, sa.MetaData(), autoload_with=connection)
            count = connection.scalar(sa.select(sa.func.count()).select_from(old))
            assert count == len(rows), name
            assert "qos" not in old.c
    engine.dispose()
    migrate.upgrade(empty_url)
    engine = writer(empty_url)
    assert len(contents(engine)["history"]) == len(model["history"])
    if not is_postgres(engine):
        first = model["history"][0]["at"]
        with engine.connect() as connection:
            told = connection.exec_driver_sql("SELECT min(at) FROM history").scalar()
        assert told == utc_text(first)
    engine.dispose()


def test_a_projector_goes_on_while_a_later_release_migrates(empty_url: str) -> None:
    """In a roll-out the database is migrated first, and the older projector writes to its end."""
    migrate.upgrade(empty_url)
    toy = busy_toy()
    older = Writer(empty_url, size=10_000).feed(toy.messages)
    seen = len(toy.messages)
    engine = writer(empty_url)
    with engine.begin() as connection:
        for name in ("pods", "groups", "roles", "decisions", "checkpoints"):
            later = f"ALTER TABLE {name} ADD COLUMN later TEXT DEFAULT 'none' NOT NULL"
            connection.execute(sa.text(later))
        connection.execute(sa.text("CREATE TABLE later (cluster TEXT NOT NULL)"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for i in range(30):  # more rows of a table than go in one by one
        toy.pod(f"more{i}", "more", 31)
    older.feed(toy.messages[seen:])
    older.store.close()
    with engine.connect() as connection:
        told = connection.execute(
            sa.text("SELECT name, later FROM pods WHERE name LIKE 'more%'")
        ).all()
        assert len(told) == 30 and {row.later for row in told} == {"none"}
        at = connection.scalar(sa.text("SELECT seq FROM checkpoints"))
    assert at == toy.position
    with pytest.raises(DatabaseError, match="newer than this gatelog knows"):
        migrate.check(empty_url)
    engine.dispose()


def old_rows(name: str) -> golden.Rows:
    """The rows that the first release left of its log, as they were dumped then."""
    return golden.parsed(golden.kept(golden.HERE / "first" / f"{name}.jsonl.gz"))


def as_stored(column: sa.Column[Any], row: dict[str, Any], cluster: str) -> Any:
    """A value as a program writes it; of columns that were not dumped, nothing."""
    if column.name == "cluster":
        return cluster
    if column.name not in row:
        empty = {bytes: b"", str: "", int: 0, bool: False}
        return None if column.nullable else empty.get(column.type.python_type, {})
    value = row[column.name]
    stored = isinstance(column.type, sa.LargeBinary) and value is not None
    if isinstance(column.type, UtcTime) and value is not None:
        return datetime.fromisoformat(value)
    return value.encode() if stored else value


def test_a_log_and_a_read_model_of_the_first_release_come_to_the_present(
    empty_url: str, tmp_path: Path
) -> None:
    """Its rows are migrated, and are then what a rebuild makes of its log today."""
    name = "demo"
    before = old_rows(name)
    engine = writer(empty_url)
    with engine.connect() as connection:
        command.upgrade(migrate.config(connection), "0002")
        weeks = {partitions.week_of(datetime.fromisoformat(r["at"])) for r in before["history"]}
        partitions.ensure(connection, weeks)
        connection.commit()
        for table, some in before.items():
            old = sa.Table(table, sa.MetaData(), autoload_with=connection)
            types = {c.name: c.type for c in tables.metadata.tables[table].columns}
            for column in old.columns:
                column.type = types[column.name]
            rows = [{c.name: as_stored(c, row, name) for c in old.columns} for row in some]
            connection.execute(sa.insert(old), rows)
        connection.commit()
    engine.dispose()
    migrate.upgrade(empty_url)
    migrate.check(empty_url)
    migrated = golden.rows(empty_url, name)
    kept = golden.as_kept(migrated, before)  # columns that came later have their defaults
    assert {table: rows for table, rows in kept.items() if rows} == before

    fresh = f"sqlite:///{tmp_path}/rebuilt.sqlite3"
    migrate.upgrade(fresh)
    asyncio.run(golden.folded(golden.HERE / "first" / f"{name}.jsonl.gz", fresh))
    rebuilt = golden.as_kept(golden.rows(fresh, name), before)
    assert golden.without_derived(rebuilt) == golden.without_derived(kept)
    assert sum(map(len, before.values())) > 400


@pytest.mark.parametrize("how", ["dropped", "emptied"])
def test_a_lost_version_is_explained_and_can_be_written_down(empty_url: str, how: str) -> None:
    migrate.upgrade(empty_url)
    engine = writer(empty_url)
    with engine.begin() as connection:
        lost = "DROP TABLE" if how == "dropped" else "DELETE FROM"
        connection.execute(sa.text(f"{lost} alembic_version"))
    said = rf"not their version.*all that schema {migrate.head()} has.*--stamp {migrate.head()}"
    for refused in (migrate.upgrade, migrate.check):
        with pytest.raises(DatabaseError, match=said):
            refused(empty_url)
    with pytest.raises(DatabaseError, match="no such schema"):
        migrate.upgrade(empty_url, stamp="9999")
    migrate.upgrade(empty_url, stamp=migrate.head())
    migrate.check(empty_url)
    with pytest.raises(DatabaseError, match="knows that it is at schema"):
        migrate.upgrade(empty_url, stamp=migrate.head())
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
        connection.execute(sa.text("DROP TABLE pruned"))
    with pytest.raises(DatabaseError, match=r"older schema, or incomplete \(without pruned"):
        migrate.check(empty_url)
    engine.dispose()
