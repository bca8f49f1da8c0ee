"""The engine: one message of the log in, a changed world and a journal out.

It is what the projector runs live, what re-deciding runs on yesterday's log, and what tests run on
recorded streams: fold every event of the message in order, then decide once. Deciding per message
and not per database transaction makes decisions independent of how messages were batched into
transactions, so they can be made again and must come out the same.

Invariant: what it puts into the journal is all that a replay (`folding`) needs besides the log.
"""

from collections.abc import Mapping
from datetime import datetime

from podgroup.decide import Difference
from podgroup.decide import decide as decide_all
from podgroup.decide.admission import prepare
from podgroup.events import Batch, Decision
from podgroup.fold import At
from podgroup.folding import (
    Taken,
    due_timers,
    fold_message,
    load_world,
    new_world,
    read_back,
    rejoin_frames,
    take,
)
from podgroup.policy import Policy
from podgroup.records import Concluded
from podgroup.state import World

__all__ = [
    "Taken",
    "derive",
    "due_timers",
    "load_world",
    "new_world",
    "read_back",
    "rejoin_frames",
    "step",
    "take",
]


def step(
    world: World,
    position: int,
    at: datetime,
    batch: Batch,
    recorded: Mapping[str, Decision] | None = None,
    concluded: Concluded | None = None,
    by: Policy | None = None,
) -> Difference:
    """Fold one message at `position` and decide.

    With `recorded` (the decisions made at this position, by id; maybe none) those are applied
    instead, and what today's rules would do differently is returned. The same goes for records
    where the log has them: `concluded`, None for none at this position. Rules are asked by the
    settings in the log, or by those of `by`; what is folded goes by the log's either way.
    """
    if world.loaded and world.mode == "builtin":
        prepare(world)
    here = fold_message(world, position, at, batch)
    if recorded is not None and concluded is None and world.meta.settings is not None:
        concluded = Concluded(number=0, as_of=position, at=at, records=())
    said = world.policy
    world.policy = by or said
    difference = decide_all(world, here, recorded, concluded)
    world.policy = said
    world.meta.at = at
    return difference


def derive(world: World, here: At, recorded: Mapping[str, Decision]) -> None:
    """Apply decisions of a log without records, and let today's rules derive what it lacks."""
    decide_all(world, here, recorded)
