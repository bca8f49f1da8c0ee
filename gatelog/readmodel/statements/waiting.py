"""Waiting groups, their order and since when; how long groups waited. Now, and at a past moment.

Theory. The present is read from columns of the present state, a past moment from intervals, which
tables keep for ever.

Invariant: a group has the same position here and in view `v_queue_position`.
"""

from datetime import datetime

import msgspec

from gatelog.readmodel.statements.starts import STANDING, STOOD
from projector.schema.dialect import home, swapped
from projector.schema.pending import ORDER, USE, WAITS_FOR, in_line, is_admitted, is_pending, stage

PENDING = """
SELECT namespace, name, kind, state, stage, queue, cluster_queue, position, priority, reason,
       message, since, group_id AS id
  FROM v_why_pending
 WHERE cluster = :cluster AND (namespace = :namespace OR :namespace = '')
 ORDER BY cluster_queue, CASE WHEN position IS NULL THEN 1 ELSE 0 END, position,
       coalesce(since, created_at), group_id LIMIT :limit
"""

WAITS = """
SELECT reason, message, from_at, to_at
  FROM waits
 WHERE cluster = :cluster AND group_id = :group_id
 ORDER BY from_seq DESC LIMIT :limit
"""

WHY = """
SELECT g.state, w.reason, w.message, w.from_at AS since, w.to_at AS until,
       CASE WHEN w.to_at IS NULL THEN q.position END AS position
  FROM groups g LEFT JOIN waits w ON w.cluster = g.cluster AND w.group_id = g.id
  LEFT JOIN v_queue_position q ON q.cluster = g.cluster AND q.group_id = g.id
 WHERE g.cluster = :cluster AND g.id = :group_id
 ORDER BY w.from_seq DESC LIMIT :limit
"""

POSITION = f"""
SELECT q.position
  FROM (SELECT g.id, row_number() OVER (ORDER BY {ORDER}) AS position
          FROM groups g
          {USE}
         WHERE g.cluster = :cluster AND g.gone_at IS NULL
           AND {in_line("g.state", "g.wait_reason")}
           AND g.cluster_queue = (SELECT cluster_queue FROM groups
                                   WHERE cluster = :cluster AND id = :group_id)) q
 WHERE q.id = :group_id
"""
"""As in `v_queue_position`, which numbers all queues in any case."""

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
"""Pending groups, by stage, and admitted groups."""

_EXPECTED = "e.expected_at, e.latest_at, e.never"

_NOW = f"""
WITH pending AS (
SELECT g.id, g.namespace, g.name, g.queue, g.cluster_queue, g.priority,
       {stage("g.state", "g.wait_reason")} AS stage,
       CASE WHEN {in_line("g.state", "g.wait_reason")} THEN row_number() OVER (
            PARTITION BY g.cluster_queue, {in_line("g.state", "g.wait_reason")}
                ORDER BY {ORDER}) END AS position,
       {WAITS_FOR},
       coalesce(g.queued_at, g.created_at) AS since
  FROM groups g
  {USE}
 WHERE g.cluster = :cluster AND g.gone_at IS NULL AND {is_pending("g.state")}
   AND (g.cluster_queue = :queue OR :queue = ''))"""
"""As in `v_why_pending`, for one queue: the view numbers all queues in any case."""

_AT = f"""
WITH lived AS (
SELECT g.id, g.namespace, g.name, g.queue, g.cluster_queue, g.priority, w.reason, w.message,
       coalesce((SELECT a.queued_at FROM admissions a
                  WHERE a.cluster = g.cluster AND a.group_id = g.id AND a.admitted_at > :at
                  ORDER BY a.number LIMIT 1), g.queued_at, g.created_at) AS since,
       (SELECT h.reason FROM history h
         WHERE h.cluster = g.cluster AND h.group_id = g.id AND h.kind = 'StateChanged'
           AND h.at <= :at
         ORDER BY h.seq DESC, h.ord DESC LIMIT 1) AS state,
       (SELECT h.reason FROM history h
         WHERE h.cluster = g.cluster AND h.group_id = g.id AND h.kind = 'GroupEvicted'
           AND h.at <= :at
         ORDER BY h.seq DESC, h.ord DESC LIMIT 1) AS evicted
  FROM groups g
  LEFT JOIN waits w ON w.cluster = g.cluster AND w.group_id = g.id
   AND w.from_at <= :at AND (w.to_at IS NULL OR w.to_at > :at)
 WHERE g.cluster = :cluster AND g.created_at <= :at AND (g.gone_at IS NULL OR g.gone_at > :at)
   AND (g.cluster_queue = :queue OR :queue = '')),
waited AS (
SELECT l.id, l.namespace, l.name, l.queue, l.cluster_queue, l.priority, l.state, l.since,
       coalesce(l.reason, '') AS wait_reason,
       coalesce(l.reason, l.evicted, '') AS reason, coalesce(l.message, '') AS message
  FROM lived l WHERE {is_pending("l.state")}),
pending AS (
SELECT w.id, w.namespace, w.name, w.queue, w.cluster_queue, w.priority,
       {stage("w.state", "w.wait_reason")} AS stage,
       CASE WHEN {in_line("w.state", "w.wait_reason")} THEN row_number() OVER (
            PARTITION BY w.cluster_queue, {in_line("w.state", "w.wait_reason")}
                ORDER BY w.priority DESC, w.since, w.id) END AS position,
       w.reason, w.message, w.since
  FROM waited w)"""
