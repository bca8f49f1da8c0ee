"""Digests of rows: the same on both databases for the same rows, and others for other rows."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gatelog.replay.online import digesting
from projector.archive.standing import Standing
from projector.replay.compare import _digests, _Part, compare
from projector.replay.digests import digests
from projector.schema.layout import COMPARED
from projector.storage.database import reading, writer
from projector.tables import base
from tests.support.databases import migrated

ODD = sa.Table(
    "odd",
    sa.MetaData(),
    base.number("id", "", key=True),
    base.text("plain", ""),
    base.text("maybe", "", null=True),
    base.number("amount", "", null=True),
    base.flag("yes", ""),
    base.time("at", ""),
    base.document("document", ""),
)
AT = datetime(2026, 11, 23, 1, 2, 3, 40, UTC)
ROW: dict[str, Any] = {
    "id": 1,
    "plain": "a 'quoted' \"word\" \\ %s 100% ünï 🦆\n\t\x01",
    "maybe": "",
    "amount": -(2**63) + 1,
    "yes": True,
    "at": AT,
    "document": {
        "long key": [1, 0.5, None, True, False, "", {}],
        "é": {"b": '"\\/\b\f\n\r\t\x01\x7f 🦆', "a": [], "B": -7, "": 2**70},
        "zz": "x, y: z",
        "z": [{"name": "n", "effect": "e"}],
    },
}
OTHER: list[dict[str, Any]] = [
    {"plain": ROW["plain"] + " "},
    {"maybe": None},
    {"maybe": "="},
    {"amount": None},
    {"amount": 0},
    {"yes": False},
    {"at": AT.replace(microsecond=41)},
    {"at": None},
    {"document": ROW["document"] | {"zz": "x,y:z"}},
    {"document": ROW["document"] | {"zz": None}},
    {"document": {key: ROW["document"][key] for key in ("z", "zz")}},
    {"document": []},
    {"document": {"1": 1}},
    {"document": {"1": "1"}},
    {"plain": "a", "maybe": "b"},
    {"plain": "", "maybe": "a=b"},
]


def _of(engine: sa.Engine, rows: list[dict[str, Any]], afterwards: str = "") -> Any:
    with engine.begin() as connection:
        ODD.drop(connection, checkfirst=True)
        ODD.create(connection)
        connection.execute(sa.insert(ODD), rows)
        if afterwards:
            connection.exec_driver_sql(afterwards)
        return digests(connection, list(ODD.columns), [ODD.c.id > 0])


@pytest.fixture
def both(postgres_database: str, tmp_path: Path) -> Any:
    engines = writer(postgres_database), writer(f"sqlite:///{tmp_path}/odd.sqlite3")
    yield engines
    for engine in engines:
        engine.dispose()


def test_rows_with_equal_values_have_equal_digests_and_no_others_have(both: Any) -> None:
    seen = []
    for row in [ROW, *(ROW | change for change in OTHER)]:
        one, two = (_of(engine, [row]) for engine in both)
        assert one == two, row
        assert one not in seen, row
        seen.append(one)


def test_all_rows_count_in_whatever_order_they_were_written(both: Any) -> None:
    rows = [ROW | {"id": number, "amount": number % 7} for number in range(1, 3000)]
    postgres, sqlite = both
    known = _of(postgres, rows)
    assert sum(count for _, count, _ in known) == len(rows)
    assert known == _of(sqlite, rows[::-1])
    assert known != _of(sqlite, rows[1:])
    assert known != _of(sqlite, [*rows, ROW | {"id": 3000}])
    assert known != _of(sqlite, [ROW | {"id": 1, "amount": 2}, *rows[1:]])


def test_a_mark_within_a_cell_makes_rows_be_read(both: Any) -> None:
    """It separates cells, so a row that has it proves nothing."""
    postgres, sqlite = both
    rows = [ROW | {"plain": "a\x1f=b", "maybe": "c"}]
    assert _of(postgres, rows) != _of(sqlite, rows)


@pytest.mark.parametrize(
    ("live", "again"),
    [
        ("at = 'infinity'", "at = NULL"),
        ("at = '-infinity'", "at = ''"),
        ("at = '2026-11-23 01:02:03.00004 BC'", "id = 1"),
        ("at = '10026-11-23 01:02:03.00004'", "at = '10026-11-23T01:02:03.000040Z'"),
        ("plain = 'a'", "plain = 'a' || char(0) || 'b'"),
        ("maybe = ''", "maybe = char(0)"),
        ("document = '5'", "document = '5'"),
        ("document = '\"?\"'", "document = '\"\\ud800\"'"),
    ],
)
def test_what_one_database_cannot_hold_makes_rows_be_read(both: Any, live: str, again: str) -> None:
    one, two = (
        _of(engine, [ROW, ROW | {"id": 2}], f"UPDATE odd SET {change} WHERE id = 1")
        for engine, change in zip(both, (live, again), strict=True)
    )
    assert sum(count for _, count, _ in one) == sum(count for _, count, _ in two) == 2
    assert one != two


def test_nothing_is_digested_where_sqlite_compares_by_itself(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.sqlite3" for name in ("live", "again")]
    for url in urls:
        migrated(url)
    with reading(urls[0]) as live, reading(urls[1]) as again:
        compare(live, again, "c", 0, {})
        query = "SELECT count(*) FROM pragma_function_list WHERE name = 'digest'"
        assert again.exec_driver_sql(query).scalar() == 0
        _digests(again, _Part(COMPARED[0], "c", 0, None, False))
        assert again.exec_driver_sql(query).scalar() == 1


async def test_waiting_for_the_server_can_be_interrupted(postgres_database: str) -> None:
    migrated(postgres_database)
    engine = writer(postgres_database)
    at = Standing(mode="observe", epoch=1, base=0, first=1, last=1)
    with engine.begin() as other, reading(postgres_database) as live:
        other.exec_driver_sql("LOCK TABLE groups")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), digesting(live, "c", at):
                pass
    engine.dispose()


def test_every_table_that_is_compared_can_be_digested(tmp_path: Path) -> None:
    engine = writer(f"sqlite:///{tmp_path}/empty.sqlite3")
    with engine.begin() as connection:
        for table in COMPARED:
            table.create(connection)
            assert _digests(connection, _Part(table, "c", 0, None, False)) == []
    engine.dispose()
