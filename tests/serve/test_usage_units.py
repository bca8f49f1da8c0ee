"""Hours of the aggregated API are those of `gatelog usage`: cores, GiB, and one of all else."""

import asyncio

import pytest

from gatelog.readmodel.usage import Share
from gatelog.serve.api.finding_usage import resource_hours
from gatelog.serve.questions import Questions
from gatelog.serve.spending import Spending
from runtime.metrics import Metrics
from runtime.settings import Settings
from tests.serve.test_console import Model

HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("resource", "amount", "told"),
    [("cpu", 1500, 1.5), ("memory", 3 * 2**30, 3.0), ("nvidia.com/gpu", 2, 2.0)],
)
def test_hours_are_what_people_count(resource: str, amount: int, told: float) -> None:
    share = Share(key="ns", resource=resource)
    share.spent.add("running", "", amount * HOUR_US)
    share.spent.add("unadmitted", "", 2 * amount * HOUR_US)
    found = resource_hours(share, None)
    assert (found.running, found.unadmitted, found.held) == (told, 2 * told, 0)


async def test_a_scrape_asks_for_what_the_next_one_shows(sqlite_model: Model) -> None:
    metrics = Metrics()
    spending = Spending(metrics)
    questions = Questions(sqlite_model[0], Settings(cluster="test"))
    task = asyncio.create_task(spending.keep(questions, 0.1))
    try:
        shown = b'gatelog_usage_seconds{cluster_queue="cq",resource="cpu",what="running"}'
        await asyncio.sleep(0.3)
        assert shown not in metrics(), "it was not scraped before"
        async with asyncio.timeout(30):
            while shown not in metrics():
                await asyncio.sleep(0.05)
    finally:
        task.cancel()
        questions.close()
