"""A kubelet for all nodes at once, acting out one script per pod.

Theory: a bound pod starts after a moment, runs for the scripted time, ends as scripted; a deleted
pod is asked to stop, reports how it ended and is then deleted with grace 0, which is what frees it
for the API server. Every step is a timer, so thousands of pods cost no tasks.

Invariant: statuses only move forward (Pending, Running, then Succeeded or Failed), and conditions
of other writers are kept.
"""

import asyncio
from typing import Any

from simcluster.access import User
from simcluster.deletion import DeleteOptions, Deletions
from simcluster.errors import Obj
from simcluster.pods import PodWrites, with_conditions
from simcluster.requests import Options, Target
from simcluster.resizing import granted, ungranted
from simcluster.resources import Route
from simcluster.scripts import ANNOTATION, Script, ScriptError, parse
from simcluster.settings import Settings
from simcluster.store import Change, Rec, Store, Table

MANAGER = "kubelet"
USER = User(name="system:node:kubelet")
_BACK_OFF_S = 0.05
_BACK_OFF_MOST_S = 5.0


class _Life:
    """One pod's timers and progress."""

    __slots__ = ("began", "ended", "restarts", "script", "stopping", "timer")

    def __init__(self, script: Script) -> None:
        self.script = script
        self.timer: asyncio.TimerHandle | None = None
        self.began = ""
        self.restarts = 0
        self.ended: Obj = {}
        """How its containers ended the last time, if they were to start again."""
        self.stopping: float | None = None
        """Grace period in seconds of the deletion it knows of."""


