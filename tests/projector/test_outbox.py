"""The window on the table of decisions: bounded, in order, and nothing lost by a kill."""

import asyncio
import signal
from pathlib import Path

import pytest

from podgroup.log import events as e
from podgroup.log import subjects
from podgroup.log.codec import Conclusions, decode_decision, split_decisions
from podgroup.log.events import Batch, Decision
from podgroup.model.commands import INTERNAL
from projector.delivery.outbox import Outbox
from runtime.jetstream import Bus
from runtime.settings import NatsSettings, ProjectorSettings, Settings
from tests.actuator.commands import decision, pod_ref, ungate
from tests.projector.running import decided, doomed, eventually, publish, running, settings_for
from tests.projector.test_epochs import delete_stream
from tests.projector.test_projection import batches
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

WINDOW = 5
PODS = 12


def many() -> Toy:
    """Single pods that are all admitted, and nobody who acts on them."""
    toy = Toy(cpu=PODS)
    toy.act = False
    for number in range(PODS):
        toy.pod(f"pod-{number}", cpu=1)
    return toy


class Answering:
    """An actuator's answers: takes decisions out of the stream, and says that they are applied."""

    def __init__(self, bus: Bus, cluster: str) -> None:
        self._bus = bus
        self._cluster = cluster
        self._reader = bus.read(subjects.DECISIONS, subjects.decisions(cluster), 1)
        self.taken: list[Decision] = []
        self.answered: set[str] = set()

    async def take(self, wait_s: float) -> None:
        for message in await self._reader.next(wait_s):
            self.taken += [decode_decision(part) for part in split_decisions(message.body)]

    @property
    def open(self) -> list[Decision]:
        """What was taken and is to be answered, each once."""
        writes = {d.id: d for d in self.taken if not isinstance(d.command, INTERNAL)}
        return [d for identity, d in writes.items() if identity not in self.answered]

    async def answer(self, decisions: list[Decision]) -> None:
        said = [
            e.OutcomeRecorded(decision=d.id, group=d.group, status="applied", http_status=200)
            for d in decisions
        ]
        await publish(self._bus, self._cluster, [Batch(source="actuator", events=tuple(said))])
        self.answered |= {d.id for d in decisions}

    async def close(self) -> None:
        await self._reader.close()


def first_times(decisions: list[Decision]) -> list[int]:
    """Numbers in the order in which each was seen first."""
    return list(dict.fromkeys(d.number for d in decisions))


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
async def test_no_more_than_the_window_is_under_way_and_the_rest_follows_in_order(
    url: str, bus: Bus, cluster: str
) -> None:
    toy, actuator = many(), Answering(bus, cluster)
    settings = settings_for(url, cluster, open_decisions=WINDOW)
    async with running(settings, bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        await publish(bus, cluster, batches(toy))
        await eventually(lambda: len(decided(url, cluster)) >= 2 * PODS, "decided")
        rounds = 0
        async with asyncio.timeout(30):
            while rounds < 100 and len(actuator.answered) < 2 * PODS:
                await actuator.take(0.3)
                assert projection._outbox.unresolved <= WINDOW
                assert len(actuator.open) <= WINDOW
                await actuator.answer(actuator.open[:2])
                rounds += 1
        made = decided(url, cluster)
        await eventually(lambda: not projection._outbox.waiting, "all published")
        await actuator.take(0.3)
        assert projection._outbox.published >= made[-1].number  # records may follow it
    await actuator.close()
    assert rounds > PODS / 2, "the window never filled"
    assert first_times(actuator.taken) == [d.number for d in made]
    assert len(actuator.taken) == len(made), "something was sent twice"


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
@pytest.mark.parametrize("window", [1, 4])
async def test_a_projector_killed_while_the_window_moves_loses_nothing(
    url: str, bus: Bus, cluster: str, nats_settings: NatsSettings, window: int, tmp_path: Path
) -> None:
    toy, actuator = many(), Answering(bus, cluster)
    await publish(bus, cluster, batches(toy))
    for kill_after in (3, 9):
        child = doomed(url, cluster, nats_settings, tmp_path, window=window)
        try:
            async with asyncio.timeout(40):
                while len(actuator.answered) < kill_after:
                    await actuator.take(0.3)
                    assert len(actuator.open) <= window
                    await actuator.answer(actuator.open[:1])
        finally:
            child.kill()
            assert await asyncio.to_thread(child.wait, 10) == -signal.SIGKILL
    settings = settings_for(url, cluster, open_decisions=window)
    async with running(settings, bus):
        async with asyncio.timeout(40):
            while len(actuator.answered) < 2 * PODS:
                await actuator.take(0.3)
                await actuator.answer(actuator.open)
    await actuator.close()
    made = [d.number for d in decided(url, cluster)]
    assert [n for n in first_times(actuator.taken) if n <= made[-1]] == made


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
async def test_what_was_sent_and_lost_with_its_stream_goes_again_with_a_smaller_window(
    url: str, own_bus: Bus, cluster: str
) -> None:
    bus, toy = own_bus, many()
    async with running(settings_for(url, cluster), bus) as projection:
        await publish(bus, cluster, batches(toy))
        await eventually(lambda: len(decided(url, cluster)) >= 2 * PODS, "decided")
        await eventually(lambda: projection._outbox.published >= 2 * PODS, "published")
    await delete_stream(bus, subjects.DECISIONS)
    async with running(settings_for(url, cluster, open_decisions=3), bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        actuator = Answering(bus, cluster)
        async with asyncio.timeout(30):
            while len(actuator.answered) < 2 * PODS:
                await actuator.take(0.3)
                assert len(actuator.open) <= 3
                await actuator.answer(actuator.open[:2])
        await actuator.close()
    writes = [d.number for d in decided(url, cluster) if not isinstance(d.command, INTERNAL)]
    assert first_times(actuator.taken) == writes


async def test_what_is_decided_after_a_rebuild_is_sent_though_the_stream_had_more(bus: Bus) -> None:
    """The log of before made 1000 decisions, the rebuilt read model makes 10, and then goes on."""
    made: list[Conclusions] = [decision(ungate(pod_ref()), n) for n in range(1, 21)]

    async def owed(after: int, until: int, limit: int, _records: bool) -> list[Conclusions]:
        return [one for one in made if after < one.number <= until][:limit]

    outbox = Outbox(
        bus,
        Settings(
            cluster="c", projector=ProjectorSettings(decision_timeout_s=60, open_decisions=100)
        ),
        refused=lambda _: None,
        expected=lambda _: False,
    )
    outbox.recorded_to = 1000
    outbox.put(made[:10])
    outbox.release()
    outbox.put(made[10:])
    await outbox._fill(owed)
    assert [one.number for one in outbox._unresolved.values()] == [*range(11, 21)]
    assert outbox.waiting == 10
