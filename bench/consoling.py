"""Pages of the console with 5,000 groups there at once: the server's part and a browser's.

Four teams share a cohort; for twenty hours more groups come than run, so that most of `GROUPS`
wait. The story is folded by the rules that decide live and written as a projector writes it, to
SQLite.

`console.PAGE.server` is processor time of the process that serves and queries, the page made anew
each time. `console.PAGE.browser` is that of the main thread of a Chromium until the page is drawn:
reading, style, layout, script. It is left out without a Chromium.

Invariant: the same groups each time; times count from when it is run.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median

import aiohttp

from bench.figures import Figure
from gatelog.serve.bootstrap import local_console
from podgroup.model.commands import UngatePod
from podgroup.model.names import GROUP_NAME, PRIORITY_CLASS
from podgroup.model.policy import Policy
from projector.upkeep import migrate
from runtime.settings import DatabaseSettings, QueueingSettings, ServeSettings, Settings
from tests.core.test_shared_quota import of, team
from tests.projector.support import Writer
from tests.support.browser import WIDE, Tab, browser, chromium
from tests.support.toy import Toy

PAGES = {
    "overview": "/",
    "queues": "/queues",
    "queue": "/queues/red",
    "cohorts": "/cohorts",
    "groups": "/groups",
    "groups_use": "/groups?sort=use",
    "groups_search": "/groups?name=job-77",
    "groups_team": "/groups?by=team",
    "preemptions": "/preemptions",
    "usage": "/usage",
    "usage_team": "/usage?by=team",
    "usage_user": "/usage?by=user",
    "usage_group": "/usage?by=group&sort=-wasted",
    "usage_week": "/usage?range=7d",
    "health": "/health",
}
WANTED_MS = {"server": 60.0, "browser": 100.0}
REPEAT = 5
_APART_S = 1.1
"""A page that is requested again within a second is not made anew."""
GROUPS = 5_000
"""Groups that exist at the end; groups that ran and were deleted come on top."""
HOURS = 20.0
TEAMS = ("red", "blue", "green", "gold")
_CPU = 500
"""Quota of a team, in cores."""
_ENDS = 0.15
"""Part of arrivals at which a running group ends and is deleted."""
_URGENT = 0.02
"""Part of groups with high priority, which push others back."""


async def run() -> AsyncIterator[Figure]:
    """Measure every page, the server's part and then the browser's."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        url = f"sqlite:///{place}/console.sqlite3"
        toy = fill(url)
        waits = next(one for one in toy.world.groups.values() if one.explained.state == "Queued")
        pages = {**PAGES, "group": f"/groups/ns/{waits.name}"}
        settings = Settings(
            cluster="test",
            database=DatabaseSettings(url=url),
            serve=ServeSettings(console_port=0),
        )
        note = f"{GROUPS:,} groups, SQLite, {len(toy.messages):,} messages; median of {REPEAT}"
        async with AsyncExitStack() as stack:
            address = (await stack.enter_async_context(local_console(settings))).rstrip("/")
            for name, path in pages.items():
                yield _figure(f"{name}.server", await _served(address + path), note)
            if chromium() is None:
                return
            tab = await stack.enter_async_context(browser(Path(place) / "browser"))
            await tab.do("Performance.enable", timeDomain="threadTicks")
            for name, path in pages.items():
                yield _figure(f"{name}.browser", await _loaded(tab, address + path), note)


async def _loaded(tab: Tab, url: str) -> list[float]:
    """Return what each navigation took, in milliseconds; the first is not counted."""
    taken = []
    for _ in range(REPEAT + 1):
        await asyncio.sleep(_APART_S)
        before = await _busy(tab)
        await tab.open(url, WIDE, "light")
        await tab.value(_DRAWN)
        after = await _busy(tab)
        # A process of its own for the page begins anew.
        taken.append(1000 * (after - before if after > before else after))
    return taken[1:]


async def _busy(tab: Tab) -> float:
    """Return seconds of processor time that the page's main thread has taken."""
    found = await tab.do("Performance.getMetrics")
    return float(next(one["value"] for one in found["metrics"] if one["name"] == "TaskDuration"))


_DRAWN = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


async def _served(url: str) -> list[float]:
    """Return the processor time of each request, in milliseconds; the first is not counted."""
    taken = []
    async with aiohttp.ClientSession() as http:
        for _ in range(REPEAT + 1):
            await asyncio.sleep(_APART_S)
            begin = time.process_time()
            async with http.get(url) as answer:
                await answer.read()
                answer.raise_for_status()
            taken.append(1000 * (time.process_time() - begin))
    return taken[1:]


def _figure(name: str, taken: list[float], note: str) -> Figure:
    return Figure(
        name=f"console.{name}",
        value=median(taken),
        unit="ms",
        target=WANTED_MS[name.rpartition(".")[2]],
        samples=len(taken),
        note=note,
    )


def fill(url: str, groups: int = GROUPS) -> Toy:
    """Write the story to an empty database and return the cluster as it is left."""
    migrate.upgrade(url)
    toy = story(groups)
    writer = Writer(url, 1000)
    writer.feed(toy.messages)
    writer.store.close()
    return toy


def story(groups: int) -> Toy:
    """Return a cluster where so many groups are there now."""
    random = Random(23)
    # With a ledger of quota, as every installation in builtin mode has.
    interval = QueueingSettings().status_interval_s
    toy = Toy(ready=False, policy=Policy(status_interval_s=interval))
    toy.now = datetime.now(UTC) - timedelta(hours=HOURS)
    toy.setup(0, "BestEffortFIFO", "LowerPriority")
    for name in TEAMS:
        team(toy, name, _CPU * groups // GROUPS)
    pause = HOURS * 3600 * (1 - _ENDS) / groups
    running: list[str] = []
    number = there = seen = 0
    while there < groups:
        toy.wait(pause)
        number, there = number + 1, there + 1
        _come(toy, random, number)
        if len(running) > 1 and random.random() < _ENDS:
            there -= _end(toy, running.pop(random.randrange(len(running))))
        opened = [d.command.target for d in toy.decisions[seen:] if type(d.command) is UngatePod]
        seen = len(toy.decisions)
        for one in opened:
            if one.uid in toy.pods:
                toy.change(one.uid, node="node", phase="Running")
                running.append(toy.pods[one.uid].labels[GROUP_NAME])
    return toy


def _come(toy: Toy, random: Random, number: int) -> None:
    """Create a group of one to three pods."""
    name, size, cpu = f"job-{number}", random.randint(1, 3), random.choice((1, 1, 2, 4))
    who = random.choice(TEAMS)
    priority = "high" if random.random() < _URGENT else "low"
    labels = of(who, user=f"{who}-{number % 40}") | {"team": who, PRIORITY_CLASS: priority}
    for index in range(size):
        toy.pod(f"{name}-{index}", name, size, cpu, labels=labels, settle=False)
    toy.settle()


def _end(toy: Toy, name: str) -> int:
    """A group ends well and its user deletes it; return how many groups that makes fewer."""
    pods = [one for one in toy.pods.values() if one.labels.get(GROUP_NAME) == name]
    if any(one.phase != "Running" for one in pods):
        return 0  # it was preempted, and waits again
    for one in pods:
        toy.change(one.uid, phase="Succeeded")
    for one in pods:
        if one.uid in toy.pods:
            toy.delete(one.name)
    return 1 if pods else 0
