"""The garbage collector leaves alone what was there, and looks at the rest rarely."""

import gc
from collections.abc import Iterator

import pytest

from runtime.collector import collect_rarely


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_there_is_set_aside() -> None:
    gc.unfreeze()
    collect_rarely()
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    kept: list[list[int]] = [[] for _ in range(10)]
    assert gc.get_freeze_count() == frozen
    assert len(kept) == 10


def test_of_several_parts_in_a_process_the_rarest_has_its_way() -> None:
    gc.set_threshold(700, 10, 10)
    for young in (20_000, 100_000, 30_000):
        collect_rarely(young)
    assert gc.get_threshold() == (100_000, 20, 20)
