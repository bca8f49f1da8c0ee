"""Expected starts on the cluster: an annotation of the Workload, for `kubectl get workloads`.

Theory. The annotation has a time, which stays true without a write, and no place in line, which
changes for thousands of groups at each start. An estimate is kept while a new estimate is about
equal (`estimates`), so a Workload is written once for each new estimate of its group. At most
`AT_ONCE` are written after a forecast, the nearest starts first; the others keep their turn, each
with the newest estimate. A started group keeps its last estimate: other columns of the Workload
show the start.

Invariant: only one annotation is written, on the object with the group's uid or on none; an answer
other than success is only counted.
"""

import asyncio
from datetime import timedelta

import msgspec

from gatelog.forecast.estimates import Made
from gatelog.readmodel.starts import TOO_LATE
from podgroup.model.ids import GroupID
from runtime.kube import KubeClient
from runtime.kube_errors import KubeError

EXPECTED_START = "gatelog.io/expected-start"
AT_ONCE = 500
"""Workloads that are written after one forecast."""
_TOGETHER = 8
_LONGEST = 256


class Notice(msgspec.Struct):
    """The annotation for one Workload; `in_s` orders: seconds until its start."""

    path: str
    uid: str
    text: str
    in_s: float


class WorkloadAnnotator:
    """Tells what changed, forecast by forecast."""

    def __init__(self, kube: KubeClient, at_once: int = AT_ONCE) -> None:
        self._kube = kube
        self._at_once = at_once
        self._due: dict[str, Notice] = {}

    async def write(self, made: Made) -> tuple[int, int]:
        """Write new and near estimates; return how many were written, and how many were refused."""
        waiting = {one.group for one in made.forecast.estimates}
        for group in [group for group in self._due if group not in waiting]:
            del self._due[group]
        self._due |= news(made)
        chosen = sorted(self._due, key=lambda group: (self._due[group].in_s, group))[
            : self._at_once
        ]
        some = asyncio.Semaphore(_TOGETHER)

        async def write(one: Notice) -> bool:
            async with some:
                return await self._write(one)

        done = await asyncio.gather(*(write(self._due.pop(group)) for group in chosen))
        return sum(done), len(done) - sum(done)

    async def _write(self, one: Notice) -> bool:
        meta = {"uid": one.uid, "annotations": {EXPECTED_START: one.text}}
        body = msgspec.json.encode({"metadata": meta})
        kind = "application/merge-patch+json"
        try:
            answer = await self._kube.request("PATCH", one.path, body=body, content_type=kind)
        except KubeError:
            return False
        return answer.status == 200


def news(made: Made) -> dict[str, Notice]:
    """Return the annotations for groups with new estimates, by group."""
    fresh = set(made.fresh)
    found = {}
    for one in made.forecast.estimates:
        view = made.world.groups[GroupID(one.group)].mirror.workload
        if one.group not in fresh or view is None:
            continue
        if one.never:
            text, in_s = f"never: {one.never}", float("inf")
        elif one.expected_s is None:
            text, in_s = f"in more than {TOO_LATE}", float("inf")
        else:
            at, in_s = made.at + timedelta(seconds=one.expected_s), one.expected_s
            text = f"{at:%Y-%m-%dT%H:%MZ}"
        path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{view.namespace}/workloads/{view.name}"
        found[one.group] = Notice(path, view.uid, text[:_LONGEST], in_s)
    return found
