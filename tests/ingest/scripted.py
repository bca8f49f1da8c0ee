"""A scripted API server behind the WatchApi protocol.

Each call takes the next entry of the script for its path and checks what was asked. What an entry
may say: an answer to a list, a refusal, or the lines of a watch with how it ends. When a script is
used up, calls wait for ever, like a quiet watch does.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from runtime.kube_errors import KubeUnavailable
from tests.ingest.recorded import as_line, first_pod


class Answer:
    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body, headers or {}


class Listed:
    """An answer to a LIST."""

    def __init__(self, *names: str, version: str = "10", token: str = "") -> None:
        self.names, self.version, self.token = names, version, token


class Refused:
    def __init__(self, status: int, message: str = "", reason: str = "", after: str = "") -> None:
        self.status, self.message, self.reason, self.after = status, message, reason, after


class Lines:
    """An answer to a watch: these items, then `end`.

    "closed" by the server, "broken", "silent" until the client's idle timeout, or "quiet": open
    without a word, and the script is used up.
    """

    def __init__(self, *items: dict[str, Any] | bytes, end: str = "closed") -> None:
        self.items, self.end, self.status = items, end, 200
        self.reached_end = asyncio.Event()
        self.idle_timeout_s = 0.0

    async def batches(self) -> AsyncIterator[list[bytes]]:
        yield [item if isinstance(item, bytes) else as_line(item) for item in self.items]
        if self.end == "broken":
            raise KubeUnavailable("connection reset by peer")
        if self.end == "silent":
            await asyncio.sleep(self.idle_timeout_s)
            raise KubeUnavailable(f"silent for {self.idle_timeout_s} s")
        if self.end == "quiet":
            self.reached_end.set()
            await asyncio.Event().wait()


class Silent:
    """An answer to a watch that never says anything; the client's idle timeout ends it."""


class Body:
    def __init__(self, refused: Refused) -> None:
        self.status = refused.status
        self.headers = {"Retry-After": refused.after} if refused.after else {}
        self._body = status_body(refused)

    async def read(self) -> bytes:
        return self._body


def status_body(refused: Refused) -> bytes:
    said = {"kind": "Status", "message": refused.message, "reason": refused.reason}
    return json.dumps({**said, "code": refused.status}).encode()


def pod(name: str, version: int = 1) -> dict[str, Any]:
    raw = first_pod()
    raw["metadata"] |= {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}
    return raw


def added(name: str, version: int) -> dict[str, Any]:
    return {"type": "ADDED", "object": pod(name, version)}


def deleted(name: str, version: int) -> dict[str, Any]:
    return {"type": "DELETED", "object": pod(name, version)}


def bookmark(version: int, end: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": meta}}


def error(code: int, message: str, reason: str = "") -> dict[str, Any]:
    said = {"kind": "Status", "metadata": {}, "status": "Failure", "message": message}
    return {"type": "ERROR", "object": {**said, "reason": reason, "code": code}}


Entry = Listed | Refused | Lines | Silent | Exception


class ScriptedApi:
    def __init__(self, *script: Entry) -> None:
        self._script = deque(script)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.used_up = asyncio.Event()

    async def _next(self, path: str, params: Mapping[str, str]) -> Entry:
        self.asked.append((path, dict(params)))
        if not self._script:
            self.used_up.set()
            await asyncio.Event().wait()
        entry = self._script.popleft()
        if isinstance(entry, Exception):
            raise entry
        return entry

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None
    ) -> Answer:
        assert method == "GET"
        match await self._next(path, params or {}):
            case Listed() as page:
                body = {
                    "metadata": {"resourceVersion": page.version, "continue": page.token},
                    "items": [pod(name) for name in page.names],
                }
                return Answer(200, json.dumps(body).encode())
            case Refused() as refused:
                headers = {"Retry-After": refused.after} if refused.after else {}
                return Answer(refused.status, status_body(refused), headers)
            case other:
                raise AssertionError(f"a list was asked for, the script has {other!r}")

    @asynccontextmanager
    async def watch(self, path: str, params: Mapping[str, str], *, idle_timeout_s: float):
        match await self._next(path, params):
            case Lines() as lines:
                if lines.end == "quiet":
                    lines.reached_end = self.used_up
                lines.idle_timeout_s = idle_timeout_s
                yield lines
            case Refused() as refused:
                yield Body(refused)
            case Silent():
                await asyncio.sleep(idle_timeout_s)
                raise KubeUnavailable(f"silent for {idle_timeout_s} s")
            case other:
                raise AssertionError(f"a watch was asked for, the script has {other!r}")
