"""What really runs on this machine's node: requests of queued pods that have processes.

Theory. The API server says what the kubelet told it, and forgets a pod whose containers may still
run. A container that runs has processes in a cgroup below `kubepods`, named by the pod's uid; so
cgroups are the judge. A pod counts by its request from the first look at it on, though its object
be gone.

Invariant: reads only; what it saw last, `peak`, is never lowered.
"""

import asyncio
from pathlib import Path
from typing import Any

from podgroup.model.names import QUEUE_NAME
from tests.support.processes import Api

CGROUPS = Path("/sys/fs/cgroup")
_NO_WORK = {"pause", "runc", "runc:[1:CHILD]", "runc:[2:INIT]"}
LOOK_S = 0.3


def milli(cpu: Any) -> int:
    """Return thousandths of a CPU."""
    text = str(cpu)
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def asked(spec: dict[str, Any]) -> int:
    """Return what a pod takes of a node, in thousandths of a CPU, as Kubernetes adds it up."""

    def of(container: dict[str, Any]) -> int:
        return milli(container.get("resources", {}).get("requests", {}).get("cpu", 0))

    beside = most = 0
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":  # a sidecar: it runs on
            beside += of(one)
        most = max(most, beside + (0 if one.get("restartPolicy") == "Always" else of(one)))
    return max(most, beside + sum(map(of, spec["containers"])))


def here() -> bool:
    """Tell whether this machine has the cgroups of a node."""
    return bool(_roots())


def _roots() -> list[Path]:
    """Where kubelets of this machine keep pods; a second one has a cgroup root of its own."""
    places = (CGROUPS, CGROUPS / "cpu")
    return [p for at in places for how in ("kubepods", "*/kubepods") for p in at.glob(how)]


def working() -> set[str]:
    """Return uids of pods in whose containers a process runs."""
    found = set()
    for root in _roots():
        for folder in (*root.glob("pod*"), *root.glob("*/pod*")):
            if any(_works(file) for file in folder.glob("*/cgroup.procs")):
                found.add(folder.name.removeprefix("pod"))
    return found


def _works(file: Path) -> bool:
    try:
        return any(
            (Path("/proc") / pid / "comm").read_text().strip() not in _NO_WORK
            for pid in file.read_text().split()
        )
    except OSError:
        return False


class Meter:
    """Looks again and again at what runs of a namespace's queued pods."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._asked: dict[str, int] = {}
        self.peak = 0
        """The most that ran at once, in thousandths of a CPU."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once."""
        uids = await asyncio.to_thread(working)
        for pod in (await self._api.pods(self._namespace)).values():
            if QUEUE_NAME in (pod["metadata"].get("labels") or {}):
                self._asked[pod["metadata"]["uid"]] = asked(pod["spec"])
        self.peak = max(self.peak, sum(self._asked.get(uid, 0) for uid in uids))
