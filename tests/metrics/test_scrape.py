"""/metrics of `gatelog up` over HTTP, after groups went through it on the stand-in cluster."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from podgroup.model.objects import WATCHED_KINDS
from runtime.metrics import UNBOUNDED
from tests.deploy.compose import free_port
from tests.metrics.reference import everything
from tests.support.processes import Api, make_queue, pod
from tests.support.stack import Stack, runs_to_its_end, started

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NAMESPACE = "meter"
CQ = f"cq-{NAMESPACE}"


class Page:
    """A scraped page: `page(name, label=value, ...)` adds up the series that match."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def has(self, name: str) -> bool:
        return any(sample.name == name for sample in self.samples)


async def scrape(port: int) -> Page:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        assert answer.status == 200
        return Page(await answer.text())


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def stack(tmp_path: Path, port: int) -> Iterator[Stack]:
    one = Stack(tmp_path)
    one.up.env["GATELOG_HEALTH_PORT"] = str(port)
    one.up.env["GATELOG_ARCHIVE_URL"] = str(tmp_path / "archive")
    with started(one):
        yield one


async def stories(stack: Stack, api: Api) -> None:
    """Two pods that finish, three admitted of which one is in excess, two that wait for quota."""
    await make_queue(api, NAMESPACE, cpu="4")
    await runs_to_its_end(stack, api, NAMESPACE)
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    for name in ("a0", "a1"):
        await api.call("POST", pods, pod(name, "a", 2, script="run=forever"))

    async def running() -> bool:
        found = await api.pods(NAMESPACE)
        return all(found[name]["status"].get("phase") == "Running" for name in ("a0", "a1"))

    await api.until("a runs", running)
    await api.call("POST", pods, pod("a2", "a", 2, script="run=forever"))
    for name in ("b0", "b1"):
        await api.call("POST", pods, pod(name, "b", 2, cpu="2", script="run=forever"))

    async def excess_gone() -> bool:
        return "a2" not in await api.pods(NAMESPACE)

    await api.until("the pod in excess is gone", excess_gone)


class Facts:
    """What the read model says; the page must say the same."""

    def __init__(self, stack: Stack) -> None:
        rows = stack.sql("SELECT rule, action, count(*) AS n FROM decisions GROUP BY rule, action")
        self.decisions = {(row["rule"], row["action"]): row["n"] for row in rows}
        rows = stack.sql("SELECT status, count(*) AS n FROM outcomes GROUP BY status")
        self.outcomes = {row["status"]: row["n"] for row in rows}
        rows = stack.sql("SELECT wait_reason FROM groups WHERE name = 'b'")
        self.waits_for: list[str] = [row["wait_reason"] for row in rows]


async def settled(stack: Stack, port: int) -> tuple[Page, Facts]:
    """Scrape until what was asked for has been folded and nothing is on its way."""
    async with asyncio.timeout(30):
        while True:
            facts, page = Facts(stack), await scrape(port)
            if (
                page("gatelog_pods_rejected_total") == 1
                and page("gatelog_pending_groups", cluster_queue=CQ) == 1
                and page("gatelog_projector_unresolved_decisions") == 0
                and page("gatelog_projector_lag_messages") == 0
                and vars(Facts(stack)) == vars(facts)
            ):
                return page, facts
            await asyncio.sleep(0.1)


@pytest.mark.timeout(180)
async def test_one_page_tells_what_happened(stack: Stack, port: int) -> None:
    async with stack.api() as api:
        await stories(stack, api)
        page, facts = await settled(stack, port)
        domain(page, facts)
        pipeline(page, facts)
        form(page)
        await counts_begin_again(stack, port)


def domain(page: Page, facts: Facts) -> None:
    assert page("gatelog_pods_gated_total", cluster_queue=CQ) == 7
    assert page("gatelog_pods_ungated_total", cluster_queue=CQ) == 4
    assert page("gatelog_pods_rejected_total", cluster_queue=CQ) == 1
    assert page("gatelog_admitted_groups_total", cluster_queue=CQ) == 2
    assert page("gatelog_finished_groups_total", cluster_queue=CQ, reason="Succeeded") == 1
    assert page("gatelog_evicted_groups_total") == 0
    assert page("gatelog_admission_wait_time_seconds_count", cluster_queue=CQ) == 2
    assert page("gatelog_pod_scheduling_gate_removal_seconds_count", cluster_queue=CQ) == 4
    assert 0 < page("gatelog_pod_scheduling_gate_removal_seconds_sum") < 4 * 20
    quota = {"cluster_queue": CQ, "flavor": "lab-flavor", "resource": "cpu"}
    assert page("gatelog_quota_nominal", **quota) == 4
    assert page("gatelog_quota_used", **quota) == 2
    (reason,) = facts.waits_for
    assert page("gatelog_pending_groups", cluster_queue=CQ, reason=reason) == 1
    assert page("gatelog_gated_pods", cluster_queue=CQ) == 2
    assert page("gatelog_groups", state="Running") == 1
    assert page("gatelog_info", cluster="default", mode="builtin") == 1
    for (rule, action), count in facts.decisions.items():
        assert page("gatelog_decisions_total", rule=rule, action=action) == count, (rule, action)
    assert page("gatelog_decisions_total") == sum(facts.decisions.values()) > 0


