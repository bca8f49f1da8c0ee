"""The watcher of one kind: performs what a state asks for, and never gives up.

`step` makes one API call (a page, a connection, a look whether a kind is there) and yields every
transition that comes of it. `Watcher.run` repeats it for ever, hands events on as they come, and
does the waiting: errors are values here, and how long to wait after one is decided in one place.

Nothing is collected: a page or a line is translated and handed on before the next is read, and
handing on waits when the log is slow, so that memory does not grow with the number of objects.

Invariant: after any failure the next question continues where the last transition ended; a gap is
never skipped, it leads to `Start`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Protocol

import msgspec
from msgspec import Struct
from podgroup.runtime.kube import KubeError

from ingest import states
from ingest.kinds import Watched
from ingest.states import (
    Absent,
    InitialWatch,
    Listing,
    Refusal,
    Start,
    State,
    Step,
    Trouble,
    Watching,
)
from ingest.translate.items import read_page, read_status
from podgroup.events import Event
from podgroup.objects import Kind
from podgroup.runtime.backoff import Backoff
from podgroup.runtime.log import Logger

LASTING_WAIT_S = 30.0
"""Seconds between tries where only a person can help, such as a missing permission."""

PEACE_S = 60.0
"""Seconds without trouble after which the next trouble counts as the first."""

_MIN_WATCH_S = 1.0
"""A watch that ends sooner and empty-handed is no success, or we would ask in a tight loop."""

_MAX_INTERRUPTIONS = 2
"""Interrupted initial watches after which we ask for pages, which survive an interruption."""

_MAX_ERROR_BYTES = 64 * 1024


class Answer(Protocol):
    """An HTTP answer, read completely."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """The whole body."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; look-up ignores case."""


class Lines(Protocol):
    """A streamed HTTP answer: status first, then lines of bytes as they come."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over lines, without their line ends."""


class WatchApi(Protocol):
    """What is needed of the API server; `podgroup.runtime.kube.KubeClient` is one.

    Both raise `KubeError` for connection trouble, `watch` also after `idle_timeout_s` of silence.
    """

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None
    ) -> Answer:
        """Ask and read the whole answer, whatever its status."""

    def watch(
        self, path: str, params: Mapping[str, str], *, idle_timeout_s: float
    ) -> AbstractAsyncContextManager[Lines]:
        """Ask and stream the answer."""


class WatchOptions(Struct, frozen=True, kw_only=True):
    """How to list and watch; see `IngestSettings` for units."""

    page_size: int = 500
    watch_timeout_s: int = 290
    idle_grace_s: float = 15.0
    stream: bool = True


NewRelist = Callable[[Kind], str]
Emit = Callable[[Kind, tuple[Event, ...], str | None], Awaitable[None]]


async def step(
    api: WatchApi, spec: Watched, state: State, options: WatchOptions, new_relist: NewRelist
) -> AsyncGenerator[Step]:
    """Make the one API call that `state` asks for and yield what comes of it.

    Guarantees:
        The state of each yielded step is where to go on once its events are handed on; the last
        one is where the next call begins.
    """
    match state:
        case Start():
            yield states.begin(spec, state, new_relist, options.stream)
        case Listing():
            yield await _list(api, spec, state, options)
        case InitialWatch() | Watching():
            async with aclosing(_watch(api, spec, state, options)) as steps:
                async for each in steps:
                    yield each
        case Absent():
            yield await _probe(api, spec, state, new_relist)


async def _list(api: WatchApi, spec: Watched, state: Listing, options: WatchOptions) -> Step:
    params = {"limit": str(options.page_size)} | _selected(spec)
    if state.token:
        params["continue"] = state.token
    try:
        answer = await api.request("GET", spec.paths[state.api], params=params)
        if answer.status != 200:
            return states.on_refusal(spec, state, _refusal(answer))
        return states.on_page(spec, state, read_page(answer.body))
    except KubeError as error:
        return states.on_close(state, str(error))
    except msgspec.MsgspecError as error:
        return states.on_close(state, f"the answer to a list is no list: {error}")


async def _watch(
    api: WatchApi, spec: Watched, state: InitialWatch | Watching, options: WatchOptions
) -> AsyncGenerator[Step]:
    idle_s = options.watch_timeout_s + options.idle_grace_s
    here: State = state
    read = spec.translator.item
    try:
        params = _watch_params(spec, state, options)
        async with api.watch(spec.paths[state.api], params, idle_timeout_s=idle_s) as lines:
            if lines.status != 200:
                yield states.on_refusal(spec, state, await _streamed_refusal(lines))
                return
            yield Step((), here)
            async for line in lines:
                relist = here.relist if isinstance(here, InitialWatch) else ""
                each = states.on_item(spec, here, read(line, relist))
                here = each.state
                yield each
                if each.trouble or not isinstance(here, InitialWatch | Watching):
                    return
        yield states.on_close(here)
    except KubeError as error:
        yield states.on_close(here, str(error))


