"""The parts one by one, on real servers: what each counts when things go well, and when not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actuator.bootstrap import run_actuator
from actuator.metrics import _resource
from ingest import resume, states
from ingest.kinds import watched_kinds
from ingest.metrics import IngestMetrics, reason_class
from ingest.states import Absent, HttpRefusal, InitialWatch, Listing, Start, Step, Trouble, Watching
from podgroup.log import subjects
from podgroup.log.events import Batch
from podgroup.model.objects import Kind
from projector.bootstrap import run_projector
from projector.measures import lag
from projector.upkeep import migrate
from runtime.health import Checks
from runtime.jetstream import Bus
from runtime.metrics import Metrics
from runtime.settings import ActuatorSettings, Settings
from tests.actuator.commands import ungate
from tests.actuator.conftest import Lab
from tests.actuator.log import Outcomes, decide
from tests.metrics.test_increments import in_batches, lively_toy
from tests.metrics.test_scrape import Page
from tests.projector.running import eventually, publish, settings_for
from tests.support.databases import migrated

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


def page(checks: Checks) -> Page:
    return Page(checks.metrics().decode() if checks.metrics is not None else "")


@asynccontextmanager
async def projector(settings: Settings, bus: Bus) -> AsyncIterator[Checks]:
    stop, checks = asyncio.Event(), Checks()
    task = asyncio.create_task(run_projector(settings, stop, bus=bus, checks=checks))
    try:
        yield checks
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)


async def caught_up(checks: Checks) -> Page:
    async def ready() -> bool:
        return checks.metrics is not None and not await checks.readiness()

    await eventually(ready, "caught up")
    return page(checks)


async def test_history_is_counted_once_over_processes_and_rebuilds(
    own_bus: Bus, cluster: str, tmp_path: Path
) -> None:
    toy = lively_toy()
    timers = len(toy.world.meta.timers)  # they are due: each that fires is an event, and a message
    wanted = in_batches(toy.messages, 100_000).counts
    events = sum(len(batch.events) for _, _, batch in toy.messages)
    await publish(own_bus, cluster, (batch for _, _, batch in toy.messages))
    for run, counted in (("first", True), ("again", False), ("rebuilt", False)):
        url = f"sqlite:///{tmp_path}/{'rebuilt' if run == 'rebuilt' else 'first'}.db"
        migrate.upgrade(url)
        async with projector(settings_for(url, cluster, batch_messages=9), own_bus) as checks:
            found = await caught_up(checks)
        for (name, labels), amount in wanted.items():
            family = next(f for f in found.families if f.name + "_total" == name)
            shown = [s for s in family.samples if sorted(s.labels.values()) == sorted(labels)]
            assert sum(s.value for s in shown) == (amount if counted else 0), (run, name, labels)
        folded = 0 if run == "again" else events
        fired = found("gatelog_projector_events_total") - folded
        assert 0 <= fired <= (timers if run == "first" else 2 * timers), run
        assert found("gatelog_projector_batch_events_sum") == folded + fired, run
        messages = found("gatelog_projector_messages_total") - (folded and len(toy.messages))
        assert 0 <= messages <= fired, run
        # What there is, is there in every process.
        assert found("gatelog_pods") == len(toy.world.pods), run
        assert found("gatelog_groups") == len(toy.world.groups), run


async def test_what_waits_for_the_actuator_and_what_is_parked(
    own_bus: Bus, cluster: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/read-model.db"
    migrated(url)
    toy = lively_toy()
    toy.act = False
    toy.pod("unanswered", "u", 2)
    async with projector(settings_for(url, cluster), own_bus) as checks:
        before = await caught_up(checks)
        assert before("gatelog_projector_parked_total", reason="Undecodable") == 0
        assert before("gatelog_projector_unresolved_decision_age_seconds") == 0
        await publish(own_bus, cluster, (batch for _, _, batch in toy.messages))
        await own_bus.publish(subjects.events(cluster, "watch"), b"no batch", "bad")
        await eventually(
            lambda: page(checks)("gatelog_projector_parked_total", reason="Undecodable") == 1,
            "parked",
        )
        toy.pod("u2", "u", 2)  # complete: its Workload is to be created, and nobody does
        await publish(own_bus, cluster, [toy.messages[-1][2]])
        await eventually(
            lambda: page(checks)("gatelog_projector_unresolved_decisions") > 0, "decided"
        )
        await asyncio.sleep(0.05)
        age = page(checks)("gatelog_projector_unresolved_decision_age_seconds")
        assert 0.05 <= age < 60


async def test_the_lag_is_that_of_the_own_cluster(own_bus: Bus, cluster: str) -> None:
    toy = lively_toy()
    seen = lag.Lag()
    await publish(own_bus, cluster, (batch for _, _, batch in toy.messages))
    await publish(own_bus, "another-cluster", (batch for _, _, batch in toy.messages))
    async with lag.watching(seen, own_bus, cluster):
        await eventually(lambda: seen.messages(0) > 0, "looked")
        assert seen.messages(0) == len(toy.messages)
        assert seen.messages(len(toy.messages)) == 0


@asynccontextmanager
async def actuator(lab: Lab, bus: Bus, **more: float) -> AsyncIterator[Checks]:
    stop, checks = asyncio.Event(), Checks()
    quick = {"retry_first_s": 0.05, "retry_ceiling_s": 0.2, "ack_wait_s": 1.0, **more}
    settings = Settings(actuator=ActuatorSettings(**quick))  # type: ignore[arg-type]
    task = asyncio.create_task(run_actuator(settings, stop, bus=bus, kube=lab.kube, checks=checks))
    try:
        yield checks
    finally:
        stop.set()
        await asyncio.wait_for(task, 15)


async def test_requests_retries_and_outcomes_are_counted(lab: Lab, own_bus: Bus) -> None:
    outcomes = Outcomes(own_bus)
    good, gone = await lab.pod("good"), await lab.pod("gone")
    await lab.kube.request("DELETE", f"/api/v1/namespaces/{gone.namespace}/pods/gone")
    lab.cluster.faults.answer(429, path="pods/good", count=3)
    async with actuator(lab, own_bus) as checks:
        await decide(own_bus, ungate(good), ungate(gone))
        told = await outcomes.until(2)
        await eventually(lambda: page(checks)("gatelog_actuator_decisions_held") == 0, "done")
        found = page(checks)
    await outcomes.close()
    ended = {o.status for o in told if o.status != "retrying"}
    for status in ended:
        assert found("gatelog_actuator_outcomes_total", action="UngatePod", status=status) >= 1
    assert found("gatelog_actuator_outcomes_total") == 2
    assert found("gatelog_actuator_requests_total", resource="pods", status="429") == 3
    assert found("gatelog_actuator_retries_total", action="UngatePod") == 3
    assert found("gatelog_actuator_requests_total", resource="pods", status="200") >= 1
    assert found("gatelog_actuator_parked_total") == 0
    assert found("gatelog_actuator_decision_seconds_count", action="UngatePod") == 2
    assert found("gatelog_actuator_requests_in_flight") == 0


async def test_decisions_that_are_given_up_are_counted_as_parked(lab: Lab, own_bus: Bus) -> None:
    outcomes = Outcomes(own_bus)
    target = await lab.pod("bad")
    lab.cluster.faults.answer(500, path="pods/bad", count=1000)
    async with actuator(lab, own_bus, max_attempts=2) as checks:
        await own_bus.publish(subjects.decisions("default"), b"no decision", "junk")
        await decide(own_bus, ungate(target))
        await outcomes.until(1)
        await eventually(lambda: page(checks)("gatelog_actuator_parked_total") == 2, "parked")
        found = page(checks)
    await outcomes.close()
    assert found("gatelog_actuator_outcomes_total", action="UngatePod", status="rejected") == 1
    assert found("gatelog_actuator_outcomes_total") == 1
    assert found("gatelog_actuator_retries_total") == 2


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/ns/pods/p", "pods"),
        ("/api/v1/namespaces/namespaces/pods/p/status", "pods"),
        ("/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads", "workloads"),
        ("/apis/events.k8s.io/v1/namespaces/ns/events", "events"),
        ("/apis/kueue.x-k8s.io", "other"),
        ("/api/v1/namespaces/ns/secrets/s", "other"),
    ],
)
def test_paths_are_put_into_a_few_resources(path: str, resource: str) -> None:
    assert _resource(path) == resource


def relist(kind: Kind) -> str:
    return f"{kind}-1"


def test_every_reason_of_a_relist_has_a_class() -> None:
    """Reasons are made by the state machine and the session; none of theirs is `other`."""
    pods = next(spec for spec in watched_kinds("a=b", "kueue") if spec.kind == "Pod")
    watching = Watching("7", strikes=states.MAX_STRIKES - 1)
    reached = {
        states.on_refusal(pods, watching, HttpRefusal(410, "Expired", "too old")): "expired",
        states.on_refusal(pods, Listing("r", token="t"), HttpRefusal(400, "", "")): "expired",
        states.on_refusal(
            pods, watching, HttpRefusal(400, "", "resourceVersion")
        ): "version_refused",
        states.on_close(InitialWatch("r", count=1), "reset"): "interrupted",
        states.list_instead(InitialWatch("r", count=1)): "no_watch_list",
        states.on_probe(pods, Absent(reported=True), 0, relist): "installed",
    }
    for step, wanted in reached.items():
        assert isinstance(step.state, Start), step
        assert reason_class(step.state.reason) == wanted, step
    assert reason_class(Start().reason) == "start"
    missing = states.on_probe(pods, Absent(), None, relist)
    metrics = Metrics()
    counts = IngestMetrics(metrics)
    counts.came("Pod", missing)
    counts.came("Pod", Step((), Watching("1"), Trouble("away")))
    found = Page(metrics().decode())
    assert found("gatelog_ingest_relists_total", kind="Pod", reason="not_installed") == 1
    assert found("gatelog_ingest_deltas_total") == 0


async def test_reasons_that_the_log_gives_have_classes(bus: Bus, cluster: str) -> None:
    empty = await resume.from_log(bus, cluster)
    assert reason_class(empty.reason) == "empty_log"
    assert reason_class((await resume.from_log(bus, cluster)).reason) == "empty_log"
    await publish(bus, cluster, [Batch(source="watch", events=())])
    assert reason_class((await resume.from_log(bus, cluster)).reason) == "no_complete_list"
    state = await bus.stream_state(subjects.EVENTS)
    ahead = resume.Known(
        created=state.created,
        last_sequence=state.last_sequence + 1000,
        acked_sequence=0,
        acked_msg_id="",
    )
    assert reason_class(await resume.lost(bus, ahead)) == "log_rolled_back"


def test_a_watch_in_trouble_is_no_sign_of_life() -> None:
    metrics = Metrics()
    counts = IngestMetrics(metrics)
    name = "gatelog_ingest_last_event_timestamp_seconds"
    counts.came("Pod", Step((), Watching("1"), Trouble("away")))
    assert not Page(metrics().decode()).has(name)
    counts.came("Pod", Step((), Watching("2")))
    assert Page(metrics().decode())(name, kind="Pod") > 1_700_000_000
    counts.ended("Pod", trouble=True)
    counts.ended("Pod", trouble=False)
    counts.ended("Pod", trouble=False)
    found = Page(metrics().decode())
    assert found("gatelog_ingest_watch_restarts_total", kind="Pod", outcome="closed") == 2
    assert found("gatelog_ingest_watch_restarts_total", kind="Pod", outcome="trouble") == 1
