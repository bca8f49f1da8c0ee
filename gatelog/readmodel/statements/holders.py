"""Holders of quota, now or at a past moment, idle holders, and groups that must give quota back.

Invariant: an admission is open from `admitted_at` to `released_at`.
"""

from datetime import datetime

import msgspec

from gatelog.readmodel.rows import HolderRow
from gatelog.readmodel.statements.pods import IS_ENDING
from podgroup.model.reasons import LARGER_THAN_ADMITTED, RUNNING_UNADMITTED
from projector.schema.dialect import swapped
from projector.schema.held_views import with_held
from projector.schema.pending import IDLE_REASON

IDLE = f"""
SELECT namespace, name, 'group' AS kind, 'Admitted' AS state, '' AS stage, queue, cluster_queue,
       NULL AS position, priority, '{IDLE_REASON}' AS reason, message, since
  FROM v_idle_holders
 WHERE cluster = :cluster AND (namespace = :namespace OR :namespace = '')
   AND (cluster_queue = :queue OR :queue = '')
 ORDER BY since, group_id LIMIT :limit
"""

_HOLDERS = f"""
SELECT h.namespace, h.name, h.state, h.priority, h.admitted_at, h.resources, h.beyond,
       (SELECT min(deleted_at) FROM pods
         WHERE cluster = :cluster AND group_id = h.id AND {IS_ENDING}) AS ending_at
  FROM (
    SELECT g.id, g.namespace, g.name, g.state, g.priority, a.admitted_at, a.resources AS resources,
           CASE WHEN g.reason = '{LARGER_THAN_ADMITTED}' THEN g.message ELSE '' END AS beyond
      FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
     WHERE a.cluster = :cluster AND a.cluster_queue = :cluster_queue AND a.released_at IS NULL
       AND g.gone_at IS NULL
     ORDER BY a.admitted_at, g.id LIMIT :limit) h
 ORDER BY h.admitted_at, h.id
"""

HOLDERS = with_held(_HOLDERS)

GIVING_WAY = f"""
SELECT g.namespace, g.name, g.id AS group_id, count(DISTINCT p.uid) AS pods,
       max(p.deleted_at) AS ending_at
  FROM preemptions x
  JOIN groups g ON g.cluster = x.cluster AND g.id = x.victim_id
  JOIN pods p ON p.cluster = x.cluster AND p.group_id = g.id
 WHERE x.cluster = :cluster AND (x.preemptor_id = :group_id OR :group_id = '')
   AND g.state = 'Evicted' AND g.gone_at IS NULL AND {swapped(IS_ENDING, "gone_at", "p.gone_at")}
 GROUP BY g.namespace, g.name, g.id
 ORDER BY ending_at, g.id LIMIT :limit
"""

UNADMITTED = f"""
SELECT g.namespace, g.name, g.state, g.priority, w.from_at AS since,
       p.requests AS resources
  FROM groups g
  JOIN waits w ON w.cluster = g.cluster AND w.group_id = g.id AND w.to_at IS NULL
  JOIN pods p ON p.cluster = g.cluster AND p.group_id = g.id
 WHERE g.cluster = :cluster AND w.reason = '{RUNNING_UNADMITTED}' AND p.gone_at IS NULL
   AND (g.cluster_queue = :cluster_queue OR g.cluster_queue IN (
       SELECT u.name FROM usage q
         JOIN usage u ON u.cluster = q.cluster AND u.root = q.root AND u.kind = q.kind
        WHERE q.cluster = :cluster AND q.kind = 'ClusterQueue' AND q.name = :cluster_queue
          AND q.root <> '' AND q.to_at IS NULL AND u.to_at IS NULL))
 ORDER BY w.from_at, g.id, p.uid LIMIT :limit
"""

ADMISSIONS = """
SELECT number, cluster_queue, flavors, resources, queued_at, admitted_at, released_at,
       release_reason, decided_by
  FROM admissions
 WHERE cluster = :cluster AND group_id = :group_id
 ORDER BY number DESC LIMIT :limit
"""

_HOLDING = """
SELECT g.id, g.namespace, g.name, g.state, g.priority, a.admitted_at, a.resources AS resources,
       (SELECT count(*) FROM pods p
         WHERE p.cluster = g.cluster AND p.group_id = g.id AND p.started_at <= :at
           AND (p.ended_at IS NULL OR p.ended_at > :at)
           AND (p.gone_at IS NULL OR p.gone_at > :at)) AS running,
       (SELECT max(coalesce(p.ended_at, p.gone_at)) FROM pods p
         WHERE p.cluster = g.cluster AND p.group_id = g.id AND p.started_at IS NOT NULL
           AND coalesce(p.ended_at, p.gone_at) BETWEEN a.admitted_at AND :at) AS last_ran_at
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.cluster_queue = :queue AND a.admitted_at <= :at
   AND (a.released_at IS NULL OR a.released_at > :at)
 ORDER BY a.admitted_at, g.id LIMIT :limit OFFSET :offset
"""

HOLDING = with_held(_HOLDING, ":at")

TAKEN_BACK = """
SELECT a.released_at AS at, a.release_reason AS reason, g.id, g.namespace, g.name
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.cluster_queue = :queue AND a.released_at >= :since
   AND a.released_at <= :until AND a.release_reason NOT IN ('', 'Finished', 'Gone')
 ORDER BY a.released_at, g.id LIMIT :limit
"""


class HoldingRow(HolderRow, frozen=True, kw_only=True):
    """A holder of quota at a moment, and whether any pod of it runs."""

    id: str
    running: int
    """Its running pods."""
    last_ran_at: datetime | None
    """When the last of its ended pods ended, within this admission."""

    @property
    def nothing_since(self) -> datetime | None:
        """Since when it has held quota and run nothing; None: something runs."""
        return None if self.running else self.last_ran_at or self.admitted_at


class TakenBackRow(msgspec.Struct, frozen=True):
    """An admission that was taken back by anything else than its end, and its group."""

    at: datetime
    reason: str
    id: str
    namespace: str
    name: str
