"""Where there is room, and who has it: what people see of topologies."""

import sqlalchemy as sa

from projector import tables
from projector.storage.database import reader
from tests.projector.support import Writer
from tests.readmodel.racks import NEAR, Racks


def placements(url: str) -> list[tuple[object, ...]]:
    p, g = tables.placements.c, tables.groups.c
    query = sa.select(g.name, p.domain, p.pods, p.to_at.is_(None)).join_from(
        tables.placements, tables.groups, p.group_id == g.id
    )
    engine = reader(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(query.order_by(p.from_seq, p.domain))]
    engine.dispose()
    return found


def test_each_domain_a_group_has_places_in_is_a_row_that_ends_with_the_admission(url: str) -> None:
    toy = Racks()
    writer = Writer(url)
    names = toy.several("g", 5)
    writer.feed(toy.messages)
    assert placements(url) == [("g", "a1", 4, True), ("g", "a2", 1, True)]
    toy.run(*names)
    toy.end(*names)
    writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
    assert placements(url) == [("g", "a1", 4, False), ("g", "a2", 1, False)]


def test_pods_that_get_other_places_leave_the_rows_of_before_closed(url: str) -> None:
    toy = Racks()
    names = toy.several("g", 2, cpu=4, asked=NEAR)
    toy.run(names[0])
    toy.renode("a2", ready=False)
    Writer(url).feed(toy.messages)
    rows = placements(url)
    assert rows[:2] == [("g", "a1", 1, False), ("g", "a2", 1, False)]
    assert rows[2:] == [("g", "a1", 1, True), ("g", "b1", 1, True)]
