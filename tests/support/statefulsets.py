"""A StatefulSet controller for the stand-in, over HTTP: pods in order, one after the other.

It does what the real one does by `OrderedReady`: the next pod is made once all before it run, and
the last goes first. Nothing of roll-outs: a test deletes a pod, and it is made again.
"""

import asyncio
from contextlib import suppress
from typing import Any

from tests.support.processes import Api

SETS = "/apis/apps/v1/namespaces/{}/statefulsets"


def stateful_set(name: str, replicas: int, cpu: str = "1", queue: str = "user-queue") -> Any:
    """A StatefulSet as a user writes it: the queue is a label of the set."""
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        },
    }


class Controller:
    """Works on the StatefulSets of a namespace while it is entered."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Controller":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def create(self, *found: Any, **more: Any) -> Any:
        """Create a StatefulSet."""
        body = stateful_set(*found, **more)
        return await self._api.call("POST", SETS.format(self._namespace), body)

    async def scale(self, name: str, replicas: int) -> None:
        """Give a StatefulSet another number of replicas."""
        path = f"{SETS.format(self._namespace)}/{name}"
        await self._api.merge(path, {"spec": {"replicas": replicas}})

    async def _run(self) -> None:
        while True:
            found = await self._api.call("GET", SETS.format(self._namespace))
            pods = await self._api.pods(self._namespace)
            for one in found["items"]:
                await self._reconcile(one, pods)
            await asyncio.sleep(0.05)

    async def _reconcile(self, of: Any, pods: dict[str, Any]) -> None:
        name, wanted = of["metadata"]["name"], of["spec"]["replicas"]
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        mine = {k: p for k, p in pods.items() if _of(p, of["metadata"]["uid"])}
        beyond = [k for k in mine if int(k.rpartition("-")[2]) >= wanted]
        for last in sorted(beyond, key=lambda k: -int(k.rpartition("-")[2]))[:1]:
            if "deletionTimestamp" not in mine[last]["metadata"]:
                await self._api.call("DELETE", f"{path}/{last}", ok=())
        for number in range(wanted):
            pod = mine.get(f"{name}-{number}")
            if pod is None:
                await self._api.call("POST", path, _made(of, number), ok=())
                return
            phase = pod.get("status", {}).get("phase")
            if phase in ("Failed", "Succeeded") and "deletionTimestamp" not in pod["metadata"]:
                await self._api.call("DELETE", f"{path}/{name}-{number}", ok=())
            if phase != "Running" or "deletionTimestamp" in pod["metadata"]:
                return


def _of(pod: Any, uid: str) -> bool:
    return any(ref["uid"] == uid for ref in pod["metadata"].get("ownerReferences", ()))


def _made(of: Any, number: int) -> Any:
    meta, template = of["metadata"], of["spec"]["template"]
    name = f"{meta['name']}-{number}"
    labels = {
        "apps.kubernetes.io/pod-index": str(number),
        "statefulset.kubernetes.io/pod-name": name,
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    found = template["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": found["labels"] | labels,
            "annotations": found.get("annotations", {}),
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }
