"""The console's addresses: rights, headers, forms of a page, and events of changes.

Theory. A page needs a right that the API knows too: a user who may list podgroups of a namespace
sees that namespace's pages, a user who may see quota the other pages. On loopback without login
(`gatelog up`, `gatelog demo --keep`) no rights are checked, and everything is shown to any user of
the machine; requests that name another host are refused, so that no page of the web reaches it.

The form for a trial's manifest is the only form that is posted. It changes nothing; a form on
another site's page is refused all the same, since it would have the viewer's rights: browsers name
the site in a header that pages cannot set.

Invariant: every answer bears a strict Content-Security-Policy; nothing is written, and no cookie is
set: the page's own script sets the cookies of the zone and of *mine*.
"""

import asyncio
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlencode

import msgspec
from aiohttp import web
from markupsafe import Markup
from msgspec import structs

from gatelog.readmodel.asked import Asked
from gatelog.readmodel.model import ReadModel
from gatelog.serve.access.callers import Caller, CannotTell, Deed, NotAllowed
from gatelog.serve.access.reviewing import Reviews
from gatelog.serve.api import objects, params
from gatelog.serve.api.bodies import body_of
from gatelog.serve.api.kinds import TRIAL
from gatelog.serve.api.status import Refused
from gatelog.serve.console import (
    cohort,
    group,
    groups,
    health,
    overview,
    preemptions,
    queue,
    queues,
    topology,
    trial,
    usage,
)
from gatelog.serve.console.rendering import Page, render
from gatelog.serve.console.view import RANGES, PageView, read_moment, read_zone
from gatelog.serve.feed import Feed, TooOld, position
from gatelog.serve.questions import Busy, Questions
from gatelog.serve.streamlimits import NoRoom, StreamLimiter, UserAtLimit
from gatelog.serve.trials import Trials
from gatelog.serve.words import rfc
from runtime.log import get_logger

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ASSETS = {
    **{"console.css": "text/css", "charts.css": "text/css"},
    **{"console.js": "text/javascript", "charts.js": "text/javascript"},
}
_KEPT = {"Cache-Control": "private, max-age=31536000, immutable"}
"""Headers of an asset whose address has a hash of its content: browsers get it once."""
_NAV = (
    ("/", "Overview"),
    ("/queues", "Queues"),
    ("/groups", "Groups"),
    ("/cohorts", "Cohorts"),
    ("/topology", "Topology"),
    ("/preemptions", "Preemptions"),
    ("/try", "Try"),
    ("/usage", "Usage"),
    ("/health", "Health"),
)
_OF_ALL = ("/cohorts", "/topology", "/health")
"""Pages for users who may see quota: they are about all namespaces."""
_STILL = ("/try",)
"""Pages without events of changes and without a range of time."""
_FORM = "application/x-www-form-urlencoded"
log = get_logger("serve")
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
_STREAM_S = 600
MOST_STREAMS = 500

SHARED_S = 1.0
"""Seconds for which a page is shared with other users who ask for the same."""

T = TypeVar("T")
View = Callable[[Asked, PageView], Page]
Found = tuple[Page, list[tuple[str, str]], int]
"""A page, its statements with their titles, and the projector's position when it was made."""
_CHANGE = b"event: change\ndata: 1\n\n"

_PARAMETERS = (
    *("at", "by", "came", "format", "gone", "in", "label", "life", "name", "namespace", "range"),
    *("after", "offset", "reason", "resource", "since", "sort", "state", "until"),
)
"""What addresses may say; anything else is a slip of the pen that would be ignored in silence."""


