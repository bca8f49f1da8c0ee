"""What the users of a recorded busy namespace did, done again against gatelog.

The recording (tests/recordings/busy_namespace) is of Kueue on a real control plane. Taken out of it
are the acts of its users: pods created, annotated and deleted by them, and how their containers
ended. Everything else in it was an answer: Kueue's, which deletes with a TerminationTarget on the
pod or an Event that says so and signs what it annotates, the garbage collector's, the scheduler's,
the kubelet's. The acts are played in their order, four times as fast, on the stand-in, which acts
as scheduler and garbage collector; the lab acts as kubelet, as it did then.

A container ends only once it runs, and a pod that is one too many comes only once its group is
composed, so a user may have to wait longer than then, and what the same user did after it waits
as well. Who gets quota first, and who is preempted, depends on such
moments. `audit` says what must hold of everybody. Users who got quota and kept it, then and now,
and could do all that they did, must also be left with what they were left with then.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.audit import audit
from tests.e2e.conformance import stack
from tests.e2e.test_busy import empty, lab_modules, rest, snapshot
from tests.support.recordings import lines, outcome, story
from tests.support.stack import Stack

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

NAME = "busy_namespace"
USER_MANAGER = "Python"
"""Field manager of the users' requests; Kueue's are signed by itself."""
SPEED = 4.0
PATIENCE_S = 6.0
"""How long those that are late may still be done, in seconds after the last act's time and after
the last change that was seen: a slow machine is late with everything."""
LATEST_S = 60.0
"""Seconds after the last act's time when no act is done any more."""
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
LEAST = 16
"""Of the 25 users so many at least must be lucky enough to be compared."""
Obj = dict[str, Any]


class Act(NamedTuple):
    """What a user did: at `t` seconds, to a pod."""

    t: float
    what: str
    pod: str
    value: Any = None


def group_of(name: str) -> str:
    """The user who owns a pod or Workload: `g7` of `g7-p1`, `g7-extra`, `pod-g7-p1-1c2d3`."""
    return name.removeprefix("pod-").partition("-")[0]


def written(pod: Obj) -> Obj:
    """The pod as its user wrote it: without what the webhook, defaults and the server added."""
    meta, spec = pod["metadata"], pod["spec"]
    kueue = "kueue.x-k8s.io/"
    labels = {k: v for k, v in meta["labels"].items() if k != kueue + "managed"}
    box = spec["containers"][0]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": meta["name"], "labels": labels, "annotations": annotated(pod)},
        "spec": {
            "restartPolicy": spec["restartPolicy"],
            "terminationGracePeriodSeconds": spec["terminationGracePeriodSeconds"],
            "containers": [{key: box[key] for key in ("name", "image", "resources")}],
        },
    }


def annotated(pod: Obj) -> dict[str, str]:
    """The annotations that are a user's."""
    meta = pod["metadata"]
    theirs: set[str] = set()
    for entry in meta["managedFields"]:
        if entry["manager"] == USER_MANAGER:
            theirs |= entry["fieldsV1"].get("f:metadata", {}).get("f:annotations", {}).keys()
    return {key: value for key, value in meta["annotations"].items() if f"f:{key}" in theirs}


def acts() -> Iterator[Act]:
    """The users' acts in the order in which they were seen."""
    excess = {
        line["object"]["regarding" if "regarding" in line["object"] else "involvedObject"]["name"]
        for line in lines(NAME)
        if line["resource"] == "events" and line["object"]["reason"] == "ExcessPodDeleted"
    }
    before: dict[str, Obj] = {}
    for line in story(NAME):
        pod, t = line["object"], line["t"]
        meta, name = pod["metadata"], pod["metadata"]["name"]
        if line["resource"] == "workloads":
            continue
        old = before.get(name)
        before[name] = pod
        if old is None:
            yield Act(t, "create", name, written(pod))
            continue
        deleted = "deletionTimestamp" in meta
        if deleted and "deletionTimestamp" not in old["metadata"]:
            stopped = {c["type"] for c in pod["status"].get("conditions", ())}
            if "TerminationTarget" not in stopped and name not in excess:
                yield Act(t, "delete", name)
        phase = pod["status"]["phase"]
        if phase != old["status"]["phase"] and phase in ("Succeeded", "Failed") and not deleted:
            yield Act(t, "end", name, phase)
        known = old["metadata"]["annotations"]
        changed = {k: v for k, v in annotated(pod).items() if known.get(k) != v}
        if changed:
            yield Act(t, "annotate", name, changed)


class Users:
    """Plays acts on a cluster, each user on its own. Those that cannot be done are in `undone`."""

    def __init__(self, lab: Any, found: list[Act]) -> None:
        self.lab = lab
        self.acts = found
        self.undone: list[Act] = []

    async def play(self) -> None:
        by_group: dict[str, list[Act]] = defaultdict(list)
        for act in self.acts:
            by_group[group_of(act.pod)].append(act)
        await asyncio.gather(*map(self._user, by_group.values(), repeat(_now())))

    async def _user(self, mine: list[Act], begin: float) -> None:
        first, last = self.acts[0].t, self.acts[-1].t
        end = begin + (last - first) / SPEED
        for act in mine:
            await asyncio.sleep(begin + (act.t - first) / SPEED - _now())
            while not (ready := self._ready(act)) and self._patient(end):
                await asyncio.sleep(0.02)
            if ready:
                await self._do(act)
            else:
                self.undone.append(act)

    def _patient(self, end: float) -> bool:
        now = _now()
        return now < min(max(end, self.lab.last) + PATIENCE_S, end + LATEST_S)

    async def _do(self, act: Act) -> None:
        lab = self.lab
        if act.what == "create":
            await lab.req("POST", lab.url("pods"), json=act.value)
        elif act.what == "end":
            await lab.set_phase(act.pod, act.value, ok=None)
        elif act.what == "delete":
            await lab.delete("pods", act.pod)
        else:
            await lab.annotate(act.pod, act.value)

    def _ready(self, act: Act) -> bool:
        if act.what == "create":
            # One too many came when the group was composed. Before that it would be in excess.
            return not act.pod.endswith("-extra") or group_of(act.pod) in self.lab.wls
        found = self.lab.pods.get(act.pod)
        if found is None:
            return False
        return act.what != "end" or bool(found["status"]["phase"] == "Running")


