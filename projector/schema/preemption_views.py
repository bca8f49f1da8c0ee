"""View of preemptions: the cost and the gain of each.

Theory. A preemption costs the quota and time that its victim had since its admission: the victim's
work begins anew. It leads to the preemptor's next admission. Both are rows already, found by their
positions in the log: the victim's latest admission up to the preemption, the preemptor's first from
there on. A preemptor runs from the first start of a pod that this admission let past its gate until
the last of them ends.

The earliest time of a preemptor's own preemption is the minimum of an expression: for the bare
column SQLite would go through the index by time, over all preemptions of the cluster for each row.

Invariant: one row per row of `preemptions`, each found by keys alone; both databases give equal
values.
"""

from projector.schema.clock import CLOCK
from projector.schema.dialect import Dialect, by_flavor, in_units

AT_ONCE_S = 1
"""A preemptor that is preempted itself within so many seconds of its admission gained nothing."""


def _seconds(d: Dialect, a: str, b: str) -> str:
    """Seconds from a to b, exact on both homes; never below 0, as clocks of nodes differ."""
    exact = f"({d.micros.format(t=b)} - {d.micros.format(t=a)}) / 1000000.0"
    return f"CASE WHEN {b} < {a} THEN 0.0 ELSE {exact} END"


def _lost(d: Dialect) -> str:
    """Resource -> hours that victim `p` had held since its admission `v`."""
    amount = d.value.format(doc="r.value")
    units = in_units("r.key", amount)
    hours = f"round(sum({units}) * ({_seconds(d, 'v.admitted_at', 'p.at')}) / 3600.0, 6)"
    document = d.object.format(key="x.resource", value="x.hours")
    return f"""CASE WHEN v.admitted_at IS NOT NULL THEN (SELECT {document} FROM (
       SELECT r.key AS resource, {hours} AS hours
         FROM (SELECT 1 AS one) o {by_flavor(d, "p.resources")}
        GROUP BY r.key) x) END"""


def _of_pods(what: str) -> str:
    """SQL of `what` over the pods that started under the preemptor's admission `a`."""
    return f"""(SELECT {what} FROM pods o
         WHERE o.cluster = a.cluster AND o.group_id = a.group_id AND o.started_at IS NOT NULL
           AND o.ungated_at >= a.admitted_at
           AND (a.released_at IS NULL OR o.ungated_at < a.released_at))"""


_COLUMNS = (
    *("cluster", "at", "seq", "decision_id", "policy", "cohort"),
    *("victim_id", "victim_namespace", "victim_name", "victim_priority", "victim_queue"),
    *("victim_admitted_at", "lost_seconds", "lost_hours"),
    *("preemptor_id", "preemptor_namespace", "preemptor_name", "preemptor_priority"),
    *("preemptor_queue", "preemptor_admitted_at", "preemptor_started_at", "preemptor_ended_at"),
    *("preemptor_preempted_at", "preemptor_released_at"),
)


def preemptions(d: Dialect) -> str:
    """Return the view of preemptions with cost and gain."""
    over = "coalesce(o.ended_at, o.gone_at)"
    ended = f"CASE WHEN count(*) = count({over}) THEN max({over}) END"
    after = _seconds(d, "t.at", "t.preemptor_admitted_at")
    ran = _seconds(d, "t.preemptor_started_at", f"coalesce(t.preemptor_ended_at, {CLOCK})")
    until = _seconds(d, "t.preemptor_admitted_at", "t.preemptor_preempted_at")
    columns = ", ".join(f"t.{name}" for name in _COLUMNS)
    number = "(SELECT {0}(n.number) FROM admissions n WHERE n.cluster = p.cluster"
    return f"""
SELECT {columns}, {after} AS admitted_after_seconds,
       CASE WHEN t.preemptor_started_at IS NOT NULL THEN {ran} END AS ran_seconds,
       CASE WHEN t.preemptor_preempted_at IS NOT NULL AND {until} <= {AT_ONCE_S}
            THEN 'PreemptedAtOnce'
            WHEN t.preemptor_preempted_at IS NOT NULL THEN 'Preempted'
            WHEN t.preemptor_started_at IS NOT NULL AND t.preemptor_ended_at IS NULL THEN 'Running'
            WHEN t.preemptor_started_at IS NOT NULL THEN 'Ran'
            WHEN t.preemptor_released_at IS NOT NULL THEN 'NeverRan'
            WHEN t.preemptor_admitted_at IS NOT NULL THEN 'Admitted'
            WHEN t.waits THEN 'Waiting' WHEN NOT t.waits THEN 'NeverAdmitted' ELSE ''
       END AS brought
  FROM (
SELECT p.cluster, p.at, p.seq, p.decision_id, p.policy, p.cohort, p.victim_id, p.victim_namespace,
       p.victim_name, p.victim_priority, p.victim_queue,
       v.admitted_at AS victim_admitted_at,
       {_seconds(d, "v.admitted_at", "p.at")} AS lost_seconds, {_lost(d)} AS lost_hours,
       p.preemptor_id, p.preemptor_namespace, p.preemptor_name, p.preemptor_priority,
       p.preemptor_queue, a.admitted_at AS preemptor_admitted_at,
       {_of_pods("min(o.started_at)")} AS preemptor_started_at,
       {_of_pods(ended)} AS preemptor_ended_at,
       (SELECT min(coalesce(q.at, p.at)) FROM preemptions q
         WHERE q.cluster = p.cluster AND q.victim_id = p.preemptor_id
           AND q.seq >= a.admitted_seq AND (a.released_at IS NULL OR q.at <= a.released_at))
       AS preemptor_preempted_at,
       a.released_at AS preemptor_released_at,
       CASE WHEN g.id IS NOT NULL THEN g.gone_at IS NULL AND g.finished_at IS NULL END AS waits
  FROM preemptions p
  LEFT JOIN groups g ON g.cluster = p.cluster AND g.id = p.preemptor_id
  LEFT JOIN admissions v ON v.cluster = p.cluster AND v.group_id = p.victim_id AND v.number =
       {number.format("max")} AND n.group_id = p.victim_id AND n.admitted_seq <= p.seq)
  LEFT JOIN admissions a ON a.cluster = p.cluster AND a.group_id = p.preemptor_id AND a.number =
       {number.format("min")} AND n.group_id = p.preemptor_id AND n.admitted_seq >= p.seq)) t
"""


VIEWS = {"v_preemptions": preemptions}

COMMENTS = {
    "v_preemptions": "What each preemption cost (hours of what the victim had held since its "
    "admission, by resource) and brought: Running, Ran, Preempted, PreemptedAtOnce (itself, within "
    "a second), NeverRan, Admitted, Waiting, NeverAdmitted; when that was, and how long it ran",
}
