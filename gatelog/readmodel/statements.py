"""The statements of the command line, the same text for SQLite and PostgreSQL.

Invariant: parameters are named; nothing of a user ever becomes part of a statement's text, except
in `filled`, whose result is printed and never run.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from textwrap import fill
from typing import Any

from gatelog.readmodel.rows import GroupRow
from podgroup.model import podwaits
from podgroup.model.reasons import LARGER_THAN_ADMITTED, RUNNING_UNADMITTED
from projector.schema import failing
from projector.schema.cause_views import causes
from projector.schema.clock import clock
from projector.schema.dialect import home, swapped
from projector.schema.ended import ended, ended_as
from projector.schema.held_views import held
from projector.schema.pending import IDLE_REASON, ORDER, USE, in_line, is_admitted
from projector.schema.running_views import says

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


def decided(own_only: str) -> str:
    """Return what a decision says; where `own_only` holds, without naming other namespaces.

    A preemption names its preemptor for the ledger, and in its command only within a namespace.
    """
    return f"CASE WHEN {own_only} AND rule = 'preempt' THEN command ->> 'message' ELSE message END"


def _causes(database: str) -> str:
    of = "a.cluster = :cluster AND a.group_id = :group_id"
    return f"""
SELECT c.number, c.seq, c.at, c.cause, c.namespace, c.name, c.says, c.says_to_own
  FROM ({causes(home(database), of)}) c
 ORDER BY c.number, c.seq, c.cause, c.namespace, c.name, c.says LIMIT :limit
"""


CAUSES = {name: _causes(name) for name in ("sqlite", "postgresql")}
"""View v_admission_causes of one group, by database: the view itself reads all admissions."""

ENTRIES = f"""
SELECT from_seq AS seq, 0 AS ord, from_at AS at, 'wait' AS source, 'Waiting' AS kind, reason,
       message, '' AS pod, '' AS rule, '' AS status, '' AS decision, '' AS target, to_at AS until
  FROM waits
 WHERE cluster = :cluster AND group_id = :group_id
UNION ALL
SELECT h.seq, h.ord, h.at, 'history', h.kind, h.reason, h.message, coalesce(p.name, ''), '', '',
       h.decision_id, '', NULL
  FROM history h LEFT JOIN pods p ON p.cluster = h.cluster AND p.uid = h.pod_uid
 WHERE h.cluster = :cluster AND h.group_id = :group_id
UNION ALL
SELECT as_of_seq, number, issued_at, 'decision', action, reason, {decided(":own_only = 1")},
       '', rule, coalesce(status, 'pending'), id, target, NULL
  FROM decisions
 WHERE cluster = :cluster AND group_id = :group_id
UNION ALL
SELECT o.seq, o.delivery * 1000 + o.attempt, o.at, 'outcome', d.action, d.reason, o.message, '',
       d.rule, o.status, d.id, d.target, NULL
  FROM decisions d CROSS JOIN outcomes o
 WHERE d.cluster = :cluster AND d.group_id = :group_id
   AND o.cluster = d.cluster AND o.decision_id = d.id AND o.status IN ('rejected', 'retrying')
UNION ALL
SELECT f.seq, 0, f.at, 'failure', {failing.kind("f")}, f.reason, {failing.words("f")}, p.name,
       '', '', '', '', NULL
  FROM pods p CROSS JOIN failures f
 WHERE p.cluster = :cluster AND p.group_id = :group_id
   AND f.cluster = p.cluster AND f.pod_uid = p.uid
UNION ALL
SELECT w.from_seq, 0, w.from_at, 'wait', 'PodWaiting', w.reason, {says("w")}, p.name,
       '', '', '', '', coalesce(w.to_at, p.gone_at)
  FROM pods p CROSS JOIN pod_waits w
 WHERE p.cluster = :cluster AND p.group_id = :group_id
   AND w.cluster = p.cluster AND w.pod_uid = p.uid
 ORDER BY 1, 2 LIMIT :limit
"""
"""CROSS JOIN keeps SQLite from reading all outcomes and failures before it knows the group's."""

KNOWS = "SELECT count(*) FROM groups WHERE cluster = :cluster AND namespace = :namespace"

PENDING = """
SELECT namespace, name, kind, state, stage, queue, cluster_queue, position, priority, reason,
       message, since
  FROM v_why_pending
 WHERE cluster = :cluster AND (namespace = :namespace OR :namespace = '')
 ORDER BY cluster_queue, CASE WHEN position IS NULL THEN 1 ELSE 0 END, position,
       coalesce(since, created_at), group_id LIMIT :limit
"""

