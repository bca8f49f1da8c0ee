"""Access reviews: whether an account has the rights that it needs, as the API server answers.

Theory. A missing right shows when a request needs it, and only in the replica that sent the
request. A review shows it earlier, in every replica. Every account may review its own rights.

Invariant: reviews store nothing, and a right is reported missing only after an answer that denies
it.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from runtime.kube import KubeClient
from runtime.kube_errors import KubeError

LOOK_S: Final = 15.0
"""Seconds between looks at the rights of this account."""
_PATH: Final = "/apis/authorization.k8s.io/v1"


class Right(NamedTuple):
    """A verb on a resource (`pods`, `workloads/status`) of an API group, everywhere."""

    group: str
    resource: str
    verb: str


async def allowed(kube: KubeClient, right: Right, account: str = "") -> bool | None:
    """Review a right of this user, or of a service account; None when we may not review others'.

    Raises:
        KubeError: no answer.
    """
    plural, _, sub = right.resource.partition("/")
    attributes = {"group": right.group, "resource": plural, "subresource": sub, "verb": right.verb}
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    if account:
        namespace = account.split(":")[2]
        all_accounts = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        spec |= {"user": account, "groups": [*all_accounts, "system:authenticated"]}
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    status, answer = await kube.json("POST", f"{_PATH}/{kind.lower()}s", body=review)
    if account and status == 403:
        return None
    return status == 201 and bool((answer.get("status") or {}).get("allowed"))


class Rights:
    """The rights that this account needs; `problem` names those it lacks, "" for none."""

    def __init__(self, kube: KubeClient, wanted: Sequence[Right]) -> None:
        self._kube = kube
        self._wanted = wanted
        self.problem = ""

    async def check(self) -> None:
        """Review all rights; without an answer `problem` stays as it was."""
        with suppress(KubeError):
            denied = [one for one in self._wanted if not await allowed(self._kube, one)]
            lacking = ", ".join(f"{one.verb} {one.resource}" for one in denied)
            self.problem = f"this account may not {lacking}" if denied else ""

    async def _watch(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def watched(rights: Rights) -> AsyncIterator[Rights]:
    """Repeat the review while the context is open."""
    looking = asyncio.create_task(rights._watch())
    try:
        yield rights
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
