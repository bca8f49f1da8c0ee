"""Aggregated APIs: requests to a group and version that an APIService gives to another server.

Theory: the API server authenticates and authorises as for its own kinds, then passes the request on
over TLS, with its front-proxy certificate and the user in headers instead of the user's own
credentials. Discovery and OpenAPI of such a group come from the extension server too. The service's
address is in a map, as for webhooks; the name that is verified is ``NAME.NAMESPACE.svc``.

Invariant: what the user sent as ``Authorization`` or ``X-Remote-*`` never reaches the extension
server; an extension server that does not answer is a 503 in the API server's words.
"""

import asyncio
import base64
import logging
import ssl
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec

from simcluster.access import User
from simcluster.connection import Connection, Request, Streaming
from simcluster.errors import ApiError, Obj
from simcluster.replies import PLAIN, reply
from simcluster.store import Store
from tests.support.standin.frontproxy import FrontProxy

_log = logging.getLogger("simcluster")
GROUP = "apiregistration.k8s.io"
_PASSED = (b"accept", b"content-type", b"user-agent", b"accept-encoding")


class Aggregation:
    """Finds the APIService of a path, and passes requests on."""

    def __init__(self, store: Store, services: dict[str, str], proxy: FrontProxy) -> None:
        self._store = store
        self._services = services
        self.proxy = proxy
        self.tls, self.authority = proxy.server_context(), proxy.ca_file
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Close connections and remove certificates."""
        if self._session is not None:
            await self._session.close()
        self.proxy.close()

    def trust(self) -> Obj:
        return self.proxy.config_map()

    def service(self, path: str) -> Obj | None:
        """The APIService that serves a path, None if we do ourselves."""
        parts = path.split("/", 4)
        if len(parts) < 4 or parts[1] != "apis":
            return None
        table = self._store.tables.get((GROUP, "apiservices"))
        rec = None if table is None else table.get("", f"{parts[3]}.{parts[2]}")
        if rec is None or not (rec.obj.get("spec") or {}).get("service"):
            return None
        return rec.obj

    def groups(self) -> dict[str, list[str]]:
        """Groups of APIServices and their versions."""
        found: dict[str, list[str]] = {}
        for spec in self._specs():
            found.setdefault(spec["group"], []).append(spec["version"])
        return found

    def _specs(self) -> Iterator[Obj]:
        table = self._store.tables.get((GROUP, "apiservices"))
        for rec in [] if table is None else table.iterate():
            if (rec.obj.get("spec") or {}).get("service"):
                yield rec.obj["spec"]

    async def openapi(self, path: str) -> bytes | None:
        """Answer ``/openapi/v3`` and what is below it for aggregated groups."""
        if path == "/openapi/v3":
            paths = {
                f"apis/{s['group']}/{s['version']}": {
                    "serverRelativeURL": f"/openapi/v3/apis/{s['group']}/{s['version']}?hash=0"
                }
                for s in self._specs()
            }
            return reply(200, msgspec.json.encode({"paths": paths}))
        found = self.service(path.removeprefix("/openapi/v3"))
        if found is None:
            return None
        aggregator = User(name="system:aggregator")
        async with self._open(found, "GET", path, b"", {}, aggregator) as answer:
            return reply(answer.status, await answer.read(), answer.content_type.encode())

    async def passed(self, service: Obj, request: Request, user: User) -> bytes | Streaming:
        """Pass a request on; the answer is whole, or streams as it comes. Raises 503."""
        headers = {name.decode(): request.header(name) for name in _PASSED if request.header(name)}
        try:
            opening = self._open(
                service, request.method, request.target, request.body or b"", headers, user
            )
            answer = await opening.__aenter__()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.warning("%s: %r", request.path, error)
            text = f"error trying to reach service: {error}"
            raise ApiError(503, "ServiceUnavailable", text) from None
        if answer.status == 200 and answer.content_length is None:
            return _Stream(opening, answer).start
        try:
            body = await answer.read()
            kind = answer.headers.get("Content-Type", "").encode() or PLAIN
            encoding = answer.headers.get("Content-Encoding")
            more = {"Content-Encoding": encoding} if encoding else None
            return reply(answer.status, body, kind, headers=more)
        finally:
            await opening.__aexit__(None, None, None)

    def _open(
        self,
        service: Obj,
        method: str,
        target: str,
        body: bytes,
        headers: dict[str, str],
        user: User,
    ) -> aiohttp.client._RequestContextManager:
        spec = service["spec"]
        where = spec["service"]
        name, namespace = where["name"], where["namespace"]
        address = self._services.get(f"{namespace}/{name}")
        if address is None:
            text = f"service {namespace}/{name} is not available"
            raise ApiError(503, "ServiceUnavailable", text)
        base = address if "://" in address else f"https://{address}"
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
            )
        all_headers = [*headers.items(), ("X-Remote-User", user.name)]
        all_headers += [("X-Remote-Uid", user.uid)] if user.uid else []
        groups = [*user.groups, "system:authenticated"]
        all_headers += [("X-Remote-Group", group) for group in groups]
        for key, values in user.extra.items():
            all_headers += [(f"X-Remote-Extra-{quote(key, safe='')}", value) for value in values]
        return self._session.request(
            method,
            base.rstrip("/") + target,
            data=body or None,
            headers=all_headers,
            ssl=self._context(spec),
            server_hostname=f"{name}.{namespace}.svc" if urlsplit(base).scheme == "https" else None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=3600),
        )

    def _context(self, spec: Obj) -> ssl.SSLContext:
        bundle = "" if spec.get("insecureSkipTLSVerify") else spec.get("caBundle") or ""
        context = self._contexts.get(bundle)
        if context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = not spec.get("insecureSkipTLSVerify")
            if spec.get("insecureSkipTLSVerify"):
                context.verify_mode = ssl.CERT_NONE
            elif bundle:
                context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
            context.load_cert_chain(self.proxy.client_file)
            self._contexts[bundle] = context
        return context


class _Stream:
    """An answer without a known length, passed on as it comes."""

    def __init__(
        self, opening: aiohttp.client._RequestContextManager, answer: aiohttp.ClientResponse
    ) -> None:
        self._opening = opening
        self._answer = answer
        self._task: asyncio.Task[None] | None = None

    def start(self, connection: Connection) -> None:
        """Begin; ends with either side."""
        connection.on_gone = self._gone
        self._task = asyncio.get_running_loop().create_task(self._run(connection))

    def _gone(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, connection: Connection) -> None:
        try:
            async for part in self._answer.content.iter_any():
                if part:
                    connection.send([part])
            connection.finish()
        except (aiohttp.ClientError, OSError):
            connection.transport.abort()
        finally:
            await self._opening.__aexit__(None, None, None)
