"""How often the garbage collector looks for cycles in a process that is up.

Theory. What a deployment makes for an event dies by itself, when nothing refers to it any more; of
cycles there are few. At Python's own thresholds the collector goes through everything that was
imported again and again all the same.

Invariant: what was there when a process came up is never looked through again; what came later is,
after so many allocations that it costs little beside them.
"""

import gc


def collect_rarely(young: int = 100_000) -> None:
    """Freeze what is there now, and look at the rest when `young` objects more are there.

    The fewer `young` are, the less garbage can pile up, and the more often is looked. Where several
    parts run in one process, the one that wants it most rarely has its way.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(max(young, gc.get_threshold()[0]), 20, 20)
