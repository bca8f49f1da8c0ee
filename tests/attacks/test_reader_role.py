"""What somebody does who has the password of the database's reader (`database.reader_role`).

They read every row; that is what the role is for. They change nothing, reach no file, program or
other server, and hold up neither the projector's batches nor its new weeks, whatever they leave
open.
"""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from projector import tables
from projector.schema import partitions
from projector.storage.database import DatabaseUnavailable, writer
from projector.upkeep import migrate, pruning
from tests.projector.support import Writer, busy_toy

ROLE = "gatelog_reader"
OWNER = "gatelog_owner"
DOCS = Path(__file__).parents[2] / "docs" / "install.md"


def bounds(database: str) -> list[str]:
    """The statements of docs/install.md that bound what the role takes of the machine."""
    found = DOCS.read_text().partition("```\nALTER ROLE gatelog_reader")[2].partition("```")[0]
    text = f"ALTER ROLE {ROLE}{found}".replace("DATABASE gatelog", f'DATABASE "{database}"')
    return [one.strip() for one in text.split(";") if one.strip()]


@pytest.fixture
def database(postgres_database: str, postgres_url: str) -> Iterator[str]:
    """A read model as docs/install.md makes one: an owner, and a reader with its defaults."""
    name = urlsplit(postgres_database).path[1:]
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        for role in (OWNER, ROLE):
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        with psycopg.connect(postgres_database, autocommit=True) as inside:
            for statement in bounds(name):
                inside.execute(statement.encode())
        admin.execute(
            sql.SQL("ALTER DATABASE {} OWNER TO {}").format(
                sql.Identifier(name), sql.Identifier(OWNER)
            )
        )
    url = postgres_database.replace("postgres:@", f"{OWNER}:@")
    migrate.upgrade(url, reader_role=ROLE)
    Writer(url).feed(busy_toy().messages)
    yield url
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute(sql.SQL("REASSIGN OWNED BY {} TO postgres").format(sql.Identifier(OWNER)))
        for role in (OWNER, ROLE):
            admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def reader(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    """A session of the reader, who takes off what defaults would hold them to."""
    found = psycopg.connect(url.replace(f"{OWNER}:@", f"{ROLE}:@"), autocommit=True)
    found.execute("SET default_transaction_read_only = off")
    found.execute("SET statement_timeout = 0")
    return found


REFUSED = (
    # Rows and tables.
    *(f"DELETE FROM {name}" for name in tables.metadata.tables),
    "INSERT INTO checkpoints (cluster, shard) VALUES ('c', 0)",
    "UPDATE checkpoints SET published = 0",
    "CREATE TABLE mine (x int)",
    "CREATE SCHEMA mine",
    "CREATE TEMPORARY TABLE mine (x int)",
    "CREATE VIEW v_why_pending AS SELECT 1",
    "CREATE FUNCTION public.now() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE INDEX ON groups (name)",
    "COMMENT ON TABLE groups IS 'mine'",
    "REFRESH MATERIALIZED VIEW groups",
    # Locks that a batch, a new week or pruning would wait for.
    "DO $$ BEGIN LOCK TABLE groups IN ROW SHARE MODE; END $$",
    "DO $$ BEGIN LOCK TABLE checkpoints IN ACCESS EXCLUSIVE MODE; END $$",
    "DO $$ BEGIN LOCK TABLE ONLY history IN SHARE UPDATE EXCLUSIVE MODE; END $$",
    "SELECT * FROM checkpoints FOR UPDATE",
    "SELECT * FROM checkpoints FOR KEY SHARE",
    # Files, programs, other servers, other people.
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('.')",
    "COPY groups TO '/tmp/stolen'",
    "COPY groups TO PROGRAM 'cat'",
    "COPY groups FROM PROGRAM 'id'",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/stolen')",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION postgres_fdw",
    "CREATE EXTENSION file_fdw",
    "CREATE SERVER mine FOREIGN DATA WRAPPER postgres_fdw",
    "LOAD '/tmp/mine.so'",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_shadow",
    "ALTER SYSTEM SET log_statement = 'all'",
    f"ALTER ROLE {ROLE} SUPERUSER",
    f"SET ROLE {OWNER}",
    "SELECT pg_reload_conf()",
    "SET temp_file_limit = -1",
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gatelog_owner'",
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'gatelog_owner'",
)


def test_a_reader_changes_nothing_and_gets_nowhere_else(database: str) -> None:
    owner = psycopg.connect(database)  # somebody to be ended
    with closing(owner), closing(reader(database)) as sly:
        for statement in REFUSED:
            with pytest.raises(psycopg.Error) as error:
                sly.execute(statement)
            state = str(error.value.sqlstate)
            assert state in ("42501", "42P01", "58P01", "0A000", "42809", "42704"), (
                statement,
                str(error.value),
            )
        owner.execute("SELECT 1")
        assert sly.execute("SHOW temp_file_limit").fetchone() == ("256MB",)


def test_what_a_reader_leaves_open_holds_up_no_batch_and_no_week(database: str) -> None:
    """Every lock that a reader can take, a transaction that never ends, and the connections."""
    with closing(reader(database)) as sly:
        sly.execute("SELECT pg_advisory_lock(%s)", (pruning.LOCK,))
        sly.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for name in tables.metadata.tables:
            sly.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(name)))
        sly.execute("SELECT count(*) FROM history")
        engine = writer(database, 5.0)
        with engine.begin() as connection:
            made = partitions.ensure(connection, "c", [datetime(2031, 5, 1, tzinfo=UTC)])
        assert len(made) == len(partitions.PARTITIONED)
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE checkpoints SET writer = writer")
        engine.dispose()
        with pytest.raises(DatabaseUnavailable, match=f"role {ROLE} holds the lock of pruning"):
            pruning.prune(database, pruning.limit(datetime(2026, 6, 1, tzinfo=UTC), timedelta(1)))
        sly.execute("ROLLBACK")
