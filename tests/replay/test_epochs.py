"""A log whose past is gone: what `replay` says of it, and a rebuild of what there still is."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from podgroup.fold import synced
from projector import tables
from projector.storage.database import writer
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import StreamSettings
from tests.projector.running import eventually, publish, running, settings_for
from tests.projector.support import busy_toy
from tests.projector.test_epochs import lose_events, relisted
from tests.replay.conftest import Ran
from tests.replay.support import CLUSTER, Played, play
from tests.replay.test_rebuild import checkpoint, everything

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]


@pytest.fixture
async def second_epoch(database: str, tmp_path: Path) -> AsyncIterator[Played]:
    """A read model whose log was lost once, with a group that began since."""
    server, toy = EmbeddedNats(tmp_path / "nats", sync_always=False), busy_toy()
    await server.start()
    found = await play(database, server.settings(), toy)
    bus = await connect(server.settings(), "test", deadline_s=20)
    await lose_events(bus)
    await bus.ensure_streams(StreamSettings())
    async with running(settings_for(database, CLUSTER), bus) as projection:
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed", 40)
        await publish(bus, CLUSTER, relisted(toy, "again"))
        await eventually(lambda: synced(projection.world), "everything listed")
        told = len(toy.messages)
        toy.pod("new0", "new", 2)
        toy.pod("new1", "new", 2)
        last = await publish(bus, CLUSTER, (batch for _, _, batch in toy.messages[told:]))
        base = projection.world.meta.position
        await eventually(lambda: projection.world.meta.position >= base, "folded")
        await eventually(
            lambda: any(
                g.name == "new" and g.composition.done for g in projection.world.groups.values()
            ),
            "composed",
        )
        assert last
    await bus.close()
    yield found
    await server.stop()


def of(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
async def test_a_rebuild_of_the_present_epoch_keeps_what_was_before(
    gatelog: Gatelog, second_epoch: Played
) -> None:
    played = second_epoch
    before, stood = everything(played.url), checkpoint(played.url)
    base = stood["base"]
    code, out, err = await asyncio.to_thread(gatelog, "replay", "--rebuild", *played.options)
    assert code == 1 and "begins with epoch 2" in err and "--from-epoch" in err, out
    assert everything(played.url) == before

    (new,) = of(before["groups"], name="new")
    engine = writer(played.url)
    with engine.begin() as connection:
        connection.execute(
            sa.update(tables.groups).where(tables.groups.c.id == new["id"]).values(queue="wrong")
        )
        h = tables.history.c
        connection.execute(sa.delete(tables.history).where(h.seq > base, h.group_id == new["id"]))
    engine.dispose()
    words = ("replay", "--rebuild", "--from-epoch", *played.options)
    code, out, err = await asyncio.to_thread(gatelog, *words)
    assert code == 0, (out, err)
    now = everything(played.url)
    assert of(now["groups"], name="new") == [new], "what began since is made good"
    for table in ("history", "decisions"):
        place = "seq" if table == "history" else "as_of_seq"
        for rows in (now, before):
            rows[f"{table} before"] = [row for row in rows[table] if row[place] <= base]
        assert now[f"{table} before"] == before[f"{table} before"] != []
    mine = {"group_id": new["id"]}
    assert of(now["history"], **mine) == of(before["history"], **mine) != []
    (single,) = of(before["groups"], name="single")
    assert of(now["groups"], name="single") == [single], "it was over before"
    assert of(now["pods"], group_id=single["id"]) == of(before["pods"], group_id=single["id"]) != []
    # Who lives now lived before: under the same names, and the same pods.
    for table, key in (("groups", "name"), ("pods", "uid")):
        alive = [{r[key] for r in rows[table] if r["gone_at"] is None} for rows in (before, now)]
        assert alive[0] == alive[1] != set()

    bus = await connect(played.nats, "test", deadline_s=20)
    async with running(settings_for(played.url, CLUSTER), bus) as projection:
        await eventually(lambda: not projection.problem, "goes on from what was rebuilt")
        assert projection.world.meta.epoch == 2 and synced(projection.world)
        assert projection.world.meta.decisions >= max(row["number"] for row in before["decisions"])
    await bus.close()


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
async def test_what_the_log_cannot_vouch_for_is_named_and_is_no_difference(
    gatelog: Gatelog, second_epoch: Played
) -> None:
    played = second_epoch
    base = checkpoint(played.url)["base"]
    groups = everything(played.url)["groups"]
    alive = {f"{g['namespace']}/{g['name']}" for g in groups if g["gone_at"] is None}
    old = [g for g in groups if g["created_seq"] <= base]
    code, out, err = await asyncio.to_thread(gatelog, "replay", "--verify", *played.options)
    assert (code, err) == (0, ""), out
    assert "DIFFERENT" not in out
    said = f"the log before epoch 2 is lost (table epochs): {len(old)} groups that began before"
    assert said in out, out
    named = set(out.splitlines()[-1].strip().split(", "))
    assert named == alive - {"ns/new"} != set()

    (new,) = of(groups, name="new")
    engine = writer(played.url)
    for table, where in (
        (tables.groups, tables.groups.c.id == new["id"]),
        (tables.pods, tables.pods.c.group_id == new["id"]),
    ):
        with engine.begin() as connection:
            connection.execute(sa.update(table).where(where).values(namespace="elsewhere"))
        code, out, _ = await asyncio.to_thread(gatelog, "replay", "--verify", *played.options)
        assert code == 1, out
        assert f"{table.name} " in next(line for line in out.splitlines() if "DIFFERENT" in line)
        assert "namespace is 'elsewhere', replay" in out
        with engine.begin() as connection:
            connection.execute(sa.update(table).where(where).values(namespace=new["namespace"]))
    engine.dispose()
