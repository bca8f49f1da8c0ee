"""`gatelog replay --rebuild` and `--verify` of a long log: seconds, processor seconds, memory.

Theory. The log is made once and both databases are rebuilt from it (`recorded`). Measured are a
read model that has lost every row but its checkpoint, so that all of it must be written, and then,
good again, a complete read model, which is verified last. The limit is reading both streams and
decoding every message, alone in one process.

The log has the two shapes of `story`: full messages, with which a million events are made in
acceptable time, and, for a tenth of them, one event a message, the most expensive form.

Invariant: a figure counts only if the read model has every decision and nothing is parked.
"""

import asyncio
import os
import re
import select
import subprocess
import time
from collections.abc import AsyncIterator

from bench import processes
from bench.figures import Figure
from bench.projecting import check
from bench.recorded import Log, Shape, record, stand, tell
from bench.story import CLUSTER
from podgroup.log.codec import decode_batch, decode_decision, split_decisions
from podgroup.log.subjects import DECISIONS, EVENTS, decisions, events_of
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import IngestSettings
from tests.support.processes import GATELOG

EVENTS_WANTED = int(os.environ.get("GATELOG_TEST_REBUILD_EVENTS", "1000000"))
SHAPES = (
    Shape("", EVENTS_WANTED, 65, IngestSettings().batch_bytes, "hundreds of events each"),
    Shape(".trickle", EVENTS_WANTED // 10, 87, 0, "one event each"),
)
WANTED_S = {"rebuild": 25.0, "verify": 40.0}
"""Seconds for a million events in full messages."""
TURNS = (("rebuild", ".lost"), ("rebuild", ".good"), ("verify", ""))
"""The command for a read model, and the state of the read model before."""
_WAITED = re.compile(r"the projector waited ([0-9.]+) s")


async def run() -> AsyncIterator[Figure]:
    """Make the log, read it bare, then rebuild in both databases; each shape."""
    for shape in SHAPES:
        with processes.folder() as place:
            async with processes.nats(place, sync_always=False) as server:
                log = await record(server, place, shape)
                bare = await _read_bare(server, log)
                async for figure in _both(f"sqlite:///{place}/bench.db", server, log, bare, shape):
                    yield figure
                with processes.postgres() as url:
                    async for figure in _both(url, server, log, bare, shape):
                        yield figure


async def _both(
    url: str, server: EmbeddedNats, log: Log, bare: float, shape: Shape
) -> AsyncIterator[Figure]:
    """Rebuild a read model that has lost everything, and then the read model that results."""
    stand(url, log)
    name = "sqlite" if url.startswith("sqlite") else "postgres"
    for option, state in TURNS:
        tell(f"{option} {name}{state}{shape.name}")
        took_s, cpu_s, rss_mb, said = await asyncio.to_thread(_replay, option, url, server)
        check(url, "SELECT count(*) FROM decisions", log.decisions)
        waited = _WAITED.search(said)
        if option == "rebuild" and waited is None:
            raise RuntimeError(f"no word of a pause: {said}")
        yield Figure(
            name=f"{option}.{name}{state}{shape.name}",
            value=took_s,
            unit="s",
            limit=bare,
            limit_name="reading and decoding alone",
            target=None if shape.name else WANTED_S[option] * shape.events / 1_000_000,
            note=f"{log.note}; {cpu_s:.1f} s of processor without the servers', "
            f"{cpu_s / log.events * 1e6:.0f} us per event, {rss_mb:.0f} MB resident at most"
            + (f", projector held up {waited.group(1)} s" if waited else ""),
        )


def _replay(option: str, url: str, server: EmbeddedNats) -> tuple[float, float, float, str]:
    """Run the command; returns seconds, its processor seconds, its largest size, its output."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GATELOG_")}
    env = {**inherited, **processes.environment(server.settings(), url, None)}
    began = time.perf_counter()
    child = subprocess.Popen(
        [GATELOG, "replay", f"--{option}"], env=env, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    # ru_maxrss would begin with the size of the process that made the child.
    rss_mb = 0.0
    while not select.select([child.stdout], [], [], 0.2)[0]:
        rss_mb = max(rss_mb, processes.peak_kib(child.pid) / 1024)
    rss_mb = max(rss_mb, processes.peak_kib(child.pid) / 1024)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - began
    if child.returncode != 0:
        raise RuntimeError(f"the {option} ended with {child.returncode}: {said}")
    return took_s, used.ru_utime + used.ru_stime, rss_mb, said


async def _read_bare(server: EmbeddedNats, log: Log) -> float:
    """Read and decode both streams to their ends; returns seconds."""
    bus = await connect(server.settings(), "bench", deadline_s=20)
    began = time.perf_counter()
    for stream, subject, count in (
        (EVENTS, events_of(CLUSTER), log.messages),
        (DECISIONS, decisions(CLUSTER), log.decision_messages),
    ):
        reading, seen = bus.read(stream, subject, 1), 0
        while seen < count:
            for message in await reading.next(5):
                seen += 1
                if stream == EVENTS:
                    decode_batch(message.body)
                else:
                    for body in split_decisions(message.body):
                        decode_decision(body)
        await reading.close()
    took = time.perf_counter() - began
    await bus.close()
    return took
