"""Heartbeats: each replica of a part says every few seconds how it is.

Theory. /readyz can be read only where the replica can be reached, which a user mostly cannot do. So
each replica publishes the same on a subject of NATS that no stream keeps, and the projector stores
the heartbeats (table `replicas`), where `gatelog why` and `gatelog doctor` read them. NATS passes
messages without a stream on even when its disk is full.

Invariant: a heartbeat says what the readiness checks of the part say, and nothing else.
"""

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec

from podgroup.log import subjects
from runtime.health import Checks
from runtime.jetstream import Bus, BusError
from runtime.settings import Settings

LOOK_S: Final = 1.0
"""Seconds between looks at the checks."""
MAX_PROBLEM: Final = 1000
"""Characters of a problem that are reported."""


class Heartbeat(msgspec.Struct, frozen=True):
    """The health of one replica of a part: `problem` is "" when it can do its work.

    `leads`: it holds the Lease of its part. `ends`: it stops in order, so its silence is no
    problem.
    """

    part: str
    instance: str
    problem: str = ""
    leads: bool = False
    ends: bool = False


def decode(body: bytes) -> Heartbeat | None:
    """Return the heartbeat in a message, None if the message is no heartbeat."""
    try:
        return msgspec.json.decode(body, type=Heartbeat)
    except msgspec.MsgspecError:
        return None


@asynccontextmanager
async def reporting(
    bus: Bus,
    settings: Settings,
    part: str,
    checks: Checks | None,
    *,
    leads: Callable[[], bool] = lambda: False,
    beside: Callable[[Heartbeat], object] | None = None,
) -> AsyncIterator[None]:
    """Publish heartbeats of this replica of `part` while the context is open, then its end.

    A heartbeat comes every `report_interval_s` (5 s), and within a second of a change. `leads`
    returns whether the replica holds its Lease; `beside` gets every heartbeat too, also when NATS
    is away.
    """
    instance = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    subject = subjects.health(settings.cluster, part)

    async def say(beat: Heartbeat) -> None:
        if beside is not None:
            beside(beat)
        with suppress(BusError):
            await bus.publish_unstored(subject, msgspec.json.encode(beat))

    async def beat() -> None:
        said, said_s = None, 0.0
        while checks is not None:
            await checks.readiness()
            problem = checks.problems.get(part, "")[:MAX_PROBLEM]
            now, now_s = Heartbeat(part, instance, problem, leads()), time.monotonic()
            if now != said or now_s - said_s >= settings.health.report_interval_s:
                said, said_s = now, now_s
                await say(now)
            await asyncio.sleep(min(LOOK_S, settings.health.report_interval_s))

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        if checks is not None:
            await say(Heartbeat(part, instance, ends=True))
