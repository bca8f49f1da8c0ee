"""What must hold of pods and Workloads at rest, whatever happened before.

Theory. Nothing here knows gatelog: pods and Workloads are read from the API server and held
against each other. At rest means that no decision is under way, so every place, finalizer and
share of quota must be accounted for by something that exists.

Invariant: `audit` of a cluster in order is empty; each line of it names one object and what is
wrong with it.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Any

Obj = dict[str, Any]
KUEUE = "kueue.x-k8s.io/"
GATE, FINALIZER = KUEUE + "admission", KUEUE + "managed"
GROUP, ROLE = KUEUE + "pod-group-name", KUEUE + "role-hash"


class Pod:
    """A pod, read."""

    def __init__(self, obj: Obj) -> None:
        meta, spec = obj["metadata"], obj["spec"]
        self.name: str = meta["name"]
        self.uid: str = meta["uid"]
        self.group: str = meta.get("labels", {}).get(GROUP, "")
        self.role: str = meta.get("annotations", {}).get(ROLE, "").lower()
        self.phase: str = obj.get("status", {}).get("phase", "")
        self.gated = any(g["name"] == GATE for g in spec.get("schedulingGates", ()))
        self.held = FINALIZER in meta.get("finalizers", ())
        self.deleting = "deletionTimestamp" in meta
        self.bound = bool(spec.get("nodeName"))
        self.ended = self.phase in ("Succeeded", "Failed")
        self.active = self.phase != "Failed" and not (self.deleting and not self.bound)


class Workload:
    """A Workload, read, with its pods."""

    def __init__(self, obj: Obj, pods: list[Pod]) -> None:
        meta, status = obj["metadata"], obj.get("status", {})
        self.name: str = meta["name"]
        self.owners = {o["uid"] for o in meta.get("ownerReferences", ())}
        self.single = meta.get("annotations", {}).get(KUEUE + "is-group-workload") != "true"
        self.held = bool(meta.get("finalizers"))
        self.conditions = {c["type"]: c for c in status.get("conditions", ())}
        self.counts = {p["name"]: p["count"] for p in obj["spec"]["podSets"]}
        self.admission: Obj = status.get("admission") or {}
        self.reclaimable = {r["name"]: r["count"] for r in status.get("reclaimablePods", ())}
        self.requests = {
            p["name"]: _milli(p["template"]["spec"]["containers"][0])
            for p in obj["spec"]["podSets"]
        }
        self.pods = [
            p for p in pods if (p.uid in self.owners if self.single else p.group == self.name)
        ]

    def true(self, kind: str) -> bool:
        return self.conditions.get(kind, {}).get("status") == "True"

    @property
    def open(self) -> bool:
        return not self.true("Finished")

    @property
    def holds(self) -> bool:
        return self.open and self.true("QuotaReserved")

    def of(self, pod_set: str) -> list[Pod]:
        # Pods that came past admission name no role; with one role there is nothing to name.
        names = {pod_set, ""} if len(self.counts) == 1 else {pod_set}
        return self.pods if self.single else [p for p in self.pods if p.role in names]

    def full(self, pod: Pod) -> bool:
        """Whether others have all the places of a pod's set."""
        name = next((name for name in self.counts if pod in self.of(name)), "")
        return sum(other.active for other in self.of(name)) >= self.counts.get(name, 0)

    @property
    def usage_milli(self) -> int:
        found = 0
        for item in self.admission.get("podSetAssignments", ()):
            count, name = item.get("count", 1), item["name"]
            each = _amount(item.get("resourceUsage", {}).get("cpu", "0")) // max(1, count)
            found += each * (count - min(count, self.reclaimable.get(name, 0)))
        return found

    @property
    def demand_milli(self) -> int:
        left = {n: c - self.reclaimable.get(n, 0) for n, c in self.counts.items()}
        return sum(self.requests[n] * c for n, c in left.items())


class Cluster:
    """Pods and Workloads of one namespace.

    `opened`: uids of pods that were seen past their gate before their deletion was asked for.
    """

    def __init__(self, pods: list[Obj], workloads: list[Obj], opened: Collection[str] = ()) -> None:
        self.pods = pods
        self.workloads = workloads
        self.opened = opened


