"""Queues and other objects: their folded records, and lists with held quota.

Invariant: column `folded` is the projector's own: `rows.ObjectRow` unpacks it.
"""

import msgspec

from projector.schema.pending import is_admitted

LISTED_QUEUES = f"""
WITH drained AS (
    SELECT q.cluster_queue,
           CASE WHEN count(*) = count(e.expected_at) THEN max(e.expected_at) END AS at
      FROM v_queue_position q
      LEFT JOIN estimates e ON e.cluster = q.cluster AND e.group_id = q.group_id
       AND e.came = '' AND e.replaced_at IS NULL
     WHERE q.cluster = :cluster
     GROUP BY q.cluster_queue),
live AS (
    SELECT namespace, queue, cluster_queue, groups AS pending, 0 AS admitted, oldest
      FROM v_pending WHERE cluster = :cluster
    UNION ALL
    SELECT namespace, queue, cluster_queue, 0, 1, NULL
      FROM groups
     WHERE cluster = :cluster AND gone_at IS NULL AND {is_admitted("state")})
SELECT o.kind, o.namespace, o.name, CAST(coalesce(sum(l.pending), 0) AS BIGINT) AS pending,
       CAST(coalesce(sum(l.admitted), 0) AS BIGINT) AS admitted, min(l.oldest) AS oldest,
       max(d.at) AS drained_at
  FROM objects o
  LEFT JOIN drained d ON o.kind = 'ClusterQueue' AND d.cluster_queue = o.name
  LEFT JOIN live l
    ON (o.kind = 'ClusterQueue' AND l.cluster_queue = o.name)
    OR (o.kind = 'LocalQueue' AND l.queue = o.name AND l.namespace = o.namespace)
 WHERE o.cluster = :cluster
   AND ((o.kind = 'ClusterQueue' AND :namespace = '')
        OR (o.kind = 'LocalQueue' AND (o.namespace = :namespace OR :namespace = '')))
 GROUP BY o.kind, o.namespace, o.name
 ORDER BY o.kind, o.namespace, o.name LIMIT :limit
"""

OBJECTS = """
SELECT namespace, name, uid, folded
  FROM objects
 WHERE cluster = :cluster AND kind = :kind AND (namespace = :namespace OR :namespace = '')
   AND (name = :name OR :name = '')
   AND (namespace > :after_namespace OR (namespace = :after_namespace AND name > :after_name))
 ORDER BY namespace, name LIMIT :limit
"""

QUEUES_NAMED = r"""
SELECT name FROM objects
 WHERE cluster = :cluster AND kind = 'ClusterQueue' AND lower(name) LIKE :text ESCAPE '\'
 ORDER BY name LIMIT :limit
"""


class NameRow(msgspec.Struct, frozen=True):
    """The name of an object."""

    name: str
