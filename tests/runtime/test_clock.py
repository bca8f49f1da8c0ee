"""The clock of the API server, as far as its answers tell it for certain."""

from datetime import UTC, datetime
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from runtime.clock import EVERY_S, Clock, ahead_s, said_at

seconds = st.floats(0, 100)


@given(st.floats(-1000, 1000), seconds, seconds)
def test_a_right_clock_is_never_called_wrong_and_a_wrong_one_by_no_more_than_it_is(
    skew: float, there: float, back: float
) -> None:
    """`skew`: by how much ours is ahead; the answer is made `there` s after it was asked for."""
    sent = 1e9
    made = float(int(sent - skew + there))
    found = ahead_s(sent, made, sent + there + back)
    assert abs(found) <= max(0.0, abs(skew) + 1e-6)
    assert found * skew >= 0 or abs(found) < 1e-6
    if there == back == 0:
        assert abs(found) >= abs(skew) - 1.000001


def test_it_looks_at_an_answer_now_and_then() -> None:
    now = 1e9
    clock = Clock(lambda: now)

    def answer(ahead: float) -> dict[str, str]:
        return {"Date": format_datetime(datetime.fromtimestamp(now - ahead, UTC), usegmt=True)}

    clock.seen(now, answer(120))
    assert 118 < clock.ahead_s <= 120
    clock.seen(now, answer(0))
    assert clock.ahead_s > 118, "too soon"
    now += EVERY_S
    clock.seen(now, answer(-60))
    assert -60 <= clock.ahead_s < -58
    now += EVERY_S
    clock.seen(now, {})
    clock.seen(now, {"Date": "yesterday"})
    assert clock.ahead_s < -58, "an answer that does not say when"
    clock.seen(now, answer(0))
    assert clock.ahead_s == 0.0


def test_an_answer_without_a_date_says_nothing() -> None:
    assert said_at({}) is None
    assert said_at({"Date": "Thu, 01 Jan 1970 00:00:10 GMT"}) == 10.0
