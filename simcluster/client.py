"""A tiny asynchronous client, for the demonstration and for tests.

Theory: tests read best when a request is one line and its answer is data; errors are the server's
``Status`` as an exception. It knows only paths, patches and watches.

Invariant: every failed request raises ``ApiFailure`` unless the raw ``request`` is used.
"""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypedDict, Unpack

import aiohttp
import msgspec

Obj = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_LARGE = 1 << 20  # aiohttp warns of larger bodies given as bytes


class ApiFailure(Exception):
    """An answer with a status of 400 or more."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body
        self.reason = body.get("reason") if isinstance(body, dict) else None
        message = body.get("message") if isinstance(body, dict) else body
        super().__init__(f"{status} {message}")


def collection(plural: str, namespace: str = "") -> str:
    """Path of a collection: ``pods``, or ``workloads.kueue.x-k8s.io/v1beta2``."""
    name, _, rest = plural.partition(".")
    base = "/api/v1"
    if rest:
        group, _, version = rest.rpartition("/")
        base = f"/apis/{group}/{version}"
    return f"{base}/namespaces/{namespace}/{name}" if namespace else f"{base}/{name}"


class PatchParams(TypedDict, total=False):
    """Kind of a patch and subresource (neither: a merge of the object), and what the URL says."""

    kind: str
    sub: str
    fieldManager: str
    force: str
    dryRun: str


class Client:
    """Requests with a bearer token. Use as a context manager."""

    def __init__(
        self,
        url: str,
        token: str,
        user_agent: str = "simclient/1",
        authority: Path | None = None,
        verified: bool = True,
    ) -> None:
        self.url = url
        tls: ssl.SSLContext | bool = verified
        if authority is not None:
            tls = ssl.create_default_context(cafile=authority)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls),
            headers={"Authorization": f"Bearer {token}", "User-Agent": user_agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            read_bufsize=1 << 20,
        )

    async def __aenter__(self) -> "Client":
        """Nothing to do: connections are made on demand."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """(status, body, headers); bytes and text bodies are sent as they are."""
        data = body if body is None or isinstance(body, bytes) else None
        if body is not None and data is None:
            data = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
        async with self._session.request(
            method,
            self.url + path,
            data=io.BytesIO(data) if data and len(data) > _LARGE else data,
            params=params,
            headers={"Content-Type": content_type, **(headers or {})},
        ) as answer:
            raw = await answer.read()
            kind = answer.headers.get("Content-Type", "")
            found = msgspec.json.decode(raw) if "json" in kind and raw else raw.decode()
            return answer.status, found, dict(answer.headers)

    async def ok(self, method: str, path: str, body: Any = None, **extra: Any) -> Any:
        """The body of a successful answer. Raises ``ApiFailure``."""
        status, found, _ = await self.request(method, path, body, **extra)
        if status >= 400:
            raise ApiFailure(status, found)
        return found

    async def create(self, plural: str, obj: Obj, namespace: str = "", **params: str) -> Obj:
        """Create an object; ``kind`` and ``apiVersion`` may be left out."""
        found: Obj = await self.ok("POST", collection(plural, namespace), obj, params=params)
        return found

    async def get(self, plural: str, name: str, namespace: str = "") -> Obj:
        """Read an object."""
        found: Obj = await self.ok("GET", f"{collection(plural, namespace)}/{name}")
        return found

    async def list(self, plural: str, namespace: str = "", **params: str) -> Obj:
        """Read a collection (one page)."""
        found: Obj = await self.ok("GET", collection(plural, namespace), params=params)
        return found

    async def patch(
        self,
        plural: str,
        name: str,
        patch: Any,
        namespace: str = "",
        **params: Unpack[PatchParams],
    ) -> Obj:
        """Patch an object or its subresource."""
        kind, part = params.pop("kind", MERGE), params.pop("sub", "")
        path = f"{collection(plural, namespace)}/{name}" + (f"/{part}" if part else "")
        found: Obj = await self.ok("PATCH", path, patch, content_type=kind, params=params)
        return found

    async def delete(
        self, plural: str, name: str, namespace: str = "", options: Obj | None = None
    ) -> Obj:
        """Delete an object."""
        path = f"{collection(plural, namespace)}/{name}"
        found: Obj = await self.ok("DELETE", path, options)
        return found

    async def watch(
        self, plural: str, namespace: str = "", **params: str
    ) -> AsyncIterator[tuple[str, Obj]]:
        """Items of a watch until the server ends it. Raises ``ApiFailure``."""
        asked = {"watch": "1", **params}
        path = self.url + collection(plural, namespace)
        async with self._session.get(path, params=asked) as answer:
            if answer.status >= 400:
                raise ApiFailure(answer.status, await answer.json(content_type=None))
            async for line in answer.content:
                item = msgspec.json.decode(line)
                yield item["type"], item["object"]

    async def wait(
        self,
        plural: str,
        name: str,
        namespace: str = "",
        *,
        until: Callable[[Obj | None], bool],
        timeout_s: float = 10.0,
    ) -> Obj | None:
        """Poll an object (``None``: absent) until a condition holds. Raises ``TimeoutError``."""
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    found: Obj | None = await self.get(plural, name, namespace)
                except ApiFailure as failure:
                    if failure.status != 404:
                        raise
                    found = None
                if until(found):
                    return found
                await asyncio.sleep(0.01)
