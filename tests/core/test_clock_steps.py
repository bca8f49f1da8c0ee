"""The clock that stamps the log is set forward or back an hour, maybe more than once.

It is the clock of the machine that nats-server runs on. Nothing of order may hang on it: what came
first is told by position. What waits for a moment waits longer or shorter by the step at most.
"""

from datetime import datetime, timedelta

import pytest

from podgroup.engine import due_timers, new_world, step
from podgroup.log.events import Batch
from podgroup.log.journal import Journal
from podgroup.state.world import World
from tests.projector.support import busy_toy

HOUR = timedelta(hours=1)
Messages = list[tuple[int, datetime, Batch]]


def played(messages: Messages) -> tuple[World, Journal]:
    world = new_world("test")
    for position, at, batch in messages:
        step(world, position, at, batch)
    return world, world.journal


def stepped(messages: Messages, *steps: timedelta) -> Messages:
    """The same messages; the clock is set by each step in turn, at places evenly apart."""
    apart = len(messages) // (len(steps) + 1)
    return [
        (position, at + sum(steps[: index // apart], timedelta()), batch)
        for index, (position, at, batch) in enumerate(messages)
    ]


@pytest.mark.parametrize(
    "steps", [(HOUR,), (-HOUR,), (HOUR, -HOUR), (-HOUR, HOUR), (HOUR, -2 * HOUR, HOUR)]
)
def test_what_is_decided_and_in_which_order_does_not_hang_on_the_clock(
    steps: tuple[timedelta, ...],
) -> None:
    straight = busy_toy().messages
    as_it_was, then = played(straight)
    world, now = played(stepped(straight, *steps))
    assert [(d.id, d.rule) for d in now.decisions] == [(d.id, d.rule) for d in then.decisions]
    assert [(n.seq, n.ord, n.kind, n.reason, n.message) for n in now.notes] == [
        (n.seq, n.ord, n.kind, n.reason, n.message) for n in then.notes
    ]
    assert {g: one.explained.state for g, one in world.groups.items()} == {
        g: one.explained.state for g, one in as_it_was.groups.items()
    }
    assert set(now.waits) == set(then.waits) and len(now.waits) > 3
    assert all(group.quota.executed_s >= 0 for group in world.groups.values())


def test_no_interval_ends_before_it_began_wherever_the_clock_is_set_back() -> None:
    straight, crossed = busy_toy().messages, 0
    for place in range(1, len(straight)):
        moved = straight[:place] + [(p, at - HOUR, batch) for p, at, batch in straight[place:]]
        _, journal = played(moved)
        for row in journal.waits.values():
            assert row.to_at is None or row.to_at >= row.from_at, row
            crossed += row.to_at == row.from_at
        for one in journal.admissions.values():
            assert one.released_at is None or one.released_at >= one.admitted_at, one
            crossed += one.released_at == one.admitted_at
    assert crossed > 10


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_timer_comes_early_or_late_by_the_step_and_no_more(by: timedelta) -> None:
    straight = busy_toy().messages
    as_it_was, _ = played(straight)
    world, _ = played(stepped(straight, by))
    timers, end = as_it_was.meta.timers, straight[-1][1]
    assert timers and set(world.meta.timers) == set(timers)
    for name, timer in timers.items():
        moved = world.meta.timers[name].due_at - timer.due_at
        assert moved in (timedelta(), by), (name, moved)
        early, late = timer.due_at + min(by, timedelta()), timer.due_at + max(by, timedelta())
        assert name not in {t.timer for t in due_timers(world, early - timedelta(seconds=1))}
        assert name in {t.timer for t in due_timers(world, late)}
    assert not due_timers(as_it_was, end - HOUR)