def _amount(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _milli(container: Obj) -> int:
    return _amount(container["resources"]["requests"]["cpu"])


def audit(cluster: Cluster, quota_milli: int) -> list[str]:
    """Everything that is wrong."""
    pods = [Pod(o) for o in cluster.pods]
    workloads = [Workload(o, pods) for o in cluster.workloads]
    return [
        *_finalizers(pods, workloads, cluster.opened),
        *_places(workloads),
        *_quota(workloads, quota_milli),
        *_left_over(workloads),
        *_conditions(workloads),
    ]


def _finalizers(
    pods: list[Pod], workloads: list[Workload], opened: Collection[str]
) -> Iterator[str]:
    """Our finalizer is on pods of groups that go on, or that are not complete yet.

    A pod that came too late for a group that is over stays gated, and has none. One that is past
    its gate and was deleted before it was bound keeps its place until another takes it.
    """
    by_pod = {p.uid: w for w in workloads for p in w.pods}
    for pod in pods:
        workload = by_pod.get(pod.uid)
        if not pod.held:
            late = pod.gated and (workload is None or not workload.open)
            if not pod.ended and not pod.deleting and not late:
                yield f"pod {pod.name} is alive without our finalizer"
            continue
        if workload is None:
            if not pod.gated or pod.deleting or pod.ended:
                yield f"pod {pod.name} has our finalizer, no Workload, and is {_is(pod)}"
        elif not workload.open:
            yield f"pod {pod.name} has our finalizer, Workload {workload.name} is finished"
        elif workload.single and (pod.deleting or pod.ended):
            yield f"single pod {pod.name} has our finalizer and is {_is(pod)}"
        elif pod.deleting and not pod.bound and (pod.uid not in opened or workload.full(pod)):
            yield f"pod {pod.name} was deleted before it ran and has our finalizer"


def _is(pod: Pod) -> str:
    words = ["gated" if pod.gated else "past the gate", pod.phase]
    return ", ".join([*words, "deleted"] if pod.deleting else words)


def _places(workloads: list[Workload]) -> Iterator[str]:
    """Admitted: places are filled while pods wait. Not admitted: nothing runs."""
    for w in workloads:
        for name, count in w.counts.items():
            pods = [p for p in w.of(name) if p.active]
            opened = [p for p in pods if not p.gated]
            waiting = [p for p in pods if p.gated and not p.deleting]
            if len(opened) > count:
                yield f"Workload {w.name}: {len(opened)} pods past the gate, {count} places"
            admitted = w.open and w.true("Admitted") and not w.true("Evicted")
            if admitted and waiting and len(opened) < count:
                places = f"{len(opened)} of {count} places"
                yield f"Workload {w.name}: {waiting[0].name} is gated, {places} taken"
            running = [p.name for p in opened if not p.ended and not p.deleting]
            if w.open and running and not w.true("Admitted"):
                yield f"Workload {w.name} is not admitted and runs {running}"
            if w.open and running and w.true("Evicted"):
                yield f"Workload {w.name} is evicted and runs {running}"
            solid = [p for p in pods if not p.deleting]
            if w.open and len(solid) > count:
                yield f"Workload {w.name}: {len(solid)} pods of role {name}, {count} places"


def _quota(workloads: list[Workload], quota_milli: int) -> Iterator[str]:
    """Quota is held by those who can use it, never beyond, and nobody waits who would fit."""
    used = sum(w.usage_milli for w in workloads if w.holds)
    if used > quota_milli:
        yield f"{used}m of {quota_milli}m are in use"
    for w in workloads:
        if w.holds and not w.pods:
            yield f"Workload {w.name} holds {w.usage_milli}m and has no pods"
        if w.holds and w.true("Evicted") and not any(p.phase == "Running" for p in w.pods):
            yield f"Workload {w.name} is evicted, runs nothing and holds {w.usage_milli}m"
        if w.admission and not w.true("QuotaReserved"):
            yield f"Workload {w.name} has an admission and no quota"
        kept_out = w.true("WaitingForReplacementPods")
        kept_out |= w.conditions.get("Requeued", {}).get("status") == "False"
        if w.open and not w.holds and not kept_out and w.demand_milli <= quota_milli - used:
            free = quota_milli - used
            yield f"Workload {w.name} waits for {w.demand_milli}m while {free}m are free"


def _left_over(workloads: list[Workload]) -> Iterator[str]:
    for w in workloads:
        if w.held and not w.pods:
            yield f"Workload {w.name} has a finalizer and no pods"
        if w.held and not w.open:
            yield f"Workload {w.name} is finished and has a finalizer"


def _conditions(workloads: list[Workload]) -> Iterator[str]:
    """Reclaimable pods and shortages are what the pods say.

    More may be reclaimable than have succeeded: the lab's kubelet sometimes says Failed of a pod
    that its user called Succeeded, and what was given up stays given up.
    """
    for w in workloads:
        if w.single or not w.open:
            continue
        done: Counter[str] = Counter()
        absent: dict[str, int] = defaultdict(int)
        for name, count in w.counts.items():
            pods = w.of(name)
            done[name] = min(count, sum(p.phase == "Succeeded" for p in pods))
            absent[name] = max(0, count - sum(p.active for p in pods))
        if w.holds and any(w.reclaimable.get(n, 0) < c for n, c in done.items()):
            yield f"Workload {w.name}: reclaimable {w.reclaimable}, succeeded {dict(done)}"
        if w.true("WaitingForReplacementPods") != any(absent.values()):
            yield f"Workload {w.name}: pods absent {dict(absent)}, condition says otherwise"
        ended = sum(p.phase == "Succeeded" for p in w.pods)
        if ended >= sum(w.counts.values()):
            yield f"Workload {w.name}: all {ended} pods succeeded and it goes on"
