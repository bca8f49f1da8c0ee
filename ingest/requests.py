"""Requests to list everything again, as the log carries them.

A projector that has no complete view (a new database on a log whose beginning has expired, a stream
that was rolled back) cannot decide until every kind was listed once more, and only ingest can list.
The projector requests lists through the log, and so can an operator:
`OperatorActed(action="relist")`.

Messages are read one by one: an ingester that made a consumer would need the right to do so, and an
account with that right can have messages delivered to subjects on which it may not publish.

Invariant: a request made after `after` is taken once; the requester repeats an older request.
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
    """Wait for a request stored after stream sequence `after`; return requester and reason."""
    while True:
        try:
            # Up to here only, so that events of others are not looked through again and again.
            end = (await bus.stream_state(subjects.EVENTS)).last_sequence
            for source in SOURCES:
                asked = await _between(bus, f"events.{cluster}.*.{source}", after, end)
                if asked:
                    return asked
            after = max(after, end)
        except BusError:
            # The session notices the log's problem; here another look is enough.
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
