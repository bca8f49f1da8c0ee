"""Messages of DECISIONS: one decision or many, and what cannot be taken apart."""

import pytest

from podgroup.log import codec
from tests.actuator.commands import decision, pod_ref, ungate


def made(count: int) -> list[bytes]:
    commands = [ungate(pod_ref(f"p{number}", f"u{number}")) for number in range(count)]
    return [codec.encode_decision(decision(one, n)) for n, one in enumerate(commands, 1)]


@pytest.mark.parametrize("count", [1, 2, 32])
def test_what_was_joined_comes_apart_in_its_order(count: int) -> None:
    bodies = made(count)
    assert codec.split_decisions(codec.join_decisions(bodies)) == bodies


def test_a_lone_decision_is_a_message_as_it_always_was() -> None:
    (body,) = made(1)
    assert codec.join_decisions([body]) == body


def test_one_that_cannot_be_read_leaves_its_neighbours_readable() -> None:
    first, last = made(2)
    unknown = b'{"id":"d9-x","group":"g","command":{"action":"Dance"}}'
    parts = codec.split_decisions(codec.join_decisions([first, unknown, last]))
    assert parts == [first, unknown, last]


@pytest.mark.parametrize("body", [b"", b"no json", b'{"decisions":[', b'{"decisions":[1,]}'])
def test_what_cannot_be_taken_apart_is_one_part(body: bytes) -> None:
    assert codec.split_decisions(body) == [body]
