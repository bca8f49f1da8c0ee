"""The console as people see it: `python -m tests.serve.screens [--axe axe.min.js] [--all FOLDER]`.

The pictures of the docs: `python -m tests.serve.screens --pictures`. They show one day, whose log
is recorded first, and a group of 10,000 pods; times in them are those of their making.

A real Chromium without a window, spoken to by its own protocol, looks at every page and state: a
day of two teams, a cluster where nothing waits, a group of 10,000 pods, refusals and errors; wide
and on a phone, light and dark. Each must log no error, load nothing it may not, and not scroll
sideways; with axe-core (a file of npm's package) accessibility is looked at, too.

It is no test of the suite, which must run where no browser is: `tests.serve.pages` checks there
what can be checked without.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from bench.forecasting import Load, jobs, queues
from bench.generated import story
from gatelog import cli
from gatelog.serve.bootstrap import local_console
from projector import tables
from projector.storage.database import writer
from runtime.settings import DatabaseSettings, ServeSettings, Settings
from tests.projector.support import Writer, busy_toy
from tests.readmodel.racks import Racks
from tests.serve.test_console import START, enlarge
from tests.support.browser import PHONE, WIDE, Tab, browser
from tests.support.databases import migrated
from tests.support.toy import Toy
from tests.whatif.logs import log_of

HERE = Path(__file__).parents[2] / "docs" / "pictures"
AHEAD = timedelta(hours=3)
"""How much of the day's jobs is still to come now."""
LOAD = Load("", hours=18.0, busy=1.35, spread=0.7, urgent=0.05, preempt=True, cohort=True)
RATES = 'currency = "EUR"\n[rates]\ncpu = 0.04\n'
KEPT = {
    ("day", "queue", WIDE, "light"): "queue-light.png",
    ("day", "queue", PHONE, "dark"): "queue-phone-dark.png",
    ("day", "usage", WIDE, "light"): "usage-light.png",
    ("day", "cohorts", WIDE, "light"): "cohorts-light.png",
    ("day", "groups", WIDE, "dark"): "groups-dark.png",
    ("day", "groups", PHONE, "light"): "groups-phone-light.png",
    ("day", "group", WIDE, "light"): "group-light.png",
    ("day", "group", PHONE, "dark"): "group-phone-dark.png",
    ("huge", "group", WIDE, "light"): "huge-light.png",
    ("day", "queues", WIDE, "dark"): "queues-dark.png",
}
"""Pictures of the docs, by state, page, size and scheme."""
_TALL = {WIDE: 1100, PHONE: 1400}
"""How much of a page the docs show, in pixels."""
_AXE = """axe.run(document, {runOnly:
["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
.then(r => r.violations.map(v => v.id + ": " + v.nodes[0].target.join(" ") + " " + v.help))"""


def _day(folder: Path, now: datetime) -> list[str]:
    """Write the log of a day that ends now; return the command that makes its read model."""
    begin = now + AHEAD - timedelta(hours=LOAD.hours)
    head, *lines = jobs(LOAD).splitlines()
    rows = []
    for line in lines:
        submit, rest = line.split(",", 1)
        rows.append(f"{(begin + timedelta(seconds=float(submit))).isoformat()},{rest}")
    trace, objects, log = folder / "jobs.csv", folder / "queues.yaml", folder / "day.jsonl.gz"
    trace.write_text("\n".join([head, *rows]) + "\n")
    objects.write_text(queues(LOAD))
    log_of(trace, objects, log)
    span = ["--since", begin.isoformat(), "--until", now.isoformat()]
    return ["what-if", str(log), *span, "--db", str(folder / "day.sqlite3")]


def _pushed_back(model: str) -> str:
    """Return the page of the group that was preempted most often."""
    engine = sa.create_engine(f"sqlite:///{model}")
    with engine.connect() as connection:
        found = connection.execute(sa.text(_MOST_OFTEN)).one()
    engine.dispose()
    return f"/groups/{found.namespace}/{found.name}"


_MOST_OFTEN = """
SELECT g.namespace, g.name FROM admissions a JOIN groups g ON g.id = a.group_id
 WHERE a.release_reason = 'Preempted'
 GROUP BY g.id ORDER BY count(*) * min(g.total_count, 8) DESC, g.id LIMIT 1"""


