"""The projection against a real nats-server and both databases."""

import asyncio
import time
from collections import Counter
from typing import Any

import msgspec
import pytest

from podgroup.log import events as e
from podgroup.log import subjects
from podgroup.log.codec import encode_batch, encode_decision
from podgroup.log.events import PodApplied
from podgroup.model.commands import INTERNAL
from projector import tables
from projector.live.projection import COMMIT_INTERVAL_S, Projection
from projector.storage.opening import world_of
from projector.storage.store import SqlStore, StaleProjector
from runtime.jetstream import Bus
from runtime.settings import SettingsError
from runtime.spacing import PATIENT_GAPS
from tests.projector.running import (
    decided,
    eventually,
    publish,
    running,
    sent_decisions,
    settings_for,
)
from tests.projector.support import busy_toy, comparable
from tests.projector.test_store import rows_of
from tests.support import recordings
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


def batches(toy: Toy) -> list[e.Batch]:
    return [batch for _, _, batch in toy.messages]


def reloaded(url: str, cluster: str, mode: str = "builtin") -> Any:
    store = SqlStore(url, cluster)
    world = world_of(store.load(), cluster, mode)
    store.close()
    return world


async def test_what_is_in_memory_is_what_is_in_the_database(
    url: str, bus: Bus, cluster: str
) -> None:
    toy = busy_toy()
    settings = settings_for(url, cluster, batch_messages=13)
    async with running(settings, bus) as projection:
        await publish(bus, cluster, batches(toy)[:40])
        await eventually(lambda: not projection.problem, "caught up")
        last = await publish(bus, cluster, batches(toy)[40:])
        await eventually(lambda: projection.world.meta.position >= last, "all folded")
        world = projection.world
    stored = comparable(reloaded(url, cluster))
    assert stored == comparable(world)
    assert {g["name"]: g["explained"]["state"] for g in stored["groups"].values()} == {
        g.name: g.explained.state for g in toy.world.groups.values()
    }
    kinds = [h["kind"] for h in rows_of(url, tables.history)]
    assert kinds[0] == "EpochStarted"
    assert rows_of(url, tables.epochs)[0]["number"] == 1


