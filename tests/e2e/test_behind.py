"""What is behind is seen: by the metrics, and by `gatelog doctor`, which says what to do.

`gatelog up` with an API server that answers every patch with 429, then with a database on which
somebody else holds a lock. Both end, and nothing is behind any more.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.compose import free_port
from tests.metrics.test_scrape import Page, scrape
from tests.support.faults.answers import answering
from tests.support.faults.files import locked
from tests.support.processes import Api, make_queue, pod
from tests.support.stack import Stack

pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.slow("it waits until work is old enough to be behind"),
]

NAMESPACE = "busy"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
UNRESOLVED = "gatelog_projector_unresolved_decisions"
AGE_S = "gatelog_projector_unresolved_decision_age_seconds"
LAG, LAG_S = "gatelog_projector_lag_messages", "gatelog_projector_lag_seconds"
WAIT_S = 60


class Seen:
    """What the outside sees of a stack."""

    def __init__(self, stack: Stack, api: Api, port: int) -> None:
        self.stack = stack
        self.api = api
        self.port = port

    async def above(self, name: str, value: float) -> Page:
        """Scrape until a metric is above a value."""
        async with asyncio.timeout(WAIT_S):
            while (page := await scrape(self.port))(name) <= value:
                await asyncio.sleep(0.1)
        return page

    async def none(self, name: str) -> Page:
        """Scrape until a metric is 0."""
        async with asyncio.timeout(WAIT_S):
            while (page := await scrape(self.port))(name):
                await asyncio.sleep(0.1)
        return page

    async def doctor(self, what: str) -> dict[str, str]:
        return (await asyncio.to_thread(self.stack.doctor))[what]

    async def create(self, name: str) -> None:
        await self.api.call("POST", PODS, pod(name, cpu="1m", script="run=forever"))

    async def running(self, name: str) -> None:
        async def come() -> bool:
            found: dict[str, Any] = await self.api.call("GET", f"{PODS}/{name}")
            return found["status"].get("phase") == "Running"

        await self.api.until(f"{name} runs", come, WAIT_S)


@pytest.mark.timeout(240)
async def test_what_is_behind_is_seen_and_what_to_do_is_said(tmp_path: Path) -> None:
    port, stack = free_port(), Stack(tmp_path)
    stack.up.env |= {"GATELOG_HEALTH_PORT": str(port), "GATELOG_PROJECTOR_DECISION_TIMEOUT_S": "1"}
    # `doctor` is asked beside it, and by the same settings.
    stack.env["GATELOG_PROJECTOR_DECISION_TIMEOUT_S"] = "1"
    try:
        stack.start()
        async with stack.api() as api:
            await make_queue(api, NAMESPACE)
            seen = Seen(stack, api, port)
            await seen.create("first")
            await seen.running("first")
            await an_api_server_that_says_429(seen)
            await a_database_that_is_locked(seen)
    except BaseException:
        print(stack.up.tail(30))
        raise
    finally:
        stack.stop()


async def an_api_server_that_says_429(seen: Seen) -> None:
    rule = {"status": 429, "method": "PATCH", "retry_after_s": 1}
    async with answering(seen.api, rule):
        await seen.create("refused")
        page = await seen.above(AGE_S, 2.5)
        assert page(UNRESOLVED) >= 1
        found = await seen.doctor("decisions")
        assert found["verdict"] == "warn", found
        assert "have had no outcome for more than 2.00 s" in found["detail"]
        assert "is the actuator running" in found["remedy"]
    await seen.running("refused")
    await seen.none(UNRESOLVED)


async def a_database_that_is_locked(seen: Seen) -> None:
    with locked(seen.stack.state / "read-model.sqlite3"):
        await seen.create("late")
        page = await seen.above(LAG, 0)
        await seen.above(LAG_S, page(LAG_S) + 1)
        found = await seen.doctor("lag")
        assert "behind, by" in found["detail"] and "since" in found["detail"], found
    await seen.running("late")
    assert (await seen.none(LAG))(LAG_S) == 0
