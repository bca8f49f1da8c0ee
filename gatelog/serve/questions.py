"""Questions to the database, off the event loop, few at a time.

Theory. Readers must not slow the projector down: `serve` has read-only connections of its own, as
many as the setting says, and every statement ends after `serve.statement_timeout_s`. A question
waits while all connections are busy, at most as long as a statement may take, and is then refused,
so that a crowd makes no page slow for long.

Invariant: at most `connections` statements run at once.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gatelog.readmodel import rates
from gatelog.readmodel.model import ReadModel
from gatelog.shell.errors import CommandFailed
from runtime.log import get_logger
from runtime.settings import Settings

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
log = get_logger("serve")


class Busy(Exception):
    """The database did not answer in time, or not at all; the message says which."""


class Questions:
    """A read model, asked by coroutines. Close it.

    Raises:
        UsageFailed: `serve.rates_file` cannot be used.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        chosen = settings.serve
        self.cluster = settings.cluster
        self.model = ReadModel(
            url,
            settings.cluster,
            statement_timeout_s=chosen.statement_timeout_s,
            connections=chosen.connections,
            rates=rates.read(Path(chosen.rates_file)) if chosen.rates_file else None,
        )
        self._patience_s = chosen.statement_timeout_s
        self._slots = asyncio.Semaphore(chosen.connections)
        self._threads = ThreadPoolExecutor(chosen.connections, thread_name_prefix="questions")

    def close(self) -> None:
        """Close connections; what runs ends by its time-out."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.model.close()

    async def run(self, question: Callable[[ReadModel], T]) -> T:
        """Return the result of `question`, which gets the read model, in a thread.

        Raises:
            Busy: no connection was free in time, or the statement took too long.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                await self._slots.acquire()
        except TimeoutError:
            raise Busy(
                f"too many questions at once: none of the connections to the database was free "
                f"within {self._patience_s:g} s; try again"
            ) from None
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, question, self.model)
        except CommandFailed as error:
            log.warning("database_refused", problem=str(error))
            raise Busy(self._sentence(str(error))) from error
        finally:
            self._slots.release()

    def _sentence(self, said: str) -> str:
        """Return an error for users, without the address and the words of the database."""
        if said.startswith(self.model.place):
            return said.replace(self.model.place, "the database", 1)
        return "the database does not answer: try again; the log of gatelog serve says why"

    async def rows(self, kind: type[S], query: str, given: Mapping[str, Any]) -> list[S]:
        """Return the rows of a statement; its columns are the fields of `kind`.

        Raises:
            Busy: as `run`.
        """
        return await self.run(lambda model: list(model.rows(kind, query, given)))
