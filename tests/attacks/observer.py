"""An independent observer: watches all pods and adds up what runs, event by event.

What runs is what the API server shows, not what gatelog thinks: a pod that is bound to a node and
has not ended, counted with the larger of what its containers ask for and what they were granted.
Nothing of gatelog's is used here.

Invariant: every watch event is judged, in order, and none is missed: a watch that ends is an error.
"""

import asyncio
import json
from math import ceil
from typing import Any

import aiohttp

from simcluster.quantity import parse

GATE = "kueue.x-k8s.io/admission"
_ENDED = ("Succeeded", "Failed")


def milli_cpu(text: str | int) -> int:
    """A CPU quantity in thousandths, rounded up; attackers write what they like."""
    return ceil(parse(str(text)) * 1000)


def asks_milli_cpu(pod: dict[str, Any]) -> int:
    """What a pod takes of a node: per container the larger of what is asked and what is granted.

    Init containers that stay (sidecars) count beside the others, and what the pod asks for as a
    whole counts in their place.
    """
    spec, status = pod["spec"], pod.get("status", {})
    granted = {
        one["name"]: one.get("allocatedResources") or {}
        for key in ("containerStatuses", "initContainerStatuses")
        for one in status.get(key) or ()
    }
    stay = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    asked = sum(
        max(_cpu(one.get("resources")), milli_cpu(granted.get(one["name"], {}).get("cpu", 0)))
        for one in (*spec["containers"], *stay)
    )
    return max(asked, _cpu(spec.get("resources")))


def _cpu(resources: dict[str, Any] | None) -> int:
    return milli_cpu(((resources or {}).get("requests") or {}).get("cpu", 0))


def runs(pod: dict[str, Any]) -> bool:
    """Whether containers of a pod run, or may from now on without anybody's leave."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in _ENDED


class Observer:
    """Watches pods of all namespaces; `quotas` (CPUs) say how much may run in which.

    `over` are the events after which more ran than that, in words. Pods named in `excused`
    (namespace/name) are counted, but their own start is no violation: what matters then is that
    nobody else starts on top of them.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token
        self.pods: dict[str, dict[str, Any]] = {}
        self.quotas: dict[str, int] = {}
        self.excused: set[str] = set()
        self.over: list[str] = []
        self.peaks: dict[str, int] = {}
        """Namespace -> most thousandths of CPUs that ran at once."""
        self.events = 0
        self.changes: dict[str, list[str]] = {}
        """namespace/name -> what happened to it, as `TYPE version`."""
        self._version = ""
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()

    async def __aenter__(self) -> "Observer":
        self._task = asyncio.create_task(self._watch())
        await asyncio.wait_for(self._listening.wait(), 20)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        ended = self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        assert not ended, "the observer's watch ended early: events were missed"

    def limit(self, namespace: str, cpus: int) -> None:
        """From now on no more than `cpus` may run in a namespace."""
        self.quotas[namespace] = cpus * 1000

    def running(self, namespace: str) -> int:
        """Thousandths of CPUs that run in a namespace now."""
        mine = (p for p in self.pods.values() if p["metadata"]["namespace"] == namespace)
        return sum(asks_milli_cpu(pod) for pod in mine if runs(pod))

    async def _watch(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            headers=headers, timeout=limits, connector=aiohttp.TCPConnector(ssl=False)
        ) as http:
            async with http.get(self.url + "/api/v1/pods") as answer:
                listed = await answer.json()
            for pod in listed["items"]:
                self.pods[pod["metadata"]["uid"]] = pod
            self._version = listed["metadata"]["resourceVersion"]
            while True:  # an API server ends each watch after some minutes
                query = {"watch": "1", "resourceVersion": self._version}
                async with http.get(self.url + "/api/v1/pods", params=query) as answer:
                    self._listening.set()
                    rest = b""
                    async for chunk in answer.content.iter_any():
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in lines:
                            if line:
                                self._take(json.loads(line))

    def _take(self, item: dict[str, Any]) -> None:
        pod = item["object"]
        assert item["type"] != "ERROR", f"the watch cannot go on: {pod.get('message')}"
        meta = pod["metadata"]
        self._version = meta["resourceVersion"]
        if item["type"] == "BOOKMARK":
            return
        namespace, title = meta["namespace"], f"{meta['namespace']}/{meta['name']}"
        self.events += 1
        self.changes.setdefault(title, []).append(f"{item['type']} {meta['resourceVersion']}")
        before = self.running(namespace)
        if item["type"] == "DELETED":
            self.pods.pop(meta["uid"], None)
        else:
            self.pods[meta["uid"]] = pod
        now = self.running(namespace)
        self.peaks[namespace] = max(now, self.peaks.get(namespace, 0))
        quota = self.quotas.get(namespace)
        if quota is not None and now > quota and now > before and title not in self.excused:
            self.over.append(
                f"{item['type']} {title} at version {meta['resourceVersion']}: "
                f"{now}m run on a quota of {quota}m"
            )
