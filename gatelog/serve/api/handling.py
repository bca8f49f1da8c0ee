"""A request to the aggregated API, from its path to its answer.

Theory. A path names a group, a version, perhaps a namespace, a plural, a name and a subresource.
The caller is known already; whether they may is asked of the API server before the database is
asked anything. Refusals are Statuses.

Invariant: no row of a namespace leaves before a review has allowed that verb on that kind there.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from gatelog.readmodel.rows import LifeRow
from gatelog.serve.access.callers import Caller, CannotTell, Deed, NotAllowed
from gatelog.serve.access.reviewing import Reviews
from gatelog.serve.api import discovery, finding, objects, openapi, params, table, visibility
from gatelog.serve.api.bodies import body_of
from gatelog.serve.api.kinds import BY_PLURAL, TRIAL, Kind
from gatelog.serve.api.params import Listing
from gatelog.serve.api.status import Refused, not_found
from gatelog.serve.feed import Feed, TooOld, position
from gatelog.serve.questions import Busy, Questions
from gatelog.serve.streamlimits import NoRoom, StreamLimiter, UserAtLimit
from gatelog.serve.trials import Trials
from runtime.log import get_logger

log = get_logger("serve")
_encode = msgspec.json.Encoder().encode
_JSON = "application/json"
_WATCH_S = 1800
MOST_WATCHES = 1000
_OURS = "an error of gatelog's own: its log (gatelog serve) says which"


class _Trial(msgspec.Struct, frozen=True, rename="camel"):
    """A trial as a client creates it: its metadata says nothing."""

    kind: str = ""
    api_version: str = ""
    spec: objects.PodGroupTrialSpec = objects.PodGroupTrialSpec()


_trials = msgspec.json.Decoder(_Trial)


class Path(msgspec.Struct, frozen=True):
    """A path of the API, taken apart."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str = ""
    subresource: str = ""


def parse(path: str) -> Path:
    """Return what a path behind /apis names.

    Raises:
        Refused: 404, nothing of ours; 400, a name that no object can have.
    """
    parts = path.strip("/").split("/")
    if len(parts) < 4 or discovery.VERSIONS.get(parts[1]) != parts[2]:
        raise Refused(404, "the server could not find the requested resource")
    _, group, version, *rest = parts
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = params.name(rest[1], "namespace"), rest[2:]
    plural, name, subresource = [*rest, "", "", ""][:3]
    if len(rest) > 3:
        raise Refused(404, "the server could not find the requested resource")
    if name:
        params.name(name, "name")
    return Path(group, version, namespace, plural, name, subresource)


