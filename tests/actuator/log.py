"""The log as the actuator's tests use it: decisions in, outcomes out."""

import time

from podgroup.log import codec, subjects
from podgroup.log.events import Decision, DecisionRefused, OutcomeRecorded
from podgroup.model.commands import AnyCommand
from runtime.jetstream import Bus
from tests.actuator.commands import decision

CLUSTER = "default"


class Outcomes:
    """Reads what the actuator recorded."""

    def __init__(self, bus: Bus) -> None:
        self._reader = bus.read(subjects.EVENTS, subjects.events(CLUSTER, "actuator"), 1)
        self.seen: list[OutcomeRecorded] = []

    async def until(
        self, final: int, timeout_s: float = 60.0, *, delivery: int = 1
    ) -> list[OutcomeRecorded]:
        """Wait for final outcomes of `final` decisions, each of that delivery or a later one.

        Returns all outcomes so far.
        """
        deadline = time.monotonic() + timeout_s
        while len(self._final(delivery)) < final:
            assert time.monotonic() < deadline, self.seen
            for message in await self._reader.next(0.5):
                for event in codec.decode_batch(message.body).events:
                    if isinstance(event, DecisionRefused):
                        continue
                    assert isinstance(event, OutcomeRecorded)
                    self.seen.append(event)
        return self.seen

    def _final(self, delivery: int) -> set[str]:
        return {o.decision for o in self.seen if o.status != "retrying" and o.delivery >= delivery}

    async def close(self) -> None:
        await self._reader.close()


async def decide(bus: Bus, *commands: AnyCommand, first: int = 1) -> list[Decision]:
    made = [decision(command, number) for number, command in enumerate(commands, first)]
    for each in made:
        await bus.publish(subjects.decisions(CLUSTER), codec.encode_decision(each), each.id)
    return made
