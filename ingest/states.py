"""List and watch of one kind, as a state machine without I/O.

    Start ──► InitialWatch ──────────────┐          (WatchList: the list comes as a watch)
      │  ╲         │ cannot              ▼
      │   ╲        ▼                 Watching ──► Watching ──► ...
      │    ╰──► Listing ──► Listing ──►  │
      ▲         (page by page)           │
      ╰── expired, or unfit to resume ───╯          any state: 404 ──► next version, or Absent

A relist is a frame in the log: `RelistStarted`, every object, `RelistCompleted`. An object that is
not in the frame is gone; so a deletion that was not watched becomes known. Hence three rules:

1. A frame shows one moment. Pages of one LIST do (their continue tokens ensure it); two attempts at
   a WatchList do not: an object deleted between them would seem alive. So an interrupted initial
   watch starts over with a new frame, an interrupted page is asked for again.
2. From `Watching(version)` nothing is lost by reconnecting at `version`, as long as the server
   still has the changes since (about 5 minutes in etcd). Without them it answers 410, after which
   comes a relist, never the same request. A version that the server has not reached is no error:
   the watch is silent. Before it opens a watch the watcher checks for that.
3. An object that cannot be read is an event like any other and moves the version along.

Transitions are functions of state and input; they return a `Step`: events for the log, the next
state, and trouble, if any. The driver of the machine (`ingest.watcher`) waits and reconnects.

Invariant: only `Watching` has a version from which to resume, and it has it only after everything
up to that version has been returned as events.
"""

from collections.abc import Callable

from msgspec import Struct

from ingest.kinds import Watched
from ingest.translate.items import Bookmark, Delta, ErrorItem, Garbled, Item, Page
from podgroup.log.events import Event, RelistCompleted, RelistStarted
from podgroup.model.objects import Kind

MAX_STRIKES = 3
"""Failures to resume from a version, without an item between, after which we relist."""

_NO_WATCH_LIST = "RequestWatchProgress"
_BAD_VERSION = "resourceVersion"


class Start(Struct, frozen=True):
    """Nothing is known: a relist is due, for `reason`. `api` is the served version (index)."""

    reason: str = "start"
    api: int = 0


class Listing(Struct, frozen=True):
    """Inside a frame: the page at `token` ("" is the first) is next."""

    relist: str
    api: int = 0
    token: str = ""
    version: str = ""
    count: int = 0


class InitialWatch(Struct, frozen=True):
    """Inside a frame: the objects come as initial events of a watch."""

    relist: str
    api: int = 0
    count: int = 0


class Watching(Struct, frozen=True):
    """Everything up to `version` has been seen."""

    version: str
    api: int = 0
    strikes: int = 0


class Absent(Struct, frozen=True):
    """No server has this kind. `reported` once the log says so."""

    reported: bool = False


State = Start | Listing | InitialWatch | Watching | Absent


class Trouble(Struct, frozen=True):
    """What went wrong, for a person and for the choice of a wait.

    `lasting` is set where only a person can help (no permission); `retry_after_s` is the server's
    own wish, in seconds.
    """

    message: str
    status: int = 0
    lasting: bool = False
    retry_after_s: float | None = None


class Step(Struct, frozen=True):
    """The result of a transition. `pages_only`: this server cannot stream lists."""

    events: tuple[Event, ...]
    state: State
    trouble: Trouble | None = None
    pages_only: bool = False


class HttpRefusal(Struct, frozen=True):
    """An HTTP answer other than 200 to the question that a state asks."""

    status: int
    reason: str = ""
    message: str = ""
    retry_after_s: float | None = None


def position(state: State) -> str | None:
    """Return the version from which this kind can be resumed, None inside and before a frame."""
    return state.version if isinstance(state, Watching) else None


def begin(spec: Watched, state: Start, new_relist: Callable[[Kind], str], stream: bool) -> Step:
    """Open a frame; `stream` chooses WatchList over pages."""
    relist = new_relist(spec.kind)
    opened = RelistStarted(kind=spec.kind, relist=relist, reason=state.reason, by_settings=True)
    inside: State = (
        InitialWatch(relist=relist, api=state.api)
        if stream
        else Listing(relist=relist, api=state.api)
    )
    return Step((opened,), inside)


def on_page(spec: Watched, state: Listing, page: Page) -> Step:
    """Take a page: its objects, and the end of the frame when it is the last."""
    listed = spec.translator.listed
    events: list[Event] = [listed(bytes(raw), state.relist) for raw in page.items]
    count = state.count + len(events)
    # The first page names the moment the whole list shows.
    version = state.version or page.version
    if page.token:
        return Step(tuple(events), Listing(state.relist, state.api, page.token, version, count))
    events.append(_completed(spec, state.relist, version, count))
    return Step(tuple(events), Watching(version, state.api))


def on_deltas(
    state: InitialWatch | Watching, events: tuple[Event, ...], version: str
) -> tuple[InitialWatch | Watching, Step]:
    """Take deltas that follow each other; `version` is that of the last. Also the step's state."""
    after: InitialWatch | Watching
    match state:
        case Watching(api=api):
            after = Watching(version, api)
        case InitialWatch(relist, api, count):
            after = InitialWatch(relist, api, count + len(events))
    return after, Step(events, after)


