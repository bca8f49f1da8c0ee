"""Looking at the stream DECISIONS: do the actuators keep up, and was anything dropped before?

Invariant: asks for states and one message; takes nothing out of the stream.
"""

from datetime import datetime
from typing import TYPE_CHECKING

from gatelog.examine.findings import Finding, fail, ok, skip, warn
from gatelog.readmodel.timeline import duration
from gatelog.shell.errors import explain
from podgroup.log import subjects
from runtime.settings import Settings

if TYPE_CHECKING:
    from runtime.jetstream import Bus, StreamState

AREA = "log"
WHAT = "backlog"
_BEHIND_S = 30.0


async def examine(settings: Settings, bus: "Bus", stream: "StreamState", now: datetime) -> Finding:
    """Compare what the actuators have taken with what the stream has."""
    from runtime.jetstream import BusError

    durable = subjects.actuator_consumer(settings.cluster)
    subject = subjects.decisions(settings.cluster)
    try:
        taken = await bus.taken(subjects.DECISIONS, durable)
        if taken is None:
            return skip(AREA, WHAT, "no actuator has ever asked for decisions here")
        first = await bus.at_or_after(subjects.DECISIONS, taken.delivered + 1, subject)
    except BusError as error:
        return fail(AREA, WHAT, explain(error).sentence, "is the NATS server up?")
    if first is not None and taken.delivered + 1 < stream.first_sequence:
        return warn(
            AREA,
            WHAT,
            f"messages {taken.delivered + 1} to {stream.first_sequence - 1} of DECISIONS were "
            "dropped before an actuator took them",
            "start the actuator; the projector sends again what is still wanted. Raise "
            "streams.decisions_max_bytes or max_age_s",
        )
    held = f"{taken.held} messages under way"
    if first is None:
        return ok(AREA, WHAT, f"none waits, {held}")
    waits_s = (now - first.at).total_seconds()
    since = f"since {first.at:%Y-%m-%d %H:%M:%S} UTC"
    detail = f"{taken.waiting} messages wait for an actuator, by {duration(waits_s)}: {since}"
    if waits_s <= _BEHIND_S:
        return ok(AREA, WHAT, detail)
    return warn(
        AREA,
        WHAT,
        f"{detail}; {held}",
        "is an actuator running, and does the API server take its requests? See its log and "
        "gatelog_actuator_requests_total by status",
    )