def models(folder: Path) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Make read models; yields state, URL, cluster, and the paths of pages by name."""
    now = datetime.now(UTC)
    day = folder / "day"
    day.mkdir()
    if code := cli.run(_day(day, now)):
        raise SystemExit(code)
    model = f"{day}/day.sqlite3"
    if code := cli.run(["forecast", "--db", model, "--cluster", "what-if"]):
        raise SystemExit(code)
    at = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    yield (
        "day",
        f"sqlite:///{model}",
        "what-if",
        {
            "overview": "/",
            "queues": "/queues",
            "queue": "/queues/red",
            "then": f"/queues/blue?range=6h&at={at}",
            "group": _pushed_back(model),
            "groups": "/groups?sort=wait",
            "teams": "/groups?by=team",
            "cohorts": f"/cohorts?at={now - timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}",
            "namespace": "/queues?namespace=red",
            "preemptions": "/preemptions",
            "usage": f"/usage?by=queue&at={now - timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}",
            "health": "/health",
        },
    )
    for state in ("story", "huge", "racks", "empty", "broken", "away"):
        url = f"sqlite:///{folder}/{state}.sqlite3"
        migrated(url)
        if state != "empty":
            toy = story(2) if state == "story" else racks() if state == "racks" else busy_toy()
            one = Writer(url).feed(toy.messages)
            one.store.close()
        engine = writer(url)
        with engine.begin() as connection:
            if state == "huge":
                (uid,) = connection.execute(sa.text("SELECT id FROM groups WHERE name = 'a'")).one()
            if state == "broken":
                connection.execute(sa.text("UPDATE groups SET priority = 'high'"))
            if state == "away":
                connection.execute(sa.text("DROP TABLE groups"))
        engine.dispose()
        if state == "huge":
            enlarge(url, uid, 10_000)
            engine = writer(url)
            with engine.begin() as connection:  # what is open goes on to the last message
                moved = sa.update(tables.checkpoints).values(at=START + timedelta(minutes=40))
                connection.execute(moved)
            engine.dispose()
        pages = {
            "story": {
                "group": "/groups/ns/sweep?at=2026-01-01T00:12:30Z",
                "then": "/queues/cq?range=1h&at=2026-01-01T00:05:00Z",
                "preemptions": "/preemptions?at=2026-01-01T01:00:00Z",
                "search": "/groups?gone=1&label=team%3Dred",
            },
            "racks": {"topology": "/topology", "rack": "/topology?in=a", "group": "/groups/ns/g"},
            "huge": {
                "group": "/groups/ns/a",
                "page": "/groups/ns/a?offset=5000",
            },
            "empty": {
                **{
                    "overview": "/",
                    "queues": "/queues",
                    "groups": "/groups",
                    "namespace": "/queues?namespace=ns",
                },
                **{"preemptions": "/preemptions", "usage": "/usage", "health": "/health"},
                **{"refused": "/?at=yesterday", "nothing": "/groups/ns/nobody"},
            },
            "broken": {"error": "/groups/ns/c"},
            "away": {"error": "/groups"},
        }
        yield state, url, "test", pages[state]


def racks() -> Toy:
    """A group runs in its rack, another waits for one, and a node is cordoned."""
    toy = Racks()
    toy.run(*toy.several("g", 5))
    toy.several("h", 8)
    toy.renode("b2", unschedulable=True)
    toy.wait(60)
    return toy


async def look(axe: str, everything: Path | None, only: str, *, pictures: bool = False) -> int:
    """Look at every page (`only`: of a state); returns how many have something wrong.

    `pictures`: look at those of the docs alone, and keep them.
    """
    bad = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place)
        (folder / "rates.toml").write_text(RATES)
        found = await asyncio.to_thread(lambda: list(models(folder)))
        async with browser(folder / "browser") as tab, AsyncExitStack() as stack:
            for state, url, cluster, paths in found:
                if only not in ("", state):
                    continue
                settings = Settings(
                    cluster=cluster,
                    database=DatabaseSettings(url=url),
                    serve=ServeSettings(rates_file=str(folder / "rates.toml")),
                )
                address = await stack.enter_async_context(local_console(settings))
                for name, path in paths.items():
                    for size in (WIDE, PHONE):
                        for scheme in ("light", "dark"):
                            kept = KEPT.get((state, name, size, scheme), "")
                            if pictures and not kept:
                                continue
                            await tab.open(address.rstrip("/") + path, size, scheme)
                            problems = await _problems(tab, axe)
                            shot = await tab.picture(_TALL[size] if pictures else 2600)
                            title = f"{state}-{name}-{size[0]}-{scheme}"
                            if everything is not None:
                                (everything / f"{title}.png").write_bytes(shot)
                            if pictures:
                                (HERE / kept).write_bytes(shot)
                            bad += bool(problems)
                            print(title, "; ".join(problems) or "well", flush=True)
    return bad


async def _problems(tab: Tab, axe: str) -> list[str]:
    wide = await tab.value("document.documentElement.scrollWidth - innerWidth")
    problems = [f"scrolls {wide} px sideways"] if wide > 0 else []
    if axe:
        await tab.value(axe + "; 0")
        problems += await tab.value(_AXE)
    return problems + tab.said


def main() -> int:
    """Look, and print what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.serve.screens")
    parser.add_argument("--axe", type=Path, help="axe.min.js of npm's package axe-core")
    parser.add_argument("--all", type=Path, help="folder for a picture of everything")
    parser.add_argument("--only", default="", help="the pages of one state: day, story, huge, ...")
    parser.add_argument("--pictures", action="store_true", help="make the pictures of the docs")
    given = parser.parse_args()
    if given.all is not None:
        given.all.mkdir(parents=True, exist_ok=True)
    axe = given.axe.read_text() if given.axe else ""
    bad = asyncio.run(look(axe, given.all, given.only, pictures=given.pictures))
    print(f"{bad} with something wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