class Kubelet:
    """Follows bound pods through a store hook."""

    def __init__(
        self, store: Store, pods: PodWrites, deletions: Deletions, settings: Settings
    ) -> None:
        self.store = store
        self.pods = pods
        self.deletions = deletions
        self.settings = settings
        self.lives: dict[str, _Life] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        store.hooks.append(self.seen)

    def stop(self) -> None:
        """Let all pods be."""
        self.store.hooks.remove(self.seen)
        for life in self.lives.values():
            if life.timer is not None:
                life.timer.cancel()
        for task in self.tasks:
            task.cancel()

    def seen(self, table: Table, change: Change) -> None:
        """A change of any table."""
        if table.resource.key != ("", "pods"):
            return
        rec, uid = change.rec, change.rec.uid
        if change.type == "DELETED":
            life = self.lives.pop(uid, None)
            if life is not None and life.timer is not None:
                life.timer.cancel()
            return
        if not rec.obj["spec"].get("nodeName"):
            return
        life = self.lives.get(uid)
        if life is None:
            life = self.lives[uid] = _Life(self._script(rec.obj))
            start = life.script.start_s
            delay = self.settings.kubelet_start_s if start is None else start
            self._after(life, delay, self._start, uid)
        if "deletionTimestamp" in rec.obj["metadata"]:
            grace = float(rec.obj["metadata"].get("deletionGracePeriodSeconds") or 0)
            if life.stopping is None or grace < life.stopping:
                life.stopping = grace
                linger = life.script.linger_s
                delay = self.settings.kubelet_termination_s if linger is None else linger
                self._after(life, min(grace, delay), self._stopped, uid)
        elif life.began and not _over(rec) and ungranted(rec.obj):
            self._soon(self._resized, uid)

    def _script(self, pod: Obj) -> Script:
        chosen: Script | str | None = None
        if self.settings.kubelet_script is not None:
            chosen = self.settings.kubelet_script(pod)
        if chosen is None:
            annotations = pod["metadata"].get("annotations") or {}
            chosen = annotations.get(ANNOTATION, self.settings.kubelet_default_script)
        if isinstance(chosen, Script):
            return chosen
        try:
            return parse(chosen)
        except ScriptError:
            return Script(run_s=0.0, exit_code=1)  # like a container with a wrong command

    def _after(self, life: _Life, delay_s: float, step: Any, uid: str) -> None:
        if life.timer is not None:
            life.timer.cancel()
        life.timer = asyncio.get_running_loop().call_later(delay_s, step, uid)

    def _present(self, uid: str) -> tuple[_Life, Rec] | None:
        life, entry = self.lives.get(uid), self.store.by_uid.get(uid)
        return (life, entry[1]) if life is not None and entry is not None else None

    def _start(self, uid: str) -> None:
        found = self._present(uid)
        if found is None or _over(found[1]):
            return
        life, rec = found
        life.began = life.began or self.pods.writes.clock.now()
        if life.script.pull_error:
            image = rec.obj["spec"]["containers"][0]["image"]
            text = f'Back-off pulling image "{image}"'
            state: Obj = {"waiting": {"reason": "ImagePullBackOff", "message": text}}
            self._write(life, rec, "Pending", state, ready=False, why="ContainersNotReady")
            return
        if life.ended:
            life.restarts += 1
        state = {"running": {"startedAt": self.pods.writes.clock.now()}}
        ready = life.script.ready
        why = "" if ready else "ContainersNotReady"
        self._write(life, rec, "Running", state, ready=ready, why=why)
        if life.script.run_s is not None:
            self._after(life, life.script.run_s, self._end, uid)

    def _soon(self, step: Any, uid: str) -> None:
        asyncio.get_running_loop().call_soon(step, uid)

    def _resized(self, uid: str) -> None:
        """Take over what `pods/resize` asked for, if it has not happened yet."""
        found = self._present(uid)
        if found is None or _over(found[1]) or not ungranted(found[1].obj):
            return
        rec = found[1]
        status = dict(rec.obj["status"])
        status["containerStatuses"] = [
            {**one, **granted(container)}
            for one, container in zip(
                status["containerStatuses"], rec.obj["spec"]["containers"], strict=True
            )
        ]
        self.pods.status(rec, status, MANAGER)

    def _end(self, uid: str) -> None:
        found = self._present(uid)
        if found is None or _over(found[1]):
            return
        life, rec = found
        code = life.script.exit_code
        policy = rec.obj["spec"].get("restartPolicy")
        if policy == "Always" or (policy == "OnFailure" and code):
            state = self._end_of(life, code, life.script.reason)
            self._write(life, rec, "Running", state, ready=False, why="ContainersNotReady")
            life.ended = state
            back_off_s = min(_BACK_OFF_MOST_S, _BACK_OFF_S * 2 ** (life.restarts + 1))
            self._after(life, back_off_s, self._start, uid)
            return
        self._terminate(life, rec, code, life.script.reason)

    def _end_of(self, life: _Life, code: int, reason: str) -> Obj:
        return {
            "terminated": {
                "exitCode": code,
                "reason": reason,
                "startedAt": life.began or None,
                "finishedAt": self.pods.writes.clock.now(),
            }
        }

    def _terminate(self, life: _Life, rec: Rec, code: int, reason: str) -> None:
        state = self._end_of(life, code, reason)
        phase = "Failed" if code else "Succeeded"
        why = "PodFailed" if code else "PodCompleted"
        self._write(life, rec, phase, state, ready=False, why=why)

    def _stopped(self, uid: str) -> None:
        found = self._present(uid)
        if found is None:
            return
        life, rec = found
        if not _over(rec):
            code = life.script.term_code
            self._terminate(life, rec, code, "Error" if code else "Completed")
        task = asyncio.get_running_loop().create_task(self._delete(rec))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _delete(self, rec: Rec) -> None:
        resource = self.store.tables["", "pods"].resource
        target = Target(Route(resource, "", "v1"), rec.namespace, rec.name)
        asked = DeleteOptions(grace_s=0, uid=rec.uid)
        await self.deletions.insist(target, asked, Options(manager=MANAGER, user=USER))

    def _write(
        self, life: _Life, rec: Rec, phase: str, state: Obj, *, ready: bool, why: str
    ) -> None:
        status = dict(rec.obj.get("status") or {})
        text = {"reason": why} if why else {}
        new = [
            self.pods.condition(kind, "True")
            if value
            else self.pods.condition(kind, "False", **text)
            for kind, value in (
                ("PodReadyToStartContainers", phase == "Running"),
                ("Initialized", True),
                ("Ready", ready),
                ("ContainersReady", ready),
            )
        ]
        conditions = with_conditions(status.get("conditions") or [], *new)
        status |= {"phase": phase, "conditions": conditions}
        # When the kubelet took notice of the pod, which may be only when it was to stop it.
        status.setdefault("startTime", life.began or self.pods.writes.clock.now())
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "state": state,
                "lastState": life.ended,
                "ready": ready,
                "started": ready,
                "restartCount": life.restarts,
                **(granted(container) if "running" in state else {}),
            }
            for container in rec.obj["spec"]["containers"]
        ]
        self.pods.status(rec, status, MANAGER)


def _over(rec: Rec) -> bool:
    return (rec.obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
