"""A Workload as the core sees it: what it asks for, what it holds, whether it may queue.

Theory: everything is read from one stored version of the object, once; a new version is a new
``Info``. Requests are those of the pod template as the scheduler counts them, times the pods that
are not reclaimable.

Invariant: an ``Info`` never changes; ``usage`` is empty exactly when the Workload holds no quota.
"""

from fractions import Fraction

import msgspec

from simcluster.errors import Obj
from simcluster.poddefaults import requests_of
from simcluster.quantity import canonical, parse
from simcluster.store import Rec

FlavorResource = tuple[str, str]
Usage = dict[FlavorResource, Fraction]

_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
_BINARY = ("memory", "ephemeral-storage")


class PodSet(msgspec.Struct, frozen=True):
    """One pod set; ``requests`` is for all of its pods that are not reclaimable."""

    name: str
    count: int
    requests: dict[str, Fraction]
    spec: Obj


class Info(msgspec.Struct, frozen=True):
    """One version of a Workload. ``order`` sorts a queue: priority, age, uid."""

    uid: str
    namespace: str
    name: str
    rec: Rec
    queue: str
    priority: int
    order: tuple[int, str, str]
    pod_sets: tuple[PodSet, ...]
    conditions: dict[str, Obj]
    cluster_queue: str
    usage: Usage
    active: bool
    over: bool
    barred: bool
    """Kept from entering a queue: short of pods or gated; one that queues already stays."""
    content: tuple[object, ...]
    """What may make a Workload that did not fit worth another try, when it changes."""

    def true(self, kind: str) -> bool:
        """Whether a condition is True."""
        return self.conditions.get(kind, {}).get("status") == "True"

    @property
    def reserved(self) -> bool:
        """Whether it holds quota by its own word."""
        return self.true("QuotaReserved")

    @property
    def waits(self) -> bool:
        """Whether it wants quota."""
        return self.active and not self.over and not self.reserved


def info_of(rec: Rec) -> Info:
    """Read a stored Workload."""
    meta, spec = rec.obj["metadata"], rec.obj.get("spec") or {}
    status = rec.obj.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or () if "type" in c}
    reclaimable = {r["name"]: int(r["count"]) for r in status.get("reclaimablePods") or ()}
    true = {kind for kind, c in conditions.items() if c.get("status") == "True"}
    active = spec.get("active") is not False
    over = "Finished" in true or "deletionTimestamp" in meta
    holds = "QuotaReserved" in true and active and "Finished" not in true
    admission: Obj = (status.get("admission") or {}) if holds else {}
    priority = int(spec.get("priority") or 0)
    return Info(
        uid=meta["uid"],
        namespace=rec.namespace,
        name=rec.name,
        rec=rec,
        queue=spec.get("queueName") or "",
        priority=priority,
        order=(-priority, meta["creationTimestamp"], meta["uid"]),
        pod_sets=tuple(_pod_set(p, reclaimable) for p in spec.get("podSets") or ()),
        conditions=conditions,
        cluster_queue=admission.get("clusterQueue", ""),
        usage=_usage(admission, reclaimable),
        active=active,
        over=over,
        barred="WaitingForReplacementPods" in true
        or bool((meta.get("annotations") or {}).get(_GATED_BY)),
        content=(
            meta.get("generation"),
            tuple(sorted(reclaimable.items())),
            "Evicted" in true,
            conditions.get("Requeued", {}).get("status"),
        ),
    )


def _pod_set(item: Obj, reclaimable: dict[str, int]) -> PodSet:
    name, spec = item.get("name") or "main", (item.get("template") or {}).get("spec") or {}
    count = max(0, int(item.get("count", 1)) - reclaimable.get(name, 0))
    one = {**requests_of(spec), "pods": Fraction(1)}
    return PodSet(name, count, {k: v * count for k, v in one.items()}, spec)


def _usage(admission: Obj, reclaimable: dict[str, int]) -> Usage:
    found: Usage = {}
    for item in admission.get("podSetAssignments") or ():
        count = max(1, int(item.get("count") or 1))
        left = Fraction(max(0, count - reclaimable.get(item["name"], 0)), count)
        usage = item.get("resourceUsage") or {}
        for resource, flavor in (item.get("flavors") or {}).items():
            key = (flavor, resource)
            found[key] = found.get(key, Fraction(0)) + parse(str(usage.get(resource, "0"))) * left
    return found


def text(resource: str, amount: Fraction) -> str:
    """An amount as Kueue prints it for this resource."""
    if resource == "cpu":
        milli = -(-amount.numerator * 1000 // amount.denominator)
        return canonical(f"{milli}m")
    whole = -(-amount.numerator // amount.denominator)
    if (resource in _BINARY or resource.startswith("hugepages-")) and whole % 1024 == 0:
        return canonical(f"{whole // 1024}Ki")
    return str(whole)