LISTED_GROUPS = of_page(
    GROUP_COLUMNS,
    "groups g",
    f"""(g.namespace = :namespace OR :namespace = '')
   AND (g.queue = :queue OR g.cluster_queue = :queue OR :queue = '')
   AND (g.gone_at IS NULL OR :gone = 1)
   AND (:state IN ('', g.state) OR {ended_as("g", ":state")})""",
    "g.namespace, g.name, g.created_seq DESC, g.id",
)

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

IDLE = f"""
SELECT namespace, name, 'group' AS kind, 'Admitted' AS state, '' AS stage, queue, cluster_queue,
       NULL AS position, priority, '{IDLE_REASON}' AS reason, message, since
  FROM v_idle_holders
 WHERE cluster = :cluster AND (namespace = :namespace OR :namespace = '')
   AND (cluster_queue = :queue OR :queue = '')
 ORDER BY since, group_id LIMIT :limit
"""

NOT_FOR_LISTS = ", ".join(
    f"'{reason}'" for reason in (podwaits.STARTING, podwaits.NOT_SCHEDULED, podwaits.INITIALIZING)
)
"""What every pod goes through: no list of what needs a look has that."""
OF_GROUP = f"""FROM v_not_running n
         WHERE n.cluster = g.cluster AND n.group_id = g.id AND n.reason NOT IN ({NOT_FOR_LISTS})"""
"""Pods of group `g` that a list tells of."""

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

_ENDING = """gone_at IS NULL AND deleted_at IS NOT NULL AND ended_at IS NULL AND node <> ''"""
"""Bound pods that are being deleted, and of which no kubelet has said that they have ended."""

_HOLDERS = f"""
SELECT h.namespace, h.name, h.state, h.priority, h.admitted_at, h.resources, h.beyond,
       (SELECT min(deleted_at) FROM pods
         WHERE cluster = :cluster AND group_id = h.id AND {_ENDING}) AS ending_at
  FROM (
    SELECT g.id, g.namespace, g.name, g.state, g.priority, a.admitted_at, a.resources,
           CASE WHEN g.reason = '{LARGER_THAN_ADMITTED}' THEN g.message ELSE '' END AS beyond
      FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
     WHERE a.cluster = :cluster AND a.cluster_queue = :cluster_queue AND a.released_at IS NULL
       AND g.gone_at IS NULL
     ORDER BY a.admitted_at, g.id LIMIT :limit) h
 ORDER BY h.admitted_at, h.id
"""

HOLDERS = {
    name: swapped(_HOLDERS, "a.resources", f"{held(home(name))} AS resources")
    for name in ("sqlite", "postgresql")
}

ENDING = f"""
SELECT name, node, deleted_at
  FROM pods
 WHERE cluster = :cluster AND group_id = :group_id AND {_ENDING}
 ORDER BY deleted_at, uid LIMIT :limit
"""

GIVING_WAY = f"""
SELECT g.namespace, g.name, g.id AS group_id, count(DISTINCT p.uid) AS pods,
       max(p.deleted_at) AS ending_at
  FROM preemptions x
  JOIN groups g ON g.cluster = x.cluster AND g.id = x.victim_id
  JOIN pods p ON p.cluster = x.cluster AND p.group_id = g.id
 WHERE x.cluster = :cluster AND (x.preemptor_id = :group_id OR :group_id = '')
   AND g.state = 'Evicted' AND g.gone_at IS NULL AND {swapped(_ENDING, "gone_at", "p.gone_at")}
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
"""What it fell short of when it was tried, and the room there is at the moment by the ledger."""

SHORTAGES = f"""
SELECT g.namespace AS group_namespace, g.name AS group_name, {_SHORT}
  JOIN groups g ON g.cluster = s.cluster AND g.id = s.group_id
 WHERE s.cluster = :cluster AND s.to_at IS NULL AND (g.namespace = :namespace OR :namespace = '')
 ORDER BY s.group_id, s.from_seq, s.flavor, s.resource LIMIT :limit
"""
"""The same of all groups that wait."""

_POOLS = """
  FROM shortages s
  JOIN usage q ON q.cluster = s.cluster AND q.kind = 'ClusterQueue' AND q.namespace = ''
   AND q.name = s.cluster_queue AND q.flavor = s.flavor AND q.resource = s.resource
   AND q.to_at IS NULL AND q.root <> ''
  JOIN usage u ON u.cluster = q.cluster AND u.root = q.root AND u.flavor = q.flavor
   AND u.resource = q.resource AND u.to_at IS NULL AND u.kind <> 'LocalQueue'
