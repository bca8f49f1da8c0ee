"""Requests to list everything again, as the log carries them.

A projector that has no complete view (a new database on a log whose beginning has expired, a
stream that was rolled back) can decide nothing until every kind was listed once more, and only
ingest can list. It asks in the log, and so can an operator: `OperatorActed(action="relist")`.

Invariant: a request made after `after` is heard once; an older one is the asker's to repeat.
"""

import asyncio

from podgroup import subjects
from podgroup.codec import decode_batch
from podgroup.events import OperatorActed
from podgroup.runtime.jetstream import Bus, BusError

_PAUSE_S = 2.0
SOURCES: tuple[subjects.Source, ...] = ("projector", "operator")


async def relist_requested(bus: Bus, cluster: str, after: int) -> str:
    """Wait for a request stored after stream sequence `after`; return who asks and why."""
    waiting = [
        asyncio.create_task(_heard(bus, f"events.{cluster}.*.{source}", after))
        for source in SOURCES
    ]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _heard(bus: Bus, subject: str, after: int) -> str:
    while True:
        try:
            return await _listen(bus, subject, after)
        except BusError:
            # The session notices what is wrong with the log; here it is enough to listen again.
            await asyncio.sleep(_PAUSE_S)


async def _listen(bus: Bus, subject: str, after: int) -> str:
    reader = bus.read(subjects.EVENTS, subject, after + 1, batch=100)
    try:
        while True:
            for message in await reader.next(None):
                for event in decode_batch(message.body).events:
                    if isinstance(event, OperatorActed) and event.action == "relist":
                        return f"asked for by {event.by or 'an operator'}: {event.message}"
    finally:
        await reader.close()
