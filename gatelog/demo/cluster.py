"""The simulated cluster of the demo, and the users on it.

Theory. Users act through the HTTP API like any client and read the results from the pods; the
demo's checks read the read model, so that a story that passes proves both.

Invariant: a wait that runs out raises `StoryFailed` with the expected and the actual state.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import GroupRow
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    LEAST_RUN_ANNOTATION,
    MAX_EXEC_SECONDS,
    POD_FINALIZER,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from simcluster.client import ApiFailure, Client
from simcluster.settings import NodeSettings, Settings

NAMESPACE = "team-a"
QUEUE = "user-queue"
CLUSTER_QUEUE = "research"
FLAVOR = "default-flavor"
QUOTA_CPU = 10
_KUEUE = "kueue.x-k8s.io/v1beta2"
_SCRIPT = "simcluster/script"
PATIENCE_S = 15.0


class StoryFailed(Exception):
    """A story had another result than required; the message has the expected and actual state."""


def cluster_settings() -> Settings:
    """Return a cluster of two nodes without Kueue's kinds, with a kubelet that plays scripts."""
    nodes = tuple(
        NodeSettings(name=f"node-{n}", labels={"pool": "a"}, cpu="16", memory="64Gi", pods=110)
        for n in ("1", "2")
    )
    return Settings(
        kueue_kinds=False,
        nodes=nodes,
        kubelet="scripted",
        kubelet_start_s=0.1,
        kubelet_termination_s=0.2,
    )


async def set_up_queues(client: Client) -> None:
    """Create an administrator's objects: a namespace, a flavor, queues and priorities."""
    await client.create("namespaces", {"metadata": {"name": NAMESPACE}})
    await client.create(
        f"resourceflavors.{_KUEUE}",
        {"metadata": {"name": FLAVOR}, "spec": {"nodeLabels": {"pool": "a"}}},
    )
    quota = [{"name": "cpu", "nominalQuota": str(QUOTA_CPU)}]
    await client.create(
        f"clusterqueues.{_KUEUE}",
        {
            "metadata": {"name": CLUSTER_QUEUE},
            "spec": {
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": FLAVOR, "resources": quota}],
                    }
                ],
            },
        },
    )
    await client.create(
        f"localqueues.{_KUEUE}",
        {"metadata": {"name": QUEUE}, "spec": {"clusterQueue": CLUSTER_QUEUE}},
        NAMESPACE,
    )
    for name, value, least_run_s in (("urgent", 1000, 0), ("whenever", 1, 0), ("spared", 1, 4)):
        notes = {LEAST_RUN_ANNOTATION: str(least_run_s)}
        await client.create(
            f"workloadpriorityclasses.{_KUEUE}",
            {"metadata": {"name": name, "annotations": notes}, "value": value},
        )


class Gang(NamedTuple):
    """A pod group, of so many pods."""

    name: str
    total: int


class Stage:
    """A user's actions and view."""

    def __init__(self, client: Client, model: ReadModel) -> None:
        self._client = client
        self._model = model

    async def pod(
        self,
        name: str,
        of: Gang | None = None,
        *,
        cpu: str = "1",
        does: str = "run=0.5s,succeed",
        priority: str = "",
        image: str = "job",
    ) -> None:
        """Create a pod; `does` is the script its kubelet plays."""
        labels = {QUEUE_NAME: QUEUE}
        annotations = {_SCRIPT: does}
        if of is not None:
            labels[GROUP_NAME], annotations[GROUP_TOTAL_COUNT] = of.name, str(of.total)
        if priority:
            labels[PRIORITY_CLASS] = priority
        await self._create(name, labels, annotations, cpu, image)

    async def bounded(
        self, name: str, at_most_s: int, *, cpu: str = "1", does: str = "run=0.5s,succeed"
    ) -> None:
        """Create a pod with a time limit."""
        labels = {QUEUE_NAME: QUEUE, MAX_EXEC_SECONDS: str(at_most_s)}
        await self._create(name, labels, {_SCRIPT: does}, cpu, "job")

    async def _create(
        self, name: str, labels: dict[str, str], annotations: dict[str, str], cpu: str, image: str
    ) -> None:
        container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}
        await self._client.create(
            "pods",
            {
                "metadata": {"name": name, "labels": labels, "annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
            NAMESPACE,
        )

    async def gated(self, name: str) -> bool:
        """Return whether a pod has our gate."""
        pod = await self._client.get("pods", name, NAMESPACE)
        gates = pod["spec"].get("schedulingGates") or []
        return any(gate["name"] == ADMISSION_GATE for gate in gates)

    async def released(self, name: str) -> bool:
        """Return whether a pod is free of our finalizer, or gone."""
        pod = await self._get(name)
        return pod is None or POD_FINALIZER not in (pod["metadata"].get("finalizers") or [])

    async def gone(self, name: str) -> bool:
        """Return whether a pod has left the API server."""
        return await self._get(name) is None

    async def running(self, name: str) -> bool:
        """Return whether a pod runs."""
        pod = await self._get(name)
        return pod is not None and pod["status"].get("phase") == "Running"

    async def reserved(self, pod: str) -> bool:
        """Return whether the group of a pod has a reserved start."""
        name = pod.rpartition("-")[0]
        row, now = await self.group(name), datetime.now(UTC)
        return row is not None and bool(await asyncio.to_thread(self._model.reserved, row.id, now))

    async def group(self, name: str) -> GroupRow | None:
        """Return the newest life of a group or single pod, as the read model has it."""
        found = await asyncio.to_thread(self._model.groups, NAMESPACE, name, 1)
        return found[0] if found else None

    async def state(self, name: str, *wanted: str, reason: str = "") -> GroupRow:
        """Wait until a group is in one of the states (and waits for `reason`, if given).

        Raises:
            StoryFailed: the group is in another state at the time limit.
        """
        found: GroupRow | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    found = await self.group(name)
                    if found is not None and found.state in wanted:
                        if not reason or found.wait_reason == reason:
                            return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            there = "not there" if found is None else f"{found.state} ({found.reason})"
            expected = " or ".join(wanted) + (f" because of {reason}" if reason else "")
            raise StoryFailed(
                f"{name} should be {expected} within {PATIENCE_S:.0f} s, but is {there}"
            ) from None

    async def until(self, what: str, check: Callable[[str], Any], *names: str) -> None:
        """Wait until `check` holds for every name.

        Raises:
            StoryFailed: it does not hold at the time limit.
        """
        left = list(names)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while left:
                    if await check(left[0]):
                        left.pop(0)
                    else:
                        await asyncio.sleep(0.05)
        except TimeoutError:
            raise StoryFailed(f"{left[0]} should be {what} within {PATIENCE_S:.0f} s") from None

    async def _get(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._client.get("pods", name, NAMESPACE)
        except ApiFailure as failure:
            if failure.status != 404:
                raise
            return None


def expect(condition: bool, sentence: str) -> None:
    """Fail the story with a sentence unless the condition holds.

    Raises:
        StoryFailed: the condition does not hold.
    """
    if not condition:
        raise StoryFailed(sentence)
