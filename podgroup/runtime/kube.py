"""The API server on bytes: requests, and watches as lines.

HTTP goes over aiohttp on raw bytes; decoding is the caller's, into the few fields it needs. Login
is `kube_login`'s. A 401 reads the configuration again, once for all who got it at that moment, and
tries once more.

A watch has no total timeout (it would cut it off, kubernetes_asyncio#325) but an idle one: silence
beyond `idle_timeout_s` counts as a dead connection. A watch that ends is over; what to do then is
the caller's state machine.

Invariant: an HTTP status is an answer and is returned; `KubeUnavailable` means that there was none.
No request waits for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import aiohttp
import msgspec

from podgroup.runtime.kube_answer import Answer, Watch, forbidden, words
from podgroup.runtime.kube_errors import (
    KubeError,
    KubeForbidden,
    KubeUnauthorized,
    KubeUnavailable,
)
from podgroup.runtime.kube_login import Login, log_in
from podgroup.runtime.log import get_logger
from podgroup.runtime.settings import KubernetesSettings

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

_UNAUTHORIZED = 401

log = get_logger("kube")

Params = Mapping[str, str]


class KubeClient:
    """See the module. Shared by the tasks of one event loop; made by `connect`."""

    def __init__(self, settings: KubernetesSettings, login: Login, user_agent: str) -> None:
        self._settings = settings
        self._login = login
        self._user_agent = user_agent
        self._renewal = asyncio.Lock()
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._closed = False

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._login.server

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> Answer:
        """Send one request and return the answer, whatever its status (except a lasting 401).

        Waits while `max_connections` others are under way; `timeout_s` (default: the setting)
        covers that wait too.

        Raises:
            KubeUnavailable: no complete answer in time; it may have taken effect.
            KubeUnauthorized: 401 twice, the second time with fresh credentials.
        """
        limit_s = self._settings.request_timeout_s if timeout_s is None else timeout_s
        headers = {"Content-Type": content_type} if body is not None else {}
        try:
            async with (
                asyncio.timeout(limit_s),
                self._slots,
                self._open(method, path, params, body, headers, None) as response,
            ):
                data = await response.read()
        except TimeoutError as error:
            raise KubeUnavailable(f"{method} {path}: no answer within {limit_s} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise KubeUnavailable(f"{method} {path}: {words(error)}") from error
        return Answer(response.status, data, response.headers)

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
            opening = self._open("GET", path, params, None, {}, idle_timeout_s)
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

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        headers: dict[str, str],
        idle_timeout_s: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._closed:
            raise KubeUnavailable(f"{method} {path}: the client was closed")
        login = self._login
        for attempt in (1, 2):
            login.hold()
            try:
                async with login.session.request(
                    method,
                    login.server + path,
                    params=params,
                    data=body,
                    headers={**headers, **await login.headers()},
                    proxy=login.proxy,
                    server_hostname=login.server_hostname,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(
                        total=None,
                        sock_connect=self._settings.connect_timeout_s,
                        sock_read=idle_timeout_s,
                    ),
                ) as response:
                    if response.status != _UNAUTHORIZED:
                        yield response
                        return
                    said = Answer(_UNAUTHORIZED, await response.read(), response.headers).message()
            finally:
                await login.release()
            if attempt == 2:
                raise KubeUnauthorized(
                    f"{self.server} does not accept our credentials ({said or 'Unauthorized'}), "
                    "also not after reading them again: renew the login of the kubeconfig or the "
                    "service account"
                )
            login = await self._renew(login)

    async def _renew(self, used: Login) -> Login:
        """Return a login newer than `used`; those who fail together renew once."""
        async with self._renewal:
            if self._login is used:
                log.info("credentials_reread", server=used.server)
                self._login = await log_in(self._settings, self._user_agent)
                await used.retire()
            return self._login


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
