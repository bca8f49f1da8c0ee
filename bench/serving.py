"""People who look: a hundred open pages beside a projector that works.

`gatelog serve` runs as a process of its own on the database that a projector writes to, with its
API server, as in a cluster. Each of `PEOPLE` holds a page open: it hears of changes and asks for
the page again as the page's script does. Measured are the projector, with nobody and with all of
them (by the clock, and by its own processor time, which other work on the machine changes less),
what serve takes, and how long a page takes then.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles

import aiohttp

from bench import processes, projecting
from bench.figures import Figure
from bench.story import Story
from runtime.embedded import EmbeddedNats
from runtime.settings import IngestSettings
from tests.support.processes import TOKEN

PEOPLE = 100
PAGES = ("/", "/groups", "/queues/cq", "/preemptions", "/health", "/groups?namespace=ns")
AGAIN_S = 5.0
"""After how long a page that hears of a change asks again, as `console.js` has it."""
REPEAT_CROWD = 2
MOST_MB = 150.0


async def run() -> AsyncIterator[Figure]:
    """Project with nobody there, and with the crowd."""
    story = Story(2000, 4, 100, message_bytes=IngestSettings().batch_bytes)
    alone, beside = [], []
    with processes.folder() as place, processes.simulator(place, "--front-proxy") as cluster:
        for number in range(REPEAT_CROWD):
            at = place / str(number)
            at.mkdir()
            async with log_of(at / "alone", story) as server:
                with processes.postgres() as url:
                    alone.append(await projecting.project(server, at, url, story))
            async with log_of(at / "beside", story) as server:
                with processes.postgres() as url:
                    env = processes.environment(server.settings(), url, cluster.kubeconfig)
                    env |= {"GATELOG_SERVE_PORT": "0", "GATELOG_STATE_DIR": str(at / "state")}
                    with processes.children(at, env, "serve") as (serve,):
                        port = int(serve.wait_for(r'"port": (\d+)').group(1))
                        assert serve.process is not None
                        async with crowd(port) as told:
                            beside.append(await projecting.project(server, at, url, story))
                            await asyncio.sleep(AGAIN_S)
                        size = processes.peak_kib(serve.process.pid) / 1024
                        cpu = processes.cpu_s(serve.process.pid)
            if not told:
                raise RuntimeError(f"run {number}: no page was answered\n{serve.tail()}")
        yield Figure(
            name="serve.beside",
            value=median(one.cpu_us for one in beside),
            unit="us/event",
            limit=median(one.cpu_us for one in alone),
            limit_name="with nobody there",
            samples=len(beside),
            note=f"the projector's processor time; by the clock "
            f"{median(one.rate for one in beside):,.0f} events/s, with nobody "
            f"{median(one.rate for one in alone):,.0f}; {PEOPLE} open pages",
        )
        yield Figure(
            name="serve.memory",
            value=size,
            unit="MB",
            limit=MOST_MB,
            limit_name="wanted",
            note=f"the most serve took with {PEOPLE} open pages, kubeconfig and its library; "
            f"{cpu:.1f} s of processor time for {len(told)} pages",
        )
        yield Figure(
            name="serve.page",
            value=1000 * quantiles(told, n=10)[8],
            unit="ms",
            samples=len(told),
            note=f"nine of ten pages; median {1000 * median(told):.0f} ms",
        )


@asynccontextmanager
async def log_of(place: Path, story: Story) -> AsyncIterator[EmbeddedNats]:
    """A nats-server with a story, which nobody has read."""
    place.mkdir()
    async with processes.nats(place, sync_always=False) as server:
        await projecting.publish(server, story.messages)
        yield server


@asynccontextmanager
async def crowd(port: int) -> AsyncIterator[list[float]]:
    """`PEOPLE` with open pages while the context lasts; yields the seconds each answer took."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    told: list[float] = []
    limits = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            aiohttp.ClientSession(
                f"https://127.0.0.1:{port}",
                connector=aiohttp.TCPConnector(ssl=tls, limit=0),
                headers={"Authorization": f"Bearer {TOKEN}"},
                timeout=limits,
            )
        )
        people = [asyncio.create_task(_person(http, number, told)) for number in range(PEOPLE)]
        try:
            yield told
        finally:
            for one in people:
                one.cancel()
            await asyncio.gather(*people, return_exceptions=True)


async def _person(http: aiohttp.ClientSession, number: int, told: list[float]) -> None:
    page = PAGES[number % len(PAGES)]
    await asyncio.sleep(number / PEOPLE)
    await _look(http, page, told)
    while True:
        async with http.get("/events") as heard:
            async for line in heard.content:
                if line != b"event: change\n":
                    continue
                await _look(http, page, told)
                await asyncio.sleep(AGAIN_S)


async def _look(http: aiohttp.ClientSession, page: str, told: list[float]) -> None:
    begin = time.perf_counter()
    async with http.get(page) as answer:
        await answer.read()
        if answer.status == 200:
            told.append(time.perf_counter() - begin)
