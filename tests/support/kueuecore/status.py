"""What the core writes into a Workload's status, in Kueue's words.

Theory: a status is a value made from the one before. Conditions keep their transition time while
their status stays; the core's own come first, in a fixed order, others follow as they are. Texts
are those of recorded answers of Kueue.

Invariant: conditions the core does not own come out as they went in.
"""

from fractions import Fraction

from simcluster.errors import Obj
from simcluster.managed import Writer
from simcluster.store import Rec
from simcluster.writes import Writes
from tests.support.kueuecore.assigning import Assignment
from tests.support.kueuecore.workload import Info, text

MANAGER = "kueue-admission"
_FIRST = ("QuotaReserved", "Evicted", "Admitted", "Preempted", "Requeued")
_MAX_MESSAGE = 32 * 1024


class StatusWriter:
    """Writes statuses straight into the store, as the field manager ``kueue-admission``."""

    def __init__(self, writes: Writes) -> None:
        self.writes = writes

    def write(self, rec: Rec, status: Obj) -> bool:
        """Replace a Workload's status; whether anything changed."""
        writer = Writer(MANAGER, rec.obj["apiVersion"], "status", "Apply")
        return self.writes.status(("kueue.x-k8s.io", "workloads"), rec, status, writer) is not rec

    def conditions(self, info: Info, *wanted: tuple[str, bool, str, str]) -> list[Obj]:
        """The Workload's conditions with some set: type, status, reason, message."""
        found = dict(info.conditions)
        for kind, true, reason, message in wanted:
            old, value = found.get(kind, {}), "True" if true else "False"
            same = old.get("status") == value
            stamp = old.get("lastTransitionTime") if same else None
            new: Obj = {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message[:_MAX_MESSAGE],
                "lastTransitionTime": stamp or self.writes.clock.now(),
            }
            if not (kind == "Preempted" and true):
                new["observedGeneration"] = info.rec.obj["metadata"].get("generation", 0)
            found[kind] = new
        first = [found[kind] for kind in _FIRST if kind in found]
        return first + [c for kind, c in found.items() if kind not in _FIRST]

    def set(self, info: Info, *wanted: tuple[str, bool, str, str]) -> bool:
        """Set conditions and nothing else."""
        status = info.rec.obj.get("status") or {}
        return self.write(info.rec, {**status, "conditions": self.conditions(info, *wanted)})

    def admit(self, info: Info, queue: str, assignment: Assignment) -> bool:
        """Reserve quota and admit; what was said of an earlier eviction becomes the past."""
        wanted = [
            ("QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}"),
            ("Admitted", True, "Admitted", "The workload is admitted"),
        ]
        for kind in ("Evicted", "Preempted"):
            if info.true(kind):
                past = f"Previously: {info.conditions[kind].get('message', '')}"
                wanted.append((kind, False, "QuotaReserved", past))
        status = {
            **(info.rec.obj.get("status") or {}),
            "conditions": self.conditions(info, *wanted),
            "admission": {
                "clusterQueue": queue,
                "podSetAssignments": [
                    {
                        "name": pod_set.name,
                        "count": pod_set.count,
                        "flavors": flavors,
                        "resourceUsage": _printed(pod_set.requests, flavors),
                    }
                    for pod_set, flavors in zip(info.pod_sets, assignment.flavors, strict=True)
                ],
            },
        }
        status.pop("resourceRequests", None)
        return self.write(info.rec, status)

    def pending(self, info: Info, reason: str, message: str) -> bool:
        """Say why a Workload that was looked at has no quota."""
        status = info.rec.obj.get("status") or {}
        conditions = self.conditions(
            info,
            ("QuotaReserved", False, reason, message),
            ("Admitted", False, "NoReservation", "The workload has no reservation"),
        )
        requests = [
            {"name": p.name, "resources": _printed(p.requests, dict.fromkeys(p.requests, ""))}
            for p in info.pod_sets
        ]
        more = {"resourceRequests": requests, "conditions": conditions}
        return self.write(info.rec, {**status, **more})

    def evict(self, info: Info, reason: str, message: str, *, preempted: bool = False) -> bool:
        """Tell a Workload to stop; its quota stays with it."""
        wanted = [("Evicted", True, reason, message)]
        if preempted:
            wanted.append(("Preempted", True, "InClusterQueue", message))
        status = info.rec.obj.get("status") or {}
        statistics = status.get("schedulingStats") or {}
        counts = {e["reason"]: e["count"] for e in statistics.get("evictions") or ()}
        counts[reason] = counts.get(reason, 0) + 1
        evictions = [{"reason": r, "underlyingCause": "", "count": n} for r, n in counts.items()]
        more = {
            "conditions": self.conditions(info, *wanted),
            "schedulingStats": {**statistics, "evictions": evictions},
        }
        return self.write(info.rec, {**status, **more})


def preemption_message(preemptor: Info, queue: str) -> str:
    """Why a Workload is preempted within its ClusterQueue."""
    job = (preemptor.rec.obj["metadata"].get("labels") or {}).get("kueue.x-k8s.io/job-uid")
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.uid}, JobUID: {job or 'UNKNOWN'}) "
        f"due to prioritization in the ClusterQueue; preemptor path: /{queue}; "
        f"preemptee path: /{queue}"
    )


def _printed(requests: dict[str, Fraction], names: dict[str, str]) -> dict[str, str]:
    """Amounts as text, for the resources named; a pod count that is not covered is left out."""
    return {
        name: text(name, amount)
        for name, amount in sorted(requests.items())
        if name in names and not (name == "pods" and not names[name])
    }
