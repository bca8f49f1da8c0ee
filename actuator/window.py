"""The messages an actuator holds: how many, and which go back to the stream.

Theory. A message is held until all its decisions are carried out, and the window has room for a
bounded number. Where the objects of a namespace are slow, its decisions wait for the namespace's
few slots; they come faster than they go, would fill the window and keep out all others. So once the
window is full, messages that wait for slow namespaces alone, without a request under way, go back
where they take more than half of the room, to be delivered again later.

Invariant: messages of namespaces that are not slow are never sent back; of decisions on one object
the newer go back first.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from actuator.fairqueue import Claim
from runtime.jetstream import Delivery

PER_REQUEST: Final = 8
"""Messages taken per request allowed in flight, so that messages that wait for a retry do not take
all the room.
"""
MAX_HELD: Final = 640
"""Messages taken at most, or one per request. A message has up to 32 decisions of about 11 KB each
while they are worked on: enough that a single pod is not left in the stream behind a group of ten
thousand, and no more than 220 MB."""
AWAY_S: Final = 15.0
"""Seconds after which messages that were sent back are delivered again."""


class Held(Struct):
    """A message whose decisions are not all carried out; `delivery` is its newest delivery.

    `left` counts these decisions, `claims` are theirs.
    """

    delivery: Delivery
    left: int
    claims: list[Claim] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


def held_at_most(max_in_flight: int) -> int:
    """Return how many messages an actuator takes at most, by its bound on requests under way."""
    return max(max_in_flight, min(max_in_flight * PER_REQUEST, MAX_HELD))


def crowding(held: Iterable[Held], slow: Callable[[str], bool], most: int) -> list[Held]:
    """Return the messages to send back from a window for `most`, given oldest first.

    `slow` returns whether a flow is slow by itself.
    """
    waiting: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        flows = {claim.flow for claim in one.claims}
        if flows and all(map(slow, flows)) and not any(claim.in_flight for claim in one.claims):
            waiting[min(flows)].append(one)
    room = most // 2 // max(1, len(waiting))
    return [one for ones in waiting.values() for one in ones[room:]]
