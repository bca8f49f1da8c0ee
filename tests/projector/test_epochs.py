"""Epochs: a log that was made anew, rolled back or has expired is noticed and told."""

import asyncio
import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from podgroup.fold import synced
from podgroup.log import events as e
from podgroup.log import subjects
from podgroup.model.commands import INTERNAL
from podgroup.model.objects import WATCHED_KINDS
from podgroup.state.world import World
from projector import tables
from projector.live.epochs import RelistRequests, examine, open_epoch
from projector.storage.store import SqlStore
from projector.writing.checkpoint import Checkpoint
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, Message, StreamState, connect
from runtime.jetstream.api import api
from runtime.settings import StreamSettings
from tests.projector.running import eventually, publish, running, sent_decisions, settings_for
from tests.projector.support import busy_toy, comparable
from tests.projector.test_projection import batches, reloaded
from tests.projector.test_store import rows_of
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class ALog:
    """A stream of messages, one a second from NOW; `replaced` have another timestamp."""

    def __init__(self, first: int, last: int, replaced: dict[int, datetime] | None = None) -> None:
        self.first, self.last, self.replaced = first, last, replaced or {}

    async def get(self, stream: str, sequence: int) -> Message | None:
        if not self.first <= sequence <= self.last:
            return None
        at = self.replaced.get(sequence, NOW + timedelta(seconds=sequence))
        return Message(sequence=sequence, at=at, subject="s", body=b"")

    @property
    def state(self) -> StreamState:
        count = self.last - self.first + 1
        return StreamState("EVENTS", NOW, self.first, self.last, count, count)


def standing_at(sequence: int, base: int = 0) -> Checkpoint:
    return Checkpoint(
        cluster="c",
        mode="builtin",
        seq=sequence + base,
        base=base,
        epoch=3,
        stream_created_at=NOW,
        at=NOW + timedelta(seconds=sequence),
    )


async def test_a_log_that_goes_on_is_no_new_epoch() -> None:
    for first, last in ((1, 100), (1, 250), (90, 100), (101, 100), (101, 200)):
        log = ALog(first, last)
        assert await examine(log, log.state, standing_at(100, 1000)) is None


async def test_a_rolled_back_log_goes_on_after_the_last_common_message() -> None:
    log = ALog(1, 80)
    change = await examine(log, log.state, standing_at(100, 1000))
    assert change is not None
    assert (change.first, change.lost_from, change.lost_to) == (81, 1081, 1100)
    world = World(cluster="c")
    world.meta.position, world.meta.epoch, world.meta.synced = 1100, 3, set(WATCHED_KINDS)
    row, base = open_epoch(world, standing_at(100, 1000), change, log.state, NOW)
    assert (row.number, world.meta.epoch, world.meta.position) == (4, 4, 1101)
    assert 81 + base == 1102
    assert not synced(world)
    assert world.journal.notes[0].kind == "EpochStarted"
    assert (world.journal.notes[0].seq, world.journal.notes[0].ord) == (1101, 0)


async def test_messages_that_came_after_a_rollback_are_all_read() -> None:
    # 91 to 100 were lost; 91 to 130 came after that, so the stream is longer than ever.
    later = {s: NOW + timedelta(seconds=1000 + s) for s in range(91, 131)}
    log = ALog(1, 130, later)
    change = await examine(log, log.state, standing_at(100))
    assert change is not None
    assert (change.first, change.lost_from, change.lost_to) == (91, 91, 100)
    assert change.at == NOW + timedelta(seconds=90)


async def test_expired_messages_are_a_gap_with_the_same_base() -> None:
    log = ALog(120, 200)
    change = await examine(log, log.state, standing_at(100, 1000))
    assert change is not None
    assert (change.first, change.lost_from, change.lost_to) == (120, 1101, 1119)
    world = World(cluster="c")
    world.meta.position = 1100
    _, base = open_epoch(world, standing_at(100, 1000), change, log.state, NOW)
    assert base == 1000
    assert world.meta.position == 1119


async def test_first_starts() -> None:
    new = ALog(1, 0)
    change = await examine(new, new.state, None)
    assert change is not None
    assert (change.first, change.lost_from) == (1, None)
    old = ALog(500, 900)
    change = await examine(old, old.state, None)
    assert change is not None
    assert (change.first, change.lost_from, change.lost_to) == (500, 1, 499)


