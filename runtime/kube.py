"""The API server on bytes: requests, and watches as lines.

HTTP goes over aiohttp on raw bytes; decoding is the caller's, into the few fields it needs. Login
is `kube_login`'s. After a 401 the configuration is read again, once for all requests that got a 401
at that moment, and the request is sent once more.

A watch has no total timeout (it would cut it off, kubernetes_asyncio#325) but an idle one: silence
beyond `idle_timeout_s` counts as a dead connection. A watch that ends is over; what to do then is
the caller's state machine.

Invariant: an HTTP status is an answer and is returned; `KubeUnavailable` means that no answer came.
No request waits for ever.
"""

import asyncio
import io
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypedDict, Unpack

import aiohttp
import msgspec
from yarl import URL

from runtime.clock import CLOCK
from runtime.kube_answer import Answer, Watch, forbidden, words
from runtime.kube_errors import (
    KubeError,
    KubeForbidden,
    KubeUnauthorized,
    KubeUnavailable,
)
from runtime.kube_login import Login, log_in
from runtime.log import get_logger
from runtime.settings import KubernetesSettings

__all__ = [
    "Answer",
    "KubeClient",
    "KubeError",
    "KubeForbidden",
    "KubeUnauthorized",
    "KubeUnavailable",
    "Watch",
    "connect",
    "forbidden",
]

_IN_ONE_WRITE = 1 << 20
"""Bytes of a body that are sent at once."""
_UNAUTHORIZED = 401
_plain = re.compile(r"[A-Za-z0-9._~/:-]*").fullmatch

log = get_logger("kube")

Params = Mapping[str, str]


class RequestOptions(TypedDict, total=False):
    """Optional parts of a request, beside its method and path."""

    params: Params | None
    body: bytes | None
    content_type: str
    """Of the body; JSON, if not said."""
    accept: str
    """Form of the answer; JSON, if not said."""
    timeout_s: float | None
    """Default: the setting."""
    most_bytes: int | None
    """A longer answer is not read to its end."""


