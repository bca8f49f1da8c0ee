"""The whole run: a simulated cluster, `gatelog up` on it, the stories, and the report.

Theory. Everything runs in one process and one event loop, but nothing takes a short cut: gatelog
talks HTTP to the cluster with a kubeconfig, the webhook is called over TLS, the log is a real
nats-server and the read model a file that stays when the demo is over.

Invariant: the directory is emptied only if an earlier demo made it.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from gatelog.allinone import Setup, run_up
from gatelog.demo import report
from gatelog.demo.cluster import Stage, StoryFailed, cluster_settings, set_up_queues
from gatelog.demo.report import Played
from gatelog.demo.stories import LONGEST_WAIT_S, MORE, STORIES, Story
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.readiness import Ready
from gatelog.readmodel.timeline import duration
from gatelog.shell import runner
from gatelog.shell.errors import CommandFailed
from gatelog.shell.narrator import Narrator
from runtime.settings import (
    DatabaseSettings,
    KubernetesSettings,
    QueueingSettings,
    Settings,
    WebhookSettings,
)
from simcluster import SimCluster
from simcluster.client import ApiFailure, Client

MARK = "made-by-gatelog-demo"
START_S = 30.0


def play(
    directory: str,
    narrator: Narrator,
    *,
    keep: bool = False,
    more: bool = False,
    database: str = "",
) -> bool:
    """Run the demo; return whether every story had its required result.

    `keep`: all parts go on after the report, until a signal. `more`: with the stories of `MORE`.
    `database` is the URL of a database other than the file in the directory.
    """
    place = _fresh(Path(directory))
    settings = Settings(
        state_dir=str(place),
        kubernetes=KubernetesSettings(kubeconfig=str(place / "kubeconfig")),
        webhook=WebhookSettings(port=0),
        database=DatabaseSettings(url=database),
        queueing=QueueingSettings(longest_wait_s=LONGEST_WAIT_S) if more else QueueingSettings(),
    )
    stories = (*STORIES, *MORE) if more else STORIES
    began = time.monotonic()
    played: list[Played] = []

    async def main(stop: asyncio.Event) -> None:
        await _perform(settings, stories, stop, narrator, over)

    async def over(found: list[Played], stop: asyncio.Event) -> None:
        played.extend(found)
        if len(played) == len(stories):
            report.show(settings, played, time.monotonic() - began)
            if keep:
                narrator.say("It goes on until Ctrl-C; the console above shows it in a browser.")
                await stop.wait()

    runner.run(main)
    if len(played) < len(stories):
        raise CommandFailed("the demo was stopped before its end")
    return not any(one.problem for one in played)


def _fresh(place: Path) -> Path:
    mark = place / MARK
    if place.exists() and any(place.iterdir()):
        if not mark.exists():
            raise CommandFailed(
                f"{place} is not empty and no earlier demo made it: choose another directory with "
                "--state-dir"
            )
        shutil.rmtree(place)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark.touch()
    return place


Over = Callable[[list[Played], asyncio.Event], Awaitable[None]]
"""Receives how the stories ended, while everything still runs."""


async def _perform(
    settings: Settings,
    stories: Sequence[Story],
    stop: asyncio.Event,
    narrator: Narrator,
    over: Over,
) -> None:
    async with SimCluster(cluster_settings()) as cluster:
        cluster.kubeconfig(settings.kubernetes.kubeconfig)
        narrator.done("simulated", f"simulated cluster with two nodes at {cluster.url}")
        ready = asyncio.Event()

        async def is_ready(found: Ready) -> None:
            narrator.done("ready", f"gatelog is ready: {found.kinds} kinds watched")
            ready.set()

        up_stop = asyncio.Event()
        up = asyncio.create_task(
            run_up(settings, up_stop, narrator, Setup("webhook"), on_ready=is_ready, farewell=False)
        )
        try:
            if not await _first(up, ready, stop):
                return
            async with Client(cluster.url, cluster.token, "users/1") as client:
                await set_up_queues(client)
                played = await _all(settings, stories, client, up, stop, narrator)
                await over(played, stop)
        finally:
            up_stop.set()
            await up


async def _first(up: asyncio.Task[None], ready: asyncio.Event, stop: asyncio.Event) -> bool:
    """Wait until `gatelog up` is ready, False if asked to stop before.

    Raises:
        CommandFailed: it takes too long; also the error that ended `up`.
    """
    waits = [asyncio.create_task(ready.wait()), asyncio.create_task(stop.wait())]
    try:
        await asyncio.wait((up, *waits), timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        if up.done():
            await up
        if not ready.is_set() and not stop.is_set():
            raise CommandFailed(f"gatelog was not ready within {START_S:.0f} s")
        return ready.is_set()
    finally:
        for task in waits:
            task.cancel()


async def _all(
    settings: Settings,
    stories: Sequence[Story],
    client: Client,
    up: asyncio.Task[None],
    stop: asyncio.Event,
    narrator: Narrator,
) -> list[Played]:
    from projector.storage.urls import database_url

    played: list[Played] = []
    with ReadModel(database_url(settings), settings.cluster) as model:
        stage = Stage(client, model)
        for number, story in enumerate(stories, 1):
            if stop.is_set() or up.done():
                break
            with narrator.working(f"{number}/{len(stories)} {story.title}"):
                one = await _one(story, stage)
            played.append(one)
            if one.problem:
                narrator.failed("story", f"{story.title}: {one.problem}")
            else:
                narrator.done("story", f"{story.title}, {duration(one.took_s)}")
    return played


async def _one(story: Story, stage: Stage) -> Played:
    began = time.monotonic()
    problem = ""
    try:
        await story.play(stage)
    except StoryFailed as failure:
        problem = str(failure)
    except ApiFailure as failure:
        problem = f"the API server refused something: {failure}"
    return Played(story, problem, time.monotonic() - began)
