"""How often the garbage collector looks for cycles in a process that is up.

Theory. What a deployment makes for an event dies by itself, when nothing refers to it any more; of
cycles there are few. At Python's own thresholds the collector goes through everything that was
imported again and again all the same.

Invariant: what was there when a process came up is never looked through again; what came later is,
after so many allocations that it costs little beside them.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_rarely(young: int = 100_000) -> None:
    """Freeze what is there now, and look at the rest when `young` objects more are there.

    The fewer `young` are, the less garbage can pile up, and the more often is looked. Where several
    parts run in one process, the one that wants it most rarely has its way.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(max(young, gc.get_threshold()[0]), 20, 20)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the garbage collector look for cycles rarely while much is folded or played.

    What that makes forms no cycles; looking for them took a tenth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
