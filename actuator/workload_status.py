"""Status of Workloads: a merge patch from the wanted status and the status just read.

Theory. A JSON merge patch is the only kind of write that can take away an admission that another
field manager owns (a foreign server-side apply that omits it changes nothing). Merge patches
replace lists, so conditions are merged by type here, into the list just read; the resource version
of the read is the guard, and a conflict leads to another read.

Invariant: pure; conditions of others are never lost; a patch made against its own result is None.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from actuator.patches import Json, seconds
from podgroup.model.commands import Admission, WriteWorkloadStatus
from podgroup.model.objects import Condition, RequeueState
from podgroup.model.quantities import format_amount
from podgroup.model.topology_json import written

_EXECUTED = {
    "v1beta2": "accumulatedPastExecutionTimeSeconds",
    "v1beta1": "accumulatedPastExexcutionTimeSeconds",  # as misspelt in the API
}


def status(
    command: WriteWorkloadStatus, live: Mapping[str, Any], version: str, at: datetime
) -> Json | None:
    """Return the merge patch for the status subresource, None if nothing differs.

    `at` replaces the transition time of a condition that brings none. The patch carries the
    resource version it was made for: another write in between makes it fail with 409.
    """
    before: Mapping[str, Any] = live.get("status") or {}
    generation = live["metadata"].get("generation", 0)
    wanted: Json = {}
    if command.conditions:
        wanted["conditions"] = merge_conditions(
            before.get("conditions") or (), command.conditions, generation, at
        )
    if command.clear_admission:
        wanted["admission"] = None
    elif command.admission is not None:
        wanted["admission"] = admission(command.admission, version)
    if command.reclaimable is not None:
        wanted["reclaimablePods"] = [
            {"name": name, "count": count} for name, count in command.reclaimable.items()
        ]
    if command.executed_s is not None:
        wanted[_EXECUTED[version]] = command.executed_s
    if command.checks is not None:
        wanted["admissionChecks"] = checks(
            before.get("admissionChecks") or (), command.checks, at, reset=command.reset_checks
        )
    if command.requeue is not None:
        wanted["requeueState"] = requeue_state(command.requeue, before.get("requeueState"))
    changed = {key: value for key, value in wanted.items() if _differs(key, before, value)}
    if not changed:
        return None
    meta = live["metadata"]
    guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {"metadata": guard, "status": changed}


def first(command: WriteWorkloadStatus, version: str, at: datetime) -> Json:
    """Return the status that a Workload is created with."""
    new = {"metadata": {"uid": "", "resourceVersion": "", "generation": 1}}
    patch = status(command, new, version, at)
    return patch["status"] if patch is not None else {}


def _differs(key: str, status: Mapping[str, Any], after: Any) -> bool:
    before = status.get(key)
    if key == "reclaimablePods":  # a map by name in the API: its order means nothing
        return _by_name(before) != _by_name(after)
    return bool(before or after) and before != after


def _by_name(items: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    return {item["name"]: item["count"] for item in items or ()}


def admission(wanted: Admission, version: str) -> Json:
    """Return status.admission."""
    assignments: list[Json] = []
    for item in wanted.assignments:
        usage = {name: format_amount(name, amount) for name, amount in item.usage.items()}
        found: Json = {
            "name": item.name,
            "flavors": dict(item.flavors),
            "resourceUsage": usage,
            "count": item.count,
        }
        if item.place is not None and item.place.domains:
            found["topologyAssignment"] = written(item.place, version)
        assignments.append({key: value for key, value in found.items() if value not in ({}, None)})
    return {"clusterQueue": wanted.cluster_queue, "podSetAssignments": assignments}


def requeue_state(wanted: RequeueState, live: Mapping[str, Any] | None) -> Json | None:
    """Return status.requeueState, None for an empty one; null removes a live value."""
    found: Json = {"count": wanted.count} if wanted.count else {}
    if wanted.at is not None:
        found["requeueAt"] = seconds(wanted.at)
    if not found:
        return None
    return {**dict.fromkeys(live or (), None), **found}


def checks(
    live: Sequence[Mapping[str, Any]], wanted: Sequence[str], at: datetime, *, reset: bool
) -> list[Json]:
    """Return status.admissionChecks with an entry for each wanted check.

    The state that a controller wrote stays; with `reset` the check goes back to Pending, with its
    former state in the message and a count of Retry.
    """
    known = {found["name"]: dict(found) for found in live}
    return [_check(name, known.get(name), at, reset=reset) for name in wanted]


def _check(name: str, found: Json | None, at: datetime, *, reset: bool) -> Json:
    state = found["state"] if found is not None else ""
    if found is not None and (not reset or state == "Pending"):
        return found
    made: Json = {
        "name": name,
        "state": "Pending",
        "message": f"Pending again; was {state}" if state else "",
        "lastTransitionTime": seconds(at),
    }
    again = (found or {}).get("retryCount", 0) + (state == "Retry")
    return {**made, "retryCount": again} if again else made


def merge_conditions(
    live: Sequence[Mapping[str, Any]],
    wanted: Sequence[Condition],
    generation: int,
    at: datetime,
) -> list[Json]:
    """Return the live conditions with the wanted ones merged in by type.

    The transition time moves only when the status does, as apimachinery's SetStatusCondition
    does it; conditions of others keep their place and bytes.
    """
    merged: list[Json] = [dict(found) for found in live]
    places = {found["type"]: place for place, found in enumerate(merged)}
    for item in wanted:
        place = places.get(item.type)
        old = merged[place] if place is not None else None
        new: Json = {
            "type": item.type,
            "status": item.status,
            "reason": item.reason or item.type,
            "message": item.message,
            "lastTransitionTime": seconds(item.at or at),
            "observedGeneration": generation,
        }
        if old is not None and old.get("status") == item.status:
            new["lastTransitionTime"] = old.get("lastTransitionTime", new["lastTransitionTime"])
        if place is None:
            places[item.type] = len(merged)
            merged.append(new)
        else:
            merged[place] = new
    return merged
