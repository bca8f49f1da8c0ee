"""Migrations: an empty database becomes exactly the tables in code, on both databases."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from projector import tables
from projector.schema import layout, partitions, views
from projector.schema.layout import COLUMNS, row_of
from projector.storage.database import DatabaseError, DatabaseUnavailable, writer
from projector.upkeep import migrate
from projector.writing import statements
from tests.support.imports import imported

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


def test_upgraded_tables_are_the_tables_in_code(url: str) -> None:
    engine = writer(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, _: (
                    not (kind == "table" and partitions.is_name(name))
                ),
            },
        )
        assert compare_metadata(context, tables.metadata) == []
        assert migrate.revision(connection) == migrate.head()
        assert set(inspect(connection).get_view_names()) == set(views.VIEWS)
    engine.dispose()
    migrate.check(url)


def test_the_newest_script_is_the_one_that_alembic_would_run_last() -> None:
    scripts = ScriptDirectory.from_config(migrate.config())
    assert migrate.head() == scripts.get_current_head()
    assert set(migrate.revisions()) == {one.revision for one in scripts.walk_revisions()}


def test_a_projector_on_sqlite_needs_neither_alembic_nor_psycopg(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    migrate.upgrade(url)
    code = (
        "import projector.bootstrap\n"
        "from projector.storage.store import SqlStore\n"
        "from projector.upkeep import migrate\n"
        f"migrate.check({url!r}); SqlStore({url!r}, 'c').load()"
    )
    assert imported(code, "alembic", "psycopg") == "[]\n"


def test_upgrading_again_changes_nothing(url: str) -> None:
    engine = writer(url)
    with engine.connect() as connection:
        connection.execute(
            text("INSERT INTO epochs (cluster, shard, number, base, reason) VALUES ('c',0,1,0,'')")
        )
        connection.commit()
    migrate.upgrade(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM epochs")).scalar() == 1
    engine.dispose()


def test_an_old_database_is_refused_with_what_to_do(empty_url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="run `gatelog migrate`"):
        migrate.check(empty_url)


def test_a_newer_database_is_refused_and_left_alone(url: str) -> None:
    engine = writer(url)
    with engine.connect() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.commit()
    for call in (migrate.check, migrate.upgrade):
        with pytest.raises(DatabaseError, match="newer than this gatelog knows"):
            call(url)
    with engine.connect() as connection:
        assert migrate.revision(connection) == "9999"
        assert set(inspect(connection).get_view_names()) == set(views.VIEWS)
    engine.dispose()


def test_downgrade_and_upgrade(url: str) -> None:
    engine = writer(url)
    with engine.connect() as connection:
        command.downgrade(migrate.config(connection), "base")
        connection.commit()
        assert set(inspect(connection).get_table_names()) == {"alembic_version"}
        assert inspect(connection).get_view_names() == []
    engine.dispose()
    migrate.upgrade(url)
    migrate.check(url)


def test_many_may_migrate_at_once(empty_url: str) -> None:
    with concurrent.futures.ProcessPoolExecutor(3) as pool:
        list(pool.map(migrate.upgrade, [empty_url] * 3, timeout=110))
    migrate.check(empty_url)


def test_every_column_is_written_and_every_comment_is_there() -> None:
    for table in tables.metadata.tables.values():
        assert table.comment, table.name
        assert next(iter(table.primary_key)).name == "cluster"
        for column in table.columns:
            assert column.comment, f"{table.name}.{column.name}"
        if table.name in ("pruned", "replicas", "forecasts", "estimates"):
            continue  # written by others, not by the projection
        written = (
            ("cluster", "shard", *statements.CHECKPOINT_COLUMNS[1:])
            if table.name == "checkpoints"
            else COLUMNS[table.name]
        )
        assert set(written) == {column.name for column in table.columns}, table.name


def test_a_row_has_every_column_in_the_order_of_the_table() -> None:
    for table in layout.TABLES:
        names = [column.name for column in table.columns]
        make = row_of(table)
        assert make(**{name: name for name in reversed(names)}) == tuple(names)
        with pytest.raises(TypeError, match=names[-1]):
            make(**dict.fromkeys(names[:-1]))
        with pytest.raises(TypeError, match="beside"):
            make(**dict.fromkeys([*names, "beside"]))


def test_a_table_more_is_written_by_its_definition_alone() -> None:
    """Statements, comparison and rebuild find it; nothing else has to name it."""
    code = (
        "from projector.tables import base\n"
        "from sqlalchemy import Table\n"
        "Table('extra', base.metadata, base.cluster(), base.shard(key=True), "
        "base.number('seq', 'Position', key=True), base.text('what', 'What'), "
        "comment='One more', info=base.rows('replace', compared=True, kept='{t}.seq <= :floor'))\n"
        "from projector.schema import layout\n"
        "from projector.writing import statements, sqlite_writer, postgres_writer\n"
        "assert layout.COLUMNS['extra'] == ('cluster', 'shard', 'seq', 'what')\n"
        "assert statements.ORDER[-1] == 'extra' == layout.COMPARED[-1].name\n"
        "assert 'extra' in layout.MERGED and 'DO UPDATE' in statements.on_conflict('extra')\n"
        "assert postgres_writer.TYPES['extra'] == ['text', 'int4', 'int8', 'text']\n"
        "assert sqlite_writer.parameters('extra', [('c', 0, 1, 'x')], sqlite_writer.Texts())\n"
        "from projector.replay import carry\n"
        "assert 'seq <= :floor' in carry.count_kept('extra')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_scripts_are_found_where_a_wheel_puts_them(tmp_path: Path) -> None:
    """A wheel carries migrations/ as projector/migrations (pyproject, force-include)."""
    root = Path(__file__).parents[2]
    assert migrate.scripts() == root / "migrations"
    assert '"migrations" = "projector/migrations"' in (root / "pyproject.toml").read_text()
    shutil.copytree(root / "projector", tmp_path / "projector")
    shutil.copytree(root / "migrations", tmp_path / "projector" / "migrations")
    code = (
        "from projector.upkeep import migrate; "
        f"migrate.upgrade('sqlite:///{tmp_path}/x.db'); "
        "migrate.check('sqlite:///" + str(tmp_path) + "/x.db'); print(migrate.scripts())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "projector" / "migrations")


def test_a_database_that_does_not_answer_is_no_reason_to_give_up() -> None:
    with pytest.raises(DatabaseUnavailable, match="postgresql"):
        migrate.check("postgresql://someone:secret@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable) as info:
        migrate.upgrade("postgresql://someone:secret@127.0.0.1:1/none")
    assert "secret" not in str(info.value)


def test_a_database_that_holds_bytes_for_text_is_refused(postgres_url: str) -> None:
    """SQL_ASCII is what initdb makes without a locale; a driver gives bytes of it."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS ascii")
        how = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        connection.execute(f"CREATE DATABASE ascii {how}")
    head, _, query = postgres_url.partition("?")
    url = f"{head.rsplit('/', 1)[0]}/ascii{'?' if query else ''}{query}"
    with pytest.raises(DatabaseError, match=r"is in SQL_ASCII.*ENCODING 'UTF8' TEMPLATE template0"):
        migrate.upgrade(url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE ascii WITH (FORCE)")
