"""A restart in between leaves no trace: notes and decisions come out in the same order."""

from pathlib import Path

import msgspec

from podgroup.log import events as e
from podgroup.log.events import Batch
from projector import tables
from projector.storage.database import reader
from tests.projector.support import Messages, Writer
from tests.support.databases import migrated
from tests.support.toy import Toy


def several_at_once() -> Messages:
    """One message that touches groups in another order than that in which they were created."""
    toy = Toy(cpu=100)
    names = ["a", "b", "c", "d"]
    for name in names:
        toy.pod(name)
    toy.act = False
    views = [toy.named(name) for name in ("c", "a", "d", "b")]
    changed = tuple(
        e.PodApplied(
            pod=msgspec.structs.replace(
                view, resource_version=toy.bump(), node="node", phase="Running"
            )
        )
        for view in views
    )
    toy.send(*changed)
    ended = tuple(
        e.PodApplied(
            pod=msgspec.structs.replace(one.pod, resource_version=toy.bump(), phase="Succeeded")
        )
        for one in (changed[2], changed[0], changed[3], changed[1])
    )
    toy.send(*ended)
    return toy.messages


def test_the_order_is_the_same_with_a_restart_before_every_message(tmp_path: Path) -> None:
    messages = several_at_once()
    assert any(len(batch.events) == 4 for _, _, batch in messages if isinstance(batch, Batch))
    told = []
    for name, restarts in (("through", False), ("restarted", True)):
        url = f"sqlite:///{tmp_path}/{name}.sqlite3"
        migrated(url)
        writer = Writer(url, size=1)
        for message in messages:
            if restarts:
                writer.store.close()
                writer = Writer(url, size=1).load()
            writer.feed([message])
        writer.store.close()
        engine = reader(url)
        with engine.connect() as connection:
            rows = connection.execute(
                tables.history.select().order_by(tables.history.c.seq, tables.history.c.ord)
            ).all()
            decided = connection.execute(
                tables.decisions.select().order_by(tables.decisions.c.number)
            ).all()
        engine.dispose()
        told.append(([tuple(r) for r in rows], [(d.number, d.id) for d in decided]))
    through, restarted = told
    assert through[0] == restarted[0]
    assert through[1] == restarted[1]
