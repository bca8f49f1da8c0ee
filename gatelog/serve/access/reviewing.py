"""Authorisation by reviews of the API server, whose answers are kept for some seconds.

Theory. Authorisation is delegated: a SubjectAccessReview for a known user, a TokenReview for a
bearer token. A page asks the same question many times, so answers are kept for ten seconds,
refusals like permissions; concurrent callers share one review.

Invariant: only an answer of the API server allows anything; no answer is `CannotTell`, never a yes.
Tokens are kept as digests.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

from gatelog.serve.access.callers import Caller, CannotTell, Deed, NotAllowed, NotKnown
from runtime.kube_errors import KubeError

_SUBJECT = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TOKEN = "/apis/authentication.k8s.io/v1/tokenreviews"
_MOST = 10_000
"""Answers that are kept at once."""
_LONGEST_TOKEN = 16 * 1024

T = TypeVar("T")


class Api(Protocol):
    """The part of an API client that reviews use, such as `runtime.kube.KubeClient`."""

    async def json(self, method: str, path: str, *, body: Any = None) -> tuple[int, Any]:
        """Ask, and return status and decoded body."""


class Reviews:
    """Questions to the API server about users, and its answers of the last seconds."""

    def __init__(self, api: Api, keep_s: float) -> None:
        self._api = api
        self._allowed: Kept[bool] = Kept(keep_s)
        self._callers: Kept[Caller | None] = Kept(keep_s)

    async def permit(self, caller: Caller, deed: Deed) -> None:
        """Return if `caller` may do it.

        Raises:
            NotAllowed: they may not.
            CannotTell: the API server does not say.
        """
        if not await self.may(caller, deed):
            raise NotAllowed(f'User "{caller.name}" {deed.words}')

    async def may(self, caller: Caller, deed: Deed) -> bool:
        """Tell whether `caller` may do `deed`.

        Raises:
            CannotTell: the API server does not say.
        """
        return await self._allowed.get((caller, deed), lambda: self._review(caller, deed))

    async def caller(self, token: str) -> Caller:
        """Return the user of a token.

        Raises:
            NotKnown: the token belongs to no user.
            CannotTell: the API server does not say.
        """
        if len(token) > _LONGEST_TOKEN:
            raise NotKnown(f"the bearer token is longer than {_LONGEST_TOKEN} bytes")
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = await self._callers.get(digest, lambda: self._token(token))
        if found is None:
            raise NotKnown("the API server does not know the bearer token, or it has expired")
        return found

    async def _review(self, caller: Caller, deed: Deed) -> bool:
        attributes = {
            "verb": deed.verb,
            "group": deed.group,
            "version": deed.version,
            "resource": deed.resource,
            "subresource": deed.subresource,
            "namespace": deed.namespace,
            "name": deed.name,
        }
        spec = {
            "user": caller.name,
            "groups": list(caller.groups),
            "uid": caller.uid,
            "extra": {key: list(values) for key, values in caller.extra},
            "resourceAttributes": attributes,
        }
        status = await self._ask(_SUBJECT, "SubjectAccessReview", "authorization.k8s.io/v1", spec)
        return status.get("allowed") is True and status.get("denied") is not True

    async def _token(self, token: str) -> Caller | None:
        status = await self._ask(
            _TOKEN, "TokenReview", "authentication.k8s.io/v1", {"token": token}
        )
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            return None
        extra = user.get("extra") or {}
        return Caller(
            name=str(user.get("username") or ""),
            groups=tuple(user.get("groups") or ()),
            uid=str(user.get("uid") or ""),
            extra=tuple(sorted((key, tuple(values)) for key, values in extra.items())),
        )

    async def _ask(self, path: str, kind: str, version: str, spec: Any) -> dict[str, Any]:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        try:
            status, answer = await self._api.json("POST", path, body=body)
        except KubeError as error:
            raise CannotTell(f"the API server does not answer the {kind}: {error}") from error
        if status not in (200, 201) or not isinstance(answer, dict):
            said = answer.get("message", "") if isinstance(answer, dict) else ""
            raise CannotTell(
                f"the API server answered the {kind} with {status} {said}".rstrip()
                + ": our service account needs ClusterRole system:auth-delegator"
            )
        return dict(answer.get("status") or {})


class Kept(Generic[T]):
    """Answers by question for `keep_s` seconds, the oldest go first; failures are not kept."""

    def __init__(self, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._found: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._asked: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the kept answer, or ask; concurrent callers wait for the same answer."""
        kept = self._found.get(key)
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        task = self._asked.get(key)
        if task is None:
            task = asyncio.ensure_future(self._fetch(key, ask))
            self._asked[key] = task
            task.add_done_callback(lambda done: self._over(key, done))
        return await asyncio.shield(task)

    async def _fetch(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        answer = await ask()
        self._found.pop(key, None)
        self._found[key] = (self._clock() + self._keep_s, answer)
        while len(self._found) > _MOST:
            self._found.popitem(last=False)
        return answer

    def _over(self, key: Hashable, task: "asyncio.Task[T]") -> None:
        self._asked.pop(key, None)
        if not task.cancelled():
            task.exception()  # waiting callers see the exception; without them it is dropped