def pipeline(page: Page, facts: Facts) -> None:
    assert page("gatelog_ingest_deltas_total", kind="Pod", type="applied") >= 14
    assert page("gatelog_ingest_deltas_total", kind="Pod", type="deleted") == 1
    assert page("gatelog_ingest_relists_total", kind="Pod", reason="empty_log") == 1
    assert page("gatelog_ingest_relists_total", reason="other") == 0
    assert page("gatelog_ingest_relists_total") == page("gatelog_ingest_following")
    assert page("gatelog_ingest_following") == len(WATCHED_KINDS)
    assert page("gatelog_ingest_sessions_total") == 1
    messages = page("gatelog_ingest_messages_total")
    assert messages == page("gatelog_ingest_publish_seconds_count") > 0
    assert page("gatelog_projector_messages_total", source="watch") == messages
    assert page("gatelog_projector_events_total", source="watch") >= messages
    assert page("gatelog_projector_lag_seconds") == 0
    assert page("gatelog_projector_commit_seconds_count") > 0
    assert page("gatelog_projector_delay_seconds_count") > 0
    batched = page("gatelog_projector_batch_events_sum")
    assert batched == page("gatelog_projector_events_total")
    assert page("gatelog_projector_parked_total") == 0
    ended = sum(count for status, count in facts.outcomes.items() if status != "retrying")
    assert page("gatelog_actuator_outcomes_total") == ended
    assert page("gatelog_actuator_outcomes_total", action="UngatePod", status="applied") == 4
    assert page("gatelog_actuator_decision_seconds_count") == ended
    requests = page("gatelog_actuator_requests_total")
    assert requests == page("gatelog_actuator_request_seconds_count") >= ended
    assert page("gatelog_actuator_requests_total", resource="pods", status="200") >= 4
    assert page("gatelog_actuator_requests_limit") >= 1
    assert page("gatelog_actuator_decisions_held") == 0
    assert page("gatelog_webhook_requests_total", webhook="mutate") == 7
    assert page("gatelog_webhook_request_seconds_count", webhook="mutate") == 7


def form(page: Page) -> None:
    """Everything declared is there, nothing else but the process, and no label without bound."""
    declared = everything().families
    shown = {
        family.name + "_total" if family.type == "counter" else family.name: family
        for family in page.families
    }
    ours = {name: family for name, family in shown.items() if not name.startswith("process_")}
    # `gatelog up` is alone and needs no Lease, makes its first estimates after a minute, and shows
    # its console to one machine only.
    estimates = {
        *("gatelog_forecast_groups", "gatelog_forecast_start_seconds"),
        "gatelog_forecast_timestamp_seconds",
    }
    assert set(declared) - set(ours) - estimates == {
        *("gatelog_lease_changes_total", "gatelog_lease_is_leader", "gatelog_usage_seconds"),
    }
    assert set(ours) <= set(declared)
    for name, family in ours.items():
        assert (family.type, family.documentation) == (declared[name].kind, declared[name].help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(declared[name].labels)
            assert not UNBOUNDED.intersection(sample.labels)
    for word in ("a", "a0", "b", "b1", NAMESPACE, "user-queue"):
        assert f'="{word}"' not in page.text


async def counts_begin_again(stack: Stack, port: int) -> None:
    """The next process counts what it does; what the last one counted is not counted again."""
    stack.up.stop()
    stack.start()
    page = await scrape(port)
    assert page("gatelog_pods_gated_total") == page("gatelog_admitted_groups_total") == 0
    assert page("gatelog_quota_used") == 2
    assert page("gatelog_pending_groups", cluster_queue=CQ) == 1
    assert page.has("gatelog_projector_commit_seconds_count")