"""Preemptors and least used queues of the past are not kept: only priority and time count."""

_WAITING = """{line}
SELECT g.*, {expected}
  FROM pending g
  LEFT JOIN estimates e ON e.cluster = :cluster AND e.group_id = g.id AND {standing}
 WHERE (g.namespace = :namespace OR :namespace = '')
 ORDER BY g.cluster_queue, CASE WHEN g.position IS NULL THEN 1 ELSE 0 END, g.position, g.since,
       g.id LIMIT :limit OFFSET :offset
"""

WAITING_AT = _WAITING.format(line=_AT, expected=_EXPECTED, standing=STOOD)

WAITING_NOW = _WAITING.format(line=_NOW, expected=_EXPECTED, standing=STANDING)

_SAME_QUEUE = """(SELECT o.cluster_queue FROM groups o
         WHERE o.cluster = :cluster AND o.id = :group_id)"""

POSITION_AT = f"""{swapped(_AT, ":queue OR :queue = ''", _SAME_QUEUE)}
SELECT position FROM pending WHERE id = :group_id LIMIT 1
"""
"""Position of a group in its ClusterQueue at a moment; null: none."""

_WITHIN = "(namespace = :namespace OR :namespace = '')"

LENGTHS_AT = f"""{_AT}
SELECT cluster_queue, namespace, queue, stage, count(*) AS groups, min(since) AS oldest
  FROM pending
 WHERE {_WITHIN}
 GROUP BY cluster_queue, namespace, queue, stage
 ORDER BY cluster_queue, namespace, queue, stage LIMIT :limit
"""

LENGTHS_NOW = f"""
SELECT cluster_queue, namespace, queue, stage, groups, oldest
  FROM v_pending
 WHERE cluster = :cluster AND {_WITHIN}
 ORDER BY cluster_queue, namespace, queue, stage LIMIT :limit
"""

_WAITED = """, spans AS (
SELECT cluster_queue, {micros_at} - {micros_since} AS took, 1 AS still FROM pending
 WHERE {within}
UNION ALL
SELECT a.cluster_queue, {micros_admitted} - {micros_queued}, 0
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.admitted_at > :since AND a.admitted_at <= :at AND {within}),
ranked AS (
SELECT cluster_queue, took, still,
       cume_dist() OVER (PARTITION BY cluster_queue ORDER BY took) AS part FROM spans)
SELECT cluster_queue, count(*) AS waits, sum(still) AS still,
       min(CASE WHEN part >= 0.5 THEN took END) / 1000000.0 AS half,
       min(CASE WHEN part >= 0.9 THEN took END) / 1000000.0 AS most, max(took) / 1000000.0 AS worst
  FROM ranked GROUP BY cluster_queue ORDER BY cluster_queue LIMIT :limit
"""

_PENDING_NOW = f"""
WITH pending AS (
SELECT g.namespace, g.cluster_queue, coalesce(g.queued_at, g.created_at) AS since FROM groups g
 WHERE g.cluster = :cluster AND g.gone_at IS NULL AND {is_pending("g.state")})"""


def waited(dialect: str, *, past: bool) -> str:
    """Return the statement of how long groups waited by ClusterQueue, as `WaitedRow`s.

    It counts groups that were admitted from parameter `since` to `at`, and groups that still wait
    at `at`.
    """
    d = home(dialect)
    micros = {
        "micros_at": d.micros.format(t=d.time.format(name="at")),
        "micros_since": d.micros.format(t="since"),
        "micros_admitted": d.micros.format(t="a.admitted_at"),
        "micros_queued": d.micros.format(t="a.queued_at"),
    }
    return (_AT if past else _PENDING_NOW) + _WAITED.format(within=_WITHIN, **micros)


OVERTOOK = """
SELECT g.namespace, g.name, g.id, g.priority, a.admitted_at, count(*) OVER () AS in_all
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.cluster_queue = :queue AND a.group_id <> :group_id
   AND a.queued_at > :since AND a.admitted_at > :since AND a.admitted_at <= :at
 ORDER BY a.admitted_at DESC, g.id LIMIT :limit
"""
"""Groups that came to a ClusterQueue after a group that waits in it and were admitted, the newest
first: `overtaking` counts them.
"""


class WaitingRow(msgspec.Struct, frozen=True):
    """A pending group or pod; only a group that waits for quota has a position."""

    id: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    priority: int
    reason: str
    message: str
    since: datetime | None
    stage: str
    position: int | None
    expected_at: datetime | None
    latest_at: datetime | None
    never: str | None
    """None: no forecast knows it."""


class WaitedRow(msgspec.Struct, frozen=True):
    """How long groups waited for a ClusterQueue, in seconds; `still` of them wait yet."""

    cluster_queue: str
    waits: int
    still: int
    half: float | None
    most: float | None
    worst: float | None


class OvertakerRow(msgspec.Struct, frozen=True):
    """A group that came after another which waits and was admitted, and how many these are."""

    namespace: str
    name: str
    id: str
    priority: int
    admitted_at: datetime
    in_all: int
