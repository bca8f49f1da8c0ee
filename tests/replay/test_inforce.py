"""Which settings were in force when: `gatelog epochs`, and `gatelog history` of a group."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from podgroup.fold import synced
from projector import tables
from projector.storage.database import writer
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import QueueingSettings, StreamSettings
from tests.projector.running import eventually, publish, running, settings_for
from tests.projector.support import busy_toy
from tests.projector.test_epochs import lose_events, relisted
from tests.replay.conftest import Ran
from tests.replay.support import CLUSTER, Played, play

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]


@pytest.fixture
async def changed(tmp_path: Path) -> AsyncIterator[Played]:
    """Started with the defaults, then with another setting, then the log was lost and a third."""
    url = f"sqlite:///{tmp_path}/live.sqlite3"
    server, toy = EmbeddedNats(tmp_path / "nats", sync_always=False), busy_toy()
    await server.start()
    found = await play(url, server.settings(), toy)
    bus = await connect(server.settings(), "test", deadline_s=20)
    default = settings_for(url, CLUSTER)
    second = QueueingSettings(label_keys_to_copy=("team",))
    third = msgspec.structs.replace(second, requeuing_limit=3)
    one = msgspec.structs.replace(default, queueing=second)
    async with running(one, bus) as projection:
        await eventually(lambda: projection.world.policy.label_keys_to_copy, "said")
        told = len(toy.messages)
        toy.pod("x0", "x", 1)
        last = await publish(bus, CLUSTER, (batch for _, _, batch in toy.messages[told:]))
        await eventually(lambda: projection.world.meta.position >= last, "folded")
    await lose_events(bus)
    await bus.ensure_streams(StreamSettings())
    async with running(msgspec.structs.replace(default, queueing=third), bus) as projection:
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed", 40)
        await publish(bus, CLUSTER, relisted(toy, "again"))
        await eventually(lambda: synced(projection.world), "everything listed")
        # An empty log is not written to first, so the settings come after what was listed.
        await eventually(lambda: projection.world.policy.requeuing_limit == 3, "said")
    await bus.close()
    yield found
    await server.stop()


async def test_settings_by_epoch(gatelog: Gatelog, changed: Played) -> None:
    code, out, err = await asyncio.to_thread(gatelog, "epochs", *changed.options)
    assert (code, err) == (0, "")
    first, _, second = out.partition("epoch 2  ")
    assert first.startswith("epoch 1  ") and "first start" in first
    assert "mode " in first and "queueing.label_keys_to_copy" in first and "kinds" in first
    assert "queueing.label_keys_to_copy team (was none)" in first
    assert "may be missing: positions 1 to" in second
    # What changed between the epochs, and nothing else.
    assert second.rstrip().endswith(": queueing.requeuing_limit 3 (was -1)")

    code, out, _ = await asyncio.to_thread(gatelog, "epochs", "--json", *changed.options)
    found = json.loads(out)
    assert [len(each["in_force"]) for each in found] == [2, 1]
    assert found[1]["in_force"][0]["was"] == {"queueing.requeuing_limit": "-1"}
    assert found[1]["in_force"][0]["settings"]["queueing.label_keys_to_copy"] == "team"


async def test_settings_of_a_group(gatelog: Gatelog, changed: Played) -> None:
    code, out, err = await asyncio.to_thread(gatelog, "history", "ns/c", *changed.options)
    assert (code, err) == (0, "")
    assert "decided by gatelog " in out and "mode builtin" in out
    assert out.count("settings changed") == 2  # it lives through both
    assert "queueing.label_keys_to_copy team (was none)" in " ".join(out.split())
    code, out, _ = await asyncio.to_thread(gatelog, "history", "ns/x", *changed.options)
    assert out.count("settings changed") == 1 and "requeuing_limit 3" in " ".join(out.split())
    code, out, _ = await asyncio.to_thread(gatelog, "history", "ns/x", "--json", *changed.options)
    settings = json.loads(out)[0]["settings"]
    assert settings[0]["settings"]["queueing.label_keys_to_copy"] == "team"


async def test_what_was_pruned_is_not_guessed(gatelog: Gatelog, changed: Played) -> None:
    engine, h = writer(changed.url), tables.history.c
    with engine.begin() as connection:
        connection.execute(sa.delete(tables.history).where(h.group_id == ""))
    engine.dispose()
    code, out, _ = await asyncio.to_thread(gatelog, "epochs", *changed.options)
    first, _, second = out.partition("epoch 2  ")
    assert code == 0 and "the log does not say, or history was pruned" in first
    assert "since before history:" in second  # the checkpoint knows what holds now
    assert "queueing.requeuing_limit" in second and "(was" not in second


def test_nothing_to_tell(gatelog: Gatelog, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.sqlite3"
    assert gatelog("migrate", "--db", url)[0] == 0
    code, out, err = gatelog("epochs", "--db", url, "--cluster", "test")
    assert (code, out) == (1, "") and "no log of cluster test was ever read" in err