def _now() -> float:
    return time.monotonic()  # the lab's clock


def by_user(out: Obj) -> dict[str, Obj]:
    """What is left of each user's pods and Workloads; names of single Workloads end in a hash."""
    found: dict[str, Obj] = defaultdict(lambda: {"pods": {}, "deleted": [], "workloads": {}})
    for name, pod in out["pods"].items():
        kept = {key: pod[key] for key in ("phase", "gated", "finalizer", "terminating")}
        found[group_of(name)]["pods"][name] = kept
    for name in out["deleted"]:
        found[group_of(name)]["deleted"].append(name)
    for name, workload in out["workloads"].items():
        conditions = workload["conditions"]
        finished = conditions.get("Finished", ["", ""])[1]
        key = name.rpartition("-")[0] if name.startswith("pod-") else name
        found[group_of(name)]["workloads"][key] = {
            "counts": workload["counts"],
            "finished": finished,
            # Our own admission does not wait for the Workload, which may be written when all is
            # over, and then says no more than that.
            "admitted": "" if finished else conditions.get("Admitted", [""])[0],
        }
    return found


def unlucky(items: Iterable[Obj]) -> set[str]:
    """Users who lost quota at some time, or have an open Workload without, of watched items.

    A pod that is stopped says so where the group never had a Workload.
    """
    found: set[str] = set()
    without: dict[str, bool] = {}
    for item in items:
        if item["type"] == "BOOKMARK" or item["resource"] not in ("pods", "workloads"):
            continue
        user = group_of(item["object"]["metadata"]["name"])
        conditions = item["object"].get("status", {}).get("conditions", ())
        true = {c["type"] for c in conditions if c["status"] == "True"}
        if true & {"Evicted", "TerminationTarget"}:
            found.add(user)
        if item["resource"] == "pods":
            continue
        without[user] = item["type"] != "DELETED" and not true & {"QuotaReserved", "Finished"}
    return found | {user for user, waits in without.items() if waits}


def expected(found: list[Act]) -> dict[str, Obj]:
    """What users were left with, but for B5: what is given up with too few successes has failed."""
    theirs = by_user(outcome(NAME))
    for user, left in theirs.items():
        mine = [act for act in found if group_of(act.pod) == user]
        if not any(RETRIABLE in act.value for act in mine if act.what == "annotate"):
            continue
        succeeded = sum(act.value == "Succeeded" for act in mine if act.what == "end")
        for workload in left["workloads"].values():
            if workload["finished"] and succeeded < sum(workload["counts"]):
                workload["finished"] = "Failed"
    return theirs


async def replayed(stack: Stack) -> None:
    lab_module, scenarios = lab_modules()
    lab = lab_module.Lab(*stack.server, "busy-again", settle=2.0)
    try:
        await lab.start()
        await scenarios.prepare(lab)
        users = Users(lab, list(acts()))
        await users.play()
        print("not done:", *users.undone, sep="\n  ")

        async def wrong() -> list[str]:
            different = differences(lab.outcome(), users, left_out(lab, users))
            return audit(await snapshot(lab), quota_milli=10_000) + different

        await rest(lab, wrong)
        compared = {group_of(act.pod) for act in users.acts} - left_out(lab, users)
        assert len(compared) >= LEAST, f"only {sorted(compared)} could be compared"
        await empty(lab)
    finally:
        for task in lab.tasks:
            task.cancel()
        await asyncio.gather(*lab.tasks, return_exceptions=True)
        await lab.http.close()


def left_out(lab: Any, users: Users) -> set[str]:
    """Users whose end depends on the moment, then or now."""
    late = {group_of(act.pod) for act in users.undone}
    return unlucky(lab.log) | unlucky(story(NAME)) | late


def differences(out: Obj, users: Users, but: set[str]) -> list[str]:
    """What each user is left with that is not what it was then, a line each."""
    now, then = by_user(out), expected(users.acts)
    compared = sorted((now.keys() | then.keys()) - but)
    return [f"{u}: {now.get(u)}, then {then.get(u)}" for u in compared if now.get(u) != then.get(u)]


def test_acts_of_users_are_told_from_answers_to_them() -> None:
    found = list(acts())
    count = Counter(act.what for act in found)
    assert count == {"create": 86, "end": 65, "delete": 18, "annotate": 6}
    # Everybody else who was deleted was in excess, or belonged to g16, which was preempted.
    answers = set(outcome(NAME)["deleted"]) - {act.pod for act in found if act.what == "delete"}
    assert answers == {"g13-p1r", "g20-p3r", *(f"g16-p{i}" for i in range(6))}


@pytest.mark.slow("a recorded busy namespace, in its own time")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
async def test_a_busy_namespace_again(mode: str, tmp_path: Path) -> None:
    with stack(tmp_path, mode) as running:
        try:
            await replayed(running)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{running.up.tail(60)}") from error
        assert running.up.running, running.up.tail()
