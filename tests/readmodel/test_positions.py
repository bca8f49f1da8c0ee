"""The order of a queue as people read it is the one in which admission takes its groups.

`TEST_STORIES` is how many random stories are told (8).
"""

import os

import pytest
from sqlalchemy import Engine, text

from podgroup.engine import new_world, step
from podgroup.fold.account import enter
from podgroup.model.ids import GroupID
from podgroup.model.lifecycle import stage_of
from podgroup.state.world import World
from projector.storage.database import reader
from tests.core.test_shared_quota import FAIR, contested
from tests.projector.support import Writer
from tests.readmodel.stories import Story

STORIES = int(os.environ.get("TEST_STORIES", "8"))
ORDER = "SELECT cluster_queue, position, group_id FROM v_queue_position ORDER BY 1, 2"


def line(world: World) -> list[tuple[str, int, str]]:
    """Who waits for quota, in the order of the real line."""
    if world.quotas.deciding is None:
        enter(world)
    cache = world.quotas.scheduler.cache
    found = []
    for name in sorted(cache.objects.cluster_queues):
        stages = [
            (one.id, stage_of(group.explained.state, wait.reason if wait else ""))
            for one in cache.queues.line(name)
            for group in (world.groups[GroupID(one.id)],)
            for wait in (group.explained.wait,)
        ]
        waits = [identity for identity, stage in stages if stage == "queued"]
        found += [(name, place, identity) for place, identity in enumerate(waits, 1)]
    return found


def positions(engine: Engine) -> list[tuple[str, int, str]]:
    """The order as rows have it."""
    with engine.connect() as connection:
        rows = connection.execute(text(ORDER))
        return [(str(queue), int(place), str(group)) for queue, place, group in rows]


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
@pytest.mark.parametrize("seed", range(STORIES))
def test_positions_are_those_of_the_real_line(url: str, seed: int) -> None:
    fed, longest = 0, 0
    story, writer, engine = Story(seed), Writer(url), reader(url)
    for toy in story.moments():
        writer.feed(toy.messages[fed:])
        fed = len(toy.messages)
        found = positions(engine)
        assert found == line(toy.world)
        longest = max(longest, len(found))
    engine.dispose()
    assert longest > 2


def test_who_lost_what_was_kept_goes_before_none_by_that(url: str) -> None:
    toy = contested(28)
    world, writer = new_world("test", "builtin", FAIR), Writer(url)
    writer.world.policy = FAIR
    for until, message in enumerate(toy.messages, 1):
        step(world, *message)
        if world.quotas.deciding is not None and world.quotas.scheduler.cache.claims.lost:
            writer.feed(toy.messages[:until])
            break
    (loser,) = world.quotas.scheduler.cache.claims.lost
    engine = reader(url)
    with engine.connect() as connection:
        found = connection.execute(text(f"SELECT precedence FROM groups WHERE id = '{loser}'"))
        assert found.scalar_one() == 0
    assert positions(engine) == line(world)
    engine.dispose()
