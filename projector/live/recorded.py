"""What the log says was concluded behind the place that a read model has reached.

Theory. A read model may know less than the log: it is empty, or was restored from a backup. What
was concluded in that stretch is in DECISIONS and is applied; rules of today, which may be other
ones, are not asked (law: a read model made from the log says what was said then). Deciding goes on
at the place of the last conclusion: of what was drawn there some may not have reached the log.

Invariant: conclusions are applied only if the log has all of them from there on, and EVENTS is the
stream that they were drawn from.
"""

from podgroup.log import subjects
from podgroup.log.codec import Conclusions, decode_conclusions
from podgroup.state.world import World
from projector.live.epochs import SAME_TIME
from projector.replay.log import StreamLog
from runtime.jetstream import Bus, StreamState


async def last_recorded(bus: Bus, cluster: str) -> Conclusions | None:
    """Return the last conclusions in DECISIONS, None if there are none.

    Those of a decision that was sent again are older than others: less is applied then.
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
        return None  # the stream has dropped what was concluded before
    return StreamLog(bus, cluster, base=base, span=(begin, end))
