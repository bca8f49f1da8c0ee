"""The order of a queue as people read it is the one in which admission takes its groups.

`GATELOG_STORIES` is how many random stories are told (8).
"""

import os

import pytest
from sqlalchemy import text

from podgroup.fold.deriving import apply_derived
from podgroup.ids import GroupID
from podgroup.lifecycle import stage_of
from podgroup.rules.helpers.lineup import lineup
from podgroup.state import World
from projector.storage.database import reader
from tests.projector.support import Writer
from tests.readmodel.stories import TEAMS, Story

STORIES = int(os.environ.get("GATELOG_STORIES", "8"))
ORDER = "SELECT cluster_queue, position, group_id FROM v_queue_position ORDER BY 1, 2"


def line(world: World) -> list[tuple[str, int, str]]:
    """Who waits for quota, in the order of the real line."""
    for derived in lineup(world):
        apply_derived(world, derived)
    book = world.lineup.scheduler.book
    found = []
    for name in sorted(TEAMS):
        stages = [
            (one.id, stage_of(group.explained.state, wait.reason if wait else ""))
            for one in book.line(name)
            for group in (world.groups[GroupID(one.id)],)
            for wait in (group.explained.wait,)
        ]
        waits = [identity for identity, stage in stages if stage == "queued"]
        found += [(name, place, identity) for place, identity in enumerate(waits, 1)]
    return found


@pytest.mark.parametrize("seed", range(STORIES))
def test_positions_are_those_of_the_real_line(url: str, seed: int) -> None:
    fed, longest = 0, 0
    story, writer, engine = Story(seed), Writer(url), reader(url)
    for toy in story.moments():
        writer.feed(toy.messages[fed:])
        fed = len(toy.messages)
        with engine.connect() as connection:
            rows = connection.execute(text(ORDER))
            found = [(str(queue), int(place), str(group)) for queue, place, group in rows]
        assert found == line(toy.world)
        longest = max(longest, len(found))
    engine.dispose()
    assert longest > 2
