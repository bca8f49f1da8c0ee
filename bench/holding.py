"""Memory of the whole projector while it holds many live pods, and after a restart with them.

Theory. The core's own size (`resident`) is not what an operator gives a pod: beside it the process
has its libraries, batches on their way into the database and out of the log, the database's caches,
and decisions to publish. So `gatelog project` runs as a process on SQLite, over a stream in which
all pods run in the end; it is measured when it has caught up and published, then ended and started
again, when the whole state comes out of the database at once. The clock of the restart runs from
the command to the log line at which it has caught up.

Invariant: a figure counts only if the read model has every pod and nothing was set aside.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from bench import processes
from bench.figures import Figure
from bench.projecting import check, publish
from bench.story import Message
from tests.support.processes import Child

TARGET_MB = 400.0
_RUNNING = "SELECT count(*) FROM pods WHERE gone_at IS NULL AND phase = 'Running'"
PATIENCE_S = 300.0
STEADY_S = 5.0
"""Seconds after catching up at which the steady size is looked at."""


async def run(messages: Iterable[Message], pods: int, events_count: int) -> AsyncIterator[Figure]:
    """Publish messages, run a projector over them, and run it once more."""
    with processes.folder() as place:
        async with processes.nats(place, sync_always=False) as server:
            await publish(server, messages)
            url = f"sqlite:///{place}/holding.db"
            env = processes.environment(server.settings(), url, None)
            with processes.children(place, env, "project") as (child,):
                most_mb, steady_mb, _ = await asyncio.to_thread(_look, child, 1)
                child.stop(60)
                began = time.perf_counter()
                child.start()
                again_mb, after_mb, ready = await asyncio.to_thread(_look, child, 2)
            check(url, _RUNNING, pods)
    what = f"{pods} running pods after {events_count} events, SQLite"
    yield Figure(
        name="project.resident",
        value=most_mb,
        unit="MB",
        target=TARGET_MB,
        note=f"largest size of the whole process, {steady_mb:.0f} MB {STEADY_S:.0f} s after it "
        f"had caught up; {what}",
    )
    yield Figure(
        name="project.restart",
        value=ready - began,
        unit="s",
        note=f"from the command to being caught up; largest size {again_mb:.0f} MB, "
        f"{after_mb:.0f} MB {STEADY_S:.0f} s later; {what}",
    )


def _look(child: Child, starts: int) -> tuple[float, float, float]:
    """Wait for the end of the log; returns the largest and the steady size in MB, and when."""
    child.wait_for(r"(?s)" + ".*".join(['"caught_up"'] * starts), PATIENCE_S)
    ready = time.perf_counter()
    time.sleep(STEADY_S)
    assert child.process is not None
    pid = child.process.pid
    return _mb(processes.peak_kib(pid)), _mb(processes.resident_kib(pid)), ready


def _mb(kib: int) -> float:
    return kib * 1024 / 1e6
