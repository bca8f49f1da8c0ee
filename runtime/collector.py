"""How often the garbage collector looks for cycles in a process that is up.

Theory. The objects that a deployment makes for an event are freed by their reference counts; cycles
are rare. At Python's own thresholds the collector still goes through all imported objects again and
again.

Invariant: objects that exist when a process is up are frozen and never scanned again; later objects
are scanned after so many allocations that the scan costs little beside them.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_rarely(young: int = 100_000) -> None:
    """Freeze what is there now, and look at the rest when `young` objects more are there.

    A smaller `young` bounds the garbage that piles up, and collects more often. Where several parts
    run in one process, the largest `young` counts.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(max(young, gc.get_threshold()[0]), 20, 20)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the garbage collector look for cycles rarely while much is folded or played.

    Folding and playing make no cycles; the search for them took a tenth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
