"""The story of a group: its entries, causes of its admissions, decisions.

Invariant: where `:own_only` is 1 no group of another namespace is named.
"""

from datetime import datetime

import msgspec

from projector.schema import failing
from projector.schema.cause_views import causes
from projector.schema.dialect import Dialect, by_home
from projector.schema.running_views import says


def decided(own_only: str) -> str:
    """Return what a decision says; where `own_only` holds, without naming other namespaces.

    A preemption names its preemptor for the ledger, and in its command only within a namespace.
    """
    return f"CASE WHEN {own_only} AND rule = 'preempt' THEN command ->> 'message' ELSE message END"


def _causes(d: Dialect) -> str:
    of = "a.cluster = :cluster AND a.group_id = :group_id"
    return f"""
SELECT c.number, c.seq, c.at, c.cause, c.namespace, c.name, c.says, c.says_to_own
  FROM ({causes(d, of)}) c
 ORDER BY c.number, c.seq, c.cause, c.namespace, c.name, c.says LIMIT :limit
"""


CAUSES = by_home(_causes)
"""View v_admission_causes for one group, by database: the view itself reads all admissions."""

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

DECIDED = f"""
SELECT d.rule, d.action, d.reason, min({decided(":own_only = 1")}) AS message,
       count(*) AS decisions,
       min(d.issued_at) AS first_at, max(d.issued_at) AS last_at,
       sum(CASE WHEN d.status = 'rejected' THEN 1 ELSE 0 END) AS rejected
  FROM decisions d
 WHERE d.cluster = :cluster AND d.group_id = :group_id
 GROUP BY d.rule, d.action, d.reason
 ORDER BY min(d.as_of_seq), min(d.number), d.rule, d.action, d.reason LIMIT :limit
"""


class DecidedRow(msgspec.Struct, frozen=True):
    """Decisions of one rule with the same reason, counted."""

    rule: str
    action: str
    reason: str
    message: str
    decisions: int
    first_at: datetime
    last_at: datetime
    rejected: int
