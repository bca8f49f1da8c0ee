import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.backoff import Backoff


@given(
    first=st.floats(0.001, 10),
    factor=st.floats(1, 4),
    times=st.floats(1, 100),
    jitter=st.floats(0, 0.99),
)
def test_waits_grow_within_bounds(first: float, factor: float, times: float, jitter: float) -> None:
    ceiling = first * times
    backoff = Backoff(first, factor, ceiling, jitter, seed=1)
    for n, wait in enumerate(itertools.islice(backoff, 20)):
        grown = min(first * factor**n, ceiling)
        assert grown * (1 - jitter) * 0.999 <= wait <= grown * 1.001
        assert wait > 0
    assert backoff.attempts == 20


def test_reset_starts_over() -> None:
    backoff = Backoff(first_s=1, factor=10, ceiling_s=1000, jitter=0)
    assert list(itertools.islice(backoff, 4)) == [1, 10, 100, 1000]
    backoff.reset()
    assert (next(backoff), backoff.attempts) == (1, 1)


def test_two_clients_do_not_wait_alike() -> None:
    assert list(itertools.islice(Backoff(), 5)) != list(itertools.islice(Backoff(), 5))


@pytest.mark.parametrize("bad", [{"first_s": 0}, {"first_s": 40}, {"factor": 0.5}, {"jitter": 1.0}])
def test_nonsense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="backoff: need"):
        Backoff(**bad)
