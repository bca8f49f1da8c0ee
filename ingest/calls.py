"""One call to the API server for each state of the machine, and its result as steps.

Nothing is collected: a page, or the lines of a watch that have arrived, are translated and yielded
before more is read.

Invariant: a call's outcome, failure included, is a `Step`; nothing is raised.
"""

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Protocol

import msgspec
from msgspec import Struct

from ingest import states
from ingest.kinds import Watched
from ingest.states import (
    Absent,
    HttpRefusal,
    InitialWatch,
    Listing,
    Start,
    State,
    Step,
    Trouble,
    Watching,
)
from ingest.translate.items import Delta, read_page, read_status
from podgroup.log.events import Event
from podgroup.model.objects import Kind
from runtime.kube_answer import HttpAnswer
from runtime.kube_errors import KubeError, KubeUnavailable


class Lines(Protocol):
    """A streamed HTTP answer: status first, then lines of bytes, as many at once as there are."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; look-up ignores case."""

    async def read(self) -> bytes:
        """Read the rest, for a status that is not 200."""

    def batches(self) -> AsyncIterator[list[bytes]]:
        """Iterate over lines, without their line ends."""


class WatchApi(Protocol):
    """The part of a client of the API server that watches need, such as `runtime.kube.KubeClient`.

    Both raise `KubeError` for connection trouble, `watch` also after `idle_timeout_s` of silence.
    """

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Send a request and read the whole answer, whatever its status."""

    def watch(
        self, path: str, params: Mapping[str, str], *, idle_timeout_s: float
    ) -> AbstractAsyncContextManager[Lines]:
        """Ask and stream the answer."""


NewRelist = Callable[[Kind], str]


def new_relist(kind: Kind) -> str:
    """Return a name for a frame, unique over restarts and hosts."""
    return f"{kind}-{int(time.time())}-{secrets.token_hex(4)}"


class WatchOptions(Struct, frozen=True, kw_only=True):
    """How to list, watch and wait; the first four are settings.

    `first_wait_s` is the first wait after trouble (waits double), `lasting_wait_s` the longest
    wait, also where only a person can help, as with a missing permission. `probe_s` is the interval
    of looks for a kind that is not installed, `confirm_s` the wait before a second look for a kind
    that was installed. Initial events come without pause: `initial_idle_s` of silence among them
    means that the server ignored our request for a bookmark at their end.
    """

    page_size: int = 500
    watch_timeout_s: int = 290
    idle_grace_s: float = 15.0
    stream: bool = True
    first_wait_s: float = 0.2
    lasting_wait_s: float = 30.0
    probe_s: float = 10.0
    confirm_s: float = 1.0
    initial_idle_s: float = 15.0
    new_relist: NewRelist = new_relist
    """Gives the name of a new relist."""


async def step(
    api: WatchApi, spec: Watched, state: State, options: WatchOptions
) -> AsyncGenerator[Step]:
    """Make the API call that `state` asks for and yield its steps.

    Guarantees:
        The state of each yielded step is where to go on once its events are handed on; the next
        call begins at the last state.
    """
    match state:
        case Start():
            yield states.begin(spec, state, options.new_relist, options.stream)
        case Listing():
            yield await _list(api, spec, state, options)
        case InitialWatch() | Watching():
            async with aclosing(_watch(api, spec, state, options)) as steps:
                async for each in steps:
                    yield each
        case Absent():
            yield await _probe(api, spec, state, options.new_relist)


async def _list(api: WatchApi, spec: Watched, state: Listing, options: WatchOptions) -> Step:
    params = {"limit": str(options.page_size)} | _selected(spec)
    if state.token:
        params["continue"] = state.token
    try:
        answer = await api.request("GET", spec.paths[state.api], params=params)
        if answer.status != 200:
            return states.on_refusal(
                spec, state, _refusal(answer.status, answer.body, answer.headers)
            )
        return states.on_page(spec, state, read_page(answer.body))
    except KubeError as error:
        return _failed(state, error)
    except msgspec.MsgspecError as error:
        return states.on_close(state, f"the answer to a list is no list: {error}")


async def _watch(
    api: WatchApi, spec: Watched, state: InitialWatch | Watching, options: WatchOptions
) -> AsyncGenerator[Step]:
    initial = isinstance(state, InitialWatch)
    idle_s = options.watch_timeout_s + options.idle_grace_s
    here: InitialWatch | Watching = state
    try:
        params = _watch_params(spec, state, options)
        async with api.watch(
            spec.paths[state.api],
            params,
            idle_timeout_s=options.initial_idle_s if initial else idle_s,
        ) as lines:
            if lines.status != 200:
                said = await lines.read()
                yield states.on_refusal(spec, state, _refusal(lines.status, said, lines.headers))
                return
            yield Step((), here)
            async for batch in lines.batches():
                for each in _taken(spec, here, batch):
                    yield each
                    if each.trouble or not isinstance(each.state, InitialWatch | Watching):
                        return
                    here = each.state
        yield states.on_close(here)
    except KubeError as error:
        if initial and isinstance(here, Watching):
            # Quiet after the initial events is no failure; the next watch has a longer patience.
            yield states.on_close(here)
        else:
            yield _failed(here, error)


def _taken(spec: Watched, state: InitialWatch | Watching, lines: Iterable[bytes]) -> Iterator[Step]:
    """Yield a step for each run of consecutive deltas, and a step for each other item.

    Ends early with a step after which the watch is over.
    """
    read = spec.translator.item
    relist = state.relist if isinstance(state, InitialWatch) else ""
    events: list[Event] = []
    version = ""
    for line in lines:
        item = read(line, relist)
        if type(item) is Delta:
            events.append(item.event)
            version = item.version
            continue
        if events:
            state, taken = states.on_deltas(state, tuple(events), version)
            yield taken
            events = []
        each = states.on_item(spec, state, item)
        yield each
        if each.trouble or not isinstance(each.state, InitialWatch | Watching):
            return
        state = each.state
        relist = state.relist if isinstance(state, InitialWatch) else ""
    if events:
        yield states.on_deltas(state, tuple(events), version)[1]


async def _probe(api: WatchApi, spec: Watched, state: Absent, new_relist: NewRelist) -> Step:
    try:
        for index, path in enumerate(spec.paths):
            answer = await api.request("GET", path, params={"limit": "1"})
            if answer.status == 200:
                return states.on_probe(spec, state, index, new_relist)
            if answer.status != 404:
                return states.on_refusal(
                    spec, state, _refusal(answer.status, answer.body, answer.headers)
                )
    except KubeError as error:
        return _failed(state, error)
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
    found = {"labelSelector": spec.selector, "fieldSelector": spec.fields}
    return {name: text for name, text in found.items() if text}


def _refusal(status: int, body: bytes, headers: Mapping[str, str]) -> HttpRefusal:
    said = read_status(body)
    after = headers.get("Retry-After", "")
    return HttpRefusal(status, said.reason, said.message, float(after) if after.isdigit() else None)


def _failed(state: State, error: KubeError) -> Step:
    """No answer at all. Missing answers pass by themselves, refused credentials do not."""
    lasting = not isinstance(error, KubeUnavailable)
    return states.on_close(state, str(error), Trouble(str(error), lasting=lasting))
