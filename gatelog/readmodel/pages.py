"""The statements of `gatelog serve`, over the public tables.

Theory. Most have the same text for both databases; those that open a document take the spelling
from `projector.schema.views`. A filter of a user is one of the fragments here with its value as a
parameter, never text of theirs. Lists are read in pages by key, so that the last page costs what
the first does.

Invariant: parameters are named, every list has a LIMIT, and order ends in the id.
"""

from collections.abc import Sequence

from gatelog.readmodel.statements import GROUP_COLUMNS, OF_GROUP, OF_POD, OF_WORKLOAD, lives
from projector.schema.pending import in_line, is_admitted, is_pending

FIRST_LABELS = """(SELECT p.labels FROM pods p WHERE p.cluster = g.cluster AND p.group_id = g.id
         ORDER BY p.seen_seq, p.uid LIMIT 1)"""
"""Labels of the first pod of `g`."""
LIFE_COLUMNS = f"""{GROUP_COLUMNS}, g.created_seq,
       {FIRST_LABELS} AS labels,
       e.expected_at, e.earliest_at, e.latest_at, e.never, f.at AS forecast_at"""
_SEEN_COLUMNS = f"""{LIFE_COLUMNS},
       (SELECT n.reason {OF_GROUP}
         GROUP BY n.reason ORDER BY count(*) DESC, n.reason LIMIT 1) AS pods_wait_for,
       (SELECT count(*) {OF_GROUP}) AS pods_waiting"""

STANDING = "e.came = '' AND e.replaced_at IS NULL"
"""Condition on an estimate: it holds now."""
ESTIMATED = f"""
  LEFT JOIN estimates e ON e.cluster = g.cluster AND e.group_id = g.id AND {STANDING}
   AND {is_pending("g.state")}
  LEFT JOIN forecasts f ON f.cluster = e.cluster AND f.shard = e.shard"""
_GROUPS = f"groups g{ESTIMATED}"

_IN_LINE = """
SELECT q.group_id AS id, q.namespace, q.name, q.queue, q.cluster_queue, q.priority,
       q.position, q.local_position, g.workload_name, g.created_at, g.complete_at, q.queued_at
  FROM v_queue_position q JOIN groups g ON g.cluster = q.cluster AND g.id = q.group_id
 WHERE q.cluster = :cluster"""

IN_CLUSTER_QUEUE = f"""{_IN_LINE} AND q.cluster_queue = :queue
 ORDER BY q.position LIMIT :limit OFFSET :offset
"""

IN_LOCAL_QUEUE = f"""{_IN_LINE} AND q.namespace = :namespace AND q.queue = :queue
 ORDER BY q.local_position LIMIT :limit OFFSET :offset
"""

OBJECTS = """
SELECT namespace, name, uid, folded
  FROM objects
 WHERE cluster = :cluster AND kind = :kind AND (namespace = :namespace OR :namespace = '')
   AND (name = :name OR :name = '')
   AND (namespace > :after_namespace OR (namespace = :after_namespace AND name > :after_name))
 ORDER BY namespace, name LIMIT :limit
"""

COUNTS = f"""
SELECT cluster_queue, namespace, queue, stage, groups, oldest
  FROM v_pending
 WHERE cluster = :cluster AND (namespace = :namespace OR :namespace = '')
   AND (cluster_queue = :queue OR :queue = '')
UNION ALL
SELECT g.cluster_queue, g.namespace, g.queue, 'admitted', count(*), NULL
  FROM groups g
 WHERE g.cluster = :cluster AND g.gone_at IS NULL AND {is_admitted("g.state")}
   AND (g.namespace = :namespace OR :namespace = '')
   AND (g.cluster_queue = :queue OR :queue = '')
 GROUP BY g.cluster_queue, g.namespace, g.queue
 ORDER BY 1, 2, 3, 4 LIMIT :limit
"""
"""Groups that are pending, by stage, and those that are admitted."""

ADMISSIONS = """
SELECT number, cluster_queue, flavors, resources, queued_at, admitted_at, released_at,
       release_reason, decided_by
  FROM admissions
 WHERE cluster = :cluster AND group_id = :group_id
 ORDER BY number DESC LIMIT :limit
"""

POSITION = """
SELECT seq, written_at
  FROM checkpoints
 WHERE cluster = :cluster AND shard = 0
"""

CHANGED = f"""
SELECT {_SEEN_COLUMNS}
  FROM {_GROUPS}
 WHERE g.cluster = :cluster AND g.id IN (
       SELECT c.id FROM groups c
        WHERE c.cluster = :cluster AND c.shard = 0 AND c.gone_at IS NULL
          AND c.as_of_seq > :after
       UNION
       SELECT h.group_id FROM history h
        WHERE h.cluster = :cluster AND h.shard = 0 AND h.seq > :after AND h.group_id <> '')
 ORDER BY g.as_of_seq, g.id LIMIT :limit
"""

LIFE = lives(_SEEN_COLUMNS, _GROUPS)
LIFE_OF_POD = lives(_SEEN_COLUMNS, _GROUPS, OF_POD)
LIFE_OF_WORKLOAD = lives(_SEEN_COLUMNS, _GROUPS, OF_WORKLOAD)

LIVE = "g.gone_at IS NULL"
NEWEST = """NOT EXISTS (
       SELECT 1 FROM groups n
        WHERE n.cluster = g.cluster AND n.namespace = g.namespace AND n.name = g.name
          AND n.created_seq > g.created_seq)"""
QUEUED = in_line("g.state", "g.wait_reason")
IN_NAMESPACE = "g.namespace = :namespace"


def group_page(conditions: Sequence[str], labels: Sequence[str]) -> str:
    """Return the statement of one page of lives of groups, in order of namespace, name and id.

    `conditions` and `labels` are fragments of `gatelog.serve.api.selectors`, on `g` and on
    `x.labels`. The page begins behind :after_namespace, :after_name, :after_id.
    """
    where = "".join(f"\n   AND {one}" for one in conditions)
    kept = "".join(f" AND {one}" for one in labels)
    known = f", {FIRST_LABELS} AS labels" if labels else ""
    return f"""
SELECT {_SEEN_COLUMNS}
  FROM {_GROUPS}
 WHERE g.cluster = :cluster AND g.id IN (
       SELECT x.id
         FROM (SELECT g.id, g.namespace, g.name{known}
                 FROM groups g
                WHERE g.cluster = :cluster{where}
                  AND (g.namespace > :after_namespace
                       OR (g.namespace = :after_namespace AND (g.name > :after_name
                           OR (g.name = :after_name AND g.id > :after_id))))) x
        WHERE 1 = 1{kept}
        ORDER BY x.namespace, x.name, x.id LIMIT :limit)
 ORDER BY g.namespace, g.name, g.id
"""


def placed(page: str) -> str:
    """Return the statement of those of a page of `group_page` that have a position."""
    return f"""
SELECT x.*, q.position, q.local_position
  FROM ({page}) x JOIN v_queue_position q ON q.cluster = :cluster AND q.group_id = x.id
 ORDER BY x.namespace, x.name, x.id LIMIT :limit
"""
