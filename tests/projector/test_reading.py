"""Who reads cannot write: the reader role of PostgreSQL, SQLite files opened for reading only."""

from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from projector import tables
from projector.schema import describing, partitions, views
from projector.storage.asking import QuestionFailed, questions
from projector.storage.database import SNAPSHOT, DatabaseError, hold, reader, writer
from projector.upkeep import migrate
from tests.projector.support import Writer, busy_toy

ROLE = 'read"er'


@pytest.fixture
def with_role(postgres_database: str, postgres_url: str):
    """A database that was migrated for a role, which may read it."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(ROLE)))
    migrate.upgrade(postgres_database, reader_role=ROLE)
    yield postgres_database
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(ROLE)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(ROLE)))


def as_role(url: str) -> "psycopg.Connection[object]":
    connection = psycopg.connect(url)
    connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(ROLE)))
    return connection


def test_the_reader_reads_everything_and_writes_nothing(with_role: str) -> None:
    Writer(with_role).feed(busy_toy().messages)  # its weeks came after the grant
    with as_role(with_role) as connection:
        for name in (*tables.metadata.tables, *views.VIEWS):
            connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)))
        assert connection.execute("SELECT count(*) FROM history").fetchone() != (0,)
    for statement in (
        "INSERT INTO epochs (cluster, shard, number, base, reason) VALUES ('c', 0, 1, 0, '')",
        "UPDATE groups SET state = 'Gone'",
        "DELETE FROM history",
        "TRUNCATE pods",
        "DROP VIEW v_columns",
        "CREATE TABLE mine (x int)",
    ):
        with as_role(with_role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


def test_an_upgrade_keeps_what_was_granted_on_views(with_role: str) -> None:
    migrate.upgrade(with_role)
    with as_role(with_role) as connection:
        for name in views.VIEWS:
            connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)))


def test_a_role_that_is_not_there_is_refused(url: str) -> None:
    with pytest.raises(DatabaseError, match=r"no role 'nobody'|who may read an SQLite file"):
        migrate.upgrade(url, reader_role="nobody")
    migrate.check(url)


def test_the_projectors_role_needs_a_schema_and_no_more(
    postgres_database: str, postgres_url: str
) -> None:
    """Neither superuser nor maker of databases or roles: the owner of its tables."""
    role = sql.Identifier("projector_only")
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        connection.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA public TO {}").format(role))
    url = postgres_database.replace("postgres:@", "projector_only:@")
    assert url != postgres_database
    try:
        migrate.upgrade(url)
        Writer(url).feed(busy_toy().messages)
        engine = reader(url)
        with engine.connect() as connection:
            owner = connection.scalar(sa.text("SELECT current_user"))
            assert owner == "projector_only"
            assert partitions.found(connection, "history")
        engine.dispose()
    finally:
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


def test_comments_are_in_the_database(url: str) -> None:
    wanted = {
        (table.name, name): comment
        for table in tables.metadata.tables.values()
        for name, comment in [("", table.comment), *((c.name, c.comment) for c in table.columns)]
    }
    engine = reader(url)
    with engine.connect() as connection:
        told = connection.execute(sa.text("SELECT * FROM v_columns")).mappings().all()
        assert {(r["table_name"], r["column_name"]): r["comment"] for r in told} == wanted
        if connection.dialect.name == "postgresql":
            look = sa.inspect(connection)
            found = {}
            for table in tables.metadata.tables:
                found[table, ""] = look.get_table_comment(table)["text"]
                for column in look.get_columns(table):
                    found[table, column["name"]] = column["comment"]
            assert found == wanted
            for view in views.VIEWS:
                query = f"SELECT obj_description('{view}'::regclass)"
                assert connection.exec_driver_sql(query).scalar() == views.COMMENTS[view]
    engine.dispose()
    assert describing.text_of("it's") == "'it''s'"


def test_an_sqlite_reader_cannot_write_whatever_it_does(tmp_path: Path) -> None:
    place = tmp_path / "with space #1?.sqlite3"
    url = f"sqlite:///{place}"
    parsed = sa.engine.URL.create("sqlite", database=str(place))
    migrate.upgrade(str(parsed))
    assert place.exists(), url
    engine = reader(str(parsed))
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = OFF")
        with pytest.raises(sa.exc.OperationalError, match="readonly"):
            connection.exec_driver_sql("CREATE TABLE mine (x int)")
    engine.dispose()


def test_times_are_utc_whatever_the_session_says(url: str) -> None:
    """Hours and days of the views, and what readers are given."""
    Writer(url).feed(busy_toy().messages)
    asked = [
        "SELECT * FROM v_queue_usage_hourly WHERE amount_hours > 1 ORDER BY hour, resource",
        "SELECT cluster, day, resource, pods FROM v_namespace_cost ORDER BY day, resource",
        "SELECT at, kind FROM history ORDER BY seq, ord",
    ]
    found = []
    for zone in ("UTC", "Asia/Kolkata", "Pacific/Kiritimati"):
        engine = writer(url)
        with engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET TIME ZONE '{zone}'")
            found.append([connection.execute(sa.text(one)).all() for one in asked])
        engine.dispose()
    assert found[0][2]
    assert [rows[1:] for rows in found[1:]] == [found[0][1:]] * 2


def test_who_holds_the_read_model_sees_one_to_the_end(postgres_database: str) -> None:
    migrate.upgrade(postgres_database)
    Writer(postgres_database).feed(busy_toy().messages).store.close()
    assert "groups" in partitions.PARTS, "a rebuild locks each of these"
    locking, emptying = "LOCK TABLE ONLY groups IN ACCESS EXCLUSIVE MODE NOWAIT", "DELETE FROM pods"
    count = sa.select(sa.func.count()).select_from(tables.pods)
    engine = reader(postgres_database).execution_options(**SNAPSHOT["postgresql"])
    with psycopg.connect(postgres_database, autocommit=True) as other, engine.begin() as snapshot:
        hold(snapshot)
        with pytest.raises(psycopg.errors.LockNotAvailable), other.transaction():
            other.execute(locking)
        other.execute(emptying)
        assert snapshot.scalar(count) == 0, "the snapshot is taken with what follows"
    with psycopg.connect(postgres_database) as other:
        other.execute(locking)
    engine.dispose()


@pytest.mark.parametrize("statement", ["-- nothing", "PRAGMA user_version = 7"])
def test_a_question_without_rows_says_so_and_the_next_is_answered(
    tmp_path: Path, statement: str
) -> None:
    url = f"sqlite:///{tmp_path}/live.db"
    migrate.upgrade(url)
    asked = questions(url, 10, 1)
    with pytest.raises(QuestionFailed):
        asked.ask(statement, {})
    assert asked.ask("SELECT 1 AS one", {}) == (("one",), [(1,)])
    asked.close()