def on_item(spec: Watched, state: InitialWatch | Watching, item: Item) -> Step:
    """Take one item of a watch."""
    match state, item:
        case _, Delta(event=event, version=version):
            return on_deltas(state, (event,), version)[1]
        case Watching(), Bookmark(version=version):
            return Step((), Watching(version or state.version, state.api))
        case InitialWatch(), Bookmark(version=version, initial_end=True):
            closed = _completed(spec, state.relist, version, state.count)
            return Step((closed,), Watching(version, state.api))
        case InitialWatch(), Bookmark():
            return Step((), state)
        case _, ErrorItem(code=code, reason=reason, message=message):
            return on_refusal(spec, state, HttpRefusal(code, reason, message))
        case _, Garbled(message=message):
            return on_close(state, f"the line was cut: {message}")
        case _:
            raise AssertionError(f"no transition from {state!r} by {item!r}")


def on_refusal(spec: Watched, state: State, refusal: HttpRefusal) -> Step:
    """Take an error answer, or an ERROR item (an error that comes after a 200)."""
    status, text = refusal.status, f"{refusal.status} {refusal.reason}: {refusal.message}"
    trouble = Trouble(text, status, retry_after_s=refusal.retry_after_s)
    if status == 404:
        return _elsewhere(spec, state)
    if status in (401, 403):
        return Step((), state, _forbidden(spec, state, refusal))
    match state:
        case InitialWatch() if _cannot_stream(refusal):
            return list_instead(state)
        case Start() | Absent():
            return Step((), state, trouble)
        case Listing() | InitialWatch() | Watching() if status == 410:
            return Step((), Start(f"410 {refusal.reason or 'Gone'}: {refusal.message}", state.api))
        case Listing() if status == 400 and state.token:
            return Step((), Start(f"the continue token was refused: {text}", state.api), trouble)
        case Watching() if status in (400, 422) or (status == 500 and _BAD_VERSION in text):
            return Step((), Start(f"the version to resume from was refused: {text}", state.api))
        case InitialWatch():
            return on_close(state, text, trouble)
        case _:
            return Step((), state, trouble)


def on_close(state: State, problem: str = "", trouble: Trouble | None = None) -> Step:
    """Take the end of a connection: by the server in peace (`problem` is ""), or broken."""
    if problem and trouble is None:
        trouble = Trouble(problem)
    match state:
        case InitialWatch(count=count) if count:
            # Rule 1: the next attempt shows another moment, so it needs another frame.
            why = problem or "the server closed it"
            trouble = trouble or Trouble(why)
            return Step((), Start(f"the initial watch was interrupted: {why}", state.api), trouble)
        case Watching() if problem.startswith("the line was cut"):
            return _strike(state, trouble or Trouble(problem))
        case _:
            return Step((), state, trouble)


def list_instead(state: InitialWatch) -> Step:
    """Go on with pages, in the same frame if nothing was delivered in it yet."""
    if state.count:
        start = Start("the server cannot stream lists", state.api)
        return Step((), start, pages_only=True)
    return Step((), Listing(state.relist, state.api), pages_only=True)


def on_probe(
    spec: Watched, state: Absent, api: int | None, new_relist: Callable[[Kind], str]
) -> Step:
    """Take the answer to "is it there now?": the index of the version that is served, or None."""
    if api is not None:
        return Step((), Start("the kind is installed now", api))
    if state.reported:
        return Step((), state)
    relist = new_relist(spec.kind)
    opened = RelistStarted(
        kind=spec.kind, relist=relist, reason="the kind is not installed", by_settings=True
    )
    return Step((opened, _missing(spec, relist)), Absent(reported=True))


def _elsewhere(spec: Watched, state: State) -> Step:
    """404: no such collection. Try the next served version, else the kind is absent."""
    api = getattr(state, "api", 0) + 1
    match state:
        case Listing() | InitialWatch() if api < len(spec.paths):
            return Step((), type(state)(relist=state.relist, api=api))
        case Watching() if api < len(spec.paths):
            return Step((), Watching(state.version, api))
        case Listing() | InitialWatch():
            return Step((_missing(spec, state.relist),), Absent(reported=True))
        case _:
            # The kind was there: look once more before the fold learns that everything is gone.
            return Step((), Absent(reported=False))


def _cannot_stream(refusal: HttpRefusal) -> bool:
    """Servers without WatchList refuse its parameters; with an old etcd they fail inside it."""
    return refusal.status in (400, 422) or (
        refusal.status == 500 and _NO_WATCH_LIST in refusal.message
    )


def _strike(state: Watching, trouble: Trouble) -> Step:
    if state.strikes + 1 >= MAX_STRIKES:
        reason = f"cannot resume from {state.version}: {trouble.message}"
        return Step((), Start(reason, state.api), trouble)
    return Step((), Watching(state.version, state.api, state.strikes + 1), trouble)


def _forbidden(spec: Watched, state: State, refusal: HttpRefusal) -> Trouble:
    verb = "watch" if isinstance(state, InitialWatch | Watching) else "list"
    path = spec.paths[getattr(state, "api", 0)]
    group = path.split("/")[2] if path.startswith("/apis/") else ""
    resource = path.rsplit("/", 1)[-1]
    named = f"{resource}.{group}" if group else resource
    if refusal.status == 401:
        message = f"the API server does not accept our credentials ({verb} {named})"
    else:
        message = f"not allowed to {verb} {named}: grant it to gatelog's ingester (ClusterRole)"
    return Trouble(f"{message}: {refusal.message}", refusal.status, lasting=True)


def _completed(spec: Watched, relist: str, version: str, count: int) -> RelistCompleted:
    return RelistCompleted(
        kind=spec.kind,
        relist=relist,
        resource_version=version,
        count=count,
        filtered=bool(spec.selector),
    )


def _missing(spec: Watched, relist: str) -> RelistCompleted:
    return RelistCompleted(kind=spec.kind, relist=relist, resource_version="", installed=False)
