"""Conclusions in the log from beyond the position of a read model.

Theory. A read model may be behind the log: it is empty, or was restored from a backup. The
conclusions of that stretch are in DECISIONS and are applied; today's rules, which may differ, are
not run (law: a read model made from the log has the conclusions of that time). Deciding goes on at
the place of the last conclusion, since some conclusions of that place may not have reached the log.

Invariant: conclusions are applied only if the log has all of them from the read model's position
on, and EVENTS is the stream that they were drawn from.
"""

from podgroup.log import subjects
from podgroup.log.codec import Conclusions, decode_conclusions
from podgroup.state.world import World
from projector.live.epochs import SAME_TIME
from projector.replay.log import StreamLog
from runtime.jetstream import Bus, StreamState


async def last_recorded(bus: Bus, cluster: str) -> Conclusions | None:
    """Return the last conclusions in DECISIONS, None if there are none.

    A decision that was sent again gives older conclusions: then less is applied.
    """
    last = await bus.last(subjects.DECISIONS, subjects.decisions(cluster))
    found = decode_conclusions(last.body) if last is not None else []
    return max(found, key=lambda one: one.number, default=None)


async def recorded_log(
    bus: Bus, cluster: str, events: StreamState, world: World, base: int, last: Conclusions
) -> StreamLog | None:
    """Return the log behind `world`, with its conclusions; None if it lacks any of them.

    `events` is the stream EVENTS as it is, `base` what positions are ahead of its sequences.
    """
    begin, end = world.meta.position - base + 1, last.as_of - base
    if events.first_sequence > begin or not begin <= end <= events.last_sequence:
        return None
    drawn_from = await bus.get(subjects.EVENTS, end)
    if drawn_from is None or abs(drawn_from.at - last.at) > SAME_TIME:
        return None  # of a stream that was there before
    reader = bus.read(subjects.DECISIONS, subjects.decisions(cluster), 1, batch=1)
    try:
        oldest = await reader.next(None)
    finally:
        await reader.close()
    first = min((one.number for one in decode_conclusions(oldest[0].body)), default=0)
    if first > world.meta.decisions + 1:
        return None  # the stream has dropped earlier conclusions
    return StreamLog(bus, cluster, base=base, span=(begin, end))
