"""Databases of a later schema, and those whose version is lost."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gatelog.examine.readmodel import examine
from projector.storage.database import DatabaseError, writer
from projector.upkeep import migrate
from runtime.settings import DatabaseSettings, Settings
from tests.projector.support import Writer, busy_toy

Rows = list[dict[str, Any]]


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


@pytest.mark.parametrize("how", ["dropped", "emptied"])
def test_a_lost_version_is_explained(empty_url: str, how: str) -> None:
    migrate.upgrade(empty_url)
    engine = writer(empty_url)
    with engine.begin() as connection:
        lost = "DROP TABLE" if how == "dropped" else "DELETE FROM"
        connection.execute(sa.text(f"{lost} alembic_version"))
    engine.dispose()
    for refused in (migrate.upgrade, migrate.check):
        with pytest.raises(DatabaseError, match=r"not their version.*Restore the backup with it"):
            refused(empty_url)


@pytest.mark.parametrize(
    "lost, named",
    [
        ("DROP TABLE pod_waits", "lacks pod_waits: "),
        ("ALTER TABLE pods DROP COLUMN restarts", "lacks pods.restarts: "),
    ],
)
def test_a_read_model_of_an_earlier_build_is_refused_and_made_anew(
    empty_url: str, lost: str, named: str
) -> None:
    """It is at the revision that is needed, since what is not released has one revision."""
    migrate.upgrade(empty_url)
    engine = writer(empty_url)
    with engine.begin() as connection:
        for view in sa.inspect(connection).get_view_names():
            connection.execute(sa.text(f"DROP VIEW IF EXISTS {view}{_cascade(connection)}"))
        connection.execute(sa.text(lost))
    for refused in (migrate.upgrade, migrate.check):
        with pytest.raises(DatabaseError, match=f"{named}.*Name an empty database"):
            refused(empty_url)
    found = examine(Settings(cluster="test", database=DatabaseSettings(url=empty_url)))[0]
    (schema,) = (one for one in found if one.what == "schema")
    assert schema.verdict == "fail" and named.strip(": ") in schema.detail
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("DROP SCHEMA public CASCADE"))
            connection.execute(sa.text("CREATE SCHEMA public"))
    engine.dispose()
    if empty_url.startswith("sqlite"):
        for path in Path(engine.url.database or "").parent.glob("*.sqlite3*"):
            path.rename(path.with_suffix(".before"))
    migrate.upgrade(empty_url)
    migrate.check(empty_url)


def _cascade(connection: sa.Connection) -> str:
    return " CASCADE" if connection.dialect.name == "postgresql" else ""
