"""Rules on changes of a Kueue Workload while it holds quota.

Theory: Kueue protects a Workload that has quota: pod sets, queue and priority class are fixed, the
admission may be withdrawn but not rewritten, and quota given up as reclaimable stays given up.
Quota without an admission that names as many pod sets as the spec is refused. (Kueue's Workload
validation; texts are its own where known.) Only Kueue's webhook keeps an admission from being
rewritten: another owner's CRD has no such webhook.

Invariant: ``update_causes(w, w)`` is empty for a Workload that is valid itself.
"""

from simcluster.errors import Cause, Obj
from simcluster.podrules import go


def _reserved(workload: Obj) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "QuotaReserved" and c.get("status") == "True" for c in conditions)


def update_causes(old: Obj, new: Obj, *, kueue: bool = True) -> list[Cause]:
    """Findings in a changed Workload; `kueue`: its webhook is there."""
    found: list[Cause] = []
    if _reserved(old) and _reserved(new):
        for name in ("podSets", "queueName"):
            before, after = (old.get("spec") or {}).get(name), (new.get("spec") or {}).get(name)
            if before != after:
                text = "field is immutable"
                found.append(Cause.invalid(f"spec.{name}", go(after), text))
        found += _reclaim_causes(old, new)
    before, after = ((w.get("status") or {}).get("admission") for w in (old, new))
    if kueue and before and after and _fixed(before) != _fixed(after):
        found.append(Cause.invalid("status.admission", go(after), "field is immutable"))
    if _reserved(new) and not (_reserved(old) and before == after):
        found += _admission_causes(new)
    return found


def _reclaim_causes(old: Obj, new: Obj) -> list[Cause]:
    """While quota is reserved, reclaimable pods only grow, up to their pod set's count."""
    before, after = (_reclaimable(w) for w in (old, new))
    at = "status.reclaimablePods"
    found = [
        Cause.required(f"{at}[{name}]", "cannot be removed") for name in before if name not in after
    ]
    counts = {p.get("name"): p.get("count", 1) for p in new["spec"].get("podSets") or ()}
    for name, count in after.items():
        if count < before.get(name, 0):
            text = f"cannot be less then {before[name]}"
            found.append(Cause.invalid(f"{at}[{name}].count", str(count), text))
        if name not in counts:
            names = [str(known) for known in counts]
            found.append(Cause.unsupported(f"{at}[{name}].name", f'"{name}"', names))
        elif count > counts[name]:
            text = f"should be less or equal to {counts[name]}"
            found.append(Cause.invalid(f"{at}[{name}].count", str(count), text))
    return found


def _reclaimable(workload: Obj) -> dict[str, int]:
    items = (workload.get("status") or {}).get("reclaimablePods") or ()
    return {item["name"]: item["count"] for item in items}


def _fixed(admission: Obj) -> Obj:
    """An admission without the parts that topology-aware scheduling may fill in later."""
    later = ("topologyAssignment", "delayedTopologyRequest")
    assignments = admission.get("podSetAssignments") or []
    plain = [{k: v for k, v in a.items() if k not in later} for a in assignments]
    return {**admission, "podSetAssignments": plain}


def _admission_causes(workload: Obj) -> list[Cause]:
    admission = (workload.get("status") or {}).get("admission")
    if not admission:
        text = "must be set while quota is reserved"
        return [Cause("status.admission", "FieldValueRequired", f"Required value: {text}")]
    assigned = len(admission.get("podSetAssignments") or [])
    wanted = len((workload.get("spec") or {}).get("podSets") or [])
    if assigned != wanted:
        text = f"must have the same number of podSets as the spec ({wanted})"
        return [Cause.invalid("status.admission.podSetAssignments", str(assigned), text)]
    return []
