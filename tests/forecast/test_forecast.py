"""Forecasts of a queue whose future is known by hand, kept in either database."""

import asyncio
import json
import re
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from gatelog import cli
from gatelog.commands import deployments, up
from gatelog.forecast.beside import due, forecasting, once
from gatelog.forecast.estimates import Made, note_on
from gatelog.forecast.metering import Meters, Readings
from gatelog.forecast.refreshing import Effort, make, refresh
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.starts import rough, sentence
from gatelog.shell.options import InstallationOptions
from podgroup.log import events as e
from podgroup.model.names import PRIORITY_CLASS
from projector.storage.database import reader, writer
from runtime.metrics import Metrics
from runtime.settings import DatabaseSettings, ForecastSettings, Settings
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy

RUN_S = 600
BRIEF_S = 2.0
"""Processor time where something never starts: a play waits for it until its time is up."""


def one_at_a_time(waiting: int = 3, ran: int = 24) -> Toy:
    """Ten cores; jobs that take all of them for ten minutes; one runs for 200 s, others wait."""
    toy = Toy(cpu=10)
    for number in range(ran):
        finish(toy, start(toy, f"job-{number}"))
    start(toy, "running")
    for number in range(waiting):
        toy.pod(f"wait-{number}", cpu=10)
    toy.wait(200)
    return toy


def start(toy: Toy, name: str) -> str:
    toy.pod(name, cpu=10)
    toy.run(name)
    return name


def finish(toy: Toy, name: str, after_s: float = RUN_S) -> None:
    toy.wait(after_s)
    toy.end(name)
    toy.delete(name)


def forecast_of(
    url: str, toy: Toy, writer: Writer, *, keep: bool = True, budget_s: float = 20.0
) -> Made:
    writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
    effort = Effort(budget_s)
    made = (refresh if keep else make)(url, "test", toy.now, label="team", effort=effort)
    assert made is not None
    return made


def rows(url: str, query: str) -> list[dict[str, Any]]:
    engine = reader(url)
    try:
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(sa.text(query)).mappings()]
    finally:
        engine.dispose()


def seconds(at: Any, since: datetime) -> float:
    return ((datetime.fromisoformat(at) if isinstance(at, str) else at) - since).total_seconds()


def test_one_after_the_other(url: str) -> None:
    toy, writer = one_at_a_time(), Writer(url)
    forecast_of(url, toy, writer)
    found = rows(url, "SELECT * FROM v_expected_starts ORDER BY position")
    assert [row["name"] for row in found] == ["wait-0", "wait-1", "wait-2"]
    for place, row in enumerate(found):
        wanted = RUN_S * (place + 1) - 200
        assert row["position"] == place + 1
        # Others may come before the last in line only by priority, and none did.
        assert abs(seconds(row["expected_at"], toy.now) - wanted) < 0.02 * wanted + 2
        assert seconds(row["latest_at"], toy.now) >= seconds(row["expected_at"], toy.now)
        assert row["never"] == ""
    (known,) = rows(url, "SELECT * FROM forecasts")
    assert known["groups"] == 3 and known["plays"] >= 10


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_what_came_true_stands_beside_what_was_said(url: str) -> None:
    toy, writer = one_at_a_time(), Writer(url)
    assert forecast_of(url, toy, writer).given == 3
    toy.wait(20)
    assert forecast_of(url, toy, writer).given == 0, "it says what it said"
    finish(toy, "running", 380)
    assert not toy.gated("wait-0")
    toy.run("wait-0")
    toy.delete("wait-2")
    forecast_of(url, toy, writer)
    by_name = {
        row["name"]: row
        for row in rows(url, "SELECT * FROM estimates ORDER BY given_at DESC, name DESC")
    }
    assert by_name["wait-0"]["came"] == "started"
    given, came = by_name["wait-0"]["given_at"], by_name["wait-0"]["came_at"]
    began = datetime.fromisoformat(given) if isinstance(given, str) else given
    assert abs(seconds(came, began) - 400) < 2
    assert by_name["wait-1"]["came"] == ""
    assert by_name["wait-2"]["came"] == "ended"
    assert [row["name"] for row in rows(url, "SELECT name FROM v_expected_starts")] == ["wait-1"]


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
def test_what_nothing_that_runs_makes_room_for(url: str) -> None:
    toy, writer = one_at_a_time(waiting=1), Writer(url)
    toy.pod("large", cpu=11)
    toy.pod("half", "pair", 2, cpu=1)
    made = forecast_of(url, toy, writer, budget_s=BRIEF_S)
    names = {made.world.groups[one.group].name: one for one in made.forecast.estimates}  # type: ignore[index]
    large = names["large"].never
    assert large.startswith("can never start: needs 11 cpu") and "request (11) > maximum" in large
    assert names["large"].expected_s is None
    assert "fewer runnable pods" in names["pair"].never and names["pair"].position == 0
    assert names["wait-0"].never == ""
    toy.do(e.ObjectApplied(object=toy.cluster_queue(10, stop_policy="Hold")))
    made = forecast_of(url, toy, writer, budget_s=BRIEF_S)
    never = [one.never for one in made.forecast.estimates]
    assert len(never) == 3 and sum("stopped" in one for one in never) == 2


