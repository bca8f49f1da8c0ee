"""Carrying out commands on queues: their status, and the finalizer of objects in use.

Theory. There are few of these and they change seldom, so each write follows a fresh read and is
guarded by its resource version; the fields of others are kept. Amounts have the API server's form
of quantities, so that equal amounts compare equal.

Invariant: a write changes only what the command names, and a repetition changes nothing.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from actuator.kubeapi import MERGE_PATCH, KubeApi
from actuator.patches import Json, seconds
from actuator.verdicts import Verdict, applied, gone_from, judge, obsolete
from actuator.workload_status import merge_conditions
from podgroup.model.commands import Command, MarkInUse, ReportQueue, WriteQueueStatus
from podgroup.model.names import WORKLOAD_FINALIZER
from podgroup.model.quantities import format_amount
from podgroup.model.standing import Amount, Standing

MOST = 64
"""Flavors, and resources of a flavor, that fit into a status."""


async def write_status(api: KubeApi, command: WriteQueueStatus, at: datetime) -> Verdict:
    """Merge the condition; `at`, the time of the decision, is when it came to hold."""

    def wanted(live: Json, status: Json) -> Json:
        before, generation = status.get("conditions") or [], live["metadata"].get("generation", 0)
        return {"conditions": merge_conditions(before, (command.condition,), generation, at)}

    return await _write(api, command, wanted)


async def report(api: KubeApi, command: ReportQueue) -> Verdict:
    """Write counts and usage."""
    return await _write(api, command, lambda _, __: status_of(command))


async def mark(api: KubeApi, command: MarkInUse) -> Verdict:
    """Put our finalizer on or take it off; the finalizers of others stay."""
    found = await api.get(command.target)
    gone = gone_from(found, command.target)
    if gone is not None:
        return gone
    meta = found.object()["metadata"]
    before = meta.get("finalizers") or []
    if command.off != (WORKLOAD_FINALIZER in before):
        return applied(found, f"{found.path}: is so already")
    if not command.off and meta.get("deletionTimestamp"):
        return obsolete(f"{found.path}: is being deleted")
    after = [name for name in before if name != WORKLOAD_FINALIZER]
    guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    wanted = after if command.off else [*before, WORKLOAD_FINALIZER]
    body = {"metadata": {**guard, "finalizers": wanted}}
    return judge(await api.patch(command.target, body, MERGE_PATCH))


async def _write(
    api: KubeApi, command: Command, wanted: Callable[[Json, Json], dict[str, Any]]
) -> Verdict:
    target = command.target
    found = await api.get(target)
    gone = gone_from(found, target)
    if gone is not None:
        return gone
    live = found.object()
    meta, status = live["metadata"], live.get("status") or {}
    changed = {k: v for k, v in wanted(live, status).items() if status.get(k) != v}
    if not changed:
        return applied(found, f"{found.path}: is so already")
    guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    body = {"metadata": guard, "status": changed}
    return judge(await api.patch(target, body, MERGE_PATCH, subresource="status"))


def status_of(command: ReportQueue) -> dict[str, Any]:
    """Return the fields of a status, as v1beta2 names them; None takes one away."""
    standing, kind = command.standing, command.target.kind
    share = {"weightedShare": standing.share} if command.fair_sharing else None
    if kind == "Cohort":
        return {"fairSharing": share}
    found: dict[str, Any] = {
        "pendingWorkloads": standing.pending,
        "reservingWorkloads": standing.reserving,
        "admittedWorkloads": standing.admitted,
        "flavorsReservation": _flavors(standing, kind, lambda a: a.reserved),
        "flavorsUsage": _flavors(standing, kind, lambda a: a.used),
    }
    if kind == "LocalQueue":
        return found | {"fairSharing": _lately(standing)}
    return found | {"fairSharing": share}


def _lately(standing: Standing) -> Json | None:
    """Return what a LocalQueue used lately, as Kueue's admission fair sharing shows it."""
    if (used := standing.consumed) is None:
        return None
    return {
        "weightedShare": 0,
        "admissionFairSharingStatus": {
            "consumedResources": dict(used.amounts[:MOST]),
            "lastUpdate": seconds(used.at),
        },
    }


def _flavors(standing: Standing, kind: str, taken: Callable[[Amount], int]) -> list[Json]:
    flavors: dict[str, list[Json]] = {}
    for amount in standing.amounts:
        total = taken(amount)
        one = {"name": amount.resource, "total": format_amount(amount.resource, total)}
        if kind == "ClusterQueue":
            # Of the amount that is admitted, as in Kueue: the queue's own quota is used first.
            above = max(0, total - amount.nominal) if standing.cohort else 0
            one["borrowed"] = format_amount(amount.resource, above)
        flavors.setdefault(amount.flavor, []).append(one)
    return [
        {"name": name, "resources": resources[:MOST]}
        for name, resources in list(flavors.items())[:MOST]
    ]
