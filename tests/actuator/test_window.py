"""What goes back to the stream when slow namespaces crowd the window, and what does not."""

from typing import Any, cast

import pytest

from actuator.fairqueue import Claim
from actuator.window import Held, crowding, held_at_most

MOST = 8


def held(*flows: str, in_flight: int = 0) -> Held:
    """A message whose decisions are for some namespaces; requests are under way for the first."""
    claims = [Claim(flow) for flow in flows]
    for claim in claims[:1]:
        claim.in_flight = in_flight
    return Held(cast(Any, None), len(claims), claims)


def test_the_newest_of_slow_namespaces_go_back_and_nothing_else_does() -> None:
    slow = [held("slow") for _ in range(10)]
    others = [held("calm"), held("calm", "slow"), held("slow", in_flight=1), held()]
    assert crowding([*slow, *others], "slow".__eq__, MOST) == slow[MOST // 2 :]


def test_two_slow_namespaces_share_half_of_the_room() -> None:
    a, b = [held("a") for _ in range(9)], [held("b") for _ in range(3)]
    assert crowding([*a, *b], {"a", "b"}.__contains__, MOST) == [*a[2:], *b[2:]]


def test_a_flood_that_is_not_slow_stays() -> None:
    assert crowding([held("flood") for _ in range(20)], lambda _: False, MOST) == []


@pytest.mark.parametrize(("requests", "messages"), [(4, 32), (64, 512), (200, 640), (1000, 1000)])
def test_what_an_actuator_holds_is_bounded_whatever_it_may_send(
    requests: int, messages: int
) -> None:
    assert held_at_most(requests) == messages