class Console:
    """Answers requests for pages. `reviews` None: no login, everything is shown."""

    def __init__(
        self,
        questions: Questions,
        feed: Feed,
        reviews: Reviews | None,
        trials: Trials,
        streams_per_user: int,
    ) -> None:
        self._questions = questions
        self._trials = trials
        self._feed = feed
        self._reviews = reviews
        self._streams = StreamLimiter("live pages", MOST_STREAMS, streams_per_user)
        self._pages: dict[Any, tuple[float, asyncio.Future[Any]]] = {}
        folder = files("gatelog.serve.console")
        self._assets = {name: (folder / name).read_bytes() for name in _ASSETS}
        self._versions = {n: sha256(a).hexdigest()[:16] for n, a in self._assets.items()}

    def _asset_link(self, name: str) -> str:
        """Return an asset's address, which is another when its content is."""
        return f"/assets/{name}?v={self._versions[name]}"

    async def answer(self, request: web.Request, caller: Caller | None) -> web.StreamResponse:
        """Return the answer; errors become pages."""
        try:
            return await self._answer(request, caller)
        except Refused as refused:
            return self._refusal(request, refused.code, refused.message)
        except NotAllowed as error:
            return self._refusal(request, 403, f"{error}. Choose a namespace you may see.")
        except UserAtLimit as error:
            return self._refusal(request, 429, str(error))
        except (Busy, CannotTell, NoRoom) as error:
            return self._refusal(request, 503, str(error))
        except ConnectionError:
            raise  # no client is left to answer
        except Exception:
            log.exception("page_failed", path=request.path[:200])
            text = "an error of gatelog's own: its log (gatelog serve) says which; try another page"
            return self._refusal(request, 500, text)

    async def _answer(self, request: web.Request, caller: Caller | None) -> web.StreamResponse:
        tries = request.method == "POST" and request.path == "/try"
        if request.method not in ("GET", "HEAD") and not tries:
            raise Refused(405, f"{request.method} is not served here: everything is read only")
        if self._reviews is None and not _LOOPBACK.fullmatch(request.host):
            raise Refused(403, "this console is for its own machine: ask for it as localhost")
        name = request.path.removeprefix("/assets/")
        if name in self._assets:
            # Another replica's version may have other content: a browser must not keep this for it.
            same = request.query.get("v") == self._versions[name]
            headers = HEADERS | (_KEPT if same else {})
            return web.Response(
                body=self._assets[name], content_type=_ASSETS[name], headers=headers
            )
        now = await self._questions.run(ReadModel.clock)
        seen = _read(request, now)
        if request.path == "/events":
            await self._permit_any(caller, request.query.get("namespace", ""))
            with self._streams.opened(*_user(caller)):
                return await self._events(request)
        if request.path == "/suggest":
            return await self._suggest(request, seen, caller)
        if tries:
            return await self._try(request, seen, caller)
        view = await self._view(request.path, seen, caller)
        seen = await self._with_rights(seen, caller)

        def look(model: ReadModel) -> Found:
            asked = Asked(model)
            # Before the view: later positions are changes. A page of a past moment has no changes.
            version = 0 if seen.at else position(model)
            return view(asked, seen), asked.statements, version

        page, statements, version = await self._shared(request, seen, look)
        seen = structs.replace(seen, version=version)
        match request.query.get("format", ""):
            case "json":
                return _json(page.data)
            case "sql":
                text = "\n\n".join(f"-- {title}\n{query}" for title, query in statements)
                return web.Response(text=text + "\n", headers=HEADERS)
            case "":
                return self._html(request, seen, page.title, page.body)
            case other:
                raise Refused(400, f"format is {other[:40]!r}: json or sql are allowed")

    async def _shared(
        self, request: web.Request, seen: PageView, look: Callable[[ReadModel], T]
    ) -> T:
        """Return the result of `look`, or its result for another user within `SHARED_S`.

        The caller's right was checked before; a page is the same for all who may see it, but for
        links to pages of quota, groups that the overview names, and the zone of times. After an
        event of a change a user never gets a page from before the change.
        """
        now = asyncio.get_running_loop().time()
        self._pages = {k: one for k, one in self._pages.items() if now - one[0] < SHARED_S}
        asked = tuple(pair for pair in request.query.items() if pair[0] != "format")
        key = (self._feed.version, request.path, asked, seen.quota, seen.names, str(seen.zone))
        if key not in self._pages:
            self._pages[key] = now, asyncio.ensure_future(self._questions.run(look))
        # A client that goes away must not take the page away from the others.
        found: T = await asyncio.shield(self._pages[key][1])
        return found

    async def _view(self, path: str, seen: PageView, caller: Caller | None) -> View:
        namespace = seen.query.get("namespace", "").strip()
        if namespace:
            params.name(namespace, "namespace")
        match path.strip("/").split("/"):
            case [""]:
                if namespace:
                    await self._permit_any(caller, namespace)
                else:
                    await self._quota(caller)
                return lambda asked, seen: overview.overview(asked, seen, namespace)
            case ["queues"] if namespace:
                await self._permit(caller, "queueusages", namespace)
                await self._permit_any(caller, namespace)  # the page names waiting groups
                return lambda asked, seen: queues.local_queues(asked, seen, namespace)
            case ["queues"]:
                await self._quota(caller)
                return queues.queues
            case ["queues", name]:
                await self._quota(caller)
                params.name(name, "queue")
                return lambda asked, seen: queue.queue(asked, seen, name)
            case ["cohorts", *names] if len(names) < 2:
                await self._quota(caller)
                for one in names:
                    params.name(one, "cohort")
                return lambda asked, seen: cohort.cohorts(asked, seen, *names)
            case ["topology"]:
                await self._quota(caller)
                return topology.topology
            case ["groups"]:
                await self._permit_any(caller, namespace)
                return groups.groups
            case ["groups", within, name]:
                params.name(within, "namespace")
                params.name(name, "name")
                await self._permit_any(caller, within)
                return lambda asked, seen: group.group(asked, seen, within, name)
            case ["try"]:
                return trial.form
            case ["preemptions"]:
                await self._permit_any(caller, namespace)
                return preemptions.preemptions
            case ["usage"]:
                await self._permit_any(caller, namespace)
                return usage.usage
            case ["health"]:
                await self._quota(caller)
                return health.health
            case _:
                raise Refused(404, f"there is no page {path[:80]}")

    async def _suggest(
        self, request: web.Request, seen: PageView, caller: Caller | None
    ) -> web.Response:
        """Return names that hold the words of a search, with links: of what the caller may see."""
        namespace = seen.query.get("namespace", "").strip()
        await self._permit_any(caller, namespace)
        seen = structs.replace(seen, quota=await self._may(caller, "clusterqueueusages", ""))
        found = await self._shared(
            request, seen, lambda model: groups.suggested(Asked(model), seen)
        )
        return _json(found)

    async def _try(
        self, request: web.Request, seen: PageView, caller: Caller | None
    ) -> web.Response:
        """Answer a manifest that was posted."""
        _refuse_other_sites(request)
        namespace, manifest = await _posted(request)
        if namespace:
            params.name(namespace, "namespace")
        await self._permit(caller, TRIAL, namespace, "create")
        seen = await self._with_rights(seen, caller)
        user, groups = _user(caller)
        found = await self._trials.answer(
            manifest, namespace, user, groups, own_only=not seen.names
        )
        if request.query.get("format") == "json":
            return _json(found)
        page = trial.answered(seen, namespace, manifest, found)
        return self._html(request, seen, page.title, page.body)

    async def _permit_any(self, caller: Caller | None, namespace: str) -> None:
        await self._permit(caller, "podgroups", namespace)

    async def _quota(self, caller: Caller | None) -> None:
        await self._permit(caller, "clusterqueueusages", "")

    async def _permit(
        self, caller: Caller | None, plural: str, namespace: str, verb: str = "list"
    ) -> None:
        if self._reviews is not None:
            assert caller is not None
            await self._reviews.permit(caller, _deed(plural, namespace, verb))

    async def _with_rights(self, seen: PageView, caller: Caller | None) -> PageView:
        """Return the view with the user's rights to see quota and names."""
        quota = await self._may(caller, "clusterqueueusages", "")
        names = await self._may(caller, "podgroups", "")
        return structs.replace(seen, quota=quota, names=names)

    async def _may(self, caller: Caller | None, plural: str, namespace: str) -> bool:
        """Tell whether the user may list a kind, to show only links that they may follow."""
        if self._reviews is None:
            return True
        assert caller is not None
        return await self._reviews.may(caller, _deed(plural, namespace))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Say when something changed since the page was made; what, the page asks for itself."""
        after = params.whole(request.query, "after", 0)
        async with self._feed.watching(None) as batches:
            headers = {**HEADERS, "Content-Type": "text/event-stream"}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            await response.write(b"retry: 5000\n\n")
            if after and self._feed.version > after:
                await response.write(_CHANGE)
            try:
                async with asyncio.timeout(_STREAM_S):
                    async for batch in batches:
                        await response.write(_CHANGE if batch else b": still here\n\n")
            except (TimeoutError, TooOld, ConnectionError):
                pass
            except Exception:  # the answer has begun, so its status cannot change
                log.exception("page_failed", path=request.path)
            return response

    def _html(
        self,
        request: web.Request,
        seen: PageView,
        title: str,
        body: Markup,
        status: int = 200,
    ) -> web.Response:
        path = request.path
        within = request.query.get("namespace", "").strip()
        if path.startswith("/groups/"):
            within = path.split("/")[2]
        timed = ("format", "at", "range", "since", "until", "offset")
        same = {k: v for k, v in request.query.items() if k not in timed}
        live = None
        if not seen.at and status == 200 and path not in _STILL:
            asked = {"namespace": within} if within else {}
            live = f"/events?{urlencode({**asked, 'after': seen.version})}"
        shown = {
            "title": title,
            "assets": self._asset_link,
            "nav": _nav(seen, path, within),
            "path": path,
            "same": same,
            "times": _times(seen, path, same) if status == 200 and path not in _STILL else None,
            "within": "" if seen.names else within,
            "mine": _cookie(request, "mine")[:200],
            "body": body,
            "live": live,
            "found": status == 200 and path not in _STILL,
            "cluster": self._questions.cluster,
        }
        text = render("frame", seen, **shown)
        return web.Response(text=text, content_type="text/html", headers=HEADERS, status=status)

    def _refusal(self, request: web.Request, code: int, message: str) -> web.Response:
        if request.query.get("format") in ("json", "sql") or request.path == "/events":
            return _json({"code": code, "message": message}, code)
        now = datetime.now(UTC)
        seen = PageView(at=None, query={}, now=now)
        titles = {
            401: "Not logged in",
            403: "Not yours to see",
            404: "Not found",
            429: "Too many at once",
            503: "Try again",
            500: "Something broke",
        }
        title = titles.get(code, "That cannot be answered")
        body = render("refusal", seen, heading=title, message=message)
        return self._html(request, seen, title, body, code)

    def refuse(self, request: web.Request, code: int, message: str) -> web.Response:
        """Return a page that says why not."""
        return self._refusal(request, code, message)


def _read(request: web.Request, now: datetime) -> PageView:
    """Return what an address says; `now` is the moment of the read model.

    Raises:
        Refused: 400, a parameter is unknown, given twice or cannot be read.
    """
    for key, value in request.query.items():
        if key not in _PARAMETERS:
            near = difflib.get_close_matches(key[:40], _PARAMETERS, n=1)
            meant = f"did you mean {near[0]}" if near else f"known: {', '.join(_PARAMETERS)}"
            raise Refused(400, f"parameter {key[:40]!r} is unknown: {meant}")
        if len(value) > 500 or "\x00" in value:
            raise Refused(400, f"parameter {key[:40]!r} is longer than 500 bytes or holds a NUL")
        if len(request.query.getall(key)) > 1:
            # Rights must not be checked by one value while the page is found by the other.
            raise Refused(400, f"parameter {key[:40]!r} is given twice: once is allowed")
    zone = read_zone(_cookie(request, "zone"))
    at = read_moment(request.query.get("at", ""), now)
    seen = PageView(at=at, query=request.query, now=now, zone=zone)
    chosen = seen.range if at is None else None
    if chosen is not None and chosen.until < now:
        seen = structs.replace(seen, at=chosen.until)
    return seen


def _cookie(request: web.Request, name: str) -> str:
    """Return what the page's script keeps, which it writes per cent encoded; "" for nothing."""
    return unquote(request.cookies.get(name, ""))


