"""Batching, positions and ids, against a sink that stores when told to."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.bounds import MAX_EVENT_BYTES
from ingest.publisher import PROGRESS_S, EventPublisher, PublishOptions
from ingest.resume import LogMessage
from podgroup.log import codec, subjects
from podgroup.log.events import (
    Batch,
    DeltaRefused,
    ObjectApplied,
    PodApplied,
    PodDeleted,
    RelistCompleted,
    RelistStarted,
    WatchProgressed,
    WorkloadApplied,
)
from podgroup.model.names import ADMISSION_GATE
from podgroup.model.objects import NamespaceView, PodView, WorkloadView

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


class Sink:
    """Keeps what is sent; `hold` keeps it from being stored."""

    def __init__(self, hold: bool = False) -> None:
        self.hold = hold
        self.sent: list[tuple[str, Batch, str, int]] = []
        self.after: list[int] = []
        self.waiting: list[tuple[asyncio.Future[int], int]] = []

    async def publish(
        self, subject: str, body: bytes, msg_id: str, timeout_s: float, *, after: int
    ) -> int:
        self.sent.append((subject, codec.decode_batch(body), msg_id, len(body)))
        self.after.append(after)
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting.append((stored, len(self.sent)))
        if not self.hold:
            self.store()
        return await stored

    async def last(self, stream: str, subject: str) -> LogMessage | None:
        raise AssertionError("nobody asks it")

    def store(self) -> None:
        for stored, sequence in self.waiting:
            stored.set_result(sequence)
        self.waiting.clear()

    @property
    def batches(self) -> list[Batch]:
        return [batch for _, batch, _, _ in self.sent]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def pod(name: str, version: int, **more: Any) -> PodView:
    return PodView(
        uid=f"u-{name}",
        namespace="ns",
        name=name,
        resource_version=str(version),
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
        **more,
    )


def workload(name: str) -> WorkloadView:
    return WorkloadView(
        uid=f"w-{name}",
        namespace="ns",
        name=name,
        resource_version="4",
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


def applied(name: str, version: int, relist: str = "", **more: object) -> PodApplied:
    return PodApplied(pod=pod(name, version, **more), relist=relist)


def publisher(sink: Sink, **more) -> EventPublisher:
    options: dict[str, Any] = {"cluster": "c", "batch_bytes": 50_000}
    options |= {name: more.pop(name) for name in PublishOptions.__struct_fields__ if name in more}
    given: dict[str, Any] = {"positions": {}, "last": 0} | more
    return EventPublisher(sink, PublishOptions(**options), **given)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def running():
    tasks = []

    def start(each: EventPublisher) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(each.run()))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lone_event_goes_out_at_once_with_its_position(running):
    sink = Sink()
    out = publisher(sink, positions={"Namespace": "4"})
    running(out)
    await out.put("Pod", [applied("a", 7)], "7")
    await settle()
    ((subject, batch, msg_id, _),) = sink.sent
    assert subject == subjects.events("c", "watch")
    assert batch.events == (applied("a", 7),)
    assert batch.positions == {"Namespace": "4", "Pod": "7"}
    assert msg_id.startswith(codec.message_id(batch))
    assert (out.acked_sequence, out.acked_positions) == (1, batch.positions)


async def test_under_load_events_share_messages_and_keep_their_order(running):
    sink = Sink(hold=True)
    out = publisher(sink)
    running(out)
    for version in range(1, 11):
        await out.put("Pod", [applied("a", version)], str(version))
        await settle()
    assert [len(b.events) for b in sink.batches] == [1]
    assert sink.batches[-1].positions == {"Pod": "1"}
    sink.store()
    await settle()
    assert [len(b.events) for b in sink.batches] == [1, 9]
    assert sink.after == [0, 1]
    events: list[Any] = [e for b in sink.batches for e in b.events]
    told = [e.pod.resource_version for e in events]
    assert told == [str(v) for v in range(1, 11)]
    assert sink.batches[-1].positions == {"Pod": "10"}


@pytest.mark.parametrize("mirrored", [True, False])
async def test_what_nobody_waits_for_goes_with_what_is_urgent(running, mirrored):
    """A pod past its gate, or the Workload that we wrote, waits for a gated pod, or for the end."""
    sink = Sink()
    log = publisher(sink, interval_s=0.2, mirrored=mirrored)
    running(log)
    await log.put("Pod", [applied("a", 1, gates=(ADMISSION_GATE,))], "1")
    await settle()
    bound = [applied("a", 2), applied("a", 3, node="n", phase="Running")]
    await log.put("Pod", bound, "3")
    await log.put("Workload", [WorkloadApplied(workload=workload("w"))], "4")
    await asyncio.sleep(0.4)
    assert len(sink.sent) == (1 if mirrored else 2)
    await log.put("Pod", [applied("b", 5, gates=(ADMISSION_GATE,))], "5")
    await asyncio.sleep(0.05 if mirrored else 0.25)
    assert [len(batch.events) for batch in sink.batches] == ([1, 4] if mirrored else [1, 3, 1])


@pytest.mark.parametrize(
    "urgent", [{"phase": "Succeeded"}, {"deleted_at": datetime(2026, 11, 21, tzinfo=UTC)}]
)
async def test_what_frees_quota_is_urgent(running, urgent):
    sink = Sink()
    log = publisher(sink, interval_s=0.1, mirrored=True)
    running(log)
    await log.put("Pod", [applied("a", 1)], "1")
    await settle()
    await log.put("Pod", [applied("a", 2, **urgent)], "2")
    await asyncio.sleep(0.25)
    assert len(sink.sent) == 2


async def test_a_message_stays_within_its_size_and_putting_waits_when_the_log_is_slow(running):
    sink = Sink(hold=True)
    out = publisher(sink)
    running(out)
    stuck = asyncio.create_task(
        out.put("Pod", [applied(f"p{i}", i, message="x" * 1000) for i in range(1, 2000)], "1999")
    )
    await asyncio.sleep(0.05)
    assert not stuck.done()
    assert len(sink.sent) == 1
    while not stuck.done():
        sink.store()
        await settle()
    assert sum(len(b.events) for b in sink.batches) < 2000
    while sink.waiting:
        sink.store()
        await settle()
    assert sum(len(b.events) for b in sink.batches) == 1999
    assert max(size for *_, size in sink.sent) < 60_000
    assert [b.positions for b in sink.batches[:-1]] == [{}] * (len(sink.batches) - 1)
    assert sink.batches[-1].positions == {"Pod": "1999"}


async def test_a_frame_takes_the_position_away_until_it_is_complete(running):
    sink = Sink()
    out = publisher(sink, positions={"Pod": "5", "Namespace": "3"})
    running(out)
    await out.put("Pod", [RelistStarted(kind="Pod", relist="r1")], None)
    await settle()
    await out.put("Pod", [applied("a", 2, "r1")], None)
    await settle()
    done = RelistCompleted(kind="Pod", relist="r1", resource_version="9", count=1)
    await out.put("Pod", [done], "9")
    await settle()
    assert [b.positions for b in sink.batches] == [
        {"Namespace": "3"},
        {"Namespace": "3"},
        {"Namespace": "3", "Pod": "9"},
    ]


async def test_bookmarks_travel_with_others_and_cost_a_message_once_a_minute(running):
    sink, clock = Sink(), Clock()
    out = publisher(sink, clock=clock)
    running(out)
    await out.put("Namespace", [ObjectApplied(object=namespace("n"))], "1")
    await settle()
    await out.put("Pod", (), "50")
    await settle()
    assert len(sink.sent) == 1
    await out.put("Namespace", [ObjectApplied(object=namespace("m"))], "2")
    await settle()
    assert sink.batches[-1].positions == {"Namespace": "2", "Pod": "50"}
    clock.now += PROGRESS_S
    for version in ("60", "61", "62"):
        await out.put("Pod", (), version)
        await settle()
    assert sink.batches[2:] == [
        Batch(
            source="watch",
            events=(WatchProgressed(kind="Pod", resource_version="60"),),
            positions={"Namespace": "2", "Pod": "60"},
        )
    ]
    clock.now += PROGRESS_S
    await out.put("Pod", (), "63")
    await settle()
    assert sink.batches[-1].positions["Pod"] == "63"


def namespace(name: str) -> NamespaceView:
    return NamespaceView(uid=f"u-{name}", name=name, resource_version="1")


async def test_a_refusal_inside_a_frame_has_an_id_of_that_frame(running):
    sink = Sink()
    out = publisher(sink)
    running(out)
    refused = DeltaRefused(
        kind="Pod",
        namespace="ns",
        name="a",
        uid="u",
        resource_version="1",
        field="f",
        message="m",
    )
    for relist in ("r1", "r2"):
        await out.put("Pod", [RelistStarted(kind="Pod", relist=relist)], None)
        await settle()
        await out.put("Pod", [refused], None)
        await settle()
    done = RelistCompleted(kind="Pod", relist="r2", resource_version="9", count=1)
    await out.put("Pod", [done], "9")
    await settle()
    await out.put("Pod", [refused], "10")
    await settle()
    ids = [msg_id for _, batch, msg_id, _ in sink.sent if batch.events == (refused,)]
    assert len(set(ids)) == len(ids) == 3


async def test_an_object_that_fits_in_no_message_is_refused_and_its_deletion_is_not(running):
    sink = Sink()
    out = publisher(sink)
    running(out)
    labels = {f"kueue.x-k8s.io/{number}": "x" * 63 for number in range(12_000)}
    assert len(labels) * 85 > MAX_EVENT_BYTES
    await out.put("Pod", [applied("a", 1, labels=labels)], "1")
    await settle()
    (refused,) = sink.batches[0].events
    assert isinstance(refused, DeltaRefused)
    assert (refused.uid, refused.name, refused.resource_version) == ("u-a", "a", "1")
    assert "too large" in refused.message
    await out.put("Pod", [PodDeleted(pod=pod("a", 2, labels=labels))], "2")
    await settle()
    assert sink.batches[1].events == (PodDeleted(pod=pod("a", 2)),)


async def test_what_is_not_acknowledged_does_not_count(running):
    sink = Sink(hold=True)
    out = publisher(sink)
    task = running(out)
    await out.put("Pod", [applied("a", 1)], "1")
    await settle()
    sink.store()
    await out.put("Pod", [applied("a", 2)], "2")
    await settle()
    assert (out.acked_sequence, out.acked_positions) == (1, {"Pod": "1"})
    sink.waiting[0][0].set_exception(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await task
    assert out.acked_positions == {"Pod": "1"}
    with pytest.raises(ConnectionError):
        await out.put("Pod", [applied("a", 4)], "4")


async def test_what_was_under_way_at_the_end_is_stored_as_the_same_message(running):
    sink = Sink(hold=True)
    out = publisher(sink, last=7)
    task = running(out)
    await out.put("Namespace", [ObjectApplied(object=namespace("n"))], "1")
    await settle()
    task.cancel()
    await settle()
    sink.hold = False
    sink.waiting.clear()
    await out.drain()
    ids = [msg_id for _, _, msg_id, _ in sink.sent]
    assert ids == [ids[0], ids[0]]
    assert sink.after == [7, 7]
    assert out.acked_positions == {"Namespace": "1"}


async def test_the_beginning_of_a_frame_is_no_place_to_resume_from(running):
    sink = Sink()
    out = publisher(sink, positions={"Pod": "5", "Namespace": "3"})
    running(out)
    await out.put("Pod", [RelistStarted(kind="Pod", relist="r1")], None)
    await settle()
    assert [b.positions for b in sink.batches] == [{"Namespace": "3"}]


async def test_waiting_for_room_ends_when_publishing_breaks(running):
    sink = Sink(hold=True)
    out = publisher(sink)
    task = running(out)
    many = [applied(f"p{i}", i, message="x" * 1000) for i in range(2000)]
    stuck = asyncio.create_task(out.put("Pod", many, "1"))
    await settle()
    sink.waiting[0][0].set_exception(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await stuck
    with pytest.raises(ConnectionError):
        await task


async def test_a_bookmark_that_says_the_same_again_is_another_message(running):
    sink = Sink()
    for _ in range(2):
        each = publisher(sink)
        running(each)
        await each.put("Namespace", (), "8")
        await settle()
    (first, again) = [msg_id for _, _, msg_id, _ in sink.sent]
    assert first != again
