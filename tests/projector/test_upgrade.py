"""A database of schema 0001 with rows in every table is upgraded: nothing is lost, views answer."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command

from podgroup import events as e
from projector import migrate, partitions, tables, views
from projector.database import DatabaseError, reader, writer
from projector.tables.base import utc_text
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
