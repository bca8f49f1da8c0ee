"""The HTTP side: authentication, dispatch, statistics, watches.

Theory: one handler for what every connection brings; routing is a split of the path, which is
faster than a route table and follows the API's own structure. Every answer passes one place, where
requests are counted.

Invariant: a request without the token reaches nothing but the health endpoints.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from simcluster import discovery
from simcluster.access import ADMIN, Access, Asked, User
from simcluster.api import Answer, Api
from simcluster.connection import Request, Streaming
from simcluster.errors import ApiError, NotServed, Obj
from simcluster.listener import Listener
from simcluster.lists import wanted_version
from simcluster.pump import Pump
from simcluster.replies import PLAIN, reply
from simcluster.requests import Target, flag, integer, options, resolve
from simcluster.resources import Catalogue
from simcluster.watching import Stream, open_stream

_log = logging.getLogger("simcluster")
_encode = msgspec.json.Encoder().encode
_HEALTH = frozenset({"/healthz", "/readyz", "/livez"})
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COMPARISON_S = 1e-6
"""Seconds to compare two tolerations: 4,500 of them make an update take 20 s, as on two cores."""
_NOTICED_S = 0.01
_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"


class Front(Protocol):
    """A front of the API server: TLS, and kinds that other servers have."""

    tls: ssl.SSLContext
    authority: Path
    """File of the authority of its certificate."""

    def trust(self) -> Obj:
        """Return the ConfigMap by which those servers know it."""

    def groups(self) -> dict[str, list[str]]:
        """Return their API groups, and the versions of each."""

    def service(self, path: str) -> Obj | None:
        """Return the APIService of a path; None: this server serves the path."""

    async def openapi(self, path: str) -> bytes | None:
        """Answer a request for the OpenAPI document of their kinds."""

    async def passed(self, service: Obj, request: Request, user: User) -> bytes | Streaming:
        """Pass a request on. Raises 503."""

    async def close(self) -> None:
        """Close connections."""


class Server:
    """Listens, answers, counts."""

    def __init__(
        self,
        api: Api,
        catalogue: Catalogue,
        access: Access,
        front: Front | None = None,
    ) -> None:
        store, settings = api.store, api.settings
        self.store = store
        self.access = access
        self.front = front
        self.catalogue = catalogue
        self.api = api
        self.settings = settings
        self.stats: Counter[tuple[str, str, int]] = Counter()
        self.streams: dict[Stream, Pump] = {}
        self.listener = Listener(self.handle, settings, None if front is None else front.tls)
        self.bearer = f"Bearer {settings.token}"

    async def start(self) -> None:
        """Listen."""
        await self.listener.start()

    async def stop(self) -> None:
        """End watches, close connections, stop listening."""
        self.drop(False)
        await asyncio.sleep(0)
        await self.listener.stop()

    def drop(self, abrupt: bool) -> None:
        """End every watch."""
        for stream in list(self.streams):
            stream.end(abrupt)

    async def handle(self, request: Request) -> bytes | Streaming:
        """One request."""
        method, path = request.method, request.path
        if path in _HEALTH:
            return reply(200, b"ok", PLAIN)
        authorization = request.header(b"authorization")
        user = None if authorization == self.bearer else self.access.user(authorization)
        if user is None and authorization != self.bearer:
            return self.error(ApiError(401, "Unauthorized", "Unauthorized"), method, path)
        return await self._answer(request, method, path, user)

    async def _answer(
        self, request: Request, method: str, path: str, user: User | None
    ) -> bytes | Streaming:
        """Answer; ``user`` None is the administrator."""
        warnings: list[str] = []
        verb, resource = _VERBS.get(method, method.lower()), ""
        try:
            special = self._special(request, method, path, user)
            if special is not None:
                return reply(*special)
            if self.front is not None:
                passed = await self._aggregated(self.front, request, verb, user)
                if passed is not None:
                    return passed
            target = resolve(self.catalogue, path)
            if user is not None:
                self.access.refuse(user, _asked(target, request, verb))
            resource = target.plural + (f"/{target.subresource}" if target.subresource else "")
            query = request.query
            if method == "GET" and not target.name:
                verb = "list"
                if flag(query, "watch"):
                    self.stats["watch", resource, 200] += 1
                    if flag(query, "sendInitialEvents"):
                        await self.api.reached(wanted_version(query))
                    return self.watch(target, query)
            elif method == "DELETE" and not target.name:
                verb = "deletecollection"
            done = await self._verb(request, verb, target, warnings, user or ADMIN)
        except NotServed:
            self.stats[verb, path, 404] += 1
            return reply(404, b"404 page not found\n", PLAIN)
        except ApiError as error:
            return self.error(error, verb, resource or path, warnings)
        except Exception as error:
            # A fault of the stand-in itself must look like a server's, and be seen.
            _log.exception("%s %s", method, path)
            text = f"Internal error occurred: {error!r}"
            return self.error(ApiError(500, "InternalError", text), verb, resource)
        self.stats[verb, resource, done[0]] += 1
        return reply(*done, warnings=warnings)

    def _special(
        self, request: Request, method: str, path: str, user: User | None
    ) -> Answer | None:
        """Discovery, and reviews of rights."""
        if method == "GET":
            others = None if self.front is None else self.front.groups()
            found = discovery.document(self.catalogue, path, others)
            return None if found is None else (200, _encode(found))
        if method != "POST" or not path.endswith("reviews"):
            return None
        if path == f"/apis/{_AUTHENTICATION}/selfsubjectreviews":
            return self.api.subject_review(user or ADMIN)
        sent, agent = request.body or b"", request.header(b"user-agent")
        access = self.access
        if path == f"/apis/{_AUTHORIZATION}/selfsubjectaccessreviews":
            asker = user or access.user(self.bearer)
            assert asker is not None
            kind = "SelfSubjectAccessReview"
            return self.api.review(
                kind, _AUTHORIZATION, sent, agent, lambda spec: access.self_review(asker, spec)
            )
        group, _, plural = path.removeprefix("/apis/").rpartition("/v1/")
        if user is not None:
            access.refuse(user, Asked(verb="create", group=group, resource=plural))
        if path == f"/apis/{_AUTHORIZATION}/subjectaccessreviews":
            kind, ask = "SubjectAccessReview", access.subject_review
            return self.api.review(kind, _AUTHORIZATION, sent, agent, ask)
        if path == f"/apis/{_AUTHENTICATION}/tokenreviews":
            ask = access.token_review
            return self.api.review("TokenReview", _AUTHENTICATION, sent, agent, ask)
        return None

    async def _aggregated(
        self, front: Front, request: Request, verb: str, user: User | None
    ) -> bytes | Streaming | None:
        """Pass on what an APIService gives to others; None if it is ours."""
        if not request.path.startswith(("/openapi/v3", "/apis/")):
            return None
        await asyncio.sleep(0)  # what waits becomes a task, which the HTTP client needs
        if request.path.startswith("/openapi/v3"):
            return await front.openapi(request.path)
        service = front.service(request.path)
        if service is None:
            return None
        asker = user or self.access.user(self.bearer)
        assert asker is not None
        asked = _path_asked(request, verb)
        self.access.refuse(asker, asked)
        self.stats[asked.verb, asked.full or request.path, 200] += 1
        return await front.passed(service, request, asker)

    async def _verb(
        self, request: Request, verb: str, target: Target, warnings: list[str], user: User
    ) -> Answer:
        query, body = request.query, request.body
        if body is None:
            text = f"Request entity too large: limit is {self.settings.max_body_bytes}"
            raise ApiError(413, "RequestEntityTooLarge", text)
        as_metadata = "as=PartialObjectMetadata" in request.header(b"accept")
        match verb:
            case "get":
                return await self.api.get(target, query, as_metadata)
            case "list":
                return await self.api.list(target, query, as_metadata)
            case "delete":
                return await self.api.delete(target, body, query, user)
            case "deletecollection":
                return await self.api.delete_collection(target, body, query, user)
            case _:
                writing = options(query, request.header(b"user-agent"))
                writing.warnings, writing.user = warnings, user
        if verb in ("update", "patch") and target.plural == "pods" and not target.subresource:
            await self._compare_tolerations(target)
        match verb:
            case "create":
                return await self.api.create(target, body, writing)
            case "update" if target.name:
                return await self.api.replace(target, body, writing)
            case "patch" if target.name:
                kind = request.header(b"content-type").partition(";")[0].strip()
                return await self.api.patch(target, kind, body, writing)
            case _:
                text = "the server does not allow this method on the requested resource"
                raise ApiError(405, "MethodNotAllowed", text)

    async def _compare_tolerations(self, target: Target) -> None:
        """Take as long as ValidatePodUpdate, which compares each toleration with each."""
        found = self.store.table(target.route.resource).get(target.namespace, target.name)
        count = len(found.obj["spec"].get("tolerations") or ()) if found is not None else 0
        took_s = count * count * _COMPARISON_S
        if took_s >= _NOTICED_S:
            await asyncio.sleep(took_s)

    def error(
        self, error: ApiError, verb: str, resource: str, warnings: list[str] | None = None
    ) -> bytes:
        """Answer with an error, and count it."""
        self.stats[verb, resource, error.code] += 1
        return reply(error.code, _encode(error.body), headers=error.headers, warnings=warnings)

    def watch(self, target: Target, query: Mapping[str, str]) -> Streaming:
        """Open a watch."""
        asked_s = integer(query, "timeoutSeconds")
        stream = open_stream(self.store, target, query, self.settings)

        def over() -> None:
            self.streams.pop(stream, None)
            self.store.table(target.route.resource).watchers.discard(stream)

        timeout_s = float(asked_s or self.settings.watch_timeout_s)
        pump = Pump(self.store, stream, self.settings, timeout_s=timeout_s, over=over)
        self.streams[stream] = pump
        return pump.start


def _read_verb(request: Request, verb: str, name: str) -> str:
    if verb == "get" and not name:
        return "watch" if flag(request.query, "watch") else "list"
    return "deletecollection" if verb == "delete" and not name else verb


def _asked(target: Target, request: Request, verb: str) -> Asked:
    """The right that a request to one of our own kinds needs."""
    return Asked(
        verb=_read_verb(request, verb, target.name),
        group=target.route.group,
        resource=target.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=target.name,
    )


def _path_asked(request: Request, verb: str) -> Asked:
    """The right that a request to an aggregated kind needs, read off its path."""
    _, _, group, _, *rest = request.path.rstrip("/").split("/")
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return Asked(verb=verb, path=request.path)
    resource, name, subresource = [*rest, "", "", ""][:3]
    return Asked(
        verb=_read_verb(request, verb, name),
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )
