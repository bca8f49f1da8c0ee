"""Alembic's environment: which database, which tables, and the views that follow every upgrade.

Run through `projector.upkeep.migrate` a connection is handed in; run through the `alembic` command
(settings in pyproject.toml) the URL comes from GATELOG_DATABASE_URL or `-x url=...`.
"""

import os
from typing import Any

from alembic import context
from sqlalchemy import Connection

from projector.schema import describing, partitions, views
from projector.storage.database import writer
from projector.tables import metadata
from projector.upkeep import reading_role


def render(kind: str, thing: Any, autogen: Any) -> str | bool:
    """Write our column types as what they are in the database: scripts must not follow the code."""
    if kind == "type" and type(thing).__name__ == "UtcTime":
        return "time_type()"
    return False


def ours(name: str | None, kind: str, _: Any) -> bool:
    """Leave partitions out of comparisons: they come and go with the rows."""
    return not (kind == "table" and name is not None and partitions.is_name(name))


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        compare_type=True,
        compare_server_default=True,
        render_item=render,
        include_name=ours,
        # One transaction for everything: PostgreSQL and SQLite both undo schema changes.
        transactional_ddl=True,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        generating = getattr(context.config.cmd_opts, "autogenerate", False)
        granted = reading_role.saved(connection)
        views.drop(connection)
        context.run_migrations()
        if not generating and _at_head():
            views.create(connection)
            describing.comment(connection)
            reading_role.restore(connection, granted)


def _at_head() -> bool:
    at = context.get_context().get_current_revision()
    return at is not None and at == context.script.get_current_head()


def main() -> None:
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    url = context.get_x_argument(as_dictionary=True).get("url") or os.environ.get(
        "GATELOG_DATABASE_URL"
    )
    if not url:
        raise SystemExit("no database: set GATELOG_DATABASE_URL or pass -x url=postgresql://...")
    engine = writer(url)
    with engine.connect() as connection:
        run(connection)
        connection.commit()
    engine.dispose()


main()
