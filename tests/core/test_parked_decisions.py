"""A decision that the actuator parked: listed once, and made again when somebody releases it."""

from datetime import UTC, datetime

import msgspec
import pytest

from podgroup.log import events as e
from podgroup.log.parked import ParkedMessage, decode_parked, encode_parked
from podgroup.model.ids import GroupID
from podgroup.model.reasons import PARKED_DECISION
from tests.support.toy import Toy


def parked_toy() -> tuple[Toy, e.Decision]:
    """A toy whose actuator could not carry out the removal of a gate."""
    toy = Toy()
    toy.act = False
    toy.pod("a")
    made = next(d for d in toy.decisions if type(d.command).__name__ == "UngatePod")
    toy.send(outcome(made))
    return toy, made


def outcome(made: e.Decision, place: str = "7/0") -> e.OutcomeRecorded:
    return e.OutcomeRecorded(
        decision=made.id,
        group=made.group,
        status="rejected",
        message="parked: carrying it out failed: KeyError: 'x'",
        by="actuator",
        parked=place,
    )


def ungated(toy: Toy) -> list[str]:
    return [d.id for d in toy.decisions if type(d.command).__name__ == "UngatePod"]


def test_it_is_listed_once_and_its_group_goes_on() -> None:
    toy, made = parked_toy()
    (row,) = toy.world.journal.parked
    assert (row.seq, row.ord, row.reason) == (toy.position, 0, PARKED_DECISION)
    assert (row.group, row.message) == (made.group, "carrying it out failed: KeyError: 'x'")
    assert row.object == f"decision {made.id}, message 7/0 of DECISIONS"
    assert not toy.world.groups[GroupID(made.group)].parked
    toy.send(outcome(made, "9/0"))
    assert len(toy.world.journal.parked) == 1


@pytest.mark.parametrize(("action", "again"), [("release", True), ("discard", False)])
def test_released_it_is_decided_again_at_once(action: str, again: bool) -> None:
    toy, made = parked_toy()
    assert ungated(toy) == [made.id]
    (row,) = toy.world.journal.parked
    toy.send(e.OperatorActed(action=action, target=f"{row.seq}/{row.ord}", by="ada"))
    assert (len(ungated(toy)) == 2) is again
    assert not toy.world.meta.given_up
    if again:
        new = toy.decisions[-1]
        assert new.id != made.id and new.command == made.command
        # Should it fail in the same way, it is listed anew.
        toy.send(outcome(new, "11/0"))
        assert len(toy.world.journal.parked) == 2


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_parked_messages_have_one_shape() -> None:
    message = ParkedMessage(
        by="actuator", reason="R", message="why", stream="DECISIONS", seq=3, ord=1, at=AT, body=b"x"
    )
    assert decode_parked(encode_parked(message)) == message
    with pytest.raises(msgspec.MsgspecError):
        decode_parked(b"no json")
