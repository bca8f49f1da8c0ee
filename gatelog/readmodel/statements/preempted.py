"""Preemptions: victims and preemptors, cost and gain.

Invariant: a side that `:own` may not see is "".
"""

from datetime import datetime

import msgspec

_VICTIM_SEEN, _PREEMPTOR_SEEN = (f":own IN ('', {side}.namespace)" for side in "dp")
"""Whether a side may be named: `:own` is the user's only namespace, '' for all."""


def _named(column: str) -> str:
    seen = _VICTIM_SEEN if column[0] in "dv" else _PREEMPTOR_SEEN
    return f"CASE WHEN {seen} THEN {column} ELSE '' END"


def _came_of(column: str) -> str:
    return f"""(SELECT r.{column} FROM v_preemptions r WHERE r.cluster = d.cluster
               AND r.victim_id = d.group_id AND r.seq = d.as_of_seq)"""


PREEMPTED = f"""
WITH page AS (
SELECT d.id, d.issued_at, d.as_of_seq, d.cluster, d.group_id, d.namespace, d.name, d.message,
       d.command ->> 'message' AS plainly, p.id AS preemptor_id
  FROM decisions d JOIN groups p ON p.cluster = d.cluster
   AND p.id = d.command ->> 'preempted_by'
 WHERE d.cluster = :cluster AND d.rule = 'preempt' AND d.issued_at >= :since
   AND d.issued_at <= :until
   AND (d.group_id = :group_id OR p.id = :group_id OR :group_id = '')
   AND (d.namespace = :namespace OR p.namespace = :namespace OR :namespace = '')
 ORDER BY d.issued_at DESC, d.id LIMIT :limit)
SELECT d.issued_at, {_named("d.group_id")} AS victim_id,
       {_named("d.namespace")} AS victim_namespace, {_named("d.name")} AS victim,
       {_named("p.id")} AS preemptor_id,
       {_named("p.namespace")} AS preemptor_namespace, {_named("p.name")} AS preemptor,
       p.priority,
       CASE WHEN {_PREEMPTOR_SEEN} THEN d.message ELSE d.plainly END AS message,
       CASE WHEN {_VICTIM_SEEN} THEN {_came_of("lost_hours")} END AS lost_hours,
       CASE WHEN {_PREEMPTOR_SEEN} THEN {_came_of("brought")} END AS brought,
       CASE WHEN {_PREEMPTOR_SEEN} THEN {_came_of("admitted_after_seconds")} END
       AS admitted_after_seconds,
       CASE WHEN {_PREEMPTOR_SEEN} THEN {_came_of("ran_seconds")} END AS ran_seconds
  FROM page d JOIN groups p ON p.cluster = d.cluster AND p.id = d.preemptor_id
 ORDER BY d.issued_at DESC, d.id
"""
"""The page comes first, and the view is queried by the keys of its rows: beside a left join SQLite
would compute all of it.
"""

PREEMPTED_SUMS = f"""
SELECT {_named("d.namespace")} AS victim_namespace, {_named("v.cluster_queue")} AS victim_queue,
       {_named("p.namespace")} AS preemptor_namespace,
       {_named("p.cluster_queue")} AS preemptor_queue,
       count(*) AS preemptions, count(DISTINCT d.group_id) AS victims, max(d.issued_at) AS last_at
  FROM decisions d
  JOIN groups p ON p.cluster = d.cluster AND p.id = d.command ->> 'preempted_by'
  JOIN groups v ON v.cluster = d.cluster AND v.id = d.group_id
 WHERE d.cluster = :cluster AND d.rule = 'preempt' AND d.issued_at >= :since
   AND d.issued_at <= :until
   AND (d.namespace = :namespace OR p.namespace = :namespace OR :namespace = '')
 GROUP BY 1, 2, 3, 4
 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT :limit
"""


PREEMPTED_FOR = """
SELECT x.at, x.preemptor_namespace AS namespace, x.preemptor_name AS name,
       x.preemptor_priority AS priority
  FROM preemptions x
 WHERE x.cluster = :cluster AND x.victim_id = :group_id AND x.at <= :at
   AND x.at >= (SELECT max(a.admitted_at) FROM admissions a
                 WHERE a.cluster = :cluster AND a.group_id = :group_id AND a.admitted_at <= :at)
 ORDER BY x.seq DESC LIMIT 1
"""
"""The preemptor that took a group's latest admission up to a moment; no row: none did."""


class PreemptorRow(msgspec.Struct, frozen=True):
    """The preemptor of a group, and when it preempted."""

    at: datetime
    namespace: str
    name: str
    priority: int


class PreemptedRow(msgspec.Struct, frozen=True):
    """Victim and preemptor; "" for names in a namespace that the user may not see."""

    issued_at: datetime
    victim_id: str
    victim_namespace: str
    victim: str
    preemptor_id: str
    preemptor_namespace: str
    preemptor: str
    priority: int
    message: str
    lost_hours: dict[str, float] | None
    """The victim's quota times its hours, by resource; None: not seen, or not in the log."""
    brought: str | None
    """As in `v_preemptions`, also for a past moment: what followed."""
    admitted_after_seconds: float | None
    ran_seconds: float | None


class PreemptedSum(msgspec.Struct, frozen=True):
    """Preemptions of one namespace and ClusterQueue for another, added up.

    Namespaces that the user may not see are one sum, with "" for their names.
    """

    victim_namespace: str
    victim_queue: str
    preemptor_namespace: str
    preemptor_queue: str
    preemptions: int
    victims: int
    last_at: datetime
