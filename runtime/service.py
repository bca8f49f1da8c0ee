"""Running one part as a process: signals, graceful stop, exit codes.

The main coroutine gets a `Stop` event. SIGTERM and SIGINT set it; the main is expected to finish
what it holds and return. If it has not after `grace_s`, it is cancelled; a second signal cancels it
at once.

    0    it returned, by itself or after a signal
    1    it failed: one log line with the error
    2    a setting or the surroundings are wrong: one line for a person, no traceback
    130  a second signal cut it short

Invariant: a failure is reported exactly once, on stderr, and never as a bare traceback.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Protocol

from runtime import eventloop
from runtime.embedded import EmbeddedError
from runtime.health import Checks, serve_health
from runtime.jetstream import LoginRefused, ServerTooOld, StreamMismatch
from runtime.kube_errors import KubeError, KubeForbidden, KubeUnauthorized, KubeUnavailable
from runtime.listening import ListenError
from runtime.log import Logger, configure, get_logger
from runtime.settings import Settings, SettingsError
from runtime.settings_source import load

__all__ = ["Checks", "Stop", "run", "run_part", "serve_health"]

Stop = asyncio.Event
GRACE_S = 20.0

_SURROUNDINGS = (
    SettingsError,
    EmbeddedError,
    ListenError,
    LoginRefused,
    ServerTooOld,
    StreamMismatch,
    KubeUnauthorized,
    KubeForbidden,
)


class Part(Protocol):
    """A deployment: what the bootstrap of ingest, projector and actuator runs."""

    async def __call__(self, settings: Settings, stop: Stop, *, checks: Checks) -> None:
        """Work until `stop` is set."""


def run_part(part: Part, *, name: str) -> None:
    """Run a deployment as a process: settings, log lines, health endpoint, then the part itself.

    Raises:
        SystemExit: as `run`.
    """
    try:
        settings = load()
        configure(settings.log)

        async def serve(stop: Stop) -> None:
            checks = Checks()
            async with serve_health(settings.health, checks):
                await part(settings, stop, checks=checks)

        run(serve, name=name)
    except SettingsError as error:
        get_logger(name).error("startup_failed", error=str(error))
        raise SystemExit(2) from None


def run(
    main: Callable[[Stop], Awaitable[None]],
    *,
    name: str,
    grace_s: float = GRACE_S,
) -> None:
    """Run `main` until it returns or a signal ends it.

    Raises:
        SystemExit: with a code other than 0 when it did not end well.
    """
    code = eventloop.run(_supervise(main, get_logger(name), grace_s))
    if code:
        raise SystemExit(code)


async def _supervise(main: Callable[[Stop], Awaitable[None]], log: Logger, grace_s: float) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    hurry = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            hurry.set()
        else:
            log.info("stopping", signal=number.name, grace_s=grace_s)
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        task = loop.create_task(_call(main, stop))
        hurried = await _wait(task, stop, hurry, grace_s, log)
        return _code(task, hurried, log)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _call(main: Callable[[Stop], Awaitable[None]], stop: Stop) -> None:
    await main(stop)


async def _wait(
    task: asyncio.Task[None], stop: Stop, hurry: asyncio.Event, grace_s: float, log: Logger
) -> bool:
    """Wait for the task; True when a second signal cut it short."""
    stopping = asyncio.create_task(stop.wait())
    hurrying = asyncio.create_task(hurry.wait())
    first = asyncio.FIRST_COMPLETED
    try:
        await asyncio.wait([task, stopping], return_when=first)
        if not task.done():
            await asyncio.wait([task, hurrying], timeout=grace_s, return_when=first)
        if not task.done():
            if not hurry.is_set():
                log.warning("stop_took_too_long", grace_s=grace_s)
            task.cancel()
            await asyncio.wait({task}, timeout=5.0)
        return hurry.is_set()
    finally:
        stopping.cancel()
        hurrying.cancel()


def _code(task: asyncio.Task[None], hurried: bool, log: Logger) -> int:
    if not task.done():
        log.error("shutdown_timeout")
        return 130 if hurried else 1
    if task.cancelled():
        return 130 if hurried else 0
    error = innermost(task.exception())
    if error is None:
        log.debug("stopped")
        return 0
    if isinstance(error, _SURROUNDINGS) or (
        isinstance(error, KubeError) and not isinstance(error, KubeUnavailable)
    ):
        log.error("startup_failed", error=str(error))
        return 2
    log.error("failed", error=str(error), kind=type(error).__name__, exc_info=error)
    return 1


def innermost(error: BaseException | None) -> BaseException | None:
    """Return the error inside nested groups of a single error, so that it is named, not a group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
