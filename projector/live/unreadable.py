"""A damaged stretch of the log: where the log can be read again.

Theory. NATS keeps messages in blocks, and compresses those that are full. One flipped bit makes a
whole block unreadable, and a consumer waits before it for ever: no message, no error, heartbeats
that say nothing is wrong (*measured*: 2.15). A direct get of a message shows whether it can be
read. Unreadable messages end where the block ends; the end is searched in steps that double, and
then by halves.

Invariant: at most about 60 messages are requested, and only of a silent log.
"""

from podgroup.log.subjects import EVENTS
from runtime.jetstream import Bus, MessagesLost


async def unreadable(bus: Bus, subject: str, after: int) -> MessagesLost | None:
    """Return the unreadable stretch after message `after`, None for none.

    Raises:
        StreamMissing, BusUnavailable: the log gives no answer.
    """
    newest = await bus.last(EVENTS, subject)
    if newest is None or newest.sequence <= after or await bus.get(EVENTS, after + 1) is not None:
        return None
    gone, step = after + 1, 1
    while gone + step < newest.sequence and await bus.get(EVENTS, gone + step) is None:
        gone, step = gone + step, 2 * step
    there = min(gone + step, newest.sequence)
    while there - gone > 1:
        middle = (gone + there) // 2
        if await bus.get(EVENTS, middle) is None:
            gone = middle
        else:
            there = middle
    return MessagesLost(EVENTS, after + 1, there - 1)
