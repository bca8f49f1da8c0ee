"""Requests to list everything again, as the log carries them.

A projector that has no complete view (a new database on a log whose beginning has expired, a
stream that was rolled back) can decide nothing until every kind was listed once more, and only
ingest can list. It asks in the log, and so can an operator: `OperatorActed(action="relist")`.

Messages are asked for one by one: an ingester that made a consumer would need the right to, and
with that right one can have messages delivered to other subjects than one may speak on.

Invariant: a request made after `after` is heard once; an older one is the asker's to repeat.
"""

import asyncio

from podgroup.log import subjects
from podgroup.log.codec import decode_batch
from podgroup.log.events import OperatorActed
from runtime.jetstream import Bus, BusError

LOOK_S = 1.0
"""Seconds between looks."""
SOURCES: tuple[subjects.Source, ...] = ("projector", "operator")


async def relist_requested(bus: Bus, cluster: str, after: int) -> str:
    """Wait for a request stored after stream sequence `after`; return who asks and why."""
    while True:
        try:
            # Up to here only, so that what others say is not looked through time and again.
            end = (await bus.stream_state(subjects.EVENTS)).last_sequence
            for source in SOURCES:
                asked = await _between(bus, f"events.{cluster}.*.{source}", after, end)
                if asked:
                    return asked
            after = max(after, end)
        except BusError:
            # The session notices what is wrong with the log; here it is enough to look again.
            pass
        await asyncio.sleep(LOOK_S)


async def _between(bus: Bus, subject: str, after: int, end: int) -> str:
    """Return the first request after one sequence and up to another, "" for none."""
    while after < end:
        message = await bus.at_or_after(subjects.EVENTS, after + 1, subject)
        if message is None or message.sequence > end:
            break
        after = message.sequence
        for event in decode_batch(message.body).events:
            if isinstance(event, OperatorActed) and event.action == "relist":
                return f"asked for by {event.by or 'an operator'}: {event.message}"
    return ""