def test_what_lacks_pods_cannot_start_until_they_are_there(tmp_path: Path) -> None:
    """It was said to be its preemption that had to be fixed."""
    toy = one_at_a_time(waiting=0)
    toy.end("running")
    for name in ("a1", "a2"):
        toy.pod(name, "a", 2, cpu=5)
    toy.run("a1", "a2")
    toy.pod("urgent", cpu=10, labels={PRIORITY_CLASS: "high"})
    toy.wait(60)
    found = f"sqlite:///{tmp_path}/read-model.sqlite3"
    migrated(found)
    made = forecast_of(found, toy, Writer(found), budget_s=BRIEF_S)
    (never,) = [one.never for one in made.forecast.estimates]
    assert never == "pods ended without success and must be replaced before it is admitted again"


def test_whoever_comes_later_with_a_higher_priority_pushes_back(url: str) -> None:
    """Two of three that came were urgent, so of what waits others will go before it."""
    toy = Toy(cpu=10)
    for number in range(20):
        urgent = {PRIORITY_CLASS: "high"} if number % 3 else {}
        toy.pod(f"job-{number}", cpu=10, labels={"team": "red"} | urgent)
        toy.run(f"job-{number}")
        finish(toy, f"job-{number}", 590)
        toy.wait(10)
    toy.pod("running", cpu=10, labels={PRIORITY_CLASS: "high"})
    toy.run("running")
    toy.pod("wait-0", cpu=10, labels={PRIORITY_CLASS: "high"})
    toy.pod("wait-1", cpu=10)
    toy.wait(200)
    made = forecast_of(url, toy, Writer(url), keep=False)
    first, last = made.forecast.estimates
    assert first.expected_s is not None and last.expected_s is not None
    assert abs(first.expected_s - 390) < 20
    assert last.expected_s > 390 + 2 * 590, "twice as late as if nobody came"


