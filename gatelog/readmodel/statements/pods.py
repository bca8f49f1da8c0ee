"""Pods of a group: all pods, and pods that end, wait for a replacement or stay at their gate.

Invariant: a pod was counted at a moment by its own times (`PODS_THEN`).
"""

IS_ENDING = """gone_at IS NULL AND deleted_at IS NOT NULL AND ended_at IS NULL AND node <> ''"""
"""Bound pods that are being deleted and whose end no kubelet has reported."""

ENDING = f"""
SELECT name, node, deleted_at
  FROM pods
 WHERE cluster = :cluster AND group_id = :group_id AND {IS_ENDING}
 ORDER BY deleted_at, uid LIMIT :limit
"""

UNSTARTED = """
SELECT name, created_at
  FROM pods
 WHERE cluster = :cluster AND group_id = :group_id AND gone_at IS NULL
   AND ungated_at IS NULL AND gated
 ORDER BY created_at DESC, uid LIMIT :limit
"""

UNREPLACED = """
SELECT name, ended_at, exit_reason
  FROM pods
 WHERE cluster = :cluster AND group_id = :group_id AND gone_at IS NULL
   AND finalizer AND phase = 'Failed' AND fate = '' AND ended_at IS NOT NULL
 ORDER BY ended_at, uid LIMIT :limit
"""

KEPT = """
SELECT name, told_reason AS reason, told_message AS message
  FROM pods
 WHERE cluster = :cluster AND group_id = :group_id AND gone_at IS NULL AND gated
   AND told_reason IN (:role, :larger, :place, :flavor, :size)
 ORDER BY created_at, uid LIMIT :limit
"""

PLACED = "SELECT 1 AS one FROM placements WHERE cluster = :cluster AND group_id = :group_id LIMIT 1"

_ENDED = "p.ended_at <= :at AND p.phase"

PODS_THEN = {
    "pods_seen": "1 = 1",
    "pods_gated": "(p.ungated_at > :at OR p.ungated_at IS NULL AND p.gated) AND {there}",
    "pods_ungated": "p.ungated_at <= :at",
    "pods_running": "p.started_at <= :at AND (p.ended_at IS NULL OR p.ended_at > :at) AND {there}",
    "pods_succeeded": f"{_ENDED} = 'Succeeded'",
    "pods_failed": f"{_ENDED} = 'Failed'",
    "pods_excess": "p.fate = 'excess'",
    "pods_replaced": "p.fate = 'replaced' AND p.ended_at <= :at",
}
"""Which pods `p` of a group a counter counted at parameter `at`."""


def counted(counter: str) -> str:
    """Return the condition that a pod `p` was counted by a counter of its group."""
    there = "(p.gone_at IS NULL OR p.gone_at > :at)"
    return f"p.created_at <= :at AND {PODS_THEN[counter].format(there=there)}"


def pods_then() -> str:
    """Return the columns that count pods `p` as the counters of their group were at `at`."""
    return ",\n       ".join(
        f"coalesce(sum(CASE WHEN {counted(name)} THEN 1 ELSE 0 END), 0) AS {name}"
        for name in PODS_THEN
    )


PODS = """
SELECT p.name, p.role, p.phase, p.node, p.fate, p.exit_reason, p.created_at, p.ungated_at,
       p.started_at, p.ended_at, p.gone_at, s.seen_at
  FROM pods p
  LEFT JOIN (SELECT h.pod_uid, min(h.at) AS seen_at FROM history h
              WHERE h.cluster = :cluster AND h.group_id = :group_id AND h.kind = 'PodSeen'
              GROUP BY h.pod_uid) s ON s.pod_uid = p.uid
 WHERE p.cluster = :cluster AND p.group_id = :group_id
 ORDER BY p.created_at, p.name, p.uid LIMIT :limit OFFSET :offset
"""
