"""When, lent and what it cost: the same in kubectl, in the plugin and in the browser."""

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from gatelog.forecast.beside import note
from gatelog.readmodel.starts import short
from gatelog.serve.bootstrap import local_console
from projector import tables
from projector.storage.database import writer
from runtime.settings import DatabaseSettings, ServeSettings, Settings
from tests.serve import pages
from tests.serve.conftest import World, needs_kubectl
from tests.serve.test_console import Model, get

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def estimate(url: str, name: str, in_s: float | None, latest_s: float | None, never: str) -> None:
    """Tell a group of the story when it starts, as `gatelog forecast` does."""
    engine, now = writer(url), datetime.now(UTC)

    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else now + timedelta(seconds=seconds)

    with engine.begin() as connection:
        groups = tables.groups.c
        known = connection.execute(
            sa.select(groups.id, groups.queue, groups.cluster_queue).where(groups.name == name)
        ).one()
        own = {"cluster": "test", "shard": 0, "as_of_seq": 1}
        forecast = own | {"at": now, "plays": 20, "took_ms": 5, "groups": 1, "drawn_from": {}}
        connection.execute(sa.delete(tables.forecasts))
        connection.execute(sa.insert(tables.forecasts), [forecast])
        row = own | {
            "group_id": known.id,
            "given_at": now - timedelta(seconds=20),
            "namespace": "ns",
            "name": name,
            "queue": known.queue,
            "cluster_queue": known.cluster_queue,
            "priority": 0,
            "position": 1,
            "queued_at": None,
            "expected_at": at(in_s),
            "earliest_at": at(in_s),
            "latest_at": at(latest_s),
            "plain_at": None,
            "never": never,
            "replaced_at": None,
            "came": "",
            "came_at": None,
        }
        connection.execute(sa.insert(tables.estimates), [row])
        # A projector is at work, so that ages and estimates are told as of now.
        connection.execute(sa.delete(tables.replicas))
        replica = {"cluster": "test", "part": "projector", "instance": "a", "problem": ""} | {
            "leads": True,
            "since": now,
            "heard_at": now,
        }
        connection.execute(sa.insert(tables.replicas), [replica])
    engine.dispose()


