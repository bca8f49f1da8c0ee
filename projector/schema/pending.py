"""Pending groups and their order in the queue: conditions and an ORDER BY, as SQL.

Theory. The states are those of `podgroup.model.lifecycle`, the order is that of
`podgroup.admission.cache.queue_manager`: first groups whose quota is kept until victims have
stopped, and groups with a reserved start; then, where LocalQueues share by use, groups of the
LocalQueue that used least; then groups for which victims stopped; priority, highest first; waiting
since; id. Views and queries of the read side take both from here, so a position is the same
everywhere.

Invariant: texts of our own only, none of a user; an order ends in the id.
"""

from typing import Final

from podgroup.model.lifecycle import ADMITTED, PENDING, QUEUED, STAGES
from podgroup.model.names import WAITING_FOR_REPLACEMENT_PODS
from podgroup.model.wording import THERE, exist, too_few


def _texts(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def is_pending(state: str) -> str:
    """Return the condition that a group in `state` (a column) asks for quota and may not run."""
    return f"{state} IN ({_texts(PENDING)})"


def is_admitted(state: str) -> str:
    """Return the condition that a group in `state` is admitted, and its pods may run."""
    return f"{state} IN ({_texts(ADMITTED)})"


def stage(state: str, reason: str) -> str:
    """Return the stage of a group that is pending, by columns of its state and reason to wait."""
    cases = []
    for one in STAGES:
        waits = f" AND {reason} IN ({_texts(one.reasons)})" if one.reasons else ""
        cases.append(f"WHEN {state} = '{one.state}'{waits} THEN '{one.name}'")
    return f"CASE {' '.join(cases)} ELSE '' END"


def in_line(state: str, reason: str) -> str:
    """Return the condition that a group has a position in its queue."""
    (queued,) = (one for one in STAGES if one.name == QUEUED)
    others = tuple(word for one in STAGES if one.state == queued.state for word in one.reasons)
    return f"{state} = '{queued.state}' AND {reason} NOT IN ({_texts(others)})"


USE: Final = """LEFT JOIN objects cq ON cq.cluster = g.cluster AND cq.shard = g.shard
   AND cq.kind = 'ClusterQueue' AND cq.namespace = '' AND cq.name = g.cluster_queue
  LEFT JOIN objects lq ON lq.cluster = g.cluster AND lq.shard = g.shard
   AND lq.kind = 'LocalQueue' AND lq.namespace = g.namespace AND lq.name = g.queue"""
"""The join with the queues of groups `g` that `ORDER` needs."""

ORDER: Final = """CASE g.precedence WHEN 2 THEN 0 WHEN 3 THEN 1 ELSE 2 END,
                CASE WHEN cq.used IS NULL THEN 0 ELSE coalesce(lq.used, 0) END,
                CASE WHEN g.precedence = 1 THEN 0 ELSE 1 END, g.priority DESC,
                CASE WHEN g.precedence = 4 THEN 0 ELSE 1 END,
                coalesce(g.queued_at, g.created_at), g.id"""
"""The order of `g` in its queue."""

_PODS_THERE: Final = " + ".join(f"g.{counter}" for counter in THERE)
_TOTAL: Final = "' || CAST(g.total_count AS TEXT) || '"
_EXIST: Final = exist(
    f"' || CAST({_PODS_THERE} AS TEXT) || '",
    _TOTAL,
    f"' || CAST(g.total_count - ({_PODS_THERE}) AS TEXT) || '",
)
_TOO_FEW: Final = f"{too_few(_TOTAL)}%"

WAITS_FOR: Final = f"""CASE WHEN g.wait_reason <> '' THEN g.wait_reason ELSE g.reason END AS reason,
       CASE WHEN g.total_count > {_PODS_THERE} AND g.wait_message LIKE '{_TOO_FEW}'
            THEN '{_EXIST}'
            WHEN g.total_count > {_PODS_THERE} AND g.wait_reason = '{WAITING_FOR_REPLACEMENT_PODS}'
            THEN '{_EXIST}: ' || g.wait_message
            WHEN g.wait_reason <> '' THEN g.wait_message ELSE g.message END AS message"""
"""Why a pending group `g` waits: its reason to wait, else that of its state.

Pods by number where too few are there, as `gatelog.readmodel.advice.pods_exist` has it.
"""

IDLE_REASON: Final = WAITING_FOR_REPLACEMENT_PODS


def is_idle(g: str) -> str:
    """Return the condition that a group `g` holds quota and runs nothing, as rule explain says."""
    return f"({g}.state = 'Admitted' AND {g}.reason = '{IDLE_REASON}' AND {g}.gone_at IS NULL)"
