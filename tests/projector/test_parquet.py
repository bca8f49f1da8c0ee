"""The tables as Parquet files: every row once, days written once, questions asked with DuckDB."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyarrow import parquet as pq

from gatelog import cli
from projector import tables
from projector.archive import parquet
from projector.archive.archive_store import Directory
from projector.storage.database import reader, writer
from tests.projector.support import Writer
from tests.replay.questions import answers, asked, filled, printed
from tests.support.databases import migrated
from tests.support.toy import Toy

ASKED = """
import sys, duckdb, pyarrow
there = duckdb.connect()
there.execute(open(sys.argv[1]).read())
for name in sys.argv[2:]:
    table = there.sql(open(name).read()).to_arrow_table()
    with pyarrow.ipc.new_file(f"{name}.arrow", table.schema) as file:
        file.write_table(table)
"""


def asked_of_duckdb(place: Path, *queries: str) -> list[pa.Table]:
    """What DuckDB answers, in a process of its own: its binding reports leaks when one ends."""
    names = [place / f"query-{number}.sql" for number in range(len(queries))]
    for name, query in zip(names, queries, strict=True):
        name.write_text(query)
    views = place / "views" / "duckdb.sql"
    subprocess.run(
        [sys.executable, "-c", ASKED, views, *names], check=True, capture_output=True, timeout=100
    )
    return [pa.ipc.open_file(f"{name}.arrow").read_all() for name in names]


def test_the_questions_are_answered_the_same(tmp_path: Path) -> None:
    engine = filled(f"sqlite:///{tmp_path}/model.sqlite3")
    with engine.connect() as connection:
        parquet.write(connection, "default", Directory(tmp_path / "lake"))
    engine.dispose()
    kept, questions = answers(), list(asked("duckdb"))
    tables = asked_of_duckdb(tmp_path / "lake", *(query for _, query in questions))
    for (name, query), rows in zip(questions, tables, strict=True):
        values = [list(row.values()) for row in rows.to_pylist()]
        assert printed(rows.column_names, values) == kept[name], query


def days_of_work() -> Toy:
    """A pod a day that runs and goes, one that stays, and some that wait."""
    toy = Toy(cpu=2)
    toy.pod("stays", labels={"team": "red"})
    toy.run("stays")
    for day in range(5):
        toy.pod(f"day-{day}", labels={"team": "blue", "quo'te": '"\\'})
        toy.run(f"day-{day}")
        toy.wait(3600 * 20)
        toy.end(f"day-{day}")
        toy.delete(f"day-{day}")
        toy.wait(3600 * 4)
    toy.pod("waits", cpu=2)
    return toy


def rows_of(engine: sa.Engine, table: sa.Table) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        query = sa.select(*parquet.columns(table)).where(table.c.cluster == "test")
        return [dict(row) for row in connection.execute(query).mappings()]


def files_of(place: Path, table: sa.Table) -> list[dict[str, Any]]:
    found = []
    for file in sorted((place / table.name).rglob("*.parquet")):
        for row in pq.ParquetFile(file).read().to_pylist():
            for column in table.columns:
                if isinstance(column.type, sa.JSON) and row[column.name] is not None:
                    row[column.name] = json.loads(row[column.name])
            found.append(row)
    return found


def keyed(table: sa.Table, rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    keys = [column.name for column in table.primary_key]
    found = {tuple(row[key] for key in keys): row for row in rows}
    assert len(found) == len(rows), f"{table.name}: a row is there twice"
    return found


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
def test_days_are_written_once_and_every_row_is_in_one_file(url: str, tmp_path: Path) -> None:
    toy, place = days_of_work(), tmp_path / "lake"
    half = next(i for i, (_, at, _) in enumerate(toy.messages) if at.day == 4)
    write = Writer(url).feed(toy.messages[:half])
    command = ["export", str(place), "--format", "parquet", "--db", url, "--cluster", "test"]
    assert cli.run(command) == 0
    first = {path: path.stat() for path in place.rglob("*.parquet")}
    days = {path.parent.name for path in first}
    assert {"day=2026-01-01", "day=2026-01-02", "day=open"} <= days and "day=2026-01-04" not in days

    # What was over and has been pruned stays in its file.
    engine = writer(url)
    before = {table.name: rows_of(engine, table) for table in parquet.tables()}
    with engine.begin() as connection:
        pods, gates = tables.pods, tables.gates
        over = sa.select(pods.c.uid).where(pods.c.gone_at < datetime(2026, 1, 2, tzinfo=UTC))
        connection.execute(sa.delete(gates).where(gates.c.pod_uid.in_(over)))
        pruned = connection.execute(sa.delete(pods).where(pods.c.uid.in_(over)))
        assert pruned.rowcount >= 1
    write.feed(toy.messages[half:])
    write.store.close()
    assert cli.run(command) == 0
    for path, was in first.items():
        now = path.stat()
        written_again = (now.st_mtime_ns, now.st_ino) != (was.st_mtime_ns, was.st_ino)
        assert written_again == (path.parent.name == "day=open"), path
    assert (place / "history" / "day=2026-01-04").exists()
    for table in parquet.tables():
        found, wanted = keyed(table, files_of(place, table)), keyed(table, rows_of(engine, table))
        if table.name in ("pods", "gates"):
            wanted = keyed(table, before[table.name]) | wanted
        assert found == wanted, table.name
    engine.dispose()
    assert cli.run(command) == 0
    assert len(list(place.rglob("*.parquet"))) == len({*place.rglob("*.parquet")})


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_what_duckdb_makes_of_usage_is_what_the_database_makes(url: str, tmp_path: Path) -> None:
    write = Writer(url).feed(days_of_work().messages)
    write.store.close()
    engine = reader(url)
    query = (
        "SELECT hour, namespace, flavor, what, why, sum(resource_hours) AS hours "
        "FROM v_usage_hourly WHERE hour < '2026-01-06T00:00:00.000000Z' AND resource = 'cpu' "
        "GROUP BY hour, namespace, flavor, what, why ORDER BY hour, namespace, flavor, what, why"
    )
    with engine.connect() as connection:
        parquet.write(connection, "test", Directory(tmp_path / "lake"))
        rows = [tuple(row) for row in connection.execute(sa.text(query))]
    engine.dispose()
    (answer,) = asked_of_duckdb(tmp_path / "lake", query)
    found = [tuple(row.values()) for row in answer.to_pylist()]
    assert len(found) == len(rows) > 100
    for one, two in zip(found, rows, strict=True):
        hour = two[0] if isinstance(two[0], datetime) else datetime.fromisoformat(two[0])
        assert (one[0], *one[1:5]) == (hour, *two[1:5])
        assert float(one[5]) == pytest.approx(float(two[5]), abs=1e-6)


def test_columns_and_comments_are_those_of_the_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.sqlite3"
    migrated(url)
    engine = reader(url)
    with engine.connect() as connection:
        done = parquet.write(connection, "none", Directory(tmp_path / "lake"))
    engine.dispose()
    assert (done.rows, done.complete_to) == (0, None)
    for table in parquet.tables():
        (file,) = (tmp_path / "lake" / table.name).rglob("*.parquet")
        schema = pq.read_schema(file)
        wanted = [(c.name, str(c.comment).encode()) for c in table.columns if c.name != "folded"]
        assert [(f.name, f.metadata[b"comment"]) for f in schema] == wanted
    assert asked_of_duckdb(tmp_path / "lake", "SELECT count(*) FROM v_why_pending")[0].num_rows


@pytest.mark.parametrize("option", [["--namespace", "a"], ["--since", "2026-01-01"]])
def test_a_selection_is_refused(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["export", str(tmp_path / "lake"), "--format", "parquet", *option]) == 2
    assert "no selection" in capsys.readouterr().err
