"""Nodes and Topologies in the read model: rows of when they were how, a restart, and a replay."""

from typing import Any

import sqlalchemy as sa

from podgroup.log.events import NodesTaken, ObjectApplied, ObjectDeleted
from projector import tables
from tests.core.test_nodes import free, node, placed
from tests.projector.support import Writer


def rows(url: str, table: sa.Table, *columns: str) -> list[tuple[Any, ...]]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        query = sa.select(*(table.c[name] for name in columns))
        found = connection.execute(query.order_by(table.c.name, table.c.from_seq)).all()
    engine.dispose()
    return [tuple(row) for row in found]


def test_nodes_and_topologies_are_rows_and_outlive_a_restart(url: str) -> None:
    toy = placed()
    seen = toy.world.nodes["n1"].since.seq
    toy.do(NodesTaken(at=toy.now, taken={"n1": {"cpu": 1500, "pods": 2}}))
    toy.do(ObjectApplied(object=node(toy, "n1", ready=False)))
    toy.do(ObjectApplied(object=node(toy, "n1", unschedulable=True)))
    toy.do(
        ObjectDeleted(kind="Node", namespace="", name="n2", uid="n2", resource_version=toy.bump())
    )
    end = toy.position
    writer = Writer(url).feed(toy.messages)
    columns = ("name", "from_seq", "to_seq", "ready", "unschedulable", "taken")
    taken = {"cpu": 1500, "pods": 2}
    assert rows(url, tables.nodes, *columns) == [
        ("n1", seen, end - 2, True, False, taken),
        ("n1", end - 2, end - 1, False, False, taken),
        ("n1", end - 1, None, True, True, taken),
        ("n2", seen, end, True, False, {}),
    ]
    assert rows(url, tables.topologies, "name", "levels", "to_seq") == [
        ("t", ["rack", "kubernetes.io/hostname"], None)
    ]
    writer.store.close()
    again = Writer(url).load()
    world = again.world
    assert world.nodes == toy.world.nodes and world.topologies == toy.world.topologies
    assert free(world) == free(toy.world)
    again.store.close()
