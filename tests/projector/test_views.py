"""The views, on a hand-made history, with numbers worked out by hand. Both databases."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, insert, text, update

from projector import tables
from projector.schema import dialect, partitions, views
from projector.storage.database import reader, writer
from tests.projector.support import Writer, busy_toy

T = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)


def minutes(count: float) -> datetime:
    return T + timedelta(minutes=count)


def put(connection: Connection, table: Any, **given: Any) -> None:
    """Insert a row; text is empty and numbers are 0 unless given."""
    values: dict[str, Any] = {}
    for column in table.columns:
        if column.name in given:
            values[column.name] = given[column.name]
        elif column.nullable:
            values[column.name] = None
        else:
            kind = str(column.type)
            values[column.name] = "" if kind == "TEXT" else {} if kind == "JSON" else 0
    row = {"cluster": "c"} | values | given
    partitions.ensure(connection, row["cluster"])
    connection.execute(insert(table).values(**row))


@pytest.fixture
def filled(url: str) -> str:
    engine = writer(url)
    with engine.begin() as connection:
        partitions.ensure(connection, "c", [partitions.week_of(T)])
        put(
            connection,
            tables.groups,
            cluster="c",
            id="g1",
            namespace="ns",
            name="train",
            kind="group",
            queue="lq",
            state="Running",
            created_at=T,
            complete_at=minutes(1),
            queued_at=minutes(1),
            admitted_at=minutes(30),
        )
        put(
            connection,
            tables.groups,
            cluster="c",
            id="g2",
            namespace="ns",
            name="wait",
            kind="group",
            queue="lq",
            cluster_queue="cq",
            state="Queued",
            created_at=T,
            wait_reason="WaitingForQuota",
            wait_message="needs 5 cpu, 3 are free",
            wait_since=minutes(5),
        )
        put(
            connection,
            tables.admissions,
            cluster="c",
            group_id="g1",
            number=1,
            cluster_queue="cq",
            flavors={"main": {"cpu": "spot"}},
            resources={"spot": {"cpu": 4000, "memory": 8}},
            queued_at=minutes(1),
            admitted_at=minutes(30),
            admitted_seq=7,
            released_at=minutes(150),
            release_reason="Finished",
            decided_by="d7-x",
        )
        # Two pods of 2 cpu: one for 2 h, one for 1 h; and one that was never scheduled.
        for uid, begin, end in (("p1", 31, 151), ("p2", 60, 120), ("p3", None, None)):
            put(
                connection,
                tables.pods,
                cluster="c",
                uid=uid,
                group_id="g1",
                namespace="ns",
                name=uid,
                gated=False,
                finalizer=False,
                labels={"team": "red"},
                requests={"cpu": 2000, "memory": 4},
                created_at=T,
                ungated_at=minutes(30) + timedelta(seconds=int(uid[1])) if begin else None,
                scheduled_at=minutes(begin) if begin else None,
                started_at=minutes(begin) + timedelta(seconds=3) if begin else None,
                ended_at=minutes(end) if end else None,
            )
        put(
            connection,
            tables.history,
            cluster="c",
            seq=1,
            ord=0,
            at=T,
            group_id="g1",
            kind="GroupSeen",
        )
        put(connection, tables.history, cluster="c", seq=7, ord=1, at=T, group_id="g1", kind="B")
        put(connection, tables.history, cluster="c", seq=7, ord=0, at=T, group_id="g1", kind="A")
        put(connection, tables.history, cluster="c", seq=8, ord=0, at=T, group_id="g2", kind="no")
        put(
            connection,
            tables.decisions,
            cluster="c",
            id="d7-x",
            number=1,
            as_of_seq=7,
            group_id="g1",
            rule="admit",
            action="AdmitGroup",
            target="Group ns/train",
            reason="QuotaReserved",
            message="fits",
            issued_at=T,
            command={},
            status="applied",
        )
        for attempt, status, seq in ((1, "retrying", 8), (2, "applied", 9)):
            put(
                connection,
                tables.outcomes,
                cluster="c",
                decision_id="d7-x",
                seq=seq,
                delivery=1,
                attempt=attempt,
                status=status,
                http_status=429 if attempt == 1 else 200,
                at=T,
            )
        put(
            connection,
            tables.waits,
            cluster="c",
            group_id="g1",
            from_seq=2,
            reason="WaitingForPods",
            from_at=T,
            to_at=minutes(1),
            to_seq=5,
        )
    engine.dispose()
    return url


def ask(url: str, sql: str) -> list[dict[str, Any]]:
    engine = reader(url)
    with engine.connect() as connection:
        found = [dict(row) for row in connection.execute(text(sql)).mappings()]
    engine.dispose()
    return found


def test_timeline_is_everything_in_order(filled: str) -> None:
    rows = ask(filled, "SELECT * FROM v_group_timeline WHERE name = 'train' ORDER BY seq, ord")
    assert [(r["seq"], r["source"], r["kind"], r["status"]) for r in rows] == [
        (1, "history", "GroupSeen", None),
        (2, "wait", "Waiting", "over"),
        (7, "history", "A", None),
        (7, "history", "B", None),
        (7, "admission", "Admission", "released: Finished"),
        (7, "decision", "AdmitGroup", "applied"),
        (8, "outcome", "AdmitGroup", "retrying"),
        (9, "outcome", "AdmitGroup", "applied"),
    ]
    assert rows[5]["message"] == "fits [admit: Group ns/train]"
    assert rows[6]["reason"] == "HTTP 429"
    assert rows[4]["decision_id"] == rows[5]["decision_id"] == "d7-x"


def test_why_pending(filled: str) -> None:
    rows = ask(filled, "SELECT * FROM v_why_pending")
    assert len(rows) == 1
    row = rows[0]
    assert (row["name"], row["queue"], row["cluster_queue"]) == ("wait", "lq", "cq")
    assert (row["reason"], row["message"]) == ("WaitingForQuota", "needs 5 cpu, 3 are free")
    age = (datetime.now(UTC) - T).total_seconds()
    assert float(row["age_seconds"]) == pytest.approx(age, abs=60)
    assert float(row["waiting_seconds"]) == pytest.approx(age - 300, abs=60)


def test_admission_latency(filled: str) -> None:
    rows = ask(filled, "SELECT * FROM v_admission_latency")
    assert len(rows) == 1
    seconds = {k: float(v) for k, v in rows[0].items() if k.endswith("_seconds")}
    assert seconds == {
        "compose_seconds": 60.0,
        "queue_seconds": 29 * 60.0,
        "created_to_admitted_seconds": 1800.0,
        "first_ungate_seconds": 1.0,
        "first_bind_seconds": pytest.approx(59.0),
        "last_ungate_seconds": 2.0,
        "first_start_seconds": pytest.approx(62.0),
        "all_started_seconds": 1803.0,
    }
    assert rows[0]["pods_ungated"] == 2


def test_queue_usage_by_the_hour(filled: str) -> None:
    rows = ask(filled, "SELECT * FROM v_queue_usage_hourly ORDER BY resource, hour")
    found = {(r["resource"], str(r["hour"])[11:13]): float(r["amount_hours"]) for r in rows}
    # 4 cores and 8 of memory from 22:30 to 00:30.
    assert found == pytest.approx(
        {
            ("cpu", "22"): 2.0,
            ("cpu", "23"): 4.0,
            ("cpu", "00"): 2.0,
            ("memory", "22"): 4.0,
            ("memory", "23"): 8.0,
            ("memory", "00"): 4.0,
        }
    )
    assert {r["flavor"] for r in rows} == {"spot"}


def test_places_in_the_queues(filled: str) -> None:
    engine = writer(filled)
    with engine.begin() as connection:
        for name, queue, priority, queued in (
            ("old", "lq", 0, 1),
            ("high", "other", 5, 9),
            ("same", "lq", 0, 1),
            ("stopped", "lq", 9, 0),
        ):
            put(
                connection,
                tables.groups,
                cluster="c",
                id=f"g-{name}",
                namespace="ns",
                name=name,
                queue=queue,
                cluster_queue="cq",
                state="Blocked" if name == "stopped" else "Queued",
                priority=priority,
                created_at=T,
                queued_at=minutes(queued),
                wait_reason="WaitingForQuota",
            )
    engine.dispose()
    rows = ask(
        filled,
        "SELECT * FROM v_queue_position ORDER BY cluster_queue, position",
    )
    found = [(row["name"], row["position"], row["local_position"]) for row in rows]
    # Whoever queued at the same time is told apart by id.
    assert found == [("high", 1, 1), ("wait", 2, 1), ("old", 3, 2), ("same", 4, 3)]
    assert rows[0]["waiting_seconds"] > 0 and rows[0]["reason"] == "WaitingForQuota"


def test_what_was_pending_by_the_hour(filled: str) -> None:
    engine = writer(filled)
    with engine.begin() as connection:
        for group, seq, begin, end in (
            ("g2", 10, 50, 70),  # two reasons in a row are one wait
            ("g2", 11, 70, 130),
            ("g2", 12, 140, 150),  # and after a break another
            ("g1", 13, 65, 125),
        ):
            put(
                connection,
                tables.waits,
                cluster="c",
                group_id=group,
                from_seq=seq,
                reason=f"R{seq}",
                from_at=minutes(begin),
                to_at=minutes(end),
                to_seq=seq + 1,
            )
        set_queue = tables.groups.update().values(cluster_queue="cq")
        connection.execute(set_queue)
    engine.dispose()
    rows = ask(filled, "SELECT * FROM v_queue_pending_hourly ORDER BY hour")
    found = [
        (
            row["groups"],
            row["pending_at_end"],
            round(float(row["group_hours"]) * 60, 3),
            round(float(row["longest_wait_seconds"]) / 60, 3),
        )
        for row in rows
    ]
    # 22:00 g1 waited its first minute and g2 from 50 on; 23:00 g2 all of it, g1 55; 00:00 g2 10
    # and 10 more, g1 5.
    assert found == [(2, 1, 11.0, 10.0), (2, 2, 115.0, 70.0), (2, 0, 25.0, 80.0)]


def test_cost_per_namespace_and_day(filled: str) -> None:
    rows = ask(filled, "SELECT * FROM v_namespace_cost ORDER BY resource, day")
    found = [
        (r["resource"], r["day"], round(float(r["resource_hours"]), 4), r["pods"]) for r in rows
    ]
    # p1: 22:31 to 00:31 (89 + 31 minutes), p2: 23:00 to 24:00; 2 cores and 4 of memory each.
    first, second = (89 + 60 - 0.1) / 60, 31 / 60  # each took three seconds to start
    assert found == [
        ("cpu", "2026-03-01", round(2 * first, 4), 2),
        ("cpu", "2026-03-02", round(2 * second, 4), 1),
        ("memory", "2026-03-01", round(4 * first, 4), 2),
        ("memory", "2026-03-02", round(4 * second, 4), 1),
    ]


def test_open_intervals_count_up_to_now(url: str) -> None:
    begun = datetime.now(UTC) - timedelta(hours=2)
    engine = writer(url)
    with engine.begin() as connection:
        put(connection, tables.groups, cluster="c", id="g", namespace="ns", created_at=begun)
        put(
            connection,
            tables.pods,
            cluster="c",
            uid="p",
            group_id="g",
            namespace="ns",
            gated=False,
            finalizer=False,
            labels={},
            requests={"cpu": 1000},
            created_at=begun,
            started_at=begun,
        )
        put(
            connection,
            tables.admissions,
            cluster="c",
            group_id="g",
            number=1,
            cluster_queue="cq",
            resources={"f": {"cpu": 1000}},
            admitted_at=begun,
        )
    engine.dispose()
    cost = ask(url, "SELECT sum(resource_hours) AS total FROM v_namespace_cost")[0]["total"]
    usage = ask(url, "SELECT sum(amount_hours) AS total FROM v_queue_usage_hourly")[0]["total"]
    assert float(cost) == pytest.approx(2.0, abs=0.05)
    assert float(usage) == pytest.approx(2.0, abs=0.05)


def test_views_on_what_the_fold_writes(url: str) -> None:
    toy = busy_toy()
    Writer(url).feed(toy.messages)
    pending = ask(url, "SELECT name, reason FROM v_why_pending ORDER BY name")
    assert [(r["name"], r["reason"]) for r in pending] == [
        ("c", "WaitingForQuota"),
        ("d", "WaitingForPods"),
    ]
    rows = ask(url, "SELECT name, pods_ungated FROM v_admission_latency ORDER BY name")
    assert [(r["name"], r["pods_ungated"]) for r in rows] == [("a", 4), ("b", 3), ("single", 1)]
    line = ask(url, "SELECT * FROM v_group_timeline WHERE name = 'a' ORDER BY seq, ord")
    assert {r["source"] for r in line} == {"history", "wait", "admission", "decision", "outcome"}
    assert [r["seq"] for r in line] == sorted(r["seq"] for r in line)
    for name in views.VIEWS:
        ask(url, f"SELECT * FROM {name}")


def test_what_is_open_in_a_copy_counts_to_its_last_message(url: str) -> None:
    """A copy that is asked a year later tells of no hour after what it has."""
    toy = busy_toy()
    Writer(url).feed(toy.messages)
    latest = {
        "v_queue_usage_hourly": "hour",
        "v_queue_pending_hourly": "hour",
        "v_usage_hourly": "hour",
        "v_usage_spans": "to_at",
        "v_quota_spans": "to_at",
        "v_share_hourly": "hour",
        "v_namespace_cost": "day",
    }
    clock = ask(url, "SELECT at FROM v_clock")[0]["at"]
    late = {
        view: rows
        for view, column in latest.items()
        if (rows := ask(url, f"SELECT {column} FROM {view} WHERE {column} > '{clock}' LIMIT 1"))
    }
    assert late == {}
    waited = ask(url, "SELECT max(longest_wait_seconds) AS s FROM v_queue_pending_hourly")[0]["s"]
    aged = ask(url, "SELECT max(waiting_seconds) AS s FROM v_why_pending")[0]["s"]
    assert float(waited) > 0 and float(aged) <= float(waited) + 0.01 <= float(aged) + 3600


def test_no_view_reads_another_clock_than_v_clock() -> None:
    for home in (dialect.SQLITE, dialect.POSTGRES):
        found = {name for name, body in views.VIEWS.items() if home.now in body(home)}
        assert found == {"v_clock"}


def test_the_clock_is_now_while_parts_are_heard(url: str) -> None:
    """A file that was copied while gatelog ran has its parts' rows: they fall silent in it."""

    def clock() -> datetime:
        at = ask(url, "SELECT at FROM v_clock")[0]["at"]
        return datetime.fromisoformat(at) if isinstance(at, str) else at

    toy = busy_toy()
    write = Writer(url).feed(toy.messages)
    assert clock() == toy.now.astimezone(UTC)
    write.heard()
    assert abs((datetime.now(UTC) - clock()).total_seconds()) < 60
    silent = datetime.now(UTC) - timedelta(days=1)
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(update(tables.replicas).values(heard_at=silent))
    engine.dispose()
    assert clock().replace(microsecond=0) == silent.replace(microsecond=0)