async def _probe(api: WatchApi, spec: Watched, state: Absent, new_relist: NewRelist) -> Step:
    try:
        for index, path in enumerate(spec.paths):
            answer = await api.request("GET", path, params={"limit": "1"})
            if answer.status == 200:
                return states.on_probe(spec, state, index, new_relist)
            if answer.status != 404:
                return states.on_refusal(spec, state, _refusal(answer))
    except KubeError as error:
        return states.on_close(state, str(error))
    return states.on_probe(spec, state, None, new_relist)


def _watch_params(
    spec: Watched, state: InitialWatch | Watching, options: WatchOptions
) -> dict[str, str]:
    params = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(options.watch_timeout_s),
    } | _selected(spec)
    match state:
        case InitialWatch():
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        case Watching(version=version):
            params["resourceVersion"] = version
    return params


def _selected(spec: Watched) -> dict[str, str]:
    return {"labelSelector": spec.selector} if spec.selector else {}


def _refusal(answer: Answer) -> Refusal:
    return _refusal_of(answer.status, answer.body, answer.headers.get("Retry-After"))


async def _streamed_refusal(lines: Lines) -> Refusal:
    body = b""
    async for line in lines:
        body += line
        if len(body) > _MAX_ERROR_BYTES:
            break
    return _refusal_of(lines.status, body, None)


def _refusal_of(status: int, body: bytes, retry_after: str | None) -> Refusal:
    said = read_status(body)
    wait_s = float(retry_after) if retry_after and retry_after.isdigit() else None
    return Refusal(status, said.reason, said.message, wait_s)


class Watcher:
    """Watches one kind for ever.

    `since` is the version to resume from, None for a relist because of `reason`. `after` delays
    the first relist until another watcher had its own. `listed` is set once the log has one
    complete frame, or does not need one, or cannot get one.
    """

    def __init__(
        self,
        api: WatchApi,
        spec: Watched,
        emit: Emit,
        *,
        since: str | None,
        reason: str,
        options: WatchOptions,
        new_relist: NewRelist,
        log: Logger,
        after: asyncio.Event | None = None,
    ) -> None:
        self.state: State = Start(reason) if since is None else Watching(since)
        self.trouble: Trouble | None = None
        self.listed = asyncio.Event()
        self._api = api
        self._spec = spec
        self._emit = emit
        self._options = options
        self._new_relist = new_relist
        self._log = log.bind(kind=spec.kind)
        self._after = after
        self._backoff = Backoff(ceiling_s=LASTING_WAIT_S)
        self._last_trouble = -PEACE_S
        self._interruptions = 0

    @property
    def kind(self) -> Kind:
        """The kind watched."""
        return self._spec.kind

    @property
    def problem(self) -> str:
        """Why this kind is not followed now, "" when it is."""
        if self.trouble and (self.trouble.lasting or not self.listed.is_set()):
            return self.trouble.message
        synced = isinstance(self.state, Watching) or self.state == Absent(reported=True)
        return "" if synced else f"{self.kind}: not listed yet"

    async def run(self) -> None:
        """Watch until cancelled."""
        if isinstance(self.state, Watching):
            self.listed.set()
        elif self._after:
            await self._after.wait()
        while True:
            began = time.monotonic()
            productive = await self._advance()
            wait_s = self._wait_s(productive or time.monotonic() - began > _MIN_WATCH_S)
            if wait_s:
                await asyncio.sleep(wait_s)

    async def _advance(self) -> bool:
        """Make one call; tell whether anything came of it."""
        productive = False
        call = step(self._api, self._spec, self.state, self._options, self._new_relist)
        async with aclosing(call) as steps:
            async for each in steps:
                await self._emit(self.kind, each.events, states.position(each.state))
                productive = productive or bool(each.events) or each.state != self.state
                self._enter(each)
        return productive

    def _enter(self, each: Step) -> None:
        before, self.state = self.state, each.state
        if each.pages_only:
            self._page()
        if isinstance(self.state, Start):
            self._log.info("relist", reason=self.state.reason)
            if isinstance(before, InitialWatch):
                self._interruptions += 1
                if self._interruptions >= _MAX_INTERRUPTIONS:
                    self._page()
        if isinstance(self.state, Watching) or self.state == Absent(reported=True):
            self.listed.set()
        if each.trouble:
            self._log.warning("watch trouble", problem=each.trouble.message)
            if each.trouble.lasting:
                # The kinds after this one should not wait for a person.
                self.listed.set()
        self.trouble = each.trouble

    def _page(self) -> None:
        self._options = msgspec.structs.replace(self._options, stream=False)

    def _wait_s(self, productive: bool) -> float:
        now, trouble = time.monotonic(), self.trouble
        if trouble and trouble.lasting:
            return LASTING_WAIT_S
        if trouble or (isinstance(self.state, Watching) and not productive):
            if now - self._last_trouble > PEACE_S:
                self._backoff.reset()
            self._last_trouble = now
            return max(next(self._backoff), (trouble and trouble.retry_after_s) or 0.0)
        match self.state:
            case Absent(reported=True):
                return states.PROBE_S
            case Absent():
                return states.CONFIRM_S
            case _:
                return 0.0