def _refuse_other_sites(request: web.Request) -> None:
    """Refuse a form that a page of another site sends.

    Our pages have no referrer, so where a browser does not say the site, it does not say the origin
    either.

    Raises:
        Refused: 403.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site != "same-origin" and (site is not None or "Origin" in request.headers):
        raise Refused(403, "a form of another site's page is not taken, nor that of an old browser")


async def _posted(request: web.Request) -> tuple[str, str]:
    """Return the namespace and the manifest that a form brings.

    Raises:
        Refused: 400, it is no form of ours; 413, it is too large.
    """
    if request.content_type != _FORM:
        raise Refused(400, f"the body is {request.content_type[:60]!r}: {_FORM} is taken")
    try:
        body = (await body_of(request)).decode()
        fields = parse_qs(body, keep_blank_values=True, max_num_fields=4, errors="strict")
    except ValueError:
        raise Refused(400, "the form cannot be read: it has a namespace and a manifest") from None
    namespace, manifest = (fields.get(name, [""])[0] for name in ("namespace", "manifest"))
    return namespace.strip(), manifest


def _user(caller: Caller | None) -> tuple[str, Sequence[str]]:
    """Return name and groups of a user, for limits of streams and trials."""
    return (caller.name, caller.groups) if caller is not None else ("", ())


def _json(found: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(found)
    return web.Response(body=body, status=status, content_type="application/json", headers=HEADERS)


def _deed(plural: str, namespace: str, verb: str = "list") -> Deed:
    return Deed(
        verb=verb,
        group=objects.GROUP,
        version=objects.VERSION,
        resource=plural,
        namespace=namespace,
    )


def _nav(seen: PageView, path: str, within: str) -> list[tuple[str, str, bool]]:
    """Return links to the pages; users without rights to all namespaces stay in this namespace."""
    stays = dict.fromkeys(("/", "/queues"), not seen.quota) | dict.fromkeys(_OF_ALL, False)
    return [
        (
            word,
            seen.link(to, namespace=within if stays.get(to, not seen.names) else None),
            _within(path, to),
        )
        for to, word in _NAV
        if seen.quota or to not in _OF_ALL
    ]


def _within(path: str, to: str) -> bool:
    return path == to or (to != "/" and path.startswith(f"{to}/"))


def _times(seen: PageView, path: str, same: Mapping[str, str]) -> dict[str, Any]:
    """Return what the header says of the range, and links to others, before it and after it."""
    chosen = seen.query.get("range", "")

    def link(**given: str | None) -> str:
        shown = {key: value for key, value in {**same, **given}.items() if value}
        return path + (f"?{urlencode(shown)}" if shown else "")

    window, named = seen.window(), seen.range is not None
    span, since, until = window.until - window.since, rfc(window.since), rfc(window.until)
    later = min(window.until + span, seen.now)
    return {
        "ranges": [(words, link(range=one), one == chosen) for one, (words, _) in RANGES.items()],
        "before": link(since=rfc(window.since - span), until=since),
        "after": link(since=until, until=rfc(later)) if window.until < seen.now else "",
        "now": link(range=chosen if chosen != "night" else None),
        "since": seen.clock(window.since) if named else "",
        "until": seen.clock(window.until) if named and seen.at else "",
    }
