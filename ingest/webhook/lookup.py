"""Answers to the webhook's questions, from the Kubernetes API.

The webhook is on the way of every pod creation, so it must not multiply requests: answers are kept
for a few seconds, and callers with the same question at the same time share a request. An answer
can be that old: a LocalQueue named ``default`` takes effect within the time to live. When the API
server cannot be reached, answers about namespaces, queues and classes are used a while longer;
answers about owners are not, since they decide which queue is charged.

Invariant: the cache is bounded in entries and time; a name from an object never reaches a URL
unescaped.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ingest.webhook.owners import LookupFailed, Owner
from ingest.webhook.pod import Metadata, OwnerRef
from ingest.webhook.policy import OwnerKind

Get = Callable[[str], Awaitable[tuple[int, dict[str, Any]]]]
"""An authenticated GET of a path: HTTP status and decoded body. May raise anything."""

KUEUE_VERSION: Final[str] = "v1beta2"
_NOT_FOUND: Final[int] = 404


class _Entry:
    """A request under way or answered, and when it was begun (seconds of the clock)."""

    __slots__ = ("at_s", "task")

    def __init__(self, at_s: float, task: "asyncio.Task[Any]") -> None:
        self.at_s = at_s
        self.task = task


class ApiLookup:
    """`owners.Lookup` over the Kubernetes API, with a small cache.

    Args:
        get: the request to make; see `Get`.
        ttl_s: seconds for which an answer is reused.
        stale_s: further seconds for which it is reused while the API server fails.
        max_entries: answers kept at most; the oldest go first.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        get: Get,
        *,
        ttl_s: float = 5.0,
        stale_s: float = 60.0,
        max_entries: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._get = get
        self._ttl_s = ttl_s
        self._stale_s = stale_s
        self._max_entries = max_entries
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    async def owner(self, namespace: str, ref: OwnerRef, kind: OwnerKind) -> Owner | None:
        """The object under the reference's name; asked again if a kept one has another uid."""
        if ref.name in ("", ".", ".."):
            return None
        path = _path(ref.api_version, f"namespaces/{quote(namespace, safe='')}/{kind.plural}")
        url = f"{path}/{quote(ref.name, safe='')}"
        owner: Owner | None = await self._ask(url, _read_owner, stale_s=0.0)
        if owner is None or owner.uid != ref.uid:
            self._entries.pop(url, None)
            owner = await self._ask(url, _read_owner, stale_s=0.0)
        return owner

    async def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Labels of a namespace."""
        url = f"/api/v1/namespaces/{quote(namespace, safe='')}"
        labels: dict[str, str] | None = await self._ask(url, _read_labels)
        if labels is None:
            raise LookupFailed(f"namespace {namespace!r} does not exist")
        return labels

    async def has_local_queue(self, namespace: str, name: str) -> bool:
        """Whether a LocalQueue exists; false where the kind itself is not installed."""
        inside = f"namespaces/{quote(namespace, safe='')}/localqueues/{quote(name, safe='')}"
        return await self._ask(_path(f"kueue.x-k8s.io/{KUEUE_VERSION}", inside), bool) is True

    async def has_priority_class(self, name: str) -> bool:
        """Whether a WorkloadPriorityClass exists; false where the kind is not installed."""
        inside = f"workloadpriorityclasses/{quote(name, safe='')}"
        return await self._ask(_path(f"kueue.x-k8s.io/{KUEUE_VERSION}", inside), bool) is True

    async def _ask(
        self, url: str, read: Callable[[dict[str, Any]], Any], stale_s: float | None = None
    ) -> Any:
        """The answer for ``url``, read from the object; None when there is no such object."""
        now_s = self._clock()
        entry = self._entries.get(url)
        if entry is None or now_s - entry.at_s > self._ttl_s:
            task = asyncio.create_task(self._fetch(url, read))
            task.add_done_callback(_seen)
            before, entry = entry, _Entry(now_s, task)
            self._cache(url, entry)
        else:
            before = None
        try:
            # Shielded: one caller's time-out must not take the answer from the others.
            return await asyncio.shield(entry.task)
        except LookupFailed:
            if self._entries.get(url) is entry:
                del self._entries[url]
            patience_s = self._ttl_s + (self._stale_s if stale_s is None else stale_s)
            if before is not None and now_s - before.at_s <= patience_s and _good(before.task):
                self._entries.setdefault(url, before)
                return before.task.result()
            raise

    def _cache(self, url: str, entry: _Entry) -> None:
        self._entries.pop(url, None)
        while len(self._entries) >= self._max_entries:
            del self._entries[next(iter(self._entries))]
        self._entries[url] = entry

    async def _fetch(self, url: str, read: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            status, body = await self._get(url)
        except Exception as error:  # whatever the client raises, the question has no answer
            why = f"{type(error).__name__}: {error}"
            raise LookupFailed(f"GET {url}: the API server did not answer ({why})") from error
        if status == _NOT_FOUND:
            return None
        if not 200 <= status < 300:
            message = str(body.get("message", ""))[:200]
            raise LookupFailed(f"GET {url}: the API server answered {status} {message}".rstrip())
        try:
            return read(body)
        except msgspec.ValidationError as error:
            raise LookupFailed(f"GET {url}: the answer is not an object: {error}") from error


def _seen(task: "asyncio.Task[Any]") -> None:
    """Retrieve a failure when every caller that waited for the answer has given up."""
    if not task.cancelled():
        task.exception()


def _good(task: "asyncio.Task[Any]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _path(api_version: str, inside: str) -> str:
    group, slash, version = api_version.rpartition("/")
    if not slash:
        return f"/api/{quote(version, safe='')}/{inside}"
    return f"/apis/{quote(group, safe='')}/{quote(version, safe='')}/{inside}"


def _read_owner(body: dict[str, Any]) -> Owner:
    metadata = msgspec.convert(body.get("metadata") or {}, Metadata)
    controller = next((o for o in metadata.owner_references or () if o.controller), None)
    return Owner(metadata.uid, metadata.labels or {}, controller)


def _read_labels(body: dict[str, Any]) -> dict[str, str]:
    return msgspec.convert(body.get("metadata") or {}, Metadata).labels or {}
