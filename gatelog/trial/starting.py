"""The expected start of a waiting group: the present state with the group in line, played forward.

Theory. The forecast's own plays begin with the scheduler in which the pods were decided on, and end
with the group's start. That takes processor time, so it has a budget, and a start that was not
reached is reported as open.

Invariant: reads only.
"""

import pickle
from datetime import datetime, timedelta

from gatelog.forecast.estimating import estimate
from gatelog.forecast.present import present_of
from gatelog.trial.answers import Start
from gatelog.trial.trying import StartOf, Starts
from podgroup.model.ids import GroupID
from podgroup.state.world import World
from projector.storage.database import reading

BUDGET_S = 0.2
"""Seconds of processor time of an estimate."""


def by_plays(url: str, label: str, budget_s: float = BUDGET_S) -> Starts:
    """Return a function that says when groups start, by the runs in the read model of `url`."""

    def starts(world: World, now: datetime) -> StartOf:
        with reading(url) as connection:
            present = present_of(connection, world, now, label)
        present.begin = pickle.dumps(world.quotas.scheduler)

        def start_of(identity: GroupID, position: int) -> Start:
            found = estimate(present, identity, position, budget_s=budget_s)
            expected, earliest, latest = (
                None if seconds is None else now + timedelta(seconds=seconds)
                for seconds in (found.expected_s, found.earliest_s, found.latest_s)
            )
            return Start(
                expected=expected,
                earliest=earliest,
                latest=latest,
                never=found.never,
                unknown=found.unknown,
            )

        return start_of

    return starts