class Handling:
    """Answers requests of callers."""

    def __init__(
        self,
        questions: Questions,
        reviews: Reviews,
        feed: Feed,
        trials: Trials,
        streams_per_user: int,
    ) -> None:
        self._questions = questions
        self._trials = trials
        self._reviews = reviews
        self._feed = feed
        self._watches = StreamLimiter("watches", MOST_WATCHES, streams_per_user)

    async def answer(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Return the answer; errors become refusals."""
        try:
            return await self._answer(request, caller)
        except Refused as refused:
            return refusal(refused)
        except NotAllowed as error:
            return refusal(Refused(403, str(error)))
        except UserAtLimit as error:
            return refusal(Refused(429, str(error)))
        except (Busy, CannotTell, NoRoom) as error:
            return refusal(Refused(503, str(error)))
        except TooOld as error:
            return refusal(Refused(410, str(error)))
        except ConnectionError:
            raise  # no client is left to answer
        except Exception:
            log.exception("request_failed", path=request.path[:200])
            return refusal(Refused(500, _OURS))

    async def _answer(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        path = request.path
        if request.method == "POST":
            return await self._try(parse(path), request, caller)
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, f"{request.method} is not served here: everything is read only")
        document = _document(path, request.headers.get("Accept", ""))
        if document is not None:
            return document
        asked = parse(path)
        if asked.group == visibility.GROUP:
            return await self._pending(asked, request.query, caller)
        kind = BY_PLURAL.get(asked.plural)
        if kind is None or asked.subresource or (asked.namespace and not kind.namespaced):
            raise Refused(404, "the server could not find the requested resource")
        if asked.name and kind.namespaced and not asked.namespace:
            raise Refused(404, "the server could not find the requested resource")
        if asked.name:
            return await self._get(asked, kind, request, caller)
        listing = params.read_listing(request.query)
        verb = "watch" if listing.watch else "list"
        await self._permit(caller, asked, verb)
        if not listing.watch:
            return await self._list(asked, kind, listing, request)
        if not kind.watched:
            raise Refused(405, f"{kind.plural} cannot be watched: podgroups can")
        with self._watches.opened(caller.name, caller.groups):
            return await self._watch(asked, kind, listing, request)

    async def _try(self, asked: Path, request: web.Request, caller: Caller) -> web.Response:
        """Answer a trial that is created."""
        if (asked.group, asked.plural, asked.name) != (objects.GROUP, TRIAL, ""):
            raise Refused(405, "POST is not served here: everything but a trial is read only")
        if not asked.namespace:
            raise Refused(404, "the server could not find the requested resource")
        await self._permit(caller, asked, "create")
        try:
            given = _trials.decode(await body_of(request))
        except msgspec.MsgspecError as error:
            raise Refused(400, f"the body is no PodGroupTrial in JSON: {error}") from None
        if (given.kind, given.api_version) != ("PodGroupTrial", objects.API_VERSION):
            raise Refused(400, f"the body is no PodGroupTrial of {objects.API_VERSION}")
        found = await self._trials.answer(
            given.spec.manifest, asked.namespace, caller.name, caller.groups, own_only=True
        )
        made = objects.PodGroupTrial(
            kind=given.kind,
            api_version=given.api_version,
            metadata=objects.ObjectMeta(name="", namespace=asked.namespace),
            spec=given.spec,
            status=found,
        )
        return reply(made, 201)

    async def _permit(self, caller: Caller, asked: Path, verb: str) -> None:
        deed = Deed(
            verb=verb,
            group=asked.group,
            version=asked.version,
            resource=asked.plural,
            subresource=asked.subresource,
            namespace=asked.namespace,
            name=asked.name,
        )
        try:
            await self._reviews.permit(caller, deed)
        except NotAllowed as error:
            named = f' "{asked.name}"' if asked.name else ""
            details = {"name": asked.name, "group": asked.group, "kind": asked.plural}
            text = f"{asked.plural}.{asked.group}{named} is forbidden: {error}"
            raise Refused(403, text, details) from None

    async def _get(
        self, asked: Path, kind: Kind, request: web.Request, caller: Caller
    ) -> web.Response:
        await self._permit(caller, asked, "get")
        found = await self._questions.run(lambda m: kind.one(m, asked.namespace, asked.name))
        if found is None:
            raise await self._missing(asked, kind)
        if not table.wanted(request.headers.get("Accept", "")):
            return reply(found)
        include = request.query.get("includeObject", "")
        return reply(table.table(kind, [found], include, found.metadata.resource_version))

    async def _missing(self, asked: Path, kind: Kind) -> Refused:
        """Return the refusal of a name, with a hint if a group or pod has that name."""
        missing = not_found(asked.group, kind.plural, asked.name)
        if not kind.namespaced or kind.plural in ("queueusages", "namespaceusages"):
            return missing
        row = await self._questions.run(lambda m: finding.life(m, asked.namespace, asked.name))
        if row is None:
            return missing
        hint = f"it is {row.state}, and does not queue"
        if kind.plural == "podgroups":
            hint = f"it is a pod of group {row.name}"
        return Refused(404, f"{missing.message}: {hint}", missing.details)

    async def _list(
        self, asked: Path, kind: Kind, listing: Listing, request: web.Request
    ) -> web.Response:
        def look(model: Any) -> tuple[int, params.Page]:
            before = position(model)
            return before, kind.page(model, asked.namespace, listing)

        before, (found, behind) = await self._questions.run(look)
        going_on = params.token(behind) if behind is not None else ""
        if table.wanted(request.headers.get("Accept", "")):
            include = request.query.get("includeObject", "")
            return reply(table.table(kind, found, include, str(before), going_on))
        return reply(objects.listed(kind.kind, found, str(before), going_on))

    async def _pending(self, asked: Path, query: Mapping[str, str], caller: Caller) -> web.Response:
        namespaced = asked.plural == "localqueues"
        if (
            asked.plural not in ("clusterqueues", "localqueues")
            or not asked.name
            or asked.subresource != visibility.PENDING
            or namespaced != bool(asked.namespace)
        ):
            raise Refused(404, "the server could not find the requested resource")
        limit, offset = visibility.bounds(query)
        await self._permit(caller, asked, "get")
        return reply(
            await self._questions.run(
                lambda m: visibility.pending(
                    m, asked.plural, asked.namespace, asked.name, limit, offset
                )
            )
        )

    async def _watch(
        self, asked: Path, kind: Kind, listing: Listing, request: web.Request
    ) -> web.StreamResponse:
        as_table = table.wanted(request.headers.get("Accept", ""))
        include = request.query.get("includeObject", "")
        if as_table:
            table.rows(kind, _NO_GROUP, include)  # refused before anything is sent
        fresh = listing.resource_version in ("", "0")
        version = None if fresh else int(listing.resource_version)
        first = Listing(limit=params.MOST, labels=listing.labels, fields=listing.fields)
        rows, _ = await self._questions.run(
            lambda m: finding.lives(m, asked.namespace, first, params.MOST)
        )
        known = {row.id for row in rows}
        async with self._feed.watching(version) as batches:
            response = web.StreamResponse(headers={"Content-Type": _JSON})
            response.enable_chunked_encoding()
            await response.prepare(request)
            writing = _Writing(response, kind, include if as_table else None)
            if fresh:
                for row in rows:
                    await writing.event("ADDED", row)
            seconds = min(listing.timeout_s or _WATCH_S, _WATCH_S)
            try:
                async with asyncio.timeout(seconds):
                    async for batch in batches:
                        for row in batch:
                            word = _word(row, asked.namespace, listing, known, version)
                            if word:
                                await writing.event(word, row)
                        if listing.bookmarks:
                            await writing.bookmark(self._feed.version)
            except TimeoutError:
                pass
            except TooOld as error:
                await writing.error(Refused(410, str(error)))
            except ConnectionError:
                return response
            except Exception:
                log.exception("request_failed", path=request.path[:200])
                await writing.error(Refused(500, _OURS))
            await response.write_eof()
            return response


_NO_GROUP = objects.PodGroup(
    kind="PodGroup",
    api_version=objects.API_VERSION,
    metadata=objects.ObjectMeta(name=""),
    spec=objects.PodGroupSpec(),
    status=objects.PodGroupStatus(),
)


def _word(
    row: LifeRow, namespace: str, listing: Listing, known: set[str], version: int | None
) -> str:
    """Return which event a changed life is to a watch, "" for none."""
    if not finding.selected(row, namespace, listing) or row.gone_at is not None:
        if row.id not in known:
            return ""
        known.discard(row.id)
        return "DELETED"
    if row.id in known and not (version is not None and row.created_seq > version):
        return "MODIFIED"
    new = row.id not in known
    known.add(row.id)
    return "ADDED" if new else "MODIFIED"


class _Writing:
    """Writes the events of a watch, as objects or as tables (`include` not None)."""

    def __init__(self, response: web.StreamResponse, kind: Kind, include: str | None) -> None:
        self._response = response
        self._kind = kind
        self._include = include
        self._headed = True

    async def event(self, word: str, row: LifeRow) -> None:
        shown: Any = finding.podgroup(row)
        if self._include is not None:
            version = str(row.as_of_seq)
            shown = table.table(self._kind, [shown], self._include, version, headed=self._headed)
            self._headed = False
        await self._response.write(_encode({"type": word, "object": shown}) + b"\n")

    async def bookmark(self, version: int) -> None:
        meta = {"resourceVersion": str(version), "creationTimestamp": None}
        shown: dict[str, Any] = {
            "kind": self._kind.kind,
            "apiVersion": objects.API_VERSION,
            "metadata": meta,
        }
        if self._include is not None:
            shown = table.table(self._kind, [], "None", str(version), headed=self._headed)
            self._headed = False
        await self._response.write(_encode({"type": "BOOKMARK", "object": shown}) + b"\n")

    async def error(self, refused: Refused) -> None:
        await self._response.write(_encode({"type": "ERROR", "object": refused.body}) + b"\n")


def _document(path: str, accept: str) -> web.Response | None:
    """Return a document of discovery or OpenAPI, None if the path names none."""
    match path.strip("/").split("/"):
        case ["apis"]:
            if discovery.wants_aggregated(accept):
                body = _encode(discovery.aggregated())
                headers = {"Content-Type": discovery.AGGREGATED}
                return web.Response(body=body, headers=headers)
            return reply(discovery.groups())
        case ["apis", group] if group in discovery.VERSIONS:
            return reply(discovery.group(group))
        case ["apis", group, version] if discovery.VERSIONS.get(group) == version:
            return reply(discovery.resources(group))
        case ["openapi", "v2"]:
            return web.Response(body=openapi.encoded_v2(), content_type=_JSON)
        case ["openapi", "v3"]:
            return reply(openapi.index())
        case ["openapi", "v3", "apis", group, version] if discovery.VERSIONS.get(group) == version:
            return web.Response(body=openapi.encoded(group), content_type=_JSON)
        case _:
            return None


def reply(found: Any, status: int = 200) -> web.Response:
    """Return an answer in JSON."""
    return web.Response(body=_encode(found), status=status, content_type=_JSON)


def refusal(refused: Refused) -> web.Response:
    """Return a Status."""
    return reply(refused.body, refused.code)