async def test_decisions_come_out_in_order_and_once(url: str, bus: Bus, cluster: str) -> None:
    toy = Toy()
    async with running(settings_for(url, cluster), bus) as projection:
        await publish(bus, cluster, batches(toy))
        await eventually(lambda: not projection.problem, "caught up")
        toy.act = False
        before = len(toy.messages)
        toy.pod("foo")
        await publish(bus, cluster, batches(toy)[before:])
        found = await sent_decisions(bus, cluster, 4)
        assert [d.number for _, d in found] == [1, 2, 3, 4]
        together = Counter(i for i, _ in found)
        assert all((i == d.id) == (together[i] == 1) for i, d in found)
        assert {type(d.command).__name__ for _, d in found} >= {"AdmitGroup", "UngatePod"}
        assert [d for _, d in found] == decided(url, cluster)
    # The fifth conclusion is why the group is in the state it is in.
    assert rows_of(url, tables.checkpoints)[0]["published"] == 5
    newest = await bus.last(subjects.DECISIONS, subjects.decisions(cluster))
    async with running(settings_for(url, cluster), bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        await asyncio.sleep(0.2)
    state = await bus.last(subjects.DECISIONS, subjects.decisions(cluster))
    assert state is not None and newest is not None
    assert state.sequence == newest.sequence


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
async def test_what_has_its_outcome_in_the_log_is_not_sent(
    url: str, own_bus: Bus, cluster: str, part: float
) -> None:
    """A projector that was away folds what happened meanwhile before it lets anyone act.

    Records are sent (the stream holds all that was decided), but not those that it holds already:
    a read model is made once more from a log of whose decisions that `part` was published.
    """
    bus, toy = own_bus, busy_toy()
    toy.act = False
    toy.pod("new", cpu=0)
    still_open = {d.id for d in toy.queue if not isinstance(d.command, INTERNAL)}
    assert still_open
    recorded = toy.decisions[int(part * len(toy.decisions)) - 1].number if part else 0
    wanted = [
        d.id
        for d in toy.decisions
        if d.id in still_open or (isinstance(d.command, INTERNAL) and d.number > recorded)
    ]
    if recorded:
        last = next(d for d in toy.decisions if d.number == recorded)
        await bus.publish(subjects.decisions(cluster), encode_decision(last), "old")
    await publish(bus, cluster, batches(toy))
    async with running(settings_for(url, cluster), bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        found = (await sent_decisions(bus, cluster, len(wanted) + bool(recorded)))[bool(recorded) :]
        unresolved = decided(url, cluster, unresolved=True)
    # The toy's decisions were made from the same log: the ids agree.
    assert {d.id for d in unresolved} == still_open
    assert [d.id for _, d in found] == wanted
    assert len(rows_of(url, tables.decisions)) == len(toy.decisions)


async def test_an_undecodable_event_is_parked_and_its_neighbours_are_folded(
    url: str, bus: Bus, cluster: str
) -> None:
    toy = Toy()
    toy.pod("foo", settle=False)
    good = batches(toy)[-1]
    body = encode_batch(good).replace(b'"events":[', b'"events":[{"type":"from_the_future.v9"},')
    async with running(settings_for(url, cluster), bus) as projection:
        await publish(bus, cluster, batches(toy)[:-1])
        subject = subjects.events(cluster, "watch")
        last = await bus.publish(subject, body, f"{cluster}-odd")
        await eventually(lambda: projection.world.meta.position == last, "folded")
        assert [p.view.name for p in projection.world.pods.values()] == ["foo"]
        await eventually(lambda: bus.last(subjects.PARKED, subjects.parked(cluster)), "published")
    found = rows_of(url, tables.parked)
    assert [(p["seq"], p["ord"], p["reason"]) for p in found] == [(last, 0, "Undecodable")]
    assert b"from_the_future.v9" in found[0]["raw"]
    message = await bus.last(subjects.PARKED, subjects.parked(cluster))
    assert message is not None
    told = msgspec.json.decode(message.body)
    assert told["seq"] == last
    assert "from_the_future" in told["message"]


async def test_a_timer_fires_as_an_event(url: str, bus: Bus, cluster: str) -> None:
    toy = Toy()
    toy.act = False
    toy.pod("foo")
    async with running(settings_for(url, cluster), bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        await publish(bus, cluster, batches(toy))
        decision = next(
            d for _, d in await sent_decisions(bus, cluster, 3) if d.rule.startswith("ungate")
        )
        refusal = e.OutcomeRecorded(
            decision=decision.id, group=decision.group, status="rejected", http_status=422
        )
        await publish(bus, cluster, [e.Batch(source="actuator", events=(refusal,))])
        timers = await eventually(
            lambda: {n: t for n, t in projection.world.meta.timers.items() if "retry" in n},
            "a timer",
        )
        ((name, timer),) = timers.items()
        # The fold asks for half a minute; move it, as the wall clock would.
        now = projection.world.at
        assert now is not None
        projection.world.meta.timers[name] = msgspec.structs.replace(timer, due_at=now)
        await eventually(lambda: name not in projection.world.meta.timers, "fired and folded")
    kinds = [h["kind"] for h in rows_of(url, tables.history)]
    assert "TimerFired" in kinds
    message = await bus.last(subjects.EVENTS, subjects.events(cluster, "projector"))
    assert message is not None
    assert name.encode() in message.body


async def test_an_unanswered_decision_is_sent_again_and_never_decided_again(
    url: str, bus: Bus, cluster: str
) -> None:
    toy = Toy()
    toy.act = False
    toy.pod("foo")
    async with running(settings_for(url, cluster, decision_timeout_s=1.0), bus) as projection:
        await publish(bus, cluster, batches(toy))
        await eventually(lambda: not projection.problem, "caught up")
        count = len(decided(url, cluster))
        found = await sent_decisions(bus, cluster, count + 1)
        first, again = found[:count], found[count:]
        assert {d.id for _, d in again} < {d.id for _, d in first}
        assert not {i for i, _ in first} & {i for i, _ in again}
        assert len(decided(url, cluster)) == count


async def test_transactions_that_decide_nothing_are_further_apart(
    url: str, bus: Bus, cluster: str
) -> None:
    toy = Toy()
    toy.act = False
    before = batches(toy)
    toy.pod("foo")
    async with running(settings_for(url, cluster), bus) as projection:
        await publish(bus, cluster, before)
        await eventually(lambda: not projection.problem, "caught up")
        await asyncio.sleep(1.0)
        written, began = projection._committer.checkpoint, time.monotonic()
        for version in range(100):
            progress = e.WatchProgressed(kind="Cohort", resource_version=str(version))
            await publish(bus, cluster, [e.Batch(source="watch", events=(progress,))])
        now, took_s = projection._committer.checkpoint, time.monotonic() - began
        assert written is not None and now is not None
        assert now.writes - written.writes <= took_s / (PATIENT_GAPS * COMMIT_INTERVAL_S) + 2
        await publish(bus, cluster, batches(toy)[len(before) :])
        await eventually(lambda: decided(url, cluster), "a decision")


async def test_of_two_projectors_one_stops_with_a_clear_error(
    url: str, bus: Bus, cluster: str
) -> None:
    toy, stop = busy_toy(), asyncio.Event()
    settings = settings_for(url, cluster)
    two = [Projection(settings, bus, SqlStore(url, cluster), stop) for _ in range(2)]
    first = asyncio.create_task(two[0].run())
    await eventually(lambda: not two[0].problem, "the first has caught up")
    tasks = [first, asyncio.create_task(two[1].run())]
    await eventually(lambda: not two[1].problem or tasks[1].done(), "the second too")
    # Both fold the same messages; one of them loses the comparison and stops.
    for batch in batches(toy):
        await publish(bus, cluster, [batch])
        if any(task.done() for task in tasks):
            break
        await asyncio.sleep(0.05)
    done, running_on = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    with pytest.raises(StaleProjector, match="one projector per cluster"):
        await done.pop()
    last = await publish(bus, cluster, batches(toy))
    survivor = two[tasks.index(next(iter(running_on)))]
    await eventually(lambda: survivor.world.meta.position == last, "the other goes on")
    stop.set()
    await next(iter(running_on))
    assert comparable(reloaded(url, cluster)) == comparable(survivor.world)


@pytest.mark.parametrize(
    "name", ["busy_namespace", "external_workloads_under_kueue", "preempted_and_resumed"]
)
async def test_recorded_watch_streams_reload_as_they_are_in_memory(
    url: str, bus: Bus, cluster: str, name: str
) -> None:
    """What a real cluster sent, through a real log: the database gives the same world back."""
    recorded = [batch for _, _, batch in recordings.batches(name)]
    settings = msgspec.structs.replace(settings_for(url, cluster, batch_messages=100), mode="kueue")
    async with running(settings, bus) as projection:
        half = len(recorded) // 2
        last = await publish(bus, cluster, recorded[:half])
        await eventually(lambda: projection.world.meta.position >= last, "first half folded")
    async with running(settings, bus) as projection:
        last = await publish(bus, cluster, recorded[half:])
        await eventually(lambda: projection.world.meta.position >= last, "all folded")
        world = projection.world
    assert comparable(reloaded(url, cluster, "kueue")) == comparable(world)
    assert not rows_of(url, tables.parked)
    live = {p["uid"] for p in rows_of(url, tables.pods) if p["gone_at"] is None}
    assert live == set(world.pods)
    seen = {e.pod.uid for b in recorded for e in b.events if isinstance(e, PodApplied)}
    assert {p["uid"] for p in rows_of(url, tables.pods)} == seen


async def test_a_log_of_several_shards_is_refused(url: str, bus: Bus, cluster: str) -> None:
    """Facts of other namespaces are under other subjects: shard 0 alone would be half a cluster."""
    await bus.publish(
        f"events.{cluster}.1.watch", encode_batch(batches(busy_toy())[0]), f"{cluster}/another"
    )
    projection = Projection(
        settings_for(url, cluster), bus, SqlStore(url, cluster), asyncio.Event()
    )
    with pytest.raises(SettingsError, match=r"several shards.*another `cluster` name"):
        await projection.run()
