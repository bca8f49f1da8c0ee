"""Which event loop a process runs on, chosen in this one place.

Theory. Much of what a deployment does for an event is the loop's own work: polling sockets, calling
transports, waking tasks. uvloop does that in C (libuv) and keeps asyncio's contract; our code does
not ask which of the two it runs on. uvloop is taken where it is installed: it does not exist for
Windows, and a platform without its wheel runs on asyncio's own loop.

Invariant: the choice changes what a process costs, never what it does.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop; None: asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=factory()) as runner:
        return runner.run(main)