def test_relists_are_asked_for_after_a_while_and_ever_more_rarely() -> None:
    requests = RelistRequests(patience_s=10, ceiling_s=30)
    asked = [s for s in range(200) if requests.due(waiting=True, monotonic_s=s)]
    assert asked == [10, 30, 60, 90, 120, 150, 180]
    assert not requests.due(waiting=False, monotonic_s=200)
    assert not requests.due(waiting=True, monotonic_s=201)
    assert requests.due(waiting=True, monotonic_s=211)


async def delete_stream(bus: Bus, name: str) -> None:
    await api(bus._connection, f"STREAM.DELETE.{name}")


def relisted(toy: Toy, relist: str) -> list[e.Batch]:
    """What an ingester publishes when it finds the stream gone: everything, in frames."""
    world = toy.world
    objects = [
        *world.local_queues.values(),
        *world.cluster_queues.values(),
        *world.flavors.values(),
        *world.workload_classes.values(),
        *world.namespaces.values(),
    ]
    found: list[e.Batch] = []
    for kind in WATCHED_KINDS:
        events: list[e.Event] = [e.RelistStarted(kind=kind, relist=relist, reason="stream gone")]
        if kind == "Pod":
            events += [e.PodApplied(pod=p, relist=relist) for p in toy.pods.values()]
        elif kind == "Workload":
            events += [e.WorkloadApplied(workload=w, relist=relist) for w in toy.workloads.values()]
        else:
            events += [
                e.ObjectApplied(object=cast(Any, o), relist=relist)
                for o in objects
                if kind == type(o).__name__.removesuffix("View").replace("Flavor", "ResourceFlavor")
            ]
        events.append(e.RelistCompleted(kind=kind, relist=relist, resource_version=toy.bump()))
        found.append(e.Batch(source="watch", events=tuple(events)))
    return found


@pytest.mark.parametrize("while_running", [True, False])
async def test_a_stream_made_anew_opens_an_epoch_and_the_relist_heals_it(
    url: str, own_bus: Bus, cluster: str, while_running: bool
) -> None:
    toy, bus, settings = busy_toy(), own_bus, settings_for(url, cluster)
    async with running(settings, bus) as projection:
        last = await publish(bus, cluster, batches(toy))
        await eventually(lambda: projection.world.meta.position == last, "folded")
        if while_running:
            await lose_events(bus)
            await eventually(lambda: projection.world.meta.epoch == 2, "noticed", 40)
    if not while_running:
        await lose_events(bus)
    # Meanwhile a pod went, and nobody saw it go.
    gone = toy.named("half")
    del toy.pods[gone.uid]
    async with running(settings, bus) as projection:
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed")
        assert not synced(projection.world)
        decided = projection.world.meta.decisions
        await publish(bus, cluster, relisted(toy, "again"))
        await eventually(lambda: synced(projection.world), "everything listed")
        assert gone.uid not in projection.world.pods
        assert projection.world.meta.decisions >= decided
        world = projection.world
    assert comparable(reloaded(url, cluster)) == comparable(world)
    rows = rows_of(url, tables.epochs)
    assert [r["number"] for r in rows] == [1, 2]
    assert (rows[1]["lost_from"], rows[1]["lost_to"]) == (1, last)
    assert rows[1]["base"] == last + 1
    history = rows_of(url, tables.history)
    places = [(h["seq"], h["ord"]) for h in history]
    assert len(set(places)) == len(places)
    started = [h for h in history if h["kind"] == "EpochStarted"]
    assert [h["seq"] for h in started] == [0, last + 1]
    assert "may be missing" in started[1]["message"]
    inferred = [h for h in history if h["kind"] == "PodGone" and h["pod_uid"] == gone.uid]
    assert "inferred" in inferred[0]["message"]
    assert inferred[0]["seq"] > last + 1


class Slow(SqlStore):
    """Commits wait while `go` is not set."""

    def __init__(self, url: str, cluster: str) -> None:
        super().__init__(url, cluster)
        self.go = threading.Event()
        self.go.set()

    def commit(self, *given: Any, **more: Any) -> Checkpoint:
        assert self.go.wait(20)
        return super().commit(*given, **more)