def test_dry_runs_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.sqlite3"
    migrated(f"sqlite:///{file}")
    Writer(f"sqlite:///{file}").feed(one_at_a_time().messages)
    words = ["forecast", "--db", str(file), "--cluster", "test", "--budget", "1s"]
    assert cli.run([*words, "--dry-run", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["position"] for row in found] == [1, 2, 3]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM estimates").fetchone() == (0,)
    assert cli.run(words) == 0
    out = capsys.readouterr().out
    assert "EXPECTED" in out and "wait-2" in out
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM estimates").fetchone() == (3,)


def test_why_says_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a forecast kept, which no question makes: it costs seconds."""
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    Writer(url).feed(one_at_a_time().messages)
    words = ["why", "ns/wait-1", "--db", url, "--cluster", "test"]
    assert cli.run(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "position 2 in ClusterQueue cq" in out
    assert "expected no estimate (forecasts are off)" in out
    refresh(url, "test", datetime.now(UTC), label="team", effort=Effort(20))
    assert cli.run([*words, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["expected"]
    assert found["position"] == 2 and found["never"] == ""
    with ReadModel(url, "test") as model:
        assert model.expected("single-x") is None


@pytest.mark.parametrize(
    "words, said",
    [
        (["--budget", "soon"], "--budget soon: give a span like 60s or 5m"),
        (["--every", "0s"], "--every 0s: give a span"),
        (["--every", "60s", "--dry-run"], "--every keeps estimates: leave --dry-run out"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    assert cli.run(["forecast", "--db", url, *words]) == 2
    assert said in capsys.readouterr().err


def test_sentences() -> None:
    now = datetime.fromisoformat("2026-01-01T00:00:00Z")
    soon, later = now + timedelta(minutes=12), now + timedelta(minutes=40)
    assert sentence(soon, later, "", now) == "starts in about 12 min (9 in 10: within 40 min)"
    assert "no safe upper limit: others keep" in sentence(soon, None, "", now)
    assert sentence(None, None, "", now).startswith("not within 30 days")
    assert sentence(None, None, "ClusterQueue q is stopped", now) == (
        "cannot start until this is fixed: ClusterQueue q is stopped"
    )
    assert sentence(soon, later, "", now + timedelta(hours=1)).startswith("late: ")
    assert [rough(s) for s in (20, 700, 9000, 200_000)] == ["20 s", "12 min", "2 h", "2 d"]


def nothing_makes_room() -> Toy:
    """What the moment of a test's clock, long after, does not change."""
    toy = Toy(cpu=10)
    toy.pod("large", cpu=11)
    toy.wait(20)
    return toy


def with_forecasts(url: str, every_s: float) -> Settings:
    return Settings(
        cluster="test",
        database=DatabaseSettings(url=url),
        forecast=ForecastSettings(interval_s=every_s, budget_s=0.1),
    )


async def nothing(settings: Settings, stop: asyncio.Event, *, checks: object) -> None:
    """Stand for the projector."""


def test_one_process_makes_forecasts_by_itself_and_a_projector_where_it_is_told() -> None:
    def interval(*assign: str) -> float:
        where = InstallationOptions(assign=list(assign))
        return where.settings(mode=None, defaults=up.DEFAULTS).forecast.interval_s

    assert interval() == 60
    assert [interval(f"forecast.interval_s={said}") for said in (0, 5)] == [0, 5]
    assert deployments._with_forecasts(Settings(), nothing) is nothing
    assert deployments._with_forecasts(with_forecasts("", 5), nothing) is not nothing


async def test_a_setting_makes_forecasts_beside_a_projector(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/read-model.sqlite3"
    migrated(url)
    Writer(url).feed(nothing_makes_room().messages).store.close()
    shown: list[Readings] = []
    stop = asyncio.Event()

    class Shown(Meters):
        def show(self, found: Readings) -> None:
            shown.append(found)
            stop.set()

    async with asyncio.timeout(120):
        meters = Shown(Metrics())
        await forecasting(with_forecasts(url, 0), stop, meters)
        assert not shown, "no interval, no forecast"
        kueue = msgspec.structs.replace(with_forecasts(url, 0.1), mode="kueue")
        await forecasting(kueue, stop, meters)
        assert not shown, "Kueue admits, and is not foretold"
        await forecasting(with_forecasts(url, 0.1), stop, meters, nice=0)
    assert shown[0].groups == {("cq", "stuck"): 1}
    (row,) = rows(url, "SELECT name, never FROM v_expected_starts")
    assert row["name"] == "large" and row["never"]


def test_replicas_make_one_forecast_together(url: str) -> None:
    Writer(url).feed(nothing_makes_room().messages).store.close()
    settings, now = with_forecasts(url, 3600), datetime.now(UTC)
    assert due(url, "test", now, 3600)
    assert once(url, settings) is not None
    assert once(url, settings) is None
    assert due(url, "test", now + timedelta(seconds=3600), 3600)
    assert due(url, "another", now, 3600)


def test_a_note_replaces_no_forecast(url: str) -> None:
    Writer(url).feed(nothing_makes_room().messages).store.close()
    assert once(url, with_forecasts(url, 3600)) is not None
    engine = writer(url)
    with engine.begin() as connection:
        note_on(connection, "test", datetime.now(UTC))
    engine.dispose()
    (row,) = rows(url, "SELECT as_of_seq FROM forecasts")
    assert row["as_of_seq"] > 0


def test_nothing_is_said_before_enough_has_ended(url: str) -> None:
    """U6. Of three ends seen nobody knows how long the next one takes."""
    toy, writer = one_at_a_time(waiting=2, ran=3), Writer(url)
    made = forecast_of(url, toy, writer)
    assert {one.unknown for one in made.forecast.estimates} == {"not known yet: 3 of 20 ends seen"}
    assert made.forecast.plays == 0 and made.given == 0
    assert rows(url, "SELECT name FROM v_expected_starts") == []


def test_why_says_that_it_is_not_known_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    Writer(url).feed(one_at_a_time(ran=3).messages)
    refresh(url, "test", datetime.now(UTC), label="team", effort=Effort(20))
    assert cli.run(["why", "ns/wait-1", "--db", url, "--cluster", "test"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "expected no estimate yet: 3 of 20 groups have ended" in out


def test_the_play_that_runs_stops_when_time_is_up(tmp_path: Path) -> None:
    """U5. Many that come before what waits: one play alone would take seconds."""
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    toy = Toy(cpu=10)
    for number in range(40):
        toy.pod(f"job-{number}", cpu=10, labels={PRIORITY_CLASS: "high"})
        toy.run(f"job-{number}")
        finish(toy, f"job-{number}", 5)
    toy.pod("running", cpu=10, labels={PRIORITY_CLASS: "high"})
    toy.run("running")
    toy.pod("waits", cpu=10)
    Writer(url).feed(toy.messages)
    began = time.process_time()
    made = make(url, "test", toy.now, label="team", effort=Effort(0.2))
    assert made is not None
    assert made.forecast.took_s < 0.6
    assert time.process_time() - began < 3


def test_of_a_line_too_long_to_be_played_the_nearest_starts_are_known(tmp_path: Path) -> None:
    """U5. A tenth of the time is too little for each play: fewer plays, that see some starts."""
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(url)
    toy = one_at_a_time(waiting=400)
    Writer(url).feed(toy.messages)
    made = make(url, "test", toy.now, label="team", effort=Effort(0.4))
    assert made is not None
    estimates = sorted(made.forecast.estimates, key=lambda one: one.position)
    known = [one for one in estimates if one.expected_s is not None]
    assert 5 <= len(known) < 400 and known == estimates[: len(known)]
    last = estimates[-1]
    assert re.fullmatch(
        r"not known yet, hardly within \d+ [a-z]+; 399 before it; "
        r"stopped after 0.\d+ s of processor time with \d+ of 400 played",
        last.unknown,
    )
