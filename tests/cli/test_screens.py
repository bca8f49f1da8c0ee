"""What a terminal of 100 columns shows: readable colours, bars, gaps, and `--sql` that runs."""

import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from rich.color import Color
from rich.console import Console

from gatelog.readmodel.timeline import TimelineEntry
from gatelog.readmodel.waitbars import WIDTH, bars
from gatelog.terminal import console
from projector import tables
from projector.storage.database import writer
from tests.cli.conftest import Ran
from tests.projector.support import Writer, busy_toy
from tests.support.databases import migrated
from tests.support.toy import T0

Gatelog = Callable[..., Ran]
COLOURS = ("GOOD", "BAD", "WAIT", "OVER", "EVICTED", "QUIET")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path}/model.sqlite3"
    if request.param == "postgresql":
        found = str(request.getfixturevalue("postgres_database"))
    migrated(found)
    Writer(found).feed(busy_toy().messages)
    return found


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    red, green, blue = (
        part / 3294.6 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in Color.parse(colour).get_truecolor()
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", COLOURS)
def test_colours_are_readable_on_black_and_on_white(name: str) -> None:
    light = luminance(getattr(console, name))
    assert 1.05 / (light + 0.05) >= 3.8, "on white"
    assert (light + 0.05) / 0.05 >= 3.8, "on black"


def test_only_these_colours_are_used() -> None:
    folder = Path(console.__file__).parent
    for page in (*folder.rglob("*.py"),):
        if page.name != "narrator.py":
            found = re.findall(r'"(?:bold )?(?:yellow|green|cyan|magenta|dim)"', page.read_text())
            assert found == [], page.name


def test_bars_are_on_one_scale() -> None:
    def wait(reason: str, begin: float, end: float | None) -> TimelineEntry:
        until = None if end is None else T0 + timedelta(seconds=end)
        at = T0 + timedelta(seconds=begin)
        return TimelineEntry(
            seq=1, ord=0, at=at, source="wait", kind="", reason=reason, until=until
        )

    waits = [wait("A", 0, 25), wait("B", 25, 26), wait("A", 75, None), wait("C", 1, 1.01)]
    table = bars(waits, T0, T0 + timedelta(seconds=100), "red")
    assert table is not None
    out = Console(width=100, record=True, file=io.StringIO())
    out.print(table)
    head, a, b = out.export_text().splitlines()
    assert head.split() == ["waits", "for", "0", "s", "1", "m", "40", "s"]
    quarter = WIDTH // 4
    bar = "━" * quarter + "·" * (2 * quarter) + "━" * quarter
    assert a.split() == ["A", bar, "50.0", "s,", "still"]
    assert b.split()[1].count("━") == 1 and b.split()[2:] == ["1.00", "s"]
    assert bars([], T0, T0, "red") is None


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_printed_statements_run_and_agree(gatelog: Gatelog, url: str) -> None:
    where = ("--db", url, "--cluster", "test")
    for name, state in (("c", "Queued"), ("d", "Composing"), ("a", "Running"), ("late", "Queued")):
        code, statement, _ = gatelog("why", f"ns/{name}", "--sql", *where)
        assert code == 0
        code, out, err = gatelog("sql", statement, "--json", "--db", url)
        assert code == 0, err
        rows = json.loads(out)
        _, told, _ = gatelog("why", f"ns/{name}", "--json", *where)
        said = json.loads(told)
        assert {row["state"] for row in rows} == {state} == {said["group"]["state"]}
        told_waits = [(w["reason"], w["message"]) for w in said["waits"]]
        assert [(r["reason"], r["message"]) for r in rows if r["reason"]] == told_waits
        if state == "Queued":
            assert rows[0]["position"] == said["position"] and rows[0]["until"] is None
        code, statement, _ = gatelog("history", f"ns/{name}", "--sql", *where)
        code, out, err = gatelog("sql", statement, "--json", "--db", url)
        assert code == 0, err
        _, told, _ = gatelog("history", f"ns/{name}", "--json", *where)
        entries = json.loads(told)[0]["entries"]
        assert [(r["seq"], r["ord"], r["kind"]) for r in json.loads(out)] == [
            (e["seq"], e["ord"], e["kind"]) for e in entries if e["source"] != "cause"
        ]


def test_history_says_when_something_may_be_missing(gatelog: Gatelog, url: str) -> None:
    where = ("--db", url, "--cluster", "test")
    assert "missing" not in gatelog("history", "ns/a", *where)[1]
    engine = writer(url)
    group = json.loads(gatelog("history", "ns/a", "--json", *where)[1])[0]["group"]["id"]
    with engine.begin() as connection:
        connection.execute(
            sa.insert(tables.epochs).values(
                cluster="test",
                shard=0,
                number=2,
                base=0,
                at=T0 + timedelta(days=1),
                reason="the stream was rolled back",
                stream_created_at=T0,
                lost_from=41,
                lost_to=55,
            )
        )
        for ordinal, resolution in ((0, ""), (1, "release")):
            connection.execute(
                sa.insert(tables.parked).values(
                    cluster="test",
                    shard=0,
                    seq=60,
                    ord=ordinal,
                    at=T0,
                    reason="FoldFailed",
                    message="oops",
                    group_id=group,
                    object="Pod ns/a9",
                    resolution=resolution,
                    resolved_by="ada" if resolution else "",
                )
            )
    engine.dispose()
    for command in ("history", "why"):
        code, out, _ = gatelog(command, "ns/a", *where)
        text = " ".join(out.split())
        assert code == 0 and "positions 41 to 55 of the log are lost" in text, command
        assert "rolled back" in text and "gatelog parked release 60/0" in text
        assert "(oops); released by ada" in text
        _, out, _ = gatelog(command, "ns/a", "--json", *where)
        found = json.loads(out)
        assert len((found[0] if command == "history" else found)["missing"]) == 3
    code, out, _ = gatelog("history", "ns/single", *where)
    assert "lost" not in out, "it was gone before that"
