"""Holds a play against what was recorded, field by field."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

EVENTS = ("finished", "deleted", "submitted", "evictionsCompleted")
HEAD = (
    "workload",
    "mode",
    "borrow",
    "podSets",
    "targets",
    "status",
    "requeue",
    "reason",
    "message",
    "preemptor",
)
AFTER = ("admitted", "preempted", "active", "inadmissible")
FINAL = (
    "admitted",
    "pending",
    "usage",
    "cohortUsage",
    "subtreeQuota",
    "available",
    "potentialAvailable",
)
FIELDS = (
    "steps",
    *EVENTS,
    "heads",
    *(f"head.{name}" for name in (*HEAD, "order", "tried")),
    *AFTER,
    "quiescent",
    "period",
    "stepsRun",
    *(f"final.{name}" for name in (*FINAL, "shares", "cohortShares", "afs")),
)


class Difference(NamedTuple):
    """Where a play differs: the step (0: the end), the field, and both values."""

    step: int
    field: str
    played: Any
    recorded: Any


def differences(played: dict[str, Any], recorded: dict[str, Any]) -> Iterator[Difference]:
    """Yield all differences, the first step first."""
    ours = {step["step"]: step for step in played["steps"]}
    theirs = {step["step"]: step for step in recorded["steps"]}
    for number in sorted(ours.keys() | theirs.keys()):
        if number not in ours or number not in theirs:
            yield Difference(number, "steps", number in ours, number in theirs)
            continue
        yield from _step(number, ours[number], theirs[number])
    for name in ("quiescent", "period", "stepsRun"):
        if played[name] != recorded[name]:
            yield Difference(0, name, played[name], recorded[name])
    yield from _final(played["final"], recorded["final"])


def _step(number: int, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Difference]:
    for name in EVENTS:
        if (ours.get(name) or []) != (theirs.get(name) or []):
            yield Difference(number, name, ours.get(name), theirs.get(name))
    mine = {head["clusterQueue"]: head for head in ours["heads"]}
    other = {head["clusterQueue"]: head for head in theirs["heads"]}
    if mine.keys() != other.keys() or len(mine) != len(ours["heads"]):
        yield Difference(number, "heads", sorted(mine), sorted(other))
    for queue in sorted(mine.keys() & other.keys()):
        yield from _head(number, queue, mine[queue], other[queue])
    for name in AFTER:
        if ours[name] != theirs[name]:
            yield Difference(number, name, ours[name], theirs[name])


def _head(
    number: int, queue: str, ours: dict[str, Any], theirs: dict[str, Any]
) -> Iterator[Difference]:
    for name in HEAD:
        mine, other = ours.get(name) or None, theirs.get(name) or None
        if name == "podSets":
            tried = _part(mine, "tried"), _part(other, "tried")
            if tried[0] != tried[1]:
                yield Difference(number, "head.tried", (queue, tried[0]), tried[1])
            mine, other = _part(mine, "flavors"), _part(other, "flavors")
        if mine != other:
            yield Difference(number, f"head.{name}", (queue, mine), other)
    if theirs["order"] is not None and theirs["mode"] and ours["order"] != theirs["order"]:
        yield Difference(number, "head.order", (queue, ours["order"]), theirs["order"])


def _part(sets: list[dict[str, Any]] | None, name: str) -> list[Any]:
    return [(one["name"], one.get(name) or {}) for one in sets or ()]


def _final(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Difference]:
    for name in FINAL:
        if ours[name] != theirs[name]:
            yield Difference(0, f"final.{name}", ours[name], theirs[name])
    for name in ("shares", "cohortShares"):
        if name not in theirs:
            continue
        mine = ours.get(name, {})
        other = {k: float(v.replace("+Inf", "inf")) for k, v in theirs[name].items()}
        if mine.keys() != other.keys() or any(
            mine[k] != other[k] and not math.isclose(mine[k], other[k], rel_tol=1e-9) for k in mine
        ):
            yield Difference(0, f"final.{name}", mine, other)
    if "afs" in theirs:
        used = {k: _nonzero(v["consumed"]) for k, v in theirs["afs"].items()}
        known = {k: _nonzero(ours.get("afs", {}).get(k, {})) for k in used}
        if known != used or any(_nonzero(v.get("penalty") or {}) for v in theirs["afs"].values()):
            yield Difference(0, "final.afs", known, used)


def _nonzero(amounts: dict[str, Any]) -> dict[str, Decimal]:
    return {r: Decimal(str(a)) for r, a in amounts.items() if Decimal(str(a))}


def decided(outcome: dict[str, Any]) -> Any:
    """Return what matters in the end: who has what, who was preempted for whom, does it settle."""
    held = [
        (
            one["workload"],
            one["clusterQueue"],
            [sorted(pod_set["flavors"].items()) for pod_set in one["podSets"]],
        )
        for one in outcome["final"]["admitted"]
    ]
    preempted = [
        (one["workload"], one["by"]) for step in outcome["steps"] for one in step["preempted"]
    ]
    return sorted(held), sorted(preempted), outcome["quiescent"]
