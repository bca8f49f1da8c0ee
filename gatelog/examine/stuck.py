"""Looking for writes that are repeated without effect, and for groups that stand still.

Invariant: reads what the read model says; both lists are bounded, and the first few are named.
"""

from collections.abc import Sequence
from datetime import datetime

from gatelog.examine.findings import Finding, fail, ok, some, warn
from gatelog.readmodel import repeats
from gatelog.readmodel.explain import making_room
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.timeline import duration, plain
from gatelog.shell.remedies import remedy
from podgroup.model.reasons import effect_of, reason_of

AREA = "database"
_SAID = 400
"""Characters of the text about a group."""


def examine(model: ReadModel, now: datetime) -> list[Finding]:
    """Return findings about refused and repeated writes, groups, idle quota, and preemption."""
    return [
        _refused(model),
        _large(model),
        _writes(model, now),
        _groups(model, now),
        _idle(model, now),
        _preempted(model, now),
    ]


def _refused(model: ReadModel) -> Finding:
    rows = model.refused()
    if not rows:
        return ok(AREA, "refused", "the API server takes what gatelog writes to pods and Workloads")
    said = [
        f"{row.namespace}/{row.name} ({row.state}): {plain(row.message)[:_SAID]}" for row in rows
    ]
    # A group in builtin mode runs without its Workload.
    hurts = any(effect_of(row.reason).refused or row.state == "Blocked" for row in rows)
    words = dict.fromkeys(row.reason for row in rows)
    takes = [reason_of(word).advice for word in words]
    names = {"namespace": rows[0].namespace, "workload_name": rows[0].workload_name}
    remedy = "; ".join(advice.format(**names) for advice in takes)
    return (fail if hurts else warn)(AREA, "refused", _some(said), f"it takes {remedy}")


def _large(model: ReadModel) -> Finding:
    rows = model.too_large()
    if not rows:
        return ok(AREA, "large pods", "no pod takes too much memory to be read")
    said = [f"{row.namespace}/{row.name}: {plain(row.message)[:_SAID]}" for row in rows]
    takes = dict.fromkeys(
        reason_of(row.reason).advice.format(namespace=row.namespace) for row in rows
    )
    return warn(AREA, "large pods", _some(said), f"it takes {_some(list(takes))}")


def _writes(model: ReadModel, now: datetime) -> Finding:
    rows = model.repeated(now)
    if not rows:
        return ok(AREA, "writes", "none is repeated without effect")
    said = [
        f"{row.namespace}/{row.name} ({row.state}): {repeats.sentence(row, now)}" for row in rows
    ]
    remedies = dict.fromkeys(repeats.advice(row) for row in rows[: repeats.MOST])
    look = f"look: gatelog history {rows[0].namespace}/{rows[0].name}"
    return warn(AREA, "writes", _some(said), "; ".join([*remedies, look]))


def _groups(model: ReadModel, now: datetime) -> Finding:
    rows = model.standing(now - repeats.TOO_LONG)
    if not rows:
        return ok(AREA, "groups", "none is stuck")
    first = f"{rows[0].namespace}/{rows[0].name}"
    return warn(
        AREA,
        "groups",
        _some([repeats.standing(row) for row in rows]),
        f"what was tried last: gatelog history {first} --full; of one that is parked: gatelog "
        "parked; of one that is over: which pod still has a finalizer of gatelog's, and is an "
        "actuator running?",
    )


def _preempted(model: ReadModel, now: datetime) -> Finding:
    rows = model.giving_way(limit=100)
    if not rows:
        return ok(AREA, "preempted", "no preempted group still stops")
    said = _some([making_room(row, now) for row in rows])
    if rows[0].ending_at >= now:
        return ok(AREA, "preempted", said)
    return warn(
        AREA,
        "preempted",
        said,
        "does its node answer? kubectl delete node NODE if it is gone for good; how long preempted "
        "pods have is queueing.preemption_grace_s",
    )


def _idle(model: ReadModel, now: datetime) -> Finding:
    rows = model.idle()
    if not rows:
        return ok(AREA, "idle quota", "no group holds quota and waits for replacement pods")
    said = []
    for row in rows:
        span = "" if row.since is None else f" for {duration((now - row.since).total_seconds())}"
        said.append(f"{row.namespace}/{row.name} in ClusterQueue {row.cluster_queue}{span}")
    return warn(
        AREA,
        "idle quota",
        f"held while nothing runs: {_some(said)}",
        "the pods' creator replaces those that failed; or, to end at once a group whose "
        "pods were deleted: "
        + remedy("deleted group")
        .replace("NAMESPACE", rows[0].namespace)
        .replace("GROUP", rows[0].name)
        + " (view v_idle_holders: what each holds)",
    )


def _some(said: Sequence[str]) -> str:
    return some(said, repeats.MOST)
