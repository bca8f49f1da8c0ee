"""Trials of manifests: read, decided on in a thread, one at a time.

Theory. A trial reads the whole state and decides, which takes a tenth of a second of processor time
for each thousand known pods. So one trial runs at a time, a user has one trial at a time, and a
state of more than `serve.trial_pods` pods is not read here. A user sees as much of other users'
groups as `why` shows.

Invariant: nothing is written, and the state is dropped with the answer.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from gatelog.serve.questions import Busy
from gatelog.serve.streamlimits import StreamLimiter
from gatelog.shell.errors import CommandFailed
from gatelog.trial.answers import Answer
from projector.storage.urls import database_url
from runtime.log import get_logger
from runtime.settings import Settings

MOST_WAITING = 16
"""Trials that wait or run at once."""
_PATIENCE_S = 15.0
log = get_logger("serve")


class Trials:
    """Tries manifests. Close it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asking = StreamLimiter("trials", MOST_WAITING, 1)
        self._turn = asyncio.Semaphore(1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trials")

    def close(self) -> None:
        """End; a trial that runs comes to its end."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def answer(
        self, text: str, namespace: str, user: str, groups: Sequence[str], *, own_only: bool
    ) -> Answer:
        """Return the answer to a manifest of a namespace, "" for any.

        Raises:
            Busy: the database does not answer, other trials are being answered, or nothing is
                known.
            UserAtLimit, NoRoom: as for streams.
        """
        if not self._settings.serve.trial_pods:
            raise Busy("nothing is tried here: serve.trial_pods is 0")
        with self._asking.opened(user, groups):
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._turn.acquire()
            except TimeoutError:
                raise Busy("others are being answered: try again in a moment") from None
            try:
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(self._thread, self._tried, text, namespace)
            finally:
                self._turn.release()
        return found.own_only() if own_only else found

    def _tried(self, text: str, namespace: str) -> Answer:
        # What decides is imported with the first trial: a server of pages alone does without it.
        from gatelog.trial.starting import by_plays
        from gatelog.trial.state import TooLarge, world_of
        from gatelog.trial.trying import Asked, NotKnown, tried

        chosen, url = self._settings.serve, database_url(self._settings)
        asked = Asked(
            text=text,
            namespace=namespace or "default",
            at=datetime.now(UTC),
            bound=bool(namespace),
        )
        try:
            world = world_of(
                url, self._settings.cluster, chosen.trial_pods, chosen.statement_timeout_s
            )
            if world is None:
                raise Busy("nothing is known yet: no projector has written to the read model")
            starts = by_plays(url, self._settings.forecast.label)
            return tried(world, asked, self._settings, starts)
        except TooLarge as error:
            raise Busy(f"{error} (serve.trial_pods); beside the database: gatelog try") from None
        except NotKnown as error:
            raise Busy(str(error)) from None
        except CommandFailed as error:
            log.warning("database_refused", problem=str(error))
            raise Busy(
                "the database does not answer: try again; the log of gatelog serve says why"
            ) from error
