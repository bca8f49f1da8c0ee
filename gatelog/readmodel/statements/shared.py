"""What a group is short of, and its holders in the tree of cohorts.

Invariant: only open rows are read.
"""

from projector.schema.held_views import with_held

_SHORT = """s.cluster_queue, s.kind, s.name, s.flavor, s.resource, s.requested, s.available,
       s.limited_by, s.without_limit, s.lender, s.ever, s.from_at,
       CASE s.limited_by WHEN 'cohort' THEN u.spare
            WHEN 'nominal' THEN u.nominal - u.reserved - u.unadmitted END AS room
  FROM shortages s
  LEFT JOIN usage u ON u.cluster = s.cluster AND u.kind = s.kind AND u.namespace = ''
   AND u.name = s.name AND u.flavor = s.flavor AND u.resource = s.resource AND u.to_at IS NULL"""

SHORT = f"""
SELECT {_SHORT}
 WHERE s.cluster = :cluster AND s.group_id = :group_id AND s.to_at IS NULL
 ORDER BY s.from_seq, s.flavor, s.resource LIMIT :limit
"""
"""The shortages of a group's last try, and the room at the moment by the ledger."""

_LISTED = {
    "sqlite": "SELECT value FROM json_each(:ids)",
    "postgresql": "SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))",
}
SHORTAGES = {
    name: f"""
SELECT s.group_id, {_SHORT}
 WHERE s.cluster = :cluster AND s.to_at IS NULL AND s.group_id IN ({listed})
 ORDER BY s.group_id, s.from_seq, s.flavor, s.resource LIMIT :limit
"""
    for name, listed in _LISTED.items()
}
"""The same of the groups of a list, of which parameter `ids` is a document."""

_POOLS = "shortages s CROSS JOIN usage q CROSS JOIN usage u"
"""In this order: SQLite would begin with all rows of the ledger."""
_OF_GROUP = """s.cluster = :cluster AND s.group_id = :group_id AND s.to_at IS NULL
   AND q.cluster = s.cluster AND q.kind = 'ClusterQueue' AND q.namespace = ''
   AND q.name = s.cluster_queue AND q.flavor = s.flavor AND q.resource = s.resource
   AND q.to_at IS NULL AND q.root <> ''
   AND u.cluster = q.cluster AND u.root = q.root AND u.flavor = q.flavor
   AND u.resource = q.resource AND u.to_at IS NULL AND u.kind <> 'LocalQueue'"""

POOLS = f"""
SELECT u.kind, u.name, u.flavor, u.resource, u.nominal, u.quota, u.reserved, u.borrowed, u.spare,
       u.unadmitted
  FROM {_POOLS}
 WHERE {_OF_GROUP}
 ORDER BY u.kind DESC, u.name, u.flavor, u.resource LIMIT :limit
"""

BORROWERS_GIVEN = f"""
SELECT DISTINCT a.cluster_queue, g.namespace, g.name, g.priority, g.id, a.admitted_at,
       CAST(a.resources AS TEXT) AS resources
  FROM {_POOLS} CROSS JOIN admissions a
  JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE {_OF_GROUP}
   AND a.cluster = u.cluster AND a.cluster_queue = u.name AND a.released_at IS NULL
   AND u.kind = 'ClusterQueue' AND u.borrowed > 0 AND u.name <> s.cluster_queue
 ORDER BY g.priority, a.admitted_at DESC, g.id LIMIT :limit
"""

BORROWERS = with_held(BORROWERS_GIVEN)
