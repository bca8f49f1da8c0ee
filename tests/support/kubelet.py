"""`python -m tests.support.kubelet KUBECONFIG`: acts out the scripts of pods on a real API server.

A control plane on loopback has a scheduler and no kubelet. This one speaks HTTP alone, and follows
bound pods that bear the annotation `simcluster/script` (`simcluster.scripts`) as the stand-in's
kubelet follows its own: start, run, end, obey a deletion within its grace period, take over a
resize. Pods without that annotation are somebody else's.

Invariant: a status goes forward only (Pending, Running, then Succeeded or Failed), and is written
under the pod's uid, so a pod of the same name is never taken for it.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from simcluster.resizing import granted, ungranted
from simcluster.scripts import ANNOTATION, Script, parse
from tests.support.processes import Api, server_of

START_S, STOP_S = 0.01, 0.05
STRATEGIC = "application/strategic-merge-patch+json"
Json = dict[str, Any]
Step = Callable[[str], Coroutine[Any, Any, None]]


def over(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


class Kubelet:
    """Follows all pods of one API server."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.pods: dict[str, Json] = {}
        self.scripts: dict[str, Script] = {}
        self.began: dict[str, str] = {}
        self.stopping: dict[str, float] = {}
        self.timers: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """List and watch until cancelled."""
        listed = await self.api.call("GET", "/api/v1/pods")
        for pod in listed["items"]:
            self.see("ADDED", pod)
        print(json.dumps({"event": "ready"}), flush=True)
        version = listed["metadata"]["resourceVersion"]
        while True:
            query = {"watch": "1", "resourceVersion": version}
            async with self.api.http.get(
                self.api.url + "/api/v1/pods", params=query, timeout=aiohttp.ClientTimeout()
            ) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for item in map(json.loads, filter(None, lines)):
                        assert item["type"] != "ERROR", item
                        version = item["object"]["metadata"]["resourceVersion"]
                        self.see(item["type"], item["object"])

    def see(self, kind: str, pod: Json) -> None:
        meta, uid = pod["metadata"], pod["metadata"]["uid"]
        if kind == "DELETED":
            self.pods.pop(uid, None)
            if uid in self.timers:
                self.timers.pop(uid).cancel()
            return
        script = (meta.get("annotations") or {}).get(ANNOTATION)
        if uid not in self.scripts and (script is None or not pod["spec"].get("nodeName")):
            return
        self.pods[uid] = pod
        if uid not in self.scripts:
            self.scripts[uid] = parse(script)
            self.after(uid, START_S, self.start)
        if "deletionTimestamp" in meta:
            grace = float(meta.get("deletionGracePeriodSeconds") or 0)
            if grace < self.stopping.get(uid, float("inf")):
                self.stopping[uid] = grace
                linger = self.scripts[uid].linger_s
                self.after(uid, min(grace, STOP_S if linger is None else linger), self.stop)
        elif uid in self.began and not over(pod) and ungranted(pod):
            self.after(uid, 0, self.resize)

    def after(self, uid: str, delay_s: float, step: Step) -> None:
        async def later() -> None:
            await asyncio.sleep(delay_s)
            await step(uid)

        if uid in self.timers:
            self.timers[uid].cancel()
        self.timers[uid] = asyncio.create_task(later())

    async def start(self, uid: str) -> None:
        if over(self.pods[uid]):
            return
        self.began[uid] = _now()
        await self.write(uid, "Running", {"running": {"startedAt": _now()}})
        script = self.scripts[uid]
        if script.run_s is not None:
            await asyncio.sleep(script.run_s)
            await self.end(uid, script.exit_code, script.reason)

    async def end(self, uid: str, code: int, reason: str) -> None:
        if not over(self.pods[uid]):
            times = {"startedAt": self.began.get(uid), "finishedAt": _now()}
            state = {"terminated": {"exitCode": code, "reason": reason, **times}}
            await self.write(uid, "Failed" if code else "Succeeded", state)

    async def resize(self, uid: str) -> None:
        await self.write(uid, "Running", {"running": {"startedAt": self.began[uid]}})

    async def stop(self, uid: str) -> None:
        code = self.scripts[uid].term_code
        await self.end(uid, code, "Error" if code else "Completed")
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self.api.call("DELETE", self._path(uid), body, ok=())

    async def write(self, uid: str, phase: str, state: Json) -> None:
        pod, ready = self.pods[uid], "True" if phase == "Running" else "False"
        conditions = [
            {"type": kind, "status": status, "lastTransitionTime": _now()}
            for kind, status in (
                ("PodReadyToStartContainers", "True"),
                ("Initialized", "True"),
                ("ContainersReady", ready),
                ("Ready", ready),
            )
        ]
        status: Json = {"phase": phase, "startTime": self.began.get(uid), "conditions": conditions}
        for key, name in (
            ("containers", "containerStatuses"),
            ("initContainers", "initContainerStatuses"),
        ):
            found = [self._container(one, state) for one in pod["spec"].get(key) or ()]
            if found:
                status[name] = found
        body = {"metadata": {"uid": uid}, "status": status}
        await self.api.call("PATCH", self._path(uid) + "/status", body, kind=STRATEGIC, ok=())

    def _container(self, container: Json, state: Json) -> Json:
        running = "running" in state
        return {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "state": state,
            "ready": running,
            "started": running,
            "restartCount": 0,
            **(granted(container) if running else {}),
        }

    def _path(self, uid: str) -> str:
        meta = self.pods[uid]["metadata"]
        return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def main(kubeconfig: Path) -> None:
    async with Api(*server_of(kubeconfig)) as api:
        await Kubelet(api).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
