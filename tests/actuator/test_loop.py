"""The loop on a real stream and a stand-in API server: acks, retries, order, stops, two at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actuator.bootstrap import run_actuator
from podgroup.log import codec, subjects
from podgroup.log.events import Decision, OutcomeRecorded
from podgroup.log.parked import decode_parked
from podgroup.model import names
from podgroup.model.commands import (
    AdmitGroup,
    FinalizePod,
    KubeEvent,
    ObjectRef,
    ReportPod,
    StopPod,
    WriteWorkloadStatus,
)
from runtime.embedded import EmbeddedNats
from runtime.health import Checks
from runtime.jetstream import Bus, connect
from runtime.settings import ActuatorSettings, Settings
from runtime.streak import AFTER_S
from tests.actuator.commands import decision, pod_ref, ungate, workload_ref
from tests.actuator.conftest import Lab
from tests.actuator.log import CLUSTER, Outcomes, decide

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


@asynccontextmanager
async def actuator(
    lab: Lab, bus: Bus, mode: Any = "builtin", checks: Checks | None = None, **settings: Any
) -> AsyncIterator[asyncio.Event]:
    quick = {"retry_first_s": 0.05, "retry_ceiling_s": 0.2, "ack_wait_s": 1.0}
    stop = asyncio.Event()
    chosen = Settings(mode=mode, actuator=ActuatorSettings(**{**quick, **settings}))
    task = asyncio.create_task(run_actuator(chosen, stop, bus=bus, kube=lab.kube, checks=checks))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, 15)


async def pending(bus: Bus) -> list[Decision]:
    """Decisions that nobody acknowledged, as the next worker would get them."""
    worker = bus.work(
        subjects.DECISIONS,
        subjects.actuator_consumer(CLUSTER),
        subjects.decisions(CLUSTER),
        ack_wait_s=1,
    )
    found: list[Decision] = []
    while deliveries := await worker.next(1.5):
        found += [codec.decode_decision(d.message.body) for d in deliveries]
        for delivery in deliveries:
            await delivery.ack()
    await worker.close()
    return found


async def nothing_left(bus: Bus) -> None:
    """Every decision was acknowledged: the server keeps none for the next worker."""
    taken = await bus.taken(subjects.DECISIONS, subjects.actuator_consumer(CLUSTER))
    assert taken is not None and (taken.waiting, taken.held) == (0, 0)


async def test_a_decision_is_carried_out_recorded_and_acknowledged(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    target = await lab.pod()
    (made,) = await decide(bus, ungate(target))
    async with actuator(lab, bus):
        (outcome,) = await outcomes.until(1)
    live = await lab.live(target)
    assert live is not None
    assert outcome == OutcomeRecorded(
        decision=made.id,
        group=made.group,
        status="applied",
        http_status=200,
        message=f"PATCH /api/v1/namespaces/team/pods/{target.name}",
        uid=target.uid,
        resource_version=live["metadata"]["resourceVersion"],
        by="actuator",
    )
    await nothing_left(bus)


async def test_records_are_acknowledged_without_an_outcome(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    record = AdmitGroup(target=workload_ref(), cluster_queue="cq", assignments=())
    await decide(bus, record, ungate(await lab.pod()))
    async with actuator(lab, bus):
        (outcome,) = await outcomes.until(1)
    assert outcome.decision.startswith("d2-")
    await nothing_left(bus)


async def test_a_passing_failure_is_reported_once_and_retried_until_it_passes(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    rule = lab.cluster.faults.answer(500, method="PATCH", count=5)
    await decide(bus, ungate(await lab.pod()))
    async with actuator(lab, bus):
        seen = await outcomes.until(1)
    assert [o.status for o in seen] == ["retrying", "applied"]
    assert (seen[0].attempt, seen[0].http_status) == (1, 500)
    assert seen[1].attempt == 6
    assert rule.hits == 5


async def test_trouble_of_the_whole_server_uses_up_no_attempts(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    target = await lab.pod()
    lab.cluster.faults.answer(429, method="PATCH", count=8)
    await decide(bus, ungate(target))
    async with actuator(lab, bus, max_attempts=3):
        seen = await outcomes.until(1)
    assert [o.status for o in seen] == ["retrying", "applied"]


async def test_a_pod_whose_writes_are_refused_is_no_trouble_of_the_actuator(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    checks = Checks()
    targets = [await lab.pod(f"p{n}") for n in range(8)]
    for target in targets:  # no right, and what the objects would be
        code = 422 if target.name in ("p1", "p2", "p3", "p4") else 403
        rule = lab.cluster.faults.answer(code, method="PATCH", path=f"/pods/{target.name}")
        rule.text = "env may not be changed: denied the request"
    async with actuator(lab, bus, checks=checks):
        await decide(bus, *map(ungate, targets[:5]))
        assert {o.http_status for o in await outcomes.until(5)} == {403, 422}
        await asyncio.sleep(AFTER_S + 1)
        assert await checks.readiness() == {}
        await decide(bus, *map(ungate, targets[5:]), first=6)
        await outcomes.until(8)
        said = (await checks.readiness())["actuator: gates"]
        assert said.startswith("no gate could be removed: failed 4 times in"), said


async def test_retry_after_is_waited_for(lab: Lab, bus: Bus, outcomes: Outcomes) -> None:
    target = await lab.pod()
    lab.cluster.faults.answer(429, method="PATCH", count=1, retry_after_s=1)
    began = time.monotonic()
    await decide(bus, ungate(target))
    async with actuator(lab, bus):
        await outcomes.until(1)
    assert time.monotonic() - began >= 1.0


async def test_a_server_that_comes_back_finds_all_decisions_carried_out(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    targets = [await lab.pod(f"p{n}") for n in range(20)]
    lab.cluster.faults.refuse(1.0)
    await asyncio.sleep(0.1)
    await decide(bus, *map(ungate, targets))
    async with actuator(lab, bus):
        seen = await outcomes.until(20)
    assert all(o.http_status == 0 for o in seen if o.status == "retrying")
    for target in targets:
        live = await lab.live(target)
        assert live is not None
        assert "schedulingGates" not in live["spec"]


async def test_a_message_of_many_is_acknowledged_when_all_have_their_outcome(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    """One that cannot be read is parked by itself; the others are carried out, in their order."""
    refs = [await lab.pod(f"p{number}") for number in range(3)]
    bodies = [codec.encode_decision(decision(ungate(ref), n)) for n, ref in enumerate(refs, 1)]
    poison = b'{"id":"d9-x","group":"g","command":{"action":"Dance"}}'
    bodies.insert(1, poison)
    bodies.append(codec.encode_decision(decision(FinalizePod(target=refs[0]), 5)))
    body = codec.join_decisions(bodies)
    await bus.publish(subjects.decisions(CLUSTER), body, "many")
    async with actuator(lab, bus):
        seen = await outcomes.until(5)
        await asyncio.sleep(0.2)
    status = {outcome.decision: outcome.status for outcome in seen}
    assert status.pop("d9-x") == "rejected"
    assert set(status.values()) == {"applied"}
    assert [o.decision for o in seen].index("d1-aaaa") < [o.decision for o in seen].index("d5-aaaa")
    message = await bus.last(subjects.PARKED, subjects.parked(CLUSTER))
    assert message is not None
    assert decode_parked(message.body).body == poison
    await nothing_left(bus)


async def test_too_many_attempts_park_the_decision_and_say_so(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    lab.cluster.faults.answer(500, method="PATCH", path=r"/p0(\?|$)")
    (made, _) = await decide(bus, ungate(await lab.pod()), ungate(await lab.pod("p1")))
    async with actuator(lab, bus, max_attempts=3):
        seen = await outcomes.until(2)
    last = [o for o in seen if o.decision == made.id][-1]
    assert last.status == "rejected"
    assert last.attempt == 3
    assert "gave up after 3 tries" in last.message
    assert "simulated fault" in last.message
    message = await bus.last(subjects.PARKED, subjects.parked(CLUSTER))
    assert message is not None
    parked = decode_parked(message.body)
    assert codec.decode_decision(parked.body) == made
    assert "gave up" in parked.message and parked.by == "actuator"
    assert last.parked == f"{parked.seq}/{parked.ord}"
    await nothing_left(bus)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"no json", False),
        (b'{"id":"d7-x","group":"g","command":{"action":"Dance"}}', True),
    ],
)
async def test_what_cannot_be_read_is_parked_as_it_is_and_blocks_nothing(
    lab: Lab, bus: Bus, outcomes: Outcomes, body: bytes, named: bool
) -> None:
    await bus.publish(subjects.decisions(CLUSTER), body, "poison")
    await decide(bus, ungate(await lab.pod()))
    async with actuator(lab, bus):
        seen = await outcomes.until(1 + named)
        await asyncio.sleep(0.2)
    message = await bus.last(subjects.PARKED, subjects.parked(CLUSTER))
    assert message is not None
    parked = decode_parked(message.body)
    assert parked.body == body
    assert (parked.stream, parked.seq, parked.ord) == ("DECISIONS", 1, 0)
    assert "read" in parked.message
    if named:
        (poison,) = [o for o in seen if o.decision == "d7-x"]
        assert (poison.status, poison.group) == ("rejected", "g")
    await nothing_left(bus)


async def test_decisions_on_one_object_are_carried_out_in_their_order(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    """The first is held up for a second; the next on the same pod waits, another pod does not."""
    first, other = await lab.pod("first"), await lab.pod("other")
    lab.cluster.faults.answer(500, method="PATCH", path=r"/first(\?|$)", count=1, retry_after_s=1)
    await decide(
        bus,
        ungate(first, labels={"kueue.x-k8s.io/step": "1"}),
        FinalizePod(target=first),
        ungate(other),
    )
    async with actuator(lab, bus):
        seen = [o for o in await outcomes.until(3) if o.status != "retrying"]
    assert [o.decision[:2] for o in seen] == ["d3", "d1", "d2"]
    versions = {o.decision[:2]: int(o.resource_version) for o in seen}
    assert versions["d1"] < versions["d2"]


async def test_a_stop_sends_back_what_is_waiting_for_a_retry(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    lab.cluster.faults.answer(500, method="PATCH", path=r"/p0(\?|$)")
    stuck, waiting, fine = await lab.pod(), await lab.pod("p1"), await lab.pod("p2")
    made = await decide(bus, ungate(stuck), FinalizePod(target=stuck), ungate(fine))
    async with actuator(lab, bus, retry_first_s=30, retry_ceiling_s=30):
        await outcomes.until(1)
        began = time.monotonic()
    assert time.monotonic() - began < 15
    assert {d.id for d in await pending(bus)} == {made[0].id, made[1].id}
    assert await lab.live(waiting) is not None


async def test_long_work_is_kept_from_being_delivered_again(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    lab.cluster.faults.answer(500, method="PATCH", count=22)
    await decide(bus, ungate(await lab.pod()))
    async with actuator(lab, bus, ack_wait_s=1.0, max_attempts=50):
        seen = await outcomes.until(1)
        assert sum(o.attempt for o in seen if o.status == "applied") == 23
    assert {o.delivery for o in seen} == {1}


async def test_three_actuators_share_the_work_and_each_effect_happens_once(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    targets = [await lab.pod(f"p{n:03}") for n in range(200)]
    before = {t.name: await generation(lab, t) for t in targets}
    await decide(bus, *map(ungate, targets))
    few: dict[str, Any] = {"max_in_flight": 4}
    async with actuator(lab, bus, **few), actuator(lab, bus, **few), actuator(lab, bus, **few):
        seen = await outcomes.until(200)
    assert {o.status for o in seen} == {"applied"}
    assert len({o.decision for o in seen}) == 200
    for target in targets:
        assert await generation(lab, target) == before[target.name] + 1
    await nothing_left(bus)


async def publish_many(bus: Bus, many: list[Decision], last: Decision) -> None:
    """Publish many decisions, 32 in a message, and one of its own behind them."""
    subject = subjects.decisions(CLUSTER)
    for part in (many[n : n + 32] for n in range(0, len(many), 32)):
        body = codec.join_decisions([codec.encode_decision(each) for each in part])
        await bus.publish(subject, body, part[0].id)
    await bus.publish(subject, codec.encode_decision(last), last.id)


async def test_a_single_pod_does_not_wait_for_a_large_group(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    """600 pods, 8 requests at once, 20 ms each: in one line the single one would be last."""
    targets = [await lab.pod(f"p{n:03}") for n in range(600)]
    single = await lab.pod("single")
    lab.cluster.faults.delay(20, method="PATCH")
    large = [decision(ungate(target), n) for n, target in enumerate(targets, 1)]
    last = decision(ungate(single), 601, group="group-2", name="single")
    await publish_many(bus, large, last)
    async with actuator(lab, bus, max_in_flight=8, ack_wait_s=30):
        seen = await outcomes.until(601)
    order = [outcome.decision for outcome in seen]
    assert order.index(last.id) < 100


@pytest.mark.parity("B12")
async def test_a_pod_that_may_start_does_not_wait_for_what_blocked_ones_are_told(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    """Conditions and Events of 150 pods go with all requests, and behind an ungating."""
    targets = [await lab.pod(f"p{n:03}") for n in range(150)]
    free = await lab.pod("free")
    lab.cluster.faults.delay(10)
    event = KubeEvent(type="Warning", reason="LocalQueueNotFound", message="m")
    told = {"status": "False", "reason": event.reason, "message": "m", "events": (event,)}
    reports = [
        decision(ReportPod(target=t, **told), n, group=f"group-{n}")  # type: ignore[arg-type]
        for n, t in enumerate(targets, 1)
    ]
    last = decision(ungate(free), 151, group="group-151", name="free")
    await publish_many(bus, reports, last)
    async with actuator(lab, bus, max_in_flight=8, ack_wait_s=30):
        seen = await outcomes.until(151)
    assert {o.status for o in seen} == {"applied"}
    assert [o.decision for o in seen].index(last.id) < 75
    assert len(seen) == 151


@pytest.mark.parametrize("reported", [0, 100])
async def test_a_stop_goes_before_status_writes_and_takes_what_is_before_it_along(
    lab: Lab, bus: Bus, outcomes: Outcomes, reported: int
) -> None:
    """K4. 101 pods are told why they wait, 2 requests at once; the stop of one comes last."""
    targets = [await lab.pod(f"p{n:03}") for n in range(101)]
    lab.cluster.faults.delay(10)
    told = {"status": "False", "reason": "r", "message": "m"}
    reports = [
        decision(ReportPod(target=t, **told), n, group=f"group-{n}")  # type: ignore[arg-type]
        for n, t in enumerate(targets, 1)
    ]
    stop = StopPod(target=targets[reported], reason="PodsReadyTimeout", message="m")
    last = decision(stop, 102, group=f"group-{reported + 1}")
    await publish_many(bus, reports, last)
    async with actuator(lab, bus, max_in_flight=2, ack_wait_s=30):
        seen = await outcomes.until(102)
    assert [o.decision for o in seen].index(last.id) < 30


async def test_time_outs_of_one_namespace_hold_up_no_other_one(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    """F3. 40 pods of a namespace get no answer; the pods of another start meanwhile."""
    stuck = [decision(ungate(pod_ref(f"s{n}", f"u{n}", "hostile")), n) for n in range(1, 41)]
    calm = [await lab.pod(f"p{n}") for n in range(3)]
    lab.cluster.faults.delay(60_000, path="/namespaces/hostile/")
    for number in range(3):
        last = decision(ungate(calm[number]), 41 + number, group=f"group-{number}")
        await publish_many(bus, stuck if number == 0 else [], last)
    began = time.monotonic()
    async with actuator(lab, bus, max_in_flight=8, ack_wait_s=30):
        await outcomes.until(3, 20)
        assert time.monotonic() - began < 5


async def test_decisions_for_slow_pods_do_not_fill_the_window(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    """16 messages are held at most; the one of another namespace comes behind 40 of slow pods."""
    lab.cluster.faults.delay(60_000, path="/namespaces/hostile/")
    for n in range(1, 41):
        one = decision(ungate(pod_ref(f"s{n % 20}", f"u{n % 20}", "hostile")), n)
        await bus.publish(subjects.decisions(CLUSTER), codec.encode_decision(one), one.id)
    await publish_many(bus, [], decision(ungate(await lab.pod()), 41, group="calm"))
    async with actuator(lab, bus, max_in_flight=2, ack_wait_s=30):
        (done,) = {o.decision for o in await outcomes.until(1, 20) if o.status == "applied"}
    assert done.startswith("d41-")


async def generation(lab: Lab, target: ObjectRef) -> int:
    live = await lab.live(target)
    assert live is not None
    return int(live["metadata"]["generation"])


def count(name: str) -> WriteWorkloadStatus:
    return WriteWorkloadStatus(target=workload_ref(name), reclaimable={"main": 1})


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
async def test_a_count_of_succeeded_pods_holds_nothing_else_up(
    lab: Lab, bus: Bus, outcomes: Outcomes, mode: str
) -> None:
    """Its Workload is given another write behind it, which keeps its turn."""
    again = WriteWorkloadStatus(target=workload_ref("w0"), clear_admission=True)
    made = await decide(bus, count("w0"), again, ungate(await lab.pod()))
    async with actuator(lab, bus, mode=mode):
        seen = [outcome.decision for outcome in await outcomes.until(3)]
    ids = [one.id for one in made]
    if mode == "builtin":
        assert seen == [ids[2], *ids[:2]]
    else:
        assert seen.index(ids[0]) < seen.index(ids[1])
    await nothing_left(bus)


async def test_a_count_that_waits_goes_back_when_we_stop(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    waits, _ = await decide(bus, count("w0"), ungate(await lab.pod()))
    async with actuator(lab, bus):
        await outcomes.until(1)
    assert [one.id for one in await pending(bus)] == [waits.id]


async def test_counts_of_succeeded_pods_fill_half_of_the_window_at_most(
    lab: Lab, bus: Bus, outcomes: Outcomes
) -> None:
    """16 messages are held at most: 120 counts do not wait a second, 16 at a time."""
    await decide(bus, *(count(f"w{n}") for n in range(120)))
    began = time.monotonic()
    async with actuator(lab, bus, max_in_flight=2):
        await outcomes.until(120)
    assert time.monotonic() - began < 6


async def test_outcomes_share_messages_under_load(lab: Lab, bus: Bus, outcomes: Outcomes) -> None:
    targets = [await lab.pod(f"p{n:03}") for n in range(300)]
    event = KubeEvent(type="Normal", reason="Started", message="m")
    await decide(bus, *(ungate(target, events=(event,)) for target in targets))
    async with actuator(lab, bus, events="all"):
        await outcomes.until(300)
    state = await bus.stream_state(subjects.EVENTS)
    assert state.messages < 300
    assert len(lab.events()) == 300


async def test_an_outcome_that_meets_a_dead_stream_is_stored_when_it_is_back(
    lab: Lab, tmp_path: Path
) -> None:
    server = EmbeddedNats(tmp_path / "own", sync_always=True)
    await server.start()
    bus = await connect(server.settings(), "test", deadline_s=10)
    try:
        await bus.ensure_streams(Settings().streams)
        target = await lab.pod()
        lab.cluster.faults.delay(700, method="PATCH")
        async with actuator(lab, bus):
            await decide(bus, ungate(target))
            await asyncio.sleep(0.4)  # the request is under way
            server.kill()
            await asyncio.sleep(1.0)
            await server.start()
            found = Outcomes(bus)
            seen = await found.until(1, 30)
            await found.close()
        assert seen[0].status == "applied"
        assert names.ADMISSION_GATE not in str((await lab.live(target) or {})["spec"])
    finally:
        await bus.close()
        await server.stop()


async def test_a_target_nobody_has_is_obsolete(lab: Lab, bus: Bus, outcomes: Outcomes) -> None:
    await decide(bus, ungate(pod_ref()))
    async with actuator(lab, bus):
        (outcome,) = await outcomes.until(1)
    assert (outcome.status, outcome.http_status) == ("obsolete", 404)


async def test_a_stop_waits_for_no_report_on_the_same_pod(lab: Lab, bus: Bus) -> None:
    """A status that gets no answer, and is tried again for ever, keeps no quota of others."""
    target = await lab.pod()
    lab.cluster.faults.delay(60_000, method="PATCH", path="/status")
    report = ReportPod(target=target, status="False", reason="R", message="m")
    await decide(bus, report)
    async with actuator(lab, bus, max_attempts=100):
        await asyncio.sleep(0.5)
        stop = StopPod(target=target, reason="R", message="m", finalize=True)
        await decide(bus, stop, first=2)
        began = time.monotonic()
        while await lab.live(target) is not None:
            assert time.monotonic() - began < 5.0
            await asyncio.sleep(0.05)
