"""What is lent is what others borrow; a moment, a series and the view are one definition."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from gatelog.readmodel import quota
from gatelog.readmodel.model import ReadModel
from projector import tables
from projector.schema import partitions
from projector.storage.database import writer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW = {"cluster": "test", "shard": 0, "flavor": "f", "resource": "cpu", "namespace": ""}


def put(url: str, table: sa.Table, *rows: dict[str, Any]) -> None:
    """Insert rows; what is not given is 0, "" or null."""
    blank = {
        c.name: None if c.nullable else "" if isinstance(c.type, sa.Text) else 0
        for c in table.columns
    }
    known = set(blank)
    engine = writer(url)
    with engine.begin() as connection:
        partitions.ensure(connection, "test")
        given = [{**blank, **ROW, **row} for row in rows]
        connection.execute(
            sa.insert(table), [{k: v for k, v in row.items() if k in known} for row in given]
        )
    engine.dispose()


def stands(name: str, nominal: int, reserved: int, **more: Any) -> dict[str, Any]:
    borrowed = max(0, reserved - nominal)
    row = {"kind": "ClusterQueue", "name": name, "root": "all", "from_at": NOON, "from_seq": 1}
    return {**row, "nominal": nominal, "reserved": reserved, "borrowed": borrowed, **more}


def test_who_has_something_idle_lends_by_its_part_of_all_that_is(url: str) -> None:
    put(
        url,
        tables.usage,
        stands("red", 10_000, 16_000),
        stands("blue", 10_000, 2_000),
        stands("gold", 20_000, 0),
        stands("alone", 5_000, 0, root=""),
    )
    with ReadModel(url, "test") as model:
        for at in (None, NOON + timedelta(hours=1)):
            found = {one.name: (one.borrowed, one.lent) for one in model.quota(at=at)}
            assert found == {
                "alone": (0, 0),
                "red": (6_000, 0),
                "blue": (0, round(8_000 * 6 / 28)),
                "gold": (0, round(20_000 * 6 / 28)),
            }
        assert model.quota(at=NOON - timedelta(seconds=1)) == []


def test_a_series_follows_what_was_borrowed_for_half_an_hour(url: str) -> None:
    one, end = NOON + timedelta(hours=1), NOON + timedelta(hours=1.5)
    put(
        url,
        tables.usage,
        stands("cq", 10_000, 0),
        stands("other", 1_000, 0, to_at=one),
        stands("other", 1_000, 3_000, from_at=one, to_at=end, from_seq=2),
        stands("other", 1_000, 0, from_at=end, from_seq=3),
    )
    with ReadModel(url, "test") as model:
        given = {**quota.window(NOON, NOON + timedelta(hours=4)), "limit": 1000}
        query = quota.OVER_TIME[model.dialect]
        (other,) = quota.over_time(
            "other", model.rows(quota.StepRow, query, {**given, "name": "other"})
        )
        (mine,) = quota.over_time("cq", model.rows(quota.StepRow, query, {**given, "name": "cq"}))
    step = quota.STEPS // 8
    lent = [2_000 if 2 * step <= n + 1 < 3 * step else 0 for n in range(quota.STEPS)]
    assert other.borrowed == mine.lent == lent
    for series in (mine, other):
        for n, h, b, i in zip(
            series.nominal, series.held, series.borrowed, series.idle, strict=True
        ):
            assert h - b + i == n


@pytest.mark.parametrize("released", [None, NOON + timedelta(hours=2)])
def test_where_kueue_admits_admissions_are_added_up(url: str, released: datetime | None) -> None:
    flavors = {"f": {"cpu": 3_000}}
    put(url, tables.quotas, {"cluster_queue": "cq", "at": NOON, "nominal": {"f": {"cpu": 2_000}}})
    put(url, tables.objects, {"kind": "ClusterQueue", "name": "cq", "cohort": "all"})
    put(url, tables.objects, {"kind": "ClusterQueue", "name": "idle", "cohort": "all"})
    put(url, tables.quotas, {"cluster_queue": "idle", "at": NOON, "nominal": {"f": {"cpu": 4_000}}})
    put(
        url,
        tables.admissions,
        {"group_id": "g", "number": 1, "cluster_queue": "cq", "resources": flavors, "flavors": {}}
        | {"admitted_at": NOON, "released_at": released},
    )
    with ReadModel(url, "test") as model:
        found = {one.name: one for one in model.quota("ClusterQueue")}
        held = found["cq"].held, found["cq"].borrowed, found["idle"].lent
        assert held == ((3_000, 1_000, 1_000) if released is None else (0, 0, 0))
        then = {one.name: one for one in model.quota("ClusterQueue", at=NOON + timedelta(hours=1))}
        assert (then["cq"].held, then["idle"].lent) == (3_000, 1_000)