@pytest.fixture
async def priced(read_model: Model, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """The console with rates, and its read model."""
    rates = tmp_path / "rates.toml"
    rates.write_text('currency = "EUR"\n[rates]\ncpu = 0.5\n')
    settings = Settings(
        cluster="test",
        database=DatabaseSettings(url=read_model[0]),
        serve=ServeSettings(console_port=0, rates_file=str(rates), statement_timeout_s=60),
    )
    async with local_console(settings) as address:
        yield address.rstrip("/"), read_model[0]


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
@needs_kubectl
@pytest.mark.retried("it waits by the clock, on two cores shared with other tests")
async def test_whoever_waits_is_told_when_by_kubectl_and_the_plugin(both: World):
    estimate(both.url, "c", 730, 2400, "")
    estimate(both.url, "d", None, None, "pods of it are missing")
    _, wide, _ = await both.kubectl("get", "gpg", "-n", "ns", "-o", "wide")
    head, *lines = [re.split(r"\s{2,}", line.strip()) for line in wide.splitlines()]
    starts = {line[0]: line[head.index("STARTS")] for line in lines}
    assert starts == {"a": "<none>", "b": "<none>", "c": "~12 min", "d": "never"}
    _, text, _ = await both.kubectl("get", "gpg", "c", "-n", "ns", "-o", "json", user="ann")
    found = json.loads(text)["status"]["expectedStart"]
    assert found["message"] == "starts in about 12 min (9 in 10: within 40 min)"
    assert set(found) == {"message", "time", "earliestTime", "latestTime", "asOf"}
    _, text, _ = await both.kubectl("get", "gpp", "-n", "ns")
    assert re.search(r"^c\s+cq\s+1\s+lq\s.*WaitingForQuota\s+~12 min$", text, re.MULTILINE)
    _, text, _ = await both.kubectl("explain", "podgroups.gatelog.io.status.expectedStart")
    assert "Nine times in ten it did before." in text
    _, text, _ = await both.kubectl("gatelog", "why", "c", "-n", "ns", user="ann")
    assert re.search(r"expected +starts in about 12 min .+ \(forecast of \d+ s ago\)", text)
    _, text, _ = await both.kubectl("gatelog", "why", "-n", "ns", user="ann")
    assert re.search(r"^c .+ ~12 min .+\nd .+ never ", text, re.MULTILINE)
    _, text, _ = await both.kubectl("gatelog", "queue", "lq", "-n", "ns", user="ann")
    assert re.search(r"^1 +c +0 .+ ~12 min ", text, re.MULTILINE)


async def test_the_console_tells_when_and_what_it_had_told(priced: tuple[str, str]):
    address, url = priced
    _, text, _ = await get(address + "/queues/cq")
    assert "No estimate (forecasts are off)" in text
    note(url, "test")
    _, text, _ = await get(address + "/queues/cq?range=1h")  # no page that was made just now
    assert "No estimate yet: the first forecast is being made" in text
    estimate(url, "c", 730, 2400, "")
    _, text, _ = await get(address + "/queues/cq?range=6h")
    assert "starts in about 12 min (9 in 10: within 40 min)" in text
    assert "Starts are of a forecast made" in text
    assert pages.problems(text) == []
    _, text, _ = await get(address + "/groups/ns/c")
    assert "starts in about 12 min (9 in 10: within 40 min) (forecast of" in text
    assert "it waits still" in text
    assert pages.problems(text) == []
    _, text, _ = await get(address + "/groups/ns/c?format=json")
    assert json.loads(text)["group"]["status"]["expectedStart"]["time"]
    # Before it was told nobody knew.
    _, text, _ = await get(address + "/queues/cq?at=2026-01-01T00:00:09Z")
    assert "starts in about" not in text


async def test_a_day_is_divided_and_priced(priced: tuple[str, str]):
    address, _ = priced
    _, text, _ = await get(address + "/usage?at=2026-01-02T12:00:00Z&format=json")
    found = json.loads(text)
    (cpu,) = [one for one in found["usage"] if one["key"] == "ns" and one["resource"] == "cpu"]
    assert found["currency"] == "EUR"
    assert cpu["unit"] == "core-h" and cpu["running"] > 0
    assert cpu["cost"] == pytest.approx(
        0.5 * sum(cpu[name] for name in ("running", "held", "wasted")), abs=0.001
    )
    for by in ("localqueue", "queue", "flavor", "label:team"):
        _, text, _ = await get(f"{address}/usage?at=2026-01-02T12:00:00Z&by={by}&format=json")
        divided = [one for one in json.loads(text)["usage"] if one["resource"] == "cpu"]
        assert sum(one["running"] for one in divided) == pytest.approx(cpu["running"], abs=0.001)
    status, text, _ = await get(address + "/usage?by=colour")
    assert (status, "choose one of" in text) == (400, True)
    _, text, _ = await get(address + "/usage?at=2026-01-02T12:00:00Z")
    assert "cost EUR" in text
    assert "There is no rate for" not in text
    assert re.search(r'<th scope="row"><a href="[^"]+">ns</a></th>', text)
    assert pages.problems(text) == []
    # Of many keys a page shows fifty; the sums are of all.
    _, text, _ = await get(address + "/usage?at=2026-01-02T12:00:00Z&offset=1")
    assert ">ns</a></th>" not in text and '<th scope="row">all</th>' in text
    assert "← earlier" in text and "further →" not in text
    assert pages.problems(text) == []


def test_a_start_in_a_word():
    def word(expected_s: float | None, latest_s: float | None, never: str | None = "") -> str:
        def at(seconds: float | None) -> datetime | None:
            return None if seconds is None else NOW + timedelta(seconds=seconds)

        return short(at(expected_s), at(latest_s), never, NOW)

    assert word(None, None, None) == ""
    assert word(None, None, "stopped") == "never"
    assert word(None, None) == ">30 days"
    assert word(0, 60) == "now"
    assert word(-90, -30) == "late"
    assert word(5399, None) == "~90 min"