class KubeClient:
    """See the module. Shared by the tasks of one event loop; made by `connect`."""

    def __init__(self, settings: KubernetesSettings, login: Login, user_agent: str) -> None:
        self._settings = settings
        self._login = login
        self._user_agent = user_agent
        self._renewal = asyncio.Lock()
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._timeout = _timeout(settings, None)
        self._closed = False

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._login.server

    async def request(
        self,
        method: str,
        path: str,
        **given: Unpack[RequestOptions],
    ) -> Answer:
        """Send one request and return the answer, whatever its status (except a lasting 401).

        Waits while `max_connections` others are under way; `timeout_s` covers that wait too.

        Raises:
            KubeUnavailable: no complete answer in time (the request may have taken
                effect), or a longer answer than `most_bytes`.
            KubeUnauthorized: 401 twice, the second time with fresh credentials.
        """
        body, timeout_s = given.get("body"), given.get("timeout_s")
        limit_s = self._settings.request_timeout_s if timeout_s is None else timeout_s
        kind = given.get("content_type", "application/json")
        headers = {"Content-Type": kind} if body is not None else {}
        if given.get("accept"):
            headers["Accept"] = given["accept"]
        params, most_bytes = given.get("params"), given.get("most_bytes")
        try:
            async with asyncio.timeout(limit_s), self._slots:
                return await self._exchange(method, path, params, body, headers, most_bytes)
        except TimeoutError as error:
            raise KubeUnavailable(f"{method} {path}: no answer within {limit_s} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise KubeUnavailable(f"{method} {path}: {words(error)}") from error

    async def json(
        self, method: str, path: str, *, body: Any = None, **options: Any
    ) -> tuple[int, Any]:
        """Like `request` with `body` encoded and the answer decoded (None if empty).

        Raises:
            KubeUnavailable, KubeUnauthorized: as `request`; also an answer that is no JSON.
        """
        data = msgspec.json.encode(body) if body is not None else None
        answer = await self.request(method, path, body=data, **options)
        try:
            return answer.status, answer.json()
        except msgspec.DecodeError as error:
            raise KubeUnavailable(
                f"{method} {path}: status {answer.status} without JSON: {answer.message()}"
            ) from error

    @asynccontextmanager
    async def watch(
        self, path: str, params: Params | None = None, *, idle_timeout_s: float
    ) -> AsyncIterator[Watch]:
        """Open a watch; look at `.status`, then iterate.

        Raises:
            KubeUnavailable: it cannot be opened.
            KubeUnauthorized: 401 twice.
        """
        try:
            opening = self._open(path, params, idle_timeout_s)
            response = await opening.__aenter__()
        except TimeoutError as error:
            raise KubeUnavailable(f"watch {path}: no answer to the request") from error
        except (aiohttp.ClientError, OSError) as error:
            raise KubeUnavailable(f"watch {path}: {words(error)}") from error
        try:
            yield Watch(response, idle_timeout_s)
        finally:
            await opening.__aexit__(None, None, None)

    async def close(self) -> None:
        """Close; watches that still run keep their session until they end. Safe to repeat."""
        if not self._closed:
            self._closed = True
            await self._login.retire()
            # aiohttp closes TLS transports on the next turns of the loop.
            await asyncio.sleep(0)

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        headers: dict[str, str],
        most_bytes: int | None,
    ) -> Answer:
        """Send a request and read the whole answer; the credentials are renewed once."""
        login = self._current(method, path)
        renewed = False
        while True:
            login.acquire()
            try:
                url, sent = _url(login.server, path, params), CLOCK.now()
                async with await self._sent(
                    login, method, url, body, headers, self._timeout
                ) as response:
                    CLOCK.seen(sent, response.headers)
                    said = await _whole(response, path, most_bytes)
                    answer = Answer(response.status, said, response.headers)
            finally:
                await login.release()
            if answer.status != _UNAUTHORIZED:
                return answer
            login = await self._after_refusal(login, answer, renewed)
            renewed = True

    @asynccontextmanager
    async def _open(
        self, path: str, params: Params | None, idle_timeout_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a GET and hand out the answer as it comes; the credentials are renewed once."""
        login = self._current("GET", path)
        timeout = _timeout(self._settings, idle_timeout_s)
        renewed = False
        while True:
            login.acquire()
            try:
                url = _url(login.server, path, params)
                async with await self._sent(login, "GET", url, None, {}, timeout) as response:
                    if response.status != _UNAUTHORIZED:
                        yield response
                        return
                    answer = Answer(_UNAUTHORIZED, await response.read(), response.headers)
            finally:
                await login.release()
            login = await self._after_refusal(login, answer, renewed)
            renewed = True

    def _current(self, method: str, path: str) -> Login:
        if self._closed:
            raise KubeUnavailable(f"{method} {path}: the client was closed")
        return self._login

    async def _sent(
        self,
        login: Login,
        method: str,
        url: URL,
        body: bytes | None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        return await login.session.request(
            method,
            url,
            # A large body goes in pieces: as one write it would hold up all other requests.
            data=io.BytesIO(body) if body is not None and len(body) > _IN_ONE_WRITE else body,
            headers={**headers, **await login.headers()},
            proxy=login.proxy,
            server_hostname=login.server_hostname,
            allow_redirects=False,
            timeout=timeout,
        )

    async def _after_refusal(self, login: Login, answer: Answer, renewed: bool) -> Login:
        """Return a newer login after a 401.

        Raises:
            KubeUnauthorized: the login was renewed already.
        """
        if renewed:
            raise KubeUnauthorized(
                f"{self.server} does not accept our credentials "
                f"({answer.message() or 'Unauthorized'}), also not after reading them again: renew "
                "the login of the kubeconfig or the service account"
            )
        return await self._renew(login)

    async def _renew(self, used: Login) -> Login:
        """Return a login newer than `used`; requests that fail together renew it once."""
        async with self._renewal:
            if self._login is used:
                log.info("credentials_reread", server=used.server)
                self._login = await log_in(self._settings, self._user_agent)
                await used.retire()
            return self._login


async def _whole(response: aiohttp.ClientResponse, path: str, most_bytes: int | None) -> bytes:
    if most_bytes is None:
        return await response.read()
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            response.close()
            raise KubeUnavailable(f"{path}: the answer is longer than {most_bytes} bytes")
    return b"".join(parts)


def _timeout(settings: KubernetesSettings, idle_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=None, sock_connect=settings.connect_timeout_s, sock_read=idle_s
    )


def _url(server: str, path: str, params: Params | None) -> URL:
    """Return the URL of a request; nearly all consist of names that need no quoting."""
    if not _plain(path) or ".." in path or not all(map(_plain, (params or {}).values())):
        return URL(server + path).update_query(params or {})  # None would take its query away
    query = "&".join([f"{key}={value}" for key, value in (params or {}).items()])
    return URL(f"{server}{path}?{query}" if query else server + path, encoded=True)


async def connect(settings: KubernetesSettings, *, part: str = "cli") -> KubeClient:
    """Return a client for the configured cluster; nothing is sent yet.

    `part` names the deployment in the User-Agent (`gatelog-<part>/<version>`), which the API server
    shows in its audit log and uses as field manager of requests that name none.

    Raises:
        KubeError: no configuration, or one that cannot be used.
        KubeUnavailable: a login plugin failed.
    """
    try:
        number = version("gatelog")
    except PackageNotFoundError:
        number = "0"
    user_agent = f"gatelog-{part}/{number}"
    return KubeClient(settings, await log_in(settings, user_agent), user_agent)
