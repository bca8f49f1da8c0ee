"""Databases of a later schema, and those whose version is lost."""

from typing import Any

import pytest
import sqlalchemy as sa

from projector.storage.database import DatabaseError, writer
from projector.upkeep import migrate
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
