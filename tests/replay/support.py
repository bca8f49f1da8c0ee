"""Logs to replay: a toy cluster's, with the decisions that were recorded on the way."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gatelog import cli
from podgroup.log.events import Batch, Decision
from podgroup.log.records import Concluded
from podgroup.model.policy import Policy
from projector.replay.log import Entry
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import NatsSettings, Settings, StreamSettings
from tests.projector.running import eventually, publish, running, settings_for
from tests.support.databases import migrated
from tests.support.toy import Toy

CLUSTER = "test"


class ToyLog:
    """Messages with recorded decisions, as the streams would give them."""

    def __init__(
        self,
        messages: Iterable[tuple[int, datetime, Batch]],
        decisions: Iterable[Decision],
        concluded: Iterable[Concluded] = (),
    ) -> None:
        self.messages = list(messages)
        self.decisions = list(decisions)
        self.concluded = {one.as_of: one for one in concluded}

    async def entries(self) -> AsyncIterator[Entry]:
        recorded: dict[int, dict[str, Decision]] = {}
        for decision in self.decisions:
            recorded.setdefault(decision.as_of, {})[decision.id] = decision
        for position, at, batch in self.messages:
            said = self.concluded.get(position)
            yield Entry(position, at, batch, recorded.get(position, {}), said)


def log_of(toy: Toy) -> ToyLog:
    return ToyLog(toy.messages, toy.decisions, toy.concluded)


COUNTED = Policy(status_interval_s=3600)
"""How queues stand is told once: no timer for the next time falls due while a test runs."""


class Played(Struct):
    """A log in a nats-server and the read model a projector made of it."""

    url: str
    nats: NatsSettings
    toy: Toy

    @property
    def settings(self) -> Settings:
        """What a part needs to find both."""
        every_s = self.toy.world.policy.status_interval_s
        return replace(settings_for(self.url, CLUSTER, status_interval_s=every_s), nats=self.nats)

    @property
    def options(self) -> list[str]:
        """What a command line needs to find both."""
        nats = self.nats
        found = ["--db", self.url, "--cluster", CLUSTER]
        found += ["--set", f"queueing.status_interval_s={self.toy.world.policy.status_interval_s}"]
        for name in ("url", "user", "password_file"):
            found += ["--set", f"nats.{name}={getattr(nats, name)}"]
        return found


async def play(url: str, nats: NatsSettings, toy: Toy) -> Played:
    """Publish what happened to the toy and let a projector fold it to the end."""
    migrated(url)
    bus = await connect(nats, "test", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    half, counted_every_s = len(toy.messages) // 2, toy.world.policy.status_interval_s
    settings = settings_for(url, CLUSTER, status_interval_s=counted_every_s, batch_messages=11)
    for part in (toy.messages[:half], toy.messages[half:]):
        # Two lives of the projector: the second one starts from the database.
        async with running(settings, bus) as projection:
            # Outcomes come after their decisions were sent, as an actuator's do.
            await eventually(lambda p=projection: not p.problem, "caught up")
            last = await publish(bus, CLUSTER, (batch for _, _, batch in part))
            await eventually(lambda p=projection, n=last: p.world.meta.position >= n, "folded")
    await bus.close()
    return Played(url, nats, toy)


def played_in(folder: Path, url: str, toy: Toy) -> tuple[EmbeddedNats, Played]:
    """A server of one's own with the toy's log; stop it afterwards."""
    server = EmbeddedNats(folder / "nats", sync_always=False)

    async def begin() -> Played:
        await server.start()
        return await play(url, server.settings(), toy)

    return server, asyncio.run(begin())


def gatelog(*words: str) -> int:
    return cli.run(list(words))