"""

POOLS = f"""
SELECT u.kind, u.name, u.flavor, u.resource, u.nominal, u.quota, u.reserved, u.borrowed, u.spare,
       u.unadmitted
{_POOLS}
 WHERE s.cluster = :cluster AND s.group_id = :group_id AND s.to_at IS NULL
 ORDER BY u.kind DESC, u.name, u.flavor, u.resource LIMIT :limit
"""

BORROWERS_GIVEN = f"""
SELECT DISTINCT a.cluster_queue, g.namespace, g.name, g.priority, g.id, a.admitted_at,
       CAST(a.resources AS TEXT) AS resources
{_POOLS}
  JOIN admissions a ON a.cluster = u.cluster AND a.cluster_queue = u.name AND a.released_at IS NULL
  JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE s.cluster = :cluster AND s.group_id = :group_id AND s.to_at IS NULL
   AND u.kind = 'ClusterQueue' AND u.borrowed > 0 AND u.name <> s.cluster_queue
 ORDER BY g.priority, a.admitted_at DESC, g.id LIMIT :limit
"""

BORROWERS = {
    name: swapped(BORROWERS_GIVEN, "a.resources", held(home(name)))
    for name in ("sqlite", "postgresql")
}

QUEUE_OBJECT = """
SELECT namespace, name, uid, folded
  FROM objects
 WHERE cluster = :cluster AND kind = 'ClusterQueue' AND name = :name LIMIT 1
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
"""As `v_queue_position` has it, which numbers all queues whatever is asked."""

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

CHECKPOINT = """
SELECT seq, base, epoch, mode, at, written_at, published, folded
  FROM checkpoints
 WHERE cluster = :cluster AND shard = 0
"""

CLOCK = {name: clock(home(name), "cluster = :cluster") for name in ("sqlite", "postgresql")}
"""View v_clock of one cluster, by database."""

SETTINGS = """
SELECT seq, at, kind, reason, message
  FROM history
 WHERE cluster = :cluster AND shard = 0 AND group_id = ''
   AND kind IN ('SettingsRecorded', 'EpochStarted')
 ORDER BY seq DESC, ord DESC LIMIT :limit
"""

RESTORES = """
SELECT seq, at, message
  FROM history
 WHERE cluster = :cluster AND group_id = '' AND kind = 'ClusterRestored'
 ORDER BY seq LIMIT :limit
"""

EPOCHS = """
SELECT number, base, at, reason, lost_from, lost_to
  FROM epochs
 WHERE cluster = :cluster
 ORDER BY number LIMIT :limit
"""

CLUSTERS = "SELECT DISTINCT cluster FROM checkpoints ORDER BY cluster"

PRUNED = "SELECT before FROM pruned WHERE cluster = :cluster AND name = 'history'"

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

REPLICAS = """
SELECT part, instance, problem, leads, since, heard_at
  FROM replicas
 WHERE cluster = :cluster
 ORDER BY part, instance LIMIT :limit
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


def filled(query: str, values: Mapping[str, Any]) -> str:
    """Return a statement with its parameters written in, for printing only."""

    def literal(match: re.Match[str]) -> str:
        value = values[match[1]]
        if isinstance(value, datetime):
            value = value.isoformat()
        return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

    return re.sub(r"(?<!:):([a-z_][a-z0-9_]*)\b", literal, query).strip() + ";"


EXPECTED = """
SELECT expected_at, earliest_at, latest_at, never, position, as_of
  FROM v_expected_starts
 WHERE cluster = :cluster AND group_id = :group_id
"""

MADE = """
SELECT at, CASE WHEN as_of_seq > 0
                THEN coalesce(CAST(drawn_from ->> 'runs' AS BIGINT), 0) END AS runs
  FROM forecasts WHERE cluster = :cluster ORDER BY at LIMIT 1
"""
"""The latest forecast."""

SPARED = """
SELECT count(*) FROM groups
 WHERE cluster = :cluster AND gone_at IS NULL AND workload_name = '' AND complete_at IS NOT NULL
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
    """Return the columns that count pods `p` as the counters of their group stood at `at`."""
    return ",\n       ".join(
        f"coalesce(sum(CASE WHEN {counted(name)} THEN 1 ELSE 0 END), 0) AS {name}"
        for name in PODS_THEN
    )
