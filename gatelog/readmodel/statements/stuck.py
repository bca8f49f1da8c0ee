"""What does not go on: parked events, decisions without outcome, writes in vain, groups that stay.

Invariant: what went on since is left out.
"""

from datetime import datetime

import msgspec

from projector.schema.dialect import swapped

PARKED_COUNT = """
SELECT count(*) AS kept, count(g.id) AS standing, max(p.at) AS newest_at
  FROM parked p
  LEFT JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id AND g.parked <> ''
 WHERE p.cluster = :cluster AND p.resolution = ''
"""

PARKED_OF = """
SELECT p.object, p.message, max(p.seq) AS seq
  FROM parked p
 WHERE p.cluster = :cluster AND p.resolution = ''
   AND (p.group_id = :group_id OR p.object = :pod
        OR (p.group_id = :name
            AND substr(p.object, 1, length(CAST(:pods AS TEXT))) = CAST(:pods AS TEXT)))
   AND NOT EXISTS (
       SELECT 1 FROM pods q
        WHERE q.cluster = p.cluster AND q.as_of_seq > p.seq
          AND 'Pod ' || q.namespace || '/' || q.name = p.object)
 GROUP BY p.object, p.message ORDER BY seq DESC LIMIT :limit
"""

UNRESOLVED_COUNT = """
SELECT count(*)
  FROM decisions
 WHERE cluster = :cluster AND status IS NULL AND issued_at < :before
"""

REPEATED = """
WITH vain AS (
    SELECT group_id, action, target, count(*) AS times, min(issued_at) AS since,
           max(issued_at) AS last_at, max(shard) AS shard, max(number) AS number
      FROM decisions
     WHERE cluster = :cluster AND issued_at >= :since
       AND (status IN ('rejected', 'obsolete') OR action = 'KeepPod')
     GROUP BY group_id, action, target
    HAVING count(*) >= :times AND max(issued_at) >= :lately)
SELECT g.namespace, g.name, g.state, v.action, v.target, v.times, v.since, v.last_at,
       coalesce(d.status, '') AS status,
       coalesce((SELECT http_status FROM outcomes o
                  WHERE o.cluster = :cluster AND o.decision_id = d.id
                  ORDER BY seq DESC, attempt DESC LIMIT 1), 0) AS http_status,
       coalesce((SELECT message FROM outcomes o
                  WHERE o.cluster = :cluster AND o.decision_id = d.id
                  ORDER BY seq DESC, attempt DESC LIMIT 1), '') AS said
  FROM vain v
  JOIN groups g ON g.cluster = :cluster AND g.id = v.group_id AND g.gone_at IS NULL
  JOIN decisions d ON d.cluster = :cluster AND d.shard = v.shard AND d.number = v.number
 WHERE NOT EXISTS (
       SELECT 1 FROM decisions l
        WHERE l.cluster = :cluster AND l.group_id = v.group_id AND l.target = v.target
          AND l.action = v.action AND l.status = 'applied' AND l.number > v.number)
 ORDER BY v.times DESC, g.namespace, g.name, v.target, v.action LIMIT :limit
"""

REPEATED_OF_GROUP = swapped(
    REPEATED,
    "cluster = :cluster AND issued_at >=",
    "cluster = :cluster AND group_id = :group_id AND issued_at >=",
)

HELD_UP = """
SELECT namespace, name, kind, state, queue, cluster_queue, priority, pods, since, decided,
       decided_at, tries, last_at, http_status, said
  FROM v_held_up
 WHERE cluster = :cluster AND (group_id = :group_id OR :group_id = '')
   AND (namespace = :namespace OR :namespace = '') AND since <= :before
 ORDER BY since, group_id LIMIT :limit
"""

STANDING = """
SELECT namespace, name, state,
       CASE WHEN state = 'Finishing' THEN finished_at ELSE wait_since END AS since, parked
  FROM groups
 WHERE cluster = :cluster AND gone_at IS NULL
   AND (parked <> '' OR (state = 'Finishing' AND finished_at < :before))
 ORDER BY created_seq, id LIMIT :limit
"""

SAYING = """
SELECT namespace, name, kind, state, reason, message, workload_name
  FROM groups
 WHERE cluster = :cluster AND gone_at IS NULL
   AND reason IN (:one, :two, :three)
 ORDER BY created_seq, id LIMIT :limit
"""

SPARED = """
SELECT count(*) FROM groups
 WHERE cluster = :cluster AND gone_at IS NULL AND workload_name = '' AND complete_at IS NOT NULL
"""

PARKED = """
SELECT seq, ord, at, reason, object, message
  FROM parked
 WHERE cluster = :cluster AND resolution = ''
 ORDER BY seq DESC, ord LIMIT :limit
"""

UNRESOLVED = """
SELECT action, count(*) AS decisions, min(issued_at) AS oldest
  FROM decisions
 WHERE cluster = :cluster AND status IS NULL
 GROUP BY action
 ORDER BY action LIMIT :limit
"""


class ParkedRow(msgspec.Struct, frozen=True):
    """A parked event."""

    seq: int
    ord: int
    at: datetime
    reason: str
    object: str
    message: str


class UnresolvedRow(msgspec.Struct, frozen=True):
    """Decisions without outcome."""

    action: str
    decisions: int
    oldest: datetime
