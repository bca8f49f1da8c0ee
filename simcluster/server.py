"""The HTTP side: authentication, faults, dispatch, statistics, watches.

Theory: aiohttp's low-level server with one handler; routing is a split of the path, which is faster
than a route table and follows the API's own structure. Every answer passes one place, where faults
act and requests are counted.

Invariant: a request without the token reaches nothing but the health endpoints.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from simcluster import discovery
from simcluster.api import Answer, Api
from simcluster.backdoor import Backdoor
from simcluster.errors import ApiError, NotServed
from simcluster.faults import Faults, Rule
from simcluster.listener import Listener
from simcluster.requests import Target, flag, integer, options, resolve
from simcluster.resources import Catalogue
from simcluster.settings import Settings
from simcluster.store import Store
from simcluster.watching import Pump, Stream, open_stream

_log = logging.getLogger("simcluster")
_encode = msgspec.json.Encoder().encode
_HEALTH = frozenset({"/healthz", "/readyz", "/livez"})
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Server:
    """Listens, answers, counts."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        api: Api,
        faults: Faults,
        services: dict[str, str],
        settings: Settings,
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.api = api
        self.faults = faults
        self.settings = settings
        self.stats: Counter[tuple[str, str, int]] = Counter()
        self.streams: dict[Stream, asyncio.Transport | None] = {}
        self.backdoor = Backdoor(store, faults, services, self.stats, self.streams)
        self.listener = Listener(self.handle, settings)
        self._bearer = f"Bearer {settings.token}"
        faults.on_drop = self.drop
        faults.on_compact = store.compact
        faults.on_refuse = self.listener.refuse
        faults.on_stall = self._wake

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
        for stream, transport in list(self.streams.items()):
            stream.end(abrupt)
            if abrupt and transport is not None:
                transport.abort()

    def _wake(self) -> None:
        for stream in self.streams:
            stream.wake.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        method, path = request.method, request.path
        if path.startswith("/_sim/"):
            return await self._sim(request, path)
        rule = self.faults.intercept(method, request.path_qs) if self.faults.rules else None
        if rule is not None and rule.delay_ms:
            await asyncio.sleep(rule.delay_ms / 1000)
        if rule is not None and rule.status and not rule.after:
            return self._error(rule.error(), method, path)
        if path in _HEALTH:
            return web.Response(body=b"ok", content_type="text/plain")
        if request.headers.get("Authorization") != self._bearer:
            return self._error(ApiError(401, "Unauthorized", "Unauthorized"), method, path)
        return await self._answer(request, method, path, rule)

    async def _answer(
        self, request: web.BaseRequest, method: str, path: str, rule: Rule | None
    ) -> web.StreamResponse:
        warnings: list[str] = []
        verb, resource = _VERBS.get(method, method.lower()), ""
        try:
            special = await self._special(request, method, path)
            if special is not None:
                return self._json(*special)
            target = resolve(self.catalogue, path)
            resource = target.plural + (f"/{target.subresource}" if target.subresource else "")
            query: Mapping[str, str] = request.query
            if method == "GET" and not target.name:
                verb = "list"
                if flag(query, "watch"):
                    self.stats["watch", resource, 200] += 1
                    return await self._watch(request, target, query)
            elif method == "DELETE" and not target.name:
                verb = "deletecollection"
            done = await self._verb(request, verb, target, query, warnings)
        except NotServed:
            self.stats[verb, path, 404] += 1
            return web.Response(
                status=404, body=b"404 page not found\n", content_type="text/plain", charset="utf-8"
            )
        except ApiError as error:
            return self._error(error, verb, resource or path, warnings)
        except web.HTTPRequestEntityTooLarge:
            limit = self.settings.max_body_bytes
            text = f"Request entity too large: limit is {limit}"
            too_large = ApiError(413, "RequestEntityTooLarge", text)
            return self._error(too_large, verb, resource)
        except Exception as error:
            # A fault of the stand-in itself must look like a server's, and be seen.
            _log.exception("%s %s", method, path)
            text = f"Internal error occurred: {error!r}"
            return self._error(ApiError(500, "InternalError", text), verb, resource)
        if rule is not None and rule.status:
            return self._error(rule.error(), verb, resource)
        self.stats[verb, resource, done[0]] += 1
        return self._json(*done, warnings)

    async def _special(self, request: web.BaseRequest, method: str, path: str) -> Answer | None:
        """Discovery and access reviews."""
        if method == "GET":
            found = discovery.document(self.catalogue, path)
            return None if found is None else (200, _encode(found))
        if method == "POST" and path == _REVIEW:
            return self.api.access_review(
                await request.read(), request.headers.get("User-Agent", "")
            )
        return None

    async def _verb(
        self,
        request: web.BaseRequest,
        verb: str,
        target: Target,
        query: Mapping[str, str],
        warnings: list[str],
    ) -> Answer:
        headers = request.headers
        as_metadata = "as=PartialObjectMetadata" in headers.get("Accept", "")
        match verb:
            case "get":
                return await self.api.get(target, query, as_metadata)
            case "list":
                return await self.api.list(target, query, as_metadata)
            case _:
                body = await request.read()
        match verb:
            case "delete":
                return await self.api.delete(target, body, query)
            case "deletecollection":
                return await self.api.delete_collection(target, body, query)
            case _:
                writing = options(query, headers.get("User-Agent", ""))
                writing.warnings = warnings
        match verb:
            case "create":
                return await self.api.create(target, body, writing)
            case "update" if target.name:
                return await self.api.replace(target, body, writing)
            case "patch" if target.name:
                kind = headers.get("Content-Type", "").partition(";")[0].strip()
                return await self.api.patch(target, kind, body, writing)
            case _:
                text = "the server does not allow this method on the requested resource"
                raise ApiError(405, "MethodNotAllowed", text)

    def _json(self, status: int, body: bytes, warnings: list[str] | None = None) -> web.Response:
        found = web.Response(status=status, body=body, content_type="application/json")
        for text in warnings or ():
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            found.headers.add("Warning", f'299 - "{quoted}"')
        return found

    def _error(
        self, error: ApiError, verb: str, resource: str, warnings: list[str] | None = None
    ) -> web.Response:
        self.stats[verb, resource, error.code] += 1
        found = self._json(error.code, _encode(error.body), warnings)
        found.headers.update(error.headers)
        return found

    async def _watch(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str]
    ) -> web.StreamResponse:
        asked_s = integer(query, "timeoutSeconds")
        stream = open_stream(self.store, target, query, self.settings)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        transport: Any = request.transport
        self.streams[stream] = transport
        try:
            await response.prepare(request)
            pump = Pump(self.store, stream, self.faults, self.settings)
            await pump.run(response.write, float(asked_s or self.settings.watch_timeout_s))
            if not stream.abrupt:
                await response.write_eof()
        except ConnectionError:
            pass  # the reader is gone
        finally:
            self.streams.pop(stream, None)
            self.store.table(target.route.resource).watchers.discard(stream)
        return response

    async def _sim(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """What only a stand-in has (``backdoor``), under the same token."""
        if request.headers.get("Authorization") != self._bearer:
            return self._error(ApiError(401, "Unauthorized", "Unauthorized"), "sim", path)
        status, body = self.backdoor.handle(request.method, path, await request.read())
        return self._json(status, body)