async def test_what_is_folded_is_written_before_another_epoch_begins(
    url: str, own_bus: Bus, cluster: str
) -> None:
    toy, bus, store = busy_toy(), own_bus, Slow(url, cluster)
    async with running(settings_for(url, cluster), bus, store) as projection:
        await publish(bus, cluster, batches(toy)[:40])
        await eventually(lambda: not projection.problem, "caught up")
        store.go.clear()
        begun = await publish(bus, cluster, batches(toy)[40:41])
        await eventually(lambda: projection.world.meta.position == begun, "being written")
        last = await publish(bus, cluster, batches(toy)[41:])
        await eventually(lambda: projection.world.meta.position == last, "folded meanwhile")
        await lose_events(bus)
        await asyncio.sleep(0.2)
        store.go.set()
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed", 40)
        world = projection.world
    assert comparable(reloaded(url, cluster)) == comparable(world)
    assert rows_of(url, tables.epochs)[1]["base"] == last + 1
    history = rows_of(url, tables.history)
    assert {h["seq"] for h in history} & set(range(begun + 1, last + 1))
    assert [h["seq"] for h in history if h["kind"] == "EpochStarted"] == [0, last + 1]


async def lose_events(bus: Bus) -> None:
    await delete_stream(bus, subjects.EVENTS)
    await bus.ensure_streams(StreamSettings())


async def test_a_store_restored_from_before_is_noticed_even_when_longer(
    url: str, own_nats: EmbeddedNats, own_bus: Bus, cluster: str, tmp_path: Path
) -> None:
    toy, settings = busy_toy(), settings_for(url, cluster)
    await publish(own_bus, cluster, batches(toy)[:30])
    await own_nats.stop()
    shutil.copytree(own_nats.store_dir / "jetstream", tmp_path / "saved")
    await own_nats.start()
    bus = await connect(own_nats.settings(), "test", deadline_s=20)
    async with running(settings, bus) as projection:
        last = await publish(bus, cluster, batches(toy)[30:50])
        await eventually(lambda: projection.world.meta.position == last == 50, "folded")
    await bus.close()
    await own_nats.stop()
    shutil.rmtree(own_nats.store_dir / "jetstream")
    shutil.move(tmp_path / "saved", own_nats.store_dir / "jetstream")
    await own_nats.start()
    bus = await connect(own_nats.settings(), "test", deadline_s=20)
    # The ingester repeats what the log has lost and goes on: more messages than ever.
    await asyncio.sleep(0.01)
    end = await publish(bus, cluster, batches(toy)[30:])
    assert end > last
    async with running(settings, bus) as projection:
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed")
        await eventually(lambda: not projection.problem, "caught up")
        assert set(projection.world.pods) == set(toy.world.pods)
        # And one more: the new epoch says again by what is decided.
        await eventually(
            lambda: projection.world.meta.position == 52 + (end - 30), "folded to the end"
        )
    row = rows_of(url, tables.epochs)[1]
    assert (row["lost_from"], row["lost_to"], row["base"]) == (31, 50, 51 - 30)
    await bus.close()


async def test_decisions_are_sent_again_when_their_stream_is_gone(
    url: str, own_bus: Bus, cluster: str
) -> None:
    toy, bus, settings = Toy(), own_bus, settings_for(url, cluster)
    toy.act = False
    toy.pod("foo")
    writes = [d for d in toy.decisions if not isinstance(d.command, INTERNAL)]
    await publish(bus, cluster, batches(toy))
    async with running(settings, bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        assert len(await sent_decisions(bus, cluster, 4)) == len(toy.decisions) == 4
    await delete_stream(bus, subjects.DECISIONS)
    await bus.ensure_streams(StreamSettings())
    async with running(settings, bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        found = await sent_decisions(bus, cluster, len(writes))
    assert [d.id for _, d in found] == [d.id for d in writes]


async def test_an_open_relist_frame_survives_a_restart(
    url: str, own_bus: Bus, cluster: str
) -> None:
    toy, bus, settings = busy_toy(), own_bus, settings_for(url, cluster)
    async with running(settings, bus) as projection:
        last = await publish(bus, cluster, batches(toy))
        await eventually(lambda: projection.world.meta.position == last, "folded")
    pods = list(toy.pods.values())
    opened = e.Batch(
        source="watch",
        events=(
            e.RelistStarted(kind="Pod", relist="r"),
            *(e.PodApplied(pod=p, relist="r") for p in pods[:-1]),
        ),
    )
    closed = e.Batch(
        source="watch",
        events=(e.RelistCompleted(kind="Pod", relist="r", resource_version=toy.bump()),),
    )
    async with running(settings, bus) as projection:
        last = await publish(bus, cluster, [opened])
        await eventually(lambda: projection.world.meta.position == last, "folded")
    async with running(settings, bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        assert len(projection.world.meta.frames["Pod"].seen) == len(pods) - 1
        last = await publish(bus, cluster, [closed])
        await eventually(lambda: projection.world.meta.position == last, "folded")
        assert set(projection.world.pods) == {p.uid for p in pods[:-1]}
