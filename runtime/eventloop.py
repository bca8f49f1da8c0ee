"""Which event loop a process runs on, chosen in this one place.

Theory. Much of what a deployment does for an event is the loop's own work: polling sockets, calling
transports, waking tasks. uvloop does that in C (libuv) and keeps asyncio's contract; nothing of
ours asks which of the two it runs on. `auto` takes it where it is installed: there is none for
Windows, and a platform without a wheel of it can do without.

Invariant: the choice changes what a process costs, never what it does.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from runtime.settings import EventLoop, SettingsError

T = TypeVar("T")


def factory(kind: EventLoop = "auto") -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop; None: asyncio's own.

    Raises:
        SettingsError: uvloop was asked for by name and cannot be imported.
    """
    if kind == "asyncio":
        return None
    try:
        import uvloop
    except ImportError as error:
        if kind == "auto":
            return None
        raise SettingsError(
            f"event_loop = uvloop: it cannot be imported ({error}); install it, or set event_loop "
            "to auto or asyncio"
        ) from error
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T], kind: EventLoop = "auto") -> T:
    """Run a coroutine to its end on a loop of its own, as `asyncio.run` does.

    Raises:
        SettingsError: as `factory`.
    """
    try:
        made = factory(kind)
    except SettingsError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=made) as runner:
        return runner.run(main)
