"""The watcher of one kind: repeats the call that its state asks for, and never gives up.

It hands events on as they come, and does the waiting: errors are values here, and the wait after an
error is decided in one place. Handing on waits when the log is slow, so that memory does not grow
with the number of objects.

Invariant: after any failure the next question continues where the last transition ended; a gap is
never skipped, it leads to `Start`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from ingest import states
from ingest.calls import WatchApi, WatchOptions, step
from ingest.kinds import Watched
from ingest.lookout import Lookout, Unanswered
from ingest.metrics import IngestMetrics
from ingest.states import Absent, InitialWatch, Listing, Start, State, Step, Trouble, Watching
from podgroup.log.events import Event
from podgroup.model.objects import Kind
from runtime.backoff import Backoff
from runtime.kube_errors import KubeError
from runtime.log import get_logger

PEACE_S = 60.0
"""Seconds without trouble after which the next trouble counts as the first."""

_MIN_WATCH_S = 1.0
"""A watch that ends sooner and empty-handed is no success, or we would ask in a tight loop."""

_MAX_INTERRUPTIONS = 2
"""Interrupted initial watches after which we ask for pages, which survive an interruption."""


Emit = Callable[[Kind, tuple[Event, ...], str | None], Awaitable[None]]


class Observers(NamedTuple):
    """Observers of a watcher: the first counts its steps, the second checks the API server's
    history.
    """

    metrics: IngestMetrics | None = None
    lookout: Lookout | None = None


class Watcher:
    """Watches one kind for ever.

    It begins with a version to resume from, or with a relist. `after`, if set, delays the first
    relist until another watcher had its own. `listed` is set once the log has a complete frame of
    the kind, or does not need it, or cannot get it.
    """

    def __init__(
        self,
        api: WatchApi,
        spec: Watched,
        emit: Emit,
        begin: Start | Watching,
        options: WatchOptions,
        observers: Observers = Observers(),  # noqa: B008 -- a value
    ) -> None:
        self.state: State = begin
        self.trouble: Trouble | None = None
        self._synced = isinstance(begin, Watching)
        self.listed = asyncio.Event()
        self.after: asyncio.Event | None = None
        self._api = api
        self._spec = spec
        self._emit = emit
        self._options = options
        self._metrics, self._lookout = observers
        self._log = get_logger("ingest").bind(kind=spec.kind)
        self._backoff = Backoff(options.first_wait_s, ceiling_s=options.lasting_wait_s)
        self._last_trouble = -PEACE_S
        self._interruptions = 0

    @property
    def kind(self) -> Kind:
        """The kind watched."""
        return self._spec.kind

    @property
    def problem(self) -> str:
        """Why this kind is not followed now, "" when it is.

        Passing trouble counts only before the first complete frame: a process that has followed the
        cluster for a day is not less ready for a second's reconnect.
        """
        if self.trouble and (self.trouble.lasting or not self._synced):
            return self.trouble.message
        return "" if self._synced else f"{self.kind}: not listed yet"

    async def run(self) -> None:
        """Watch until cancelled."""
        if isinstance(self.state, Watching):
            self.listed.set()
        elif self.after:
            await self.after.wait()
        while True:
            began = time.monotonic()
            productive = await self._advance()
            wait_s = self._wait_s(productive or time.monotonic() - began > _MIN_WATCH_S)
            if wait_s:
                await asyncio.sleep(wait_s)

    async def _advance(self) -> bool:
        """Make one call; return whether it was productive.

        Raises:
            Restored: the call would read another history than the steps before.
        """
        if not await self._vouched():
            return False
        productive = opened = False
        streaming = isinstance(self.state, InitialWatch)
        watching = isinstance(self.state, InitialWatch | Watching)
        call = step(self._api, self._spec, self.state, self._options)
        async with aclosing(call) as steps:
            async for each in steps:
                if self._metrics:
                    self._metrics.came(self.kind, each)
                await self._emit(self.kind, each.events, states.position(each.state))
                productive = productive or bool(each.events) or each.state != self.state
                opened = opened or (streaming and each.trouble is None)
                self._enter(each)
        if opened and isinstance(self.state, InitialWatch | Start):
            self._interrupted()
        if watching and self._metrics:
            self._metrics.ended(self.kind, trouble=self.trouble is not None)
        return productive

    async def _vouched(self) -> bool:
        """Return whether the API server has the history that this watcher follows.

        A watch from a version of another history would be silent, and a list would be taken for the
        present state of this history.
        """
        connects = isinstance(self.state, InitialWatch | Watching) or (
            isinstance(self.state, Listing) and not self.state.token
        )
        if self._lookout is None or not connects:
            return True
        try:
            await self._lookout.vouch(self._spec)
        except (KubeError, Unanswered) as error:
            self._enter(Step((), self.state, Trouble(str(error))))
            return False
        return True

    def _enter(self, each: Step) -> None:
        self.state = each.state
        if each.pages_only:
            self._page()
        if isinstance(self.state, Start):
            self._log.info("relist", reason=self.state.reason)
        if isinstance(self.state, Watching) or self.state == Absent(reported=True):
            self._synced = True
            self.listed.set()
        if each.trouble:
            self._log.warning("watch_trouble", problem=each.trouble.message)
            if each.trouble.lasting:
                # The kinds after this kind should not wait for a person.
                self.listed.set()
        self.trouble = each.trouble

    def _interrupted(self) -> None:
        """Return whether an initial watch was opened and did not get to its end."""
        self._interruptions += 1
        if self._interruptions >= _MAX_INTERRUPTIONS:
            self._page()
            if isinstance(self.state, InitialWatch):
                self.state = states.list_instead(self.state).state

    def _page(self) -> None:
        self._options = msgspec.structs.replace(self._options, stream=False)

    def _wait_s(self, productive: bool) -> float:
        now, trouble = time.monotonic(), self.trouble
        if trouble and trouble.lasting:
            return self._options.lasting_wait_s
        if trouble or (isinstance(self.state, Watching) and not productive):
            if now - self._last_trouble > PEACE_S:
                self._backoff.reset()
            self._last_trouble = now
            return max(next(self._backoff), (trouble and trouble.retry_after_s) or 0.0)
        match self.state:
            case Absent(reported=True):
                return self._options.probe_s
            case Absent():
                return self._options.confirm_s
            case _:
                return 0.0
