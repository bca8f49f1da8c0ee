"""Groups, life by life: by name, in lists and in pages, with the columns that all of them have.

Invariant: a page is found first and its columns worked out of that alone; order ends in the id.
"""

from collections.abc import Sequence
from textwrap import fill

from gatelog.readmodel.rows import GroupRow
from gatelog.readmodel.statements.starts import STANDING
from podgroup.model import podwaits
from projector.schema.ended import ended, ended_as
from projector.schema.pending import in_line, is_pending

OF_POD = """g.id IN (SELECT p.group_id FROM pods p
        WHERE p.cluster = :cluster AND p.namespace = :namespace AND p.name = :name)"""

OF_WORKLOAD = "g.namespace = :namespace AND g.workload_name = :name"

OF_NAME = "g.namespace = :namespace AND g.name = :name"


def lives(columns: str, groups: str, which: str = OF_NAME) -> str:
    """Return the statement of lives of groups `g`, newest first."""
    return of_page(columns, groups, which, "g.created_seq DESC, g.id")


def of_page(columns: str, groups: str, which: str, order: str) -> str:
    """Return the statement of the first :limit groups `g`; columns are worked out of those alone.

    `which` is a condition on `g`; `groups` is the table as `g`, with what the columns need besides.
    """
    return f"""
SELECT {columns}
  FROM {groups}
 WHERE g.cluster = :cluster AND g.id IN (
       SELECT g.id FROM groups g
        WHERE g.cluster = :cluster AND {which}
        ORDER BY {order} LIMIT :limit)
 ORDER BY {order}
"""


_KEPT = ", ".join(f"g.{name}" for name in GroupRow.__struct_fields__ if name != "ended")

GROUP_COLUMNS = f"""{fill(_KEPT, 95, subsequent_indent=" " * 7)},
       {ended("g")} AS ended"""

GROUPS = lives(GROUP_COLUMNS, "groups g")

GROUPS_OF_POD = lives(GROUP_COLUMNS, "groups g", OF_POD)

GROUPS_OF_WORKLOAD = lives(GROUP_COLUMNS, "groups g", OF_WORKLOAD)

NEWEST_GROUP = lives(GROUP_COLUMNS, "groups g", "(g.namespace = :namespace OR :namespace = '')")

RECENT_NAMES = """
SELECT namespace, name, max(created_seq) AS seen
  FROM groups
 WHERE cluster = :cluster
 GROUP BY namespace, name ORDER BY seen DESC LIMIT :limit
"""

KNOWS = "SELECT count(*) FROM groups WHERE cluster = :cluster AND namespace = :namespace"

LISTED_GROUPS = of_page(
    GROUP_COLUMNS,
    "groups g",
    f"""(g.namespace = :namespace OR :namespace = '')
   AND (g.queue = :queue OR g.cluster_queue = :queue OR :queue = '')
   AND (g.gone_at IS NULL OR :gone = 1)
   AND (:state IN ('', g.state) OR {ended_as("g", ":state")})""",
    "g.namespace, g.name, g.created_seq DESC, g.id",
)

NOT_FOR_LISTS = ", ".join(
    f"'{reason}'" for reason in (podwaits.STARTING, podwaits.NOT_SCHEDULED, podwaits.INITIALIZING)
)
"""What every pod goes through: no list of what needs a look has that."""

OF_GROUP = f"""FROM v_not_running n
         WHERE n.cluster = g.cluster AND n.group_id = g.id AND n.reason NOT IN ({NOT_FOR_LISTS})"""
"""Pods of group `g` that a list tells of."""

SUMMARY = """
SELECT g.id, g.namespace, g.name, g.kind, g.state, g.reason, g.total_count, g.pods_seen,
       g.pods_excess, g.pods_replaced, g.created_at, g.finished_at,
       (SELECT count(*) FROM admissions a
         WHERE a.cluster = g.cluster AND a.group_id = g.id) AS admissions,
       (SELECT min(a.admitted_at) FROM admissions a
         WHERE a.cluster = g.cluster AND a.group_id = g.id) AS first_admitted_at,
       (SELECT count(*) FROM decisions d
         WHERE d.cluster = g.cluster AND d.group_id = g.id) AS decisions
  FROM groups g
 WHERE g.cluster = :cluster AND g.created_seq > :since
 ORDER BY g.created_seq, g.id LIMIT :limit
"""

CHANGES = """
SELECT h.seq, h.ord, h.at, g.namespace, g.name, h.reason AS state, g.state AS state_now,
       g.reason, g.message
  FROM history h JOIN groups g ON g.cluster = h.cluster AND g.id = h.group_id
 WHERE h.cluster = :cluster AND h.shard = 0 AND h.seq > :after AND h.kind = 'StateChanged'
 ORDER BY h.seq, h.ord LIMIT :limit
"""

FIRST_LABELS = """(SELECT p.labels FROM pods p WHERE p.cluster = g.cluster AND p.group_id = g.id
         ORDER BY p.seen_seq, p.uid LIMIT 1)"""
"""Labels of the first pod of `g`."""

LIFE_COLUMNS = f"""{GROUP_COLUMNS}, g.created_seq,
       {FIRST_LABELS} AS labels,
       e.expected_at, e.earliest_at, e.latest_at, e.never, f.at AS forecast_at"""

_SEEN_COLUMNS = f"""{LIFE_COLUMNS},
       (SELECT sum(count(*)) OVER () || ' ' || n.reason {OF_GROUP}
         GROUP BY n.reason ORDER BY count(*) DESC, n.reason LIMIT 1) AS pods_not_running"""
"""With the column for `LifeRow.not_running`: a single column, as each would read all pods of a
group.
"""

ESTIMATED = f"""
  LEFT JOIN estimates e ON e.cluster = g.cluster AND e.group_id = g.id AND {STANDING}
   AND {is_pending("g.state")}
  LEFT JOIN forecasts f ON f.cluster = e.cluster AND f.shard = e.shard"""

_GROUPS = f"groups g{ESTIMATED}"

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
    """Return the statement of the groups of a page of `group_page` that have a position."""
    return f"""
SELECT x.*, q.position, q.local_position
  FROM ({page}) x JOIN v_queue_position q ON q.cluster = :cluster AND q.group_id = x.id
 ORDER BY x.namespace, x.name, x.id LIMIT :limit
"""
