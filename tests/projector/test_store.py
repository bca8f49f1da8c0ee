"""The contract of the store, on both databases."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from sqlalchemy import select, text

from podgroup.engine import drain_journal, step
from podgroup.log import events as e
from podgroup.log.journal import Note, ParkedRow
from podgroup.model.objects import PodView
from podgroup.state.meta import Frame, Meta, Refusal
from projector import tables
from projector.storage.database import DatabaseError, parse, reader, shown, writer
from projector.storage.pragmas import PAGE_BYTES
from projector.storage.store import SqlStore, StaleProjector, StoreDamaged, StoreUnavailable
from projector.times import utc_text
from projector.upkeep import migrate
from projector.writing import postgres_writer
from projector.writing.packing import pack_group, pack_meta, unpack_group, unpack_meta
from projector.writing.parked_rows import Settled
from projector.writing.rows import build
from tests.projector.support import Messages, Writer, busy_toy, comparable, fold
from tests.support.databases import migrated
from tests.support.toy import T0, Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


@pytest.fixture(scope="module")
def messages() -> Messages:
    return busy_toy().messages


def rows_of(url: str, table: Any, *where: Any) -> list[dict[str, Any]]:
    engine = reader(url)
    with engine.connect() as connection:
        found = [dict(r) for r in connection.execute(select(table).where(*where)).mappings()]
    engine.dispose()
    return found


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_is_loaded_is_what_was_committed(url: str, messages: Messages, size: int) -> None:
    writer = Writer(url, size).feed(messages)
    loaded = Writer(url).load()
    assert comparable(loaded.world) == comparable(writer.world) == comparable(fold(messages))
    assert loaded.checkpoint == writer.checkpoint
    assert loaded.checkpoint is not None
    assert loaded.checkpoint.seq == messages[-1][0]


def test_all_history_and_decisions_arrive_once(url: str, messages: Messages) -> None:
    Writer(url, 5).feed(messages)
    journal = fold(messages).journal
    history = rows_of(url, tables.history)
    assert [(h["seq"], h["ord"], h["kind"]) for h in history] == [
        (n.seq, n.ord, n.kind) for n in journal.notes
    ]
    assert len(rows_of(url, tables.decisions)) == len(journal.decisions)
    assert len(rows_of(url, tables.outcomes)) == len(journal.outcomes)


def _contents(url: str) -> dict[str, list[dict[str, Any]]]:
    return {name: rows_of(url, table) for name, table in tables.metadata.tables.items()}


def test_a_restart_at_any_point_leads_to_the_same_world(url: str, messages: Messages) -> None:
    for cut in (8, len(messages) // 3, len(messages) - 2):
        cluster = f"test{cut}"
        first = Writer(url, 9, cluster).feed(messages[:cut])
        again = Writer(url, 9, cluster).load()
        assert comparable(again.world) == comparable(first.world)
        again.feed(messages[cut:])
        assert comparable(again.world) == comparable(fold(messages))


def test_gone_rows_are_kept_without_their_record(url: str, messages: Messages) -> None:
    world = Writer(url).feed(messages).world
    groups = {g["name"]: g for g in rows_of(url, tables.groups)}
    assert groups["single"]["state"] == "Gone"
    assert groups["single"]["folded"] is None
    assert groups["single"]["gone_at"] is not None
    assert groups["single"]["admitted_at"] is not None
    assert groups["single"]["pods_seen"] == groups["single"]["pods_succeeded"] == 1
    assert groups["single"]["pods_gated"] == groups["single"]["pods_running"] == 0
    live = {g["id"] for g in groups.values() if g["folded"] is not None}
    assert live == set(world.groups)
    pods = rows_of(url, tables.pods)
    assert {p["uid"] for p in pods if p["folded"] is not None} == set(world.pods)
    assert {p["name"]: p["fate"] for p in pods if p["gone_at"]} == {
        "single": "kept",
        "extra": "excess",
    }


def test_counters_and_waits_of_groups(url: str, messages: Messages) -> None:
    Writer(url).feed(messages)
    groups = {g["name"]: g for g in rows_of(url, tables.groups)}
    a, b, c, d = (groups[name] for name in "abcd")
    assert (a["pods_seen"], a["pods_failed"], a["pods_replaced"], a["pods_excess"]) == (5, 1, 1, 1)
    assert (a["pods_running"], a["pods_gated"], a["pods_ungated"]) == (2, 0, 4)
    assert (b["pods_running"], b["pods_ungated"], b["total_count"]) == (1, 3, 3)
    assert (c["state"], c["wait_reason"], c["cluster_queue"]) == ("Queued", "WaitingForQuota", "cq")
    assert (d["state"], d["total_count"], d["pods_seen"]) == ("Composing", 4, 1)
    roles = rows_of(url, tables.roles, tables.roles.c.group_id == b["id"])
    assert [(r["name"], r["count"], r["requests"]) for r in roles] == [("r1", 3, {"cpu": 1000})]
    pods = {p["name"]: p for p in rows_of(url, tables.pods)}
    assert pods["driver"]["labels"]["team"] == "red"
    assert pods["driver"]["gated"] is False
    assert pods["late"]["gated"] is True


@pytest.mark.parity("B12")
def test_the_reasons_of_a_group_are_intervals_that_touch(url: str) -> None:
    toy = Toy(cpu=2)
    toy.pod("hog", cpu=2)
    toy.run("hog")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.end("hog")
    Writer(url).feed(toy.messages)
    (group,) = (g for g in rows_of(url, tables.groups) if g["name"] == "g")
    told = rows_of(url, tables.waits, tables.waits.c.group_id == group["id"])
    told.sort(key=lambda w: w["from_seq"])
    assert [w["reason"] for w in told] == ["WaitingForPods", "WaitingForQuota"]
    assert told[0]["from_at"] == group["created_at"]
    assert [w["to_at"] for w in told] == [told[1]["from_at"], group["admitted_at"]]


@pytest.mark.parametrize("size", [7, 1000])
def test_decisions_are_an_outbox_and_learn_their_outcome(
    url: str, messages: Messages, size: int
) -> None:
    writer = Writer(url, size).feed(messages)
    made = fold(messages).journal.decisions
    assert writer.store.decisions() == made
    assert writer.store.decisions(after=made[3].number) == made[4:]
    assert writer.store.decisions(unresolved=True) == []
    statuses = {d["id"]: d["status"] for d in rows_of(url, tables.decisions)}
    assert set(statuses.values()) == {"applied"}


def test_applied_outlasts_a_later_obsolete(url: str) -> None:
    toy = Toy()
    toy.act = False
    toy.pod("foo")
    writer = Writer(url).feed(toy.messages)
    target = next(d for d in toy.decisions if type(d.command).__name__ == "UngatePod")
    assert target in writer.store.decisions(unresolved=True)
    for delivery, status in ((1, "retrying"), (2, "rejected"), (3, "applied"), (4, "obsolete")):
        toy.send(
            e.OutcomeRecorded(
                decision=target.id,
                group=target.group,
                status=status,  # type: ignore[arg-type]
                delivery=delivery,
                resource_version="1",
            )
        )
        writer.feed(toy.messages[-1:])
        row = rows_of(url, tables.decisions, tables.decisions.c.id == target.id)[0]
        wanted = {"retrying": None, "obsolete": "applied"}.get(status, status)
        assert row["status"] == wanted
    assert len(rows_of(url, tables.outcomes)) == 4


def test_a_second_projector_cannot_write(url: str, messages: Messages) -> None:
    first = Writer(url).feed(messages[:10])
    second = Writer(url).load()
    second.feed(messages[10:12])
    before = _contents(url)
    with pytest.raises(StaleProjector, match="another projector writes cluster"):
        first.feed(messages[10:14])
    assert _contents(url) == before
    second.feed(messages[12:])
    assert comparable(second.world) == comparable(fold(messages))


def test_two_first_projectors_cannot_both_write(url: str, messages: Messages) -> None:
    one, two = Writer(url), Writer(url)
    one.feed(messages[:3])
    with pytest.raises(StaleProjector):
        two.feed(messages[:3])


def test_a_commit_in_doubt_is_recognised(url: str, messages: Messages) -> None:
    writer = Writer(url).feed(messages[:10])
    old = writer.checkpoint
    for position, at, batch in messages[10:12]:
        step(writer.world, position, at, batch)
    taken = drain_journal(writer.world)
    rows = build(writer.world, taken)
    assert old is not None
    new = msgspec.structs.replace(old, seq=messages[11][0])
    written = writer.store.commit(rows, new, old)
    # The connection broke while the commit was answered: the same call is made again.
    writer.store._in_doubt = True
    assert writer.store.commit(rows, new, old) == written
    assert rows_of(url, tables.checkpoints)[0]["writes"] == written.writes


def test_times_come_back_as_utc_with_microseconds(url: str) -> None:
    writer = Writer(url)
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    writer.world.journal.notes.append(Note(seq=0, ord=0, at=at, kind="K"))
    writer.commit()
    found = rows_of(url, tables.history)[0]["at"]
    assert found == at
    assert found.tzinfo is UTC
    assert found.utcoffset() == timedelta(0)
    if url.startswith("sqlite"):
        raw = sqlite3.connect(parse(url).database or "")
        assert raw.execute("SELECT at FROM history").fetchone() == ("2026-03-01T06:30:00.123456Z",)
        raw.close()


def test_a_naive_time_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="has no zone"):
        utc_text(datetime(2026, 1, 1))  # noqa: DTZ001


def odd_pods(count: int) -> list[PodView]:
    """Pods that a user can make and that a careless writer chokes on."""
    return [
        PodView(
            uid=f"odd-{i}",
            namespace="ns",
            name=f"odd-{i}",
            resource_version=str(1000 + i),
            created_at=T0,
            labels={
                "team": "a'b\"c\\ \u00e9 \U0001f600",
                "pod-group": "x",
                "kueue.x-k8s.io/managed": "true",
            },
            annotations={
                "kueue.x-k8s.io/pod-group-total-count": "9" * 30,
                "kueue.x-k8s.io/pod-group-name": "g" * 5000,
            },
            message="nul \x00 and \\u0000",
            reason="why\x00",
            phase="Failed",
            role="r" * 4000 + str(i),
            requests={"memory": 2**63 - 1, "cpu": 2**63 - 1},
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("count", [3, postgres_writer.FEW * 3])
def test_odd_values_neither_stop_the_projector_nor_get_lost(url: str, count: int) -> None:
    pods = odd_pods(count)
    batch = e.Batch(source="watch", events=tuple(e.PodApplied(pod=p) for p in pods))
    writer = Writer(url).feed([(1, T0, batch)])
    again = Writer(url).load()
    assert comparable(again.world) == comparable(writer.world)
    found = rows_of(url, tables.pods)
    assert len(found) == count
    assert found[0]["labels"]["team"] == pods[0].labels["team"]
    assert found[0]["requests"] == pods[0].requests
    assert len({p["role"] for p in found}) == count
    assert {p["role"] for p in found} == {r["name"] for r in rows_of(url, tables.roles)}
    assert found[0]["exit_reason"] in ("why\x00", "why\ufffd")


def test_few_and_many_rows_are_written_alike(url: str) -> None:
    toy = Toy(cpu=1000)
    toy.act = False
    for i in range(120):
        toy.pod(f"p{i}", f"g{i // 2}", 2)
    Writer(url, 10_000).feed(toy.messages)
    Writer(url, 1, "small").feed(toy.messages)
    skip = {"cluster", "as_of_seq", "writes", "writer"}
    for table in tables.metadata.tables.values():
        if table.name == "checkpoints":
            continue
        one = rows_of(url, table, table.c.cluster == "test")
        two = rows_of(url, table, table.c.cluster == "small")
        assert len(one) == len(two)

        def stripped(rows: list[dict[str, Any]]) -> list[str]:
            return sorted(repr({k: v for k, v in r.items() if k not in skip}) for r in rows)

        assert stripped(one) == stripped(two), table.name


def test_what_a_living_pod_is_found_by_may_change_all_the_same(url: str) -> None:
    toy = Toy(cpu=1000)
    toy.act = False
    for i in range(12):
        toy.pod(f"p{i}", "g", 12)
    writer = Writer(url, 10_000).feed(toy.messages)
    pods = sorted(writer.world.pods.values(), key=lambda pod: pod.view.name)
    for pod in pods:
        # Of all a column that no index reads, of one and of another each a column that one does.
        pod.view = msgspec.structs.replace(pod.view, node="node-7")
        writer.world.journal.pods.add(pod.view.uid)
    pods[3].view = msgspec.structs.replace(pods[3].view, created_at=T0 - timedelta(days=9))
    pods[7].gone_at = T0 + timedelta(hours=1)
    writer.commit()
    found = {row["uid"]: row for row in rows_of(url, tables.pods)}
    for pod in pods:
        row = found[pod.view.uid]
        assert (row["node"], row["created_at"]) == ("node-7", pod.view.created_at)
        assert (row["gone_at"], row["folded"] is None) == (pod.gone_at, pod.gone_at is not None)


def test_pods_share_what_they_say_as_soon_as_they_are_read(url: str) -> None:
    toy = Toy(cpu=1000)
    for i in range(30):
        toy.pod(f"p{i}", "g", 30)
    Writer(url).feed(toy.messages)
    store = SqlStore(url, "test")
    loaded = store.load()
    store.close()
    assert loaded is not None
    assert len(loaded.pods) == 30
    for field in ("labels", "annotations", "requests", "namespace"):
        assert len({id(getattr(pod.view, field)) for pod in loaded.pods}) == 1, field


def test_a_new_file_has_large_pages_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    for name, pages, wal in (("new", PAGE_BYTES, 4096), ("old", 4096, 8192)):
        file = tmp_path / f"{name}.db"
        if name == "old":
            with closing(sqlite3.connect(file)) as made:
                made.execute("PRAGMA page_size = 4096")
                made.execute("CREATE TABLE something (x)")
        url = f"sqlite:///{file}"
        migrate.upgrade(url)
        engine = writer(url)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA page_size").scalar() == pages
            assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == wal
        engine.dispose()


def test_objects_come_and_go(url: str) -> None:
    toy = Toy()
    writer = Writer(url).feed(toy.messages)
    assert {(o["kind"], o["name"]) for o in rows_of(url, tables.objects)} >= {
        ("LocalQueue", "lq"),
        ("ClusterQueue", "cq"),
        ("ResourceFlavor", "f"),
        ("Namespace", "ns"),
    }
    toy.send(
        e.ObjectDeleted(
            kind="LocalQueue", namespace="ns", name="lq", uid="lq", resource_version=toy.bump()
        )
    )
    writer.feed(toy.messages[-1:])
    assert not rows_of(url, tables.objects, tables.objects.c.kind == "LocalQueue")
    assert comparable(Writer(url).load().world) == comparable(writer.world)


def test_parked_rows_are_settled_by_position_or_group(url: str) -> None:
    writer = Writer(url)
    for seq, group in ((1, ""), (2, "g1"), (3, "g1"), (4, "g2")):
        writer.world.journal.parked.append(
            ParkedRow(seq=seq, ord=0, at=T0, reason="R", message="m", group=group, raw=b"\x00raw")
        )
    writer.commit()
    assert [p.raw for p in writer.store.parked_after(2)] == [b"\x00raw", b"\x00raw"]
    rows = build(writer.world, drain_journal(writer.world))
    rows.settled = [Settled("release", "1/0", "ann", T0), Settled("discard", "g1", "bob", T0)]
    assert writer.checkpoint is not None
    writer.store.commit(rows, writer.checkpoint, writer.checkpoint)
    found = {p["seq"]: (p["resolution"], p["resolved_by"]) for p in rows_of(url, tables.parked)}
    assert found == {
        1: ("release", "ann"),
        2: ("discard", "bob"),
        3: ("discard", "bob"),
        4: ("", ""),
    }


def test_clusters_do_not_see_each_other(url: str, messages: Messages) -> None:
    Writer(url).feed(messages)
    with closing(SqlStore(url, "elsewhere")) as other:
        assert other.load() is None


def test_a_read_model_of_several_shards_is_refused(url: str, messages: Messages) -> None:
    """Its rows come from logs that were folded apart: no projector could go on with them."""
    Writer(url).feed(messages).store.close()
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE checkpoints SET shard = 3"))
    engine.dispose()
    with (
        closing(SqlStore(url, "test")) as store,
        pytest.raises(StoreDamaged, match=r"shard 3 of cluster 'test'.*another `cluster` name"),
    ):
        store.load()


def test_a_reader_cannot_write(url: str, messages: Messages) -> None:
    Writer(url).feed(messages[:3])
    engine = reader(url)
    with engine.connect() as connection, pytest.raises(Exception, match=r"(?i)read-?only"):
        connection.execute(text("DELETE FROM history"))
    engine.dispose()


def test_bad_urls_are_refused_without_showing_them() -> None:
    for bad in ("", "no url", "mysql://u:secret@h/d", "sqlite://"):
        with pytest.raises(DatabaseError, match=r"database\.url") as info:
            parse(bad)
        assert "secret" not in str(info.value)
    assert "secret" not in shown("postgresql://u:secret@h/d")


def test_a_lost_connection_is_made_again(postgres_database: str, messages: Messages) -> None:
    migrated(postgres_database)
    writer = Writer(postgres_database).feed(messages[:10])
    with psycopg.connect(postgres_database, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name LIKE 'gatelog-projector%'"
        )
    position, at, batch = messages[10]
    step(writer.world, position, at, batch)
    rows = build(writer.world, drain_journal(writer.world))
    assert writer.checkpoint is not None
    new = msgspec.structs.replace(writer.checkpoint, seq=position)
    with pytest.raises(StoreUnavailable):
        writer.store.commit(rows, new, writer.checkpoint)
    assert writer.store.commit(rows, new, writer.checkpoint).seq == position


def test_records_beyond_64_bits_are_kept() -> None:
    toy = Toy()
    toy.pod("foo")
    group = next(iter(toy.world.groups.values()))
    assert group.quota.holding is not None
    assert group.quota.holding.admission.assignments
    huge = tuple(
        msgspec.structs.replace(a, usage={"memory": 2**70})
        for a in group.quota.holding.admission.assignments
    )
    admission = msgspec.structs.replace(group.quota.holding.admission, assignments=huge)
    group.quota.holding = msgspec.structs.replace(group.quota.holding, admission=admission)
    assert unpack_group(pack_group(group)) == group
    assert unpack_group(pack_group(group)).quota.holding.admission.assignments == huge  # type: ignore[union-attr]
    frame = Frame("r", 3, {"a", "b"})
    meta = msgspec.structs.replace(toy.world.meta, frames={"Pod": frame})
    assert unpack_meta(pack_meta(meta)).frames == {"Pod": Frame("r", 3)}
    assert frame.seen == {"a", "b"}


def test_a_group_is_stored_as_before_it_had_parts() -> None:
    """So that projectors of both versions read what the other wrote."""
    toy = Toy()
    toy.pod("foo")
    group = next(iter(toy.world.groups.values()))
    stored = msgspec.msgpack.decode(pack_group(group))
    names = """
        admissions beaten_by checks_stale checks_told complete_at composed composed_total created_at
        created_seq deactivating declared declared_count declared_roles declarer_role dialect
        disowned evicted executed_s fast finish finished_at gone_at holding id kept kind left
        message name namespace parked prebuilt priority priority_class queue queue_reason queued_at
        ready reason recounted refusal_told report_due report_key reported requeue_at requeued roles
        serving sets short start_failed state strayed timeouts total unready_at wait was_short
        workload workload_expect workload_lost workload_name workload_refusals workload_refused
        workload_refused_version workload_rejections
    """
    assert set(names.split()) <= set(stored)
    assert (stored["queue"], stored["composed"], stored["admissions"]) == ("lq", True, 1)
    first = {name: stored[name] for name in ("id", "namespace", "name", "kind", "created_at")}
    first |= {"created_seq": 1, "workload_name": "pod-foo", "recovered": False}
    early = unpack_group(msgspec.msgpack.encode(first))
    assert (early.id, early.mirror.name) == (group.id, "pod-foo")
    assert (early.requeueing.requeued, early.quota.reason) == (True, ("", ""))


def test_what_is_known_of_the_log_keeps_the_names_it_is_stored_by() -> None:
    refusal = Refusal("ns", "a", "no container", reported=True)
    stored = msgspec.msgpack.decode(pack_meta(Meta(refused={"u": refusal}, unreported=1)))
    assert stored["untold"] == 1 and stored["refused"]["u"]["told"] is True
