"""View of the causes of admissions: the changes of the message after which a group got its quota.

Theory. Whether a waiting group fits is decided once a message, after all its events were folded: so
the change that made room is among the rows of that position. Causes are read in ranks, and a later
rank counts only where the earlier ranks have no row: the group's own creation, and room in its tree
of cohorts and flavors; other conditions that it had waited for; groups that left its queue; changes
of objects that leave no row of their own. Of several changes in a message all are named, since each
made room. With admission checks quota is reserved first: their agreement is the last cause.

Invariant: a row for each cause, at least one for each admission that gatelog decided; `says_to_own`
is for users who may see the group's own namespace alone; both databases give equal rows.
"""

from collections.abc import Iterable

from podgroup.model.reasons import QUOTA_WAITS, RUNNING_UNADMITTED
from projector.schema.dialect import Dialect

BACK = frozenset(("GroupEvicted", "GroupFinished", "GroupGone", "QuotaReleased"))
"""Notes of a group that may give back its quota."""
PODS = frozenset(("PodEnded", "PodFailed", "PodGone", "PodLeft", "PodResized", "PodSucceeded"))
"""Notes of a group whose pods may hold less."""
CAME = "it came, and there was room"
GAVE_BACK = "gave back its quota"
RAN_UNADMITTED = "ended, which ran without quota"
WAIT_OVER = "what it waited for is over: "
BEFORE_IT, LEFT_QUEUE = "was let in before it", "left the queue"
OBJECTS = "queues, cohorts, flavors, nodes or settings changed"
AGREED = "its admission checks agreed"
"""Texts of causes."""
_GI, _MI = 1 << 30, 1 << 20
_MINE = "a.cluster, a.group_id, a.number, a.seq, a.at, a.own"
_X = "x.namespace || '/' || x.name"


def _amount(resource: str, number: str) -> str:
    """An amount as people write it: cores, Gi, Mi, or as it is counted."""
    cores = f"rtrim(CAST({number} / 1000.0 AS TEXT), '0')"
    return f"""CASE WHEN {resource} = 'cpu' AND {number} % 1000 <> 0 THEN {cores}
            WHEN {resource} = 'cpu' THEN CAST({number} / 1000 AS TEXT)
            WHEN {number} <> 0 AND {number} % {_GI} = 0 THEN CAST({number} / {_GI} AS TEXT) || 'Gi'
            WHEN {number} <> 0 AND {number} % {_MI} = 0 THEN CAST({number} / {_MI} AS TEXT) || 'Mi'
            ELSE CAST({number} AS TEXT) END"""


def _noted(kinds: Iterable[str], of: str = "<>") -> str:
    """Whether `h` is a note of these kinds in the message of `a`, of others or (`=`) of its group.

    CROSS JOIN with such a condition keeps SQLite from reading all history before it knows `a`.
    """
    named = ", ".join(f"'{kind}'" for kind in sorted(kinds))
    return f"""h.cluster = a.cluster AND h.shard = a.shard AND h.seq = a.seq
   AND h.group_id {of} a.group_id AND h.kind IN ({named})"""


_OTHERS = "CROSS JOIN history h CROSS JOIN groups x"


def _of_others(kinds: Iterable[str]) -> str:
    """Whether `h` is a note of these kinds in the message of `a`, of another group `x`."""
    return f"{_noted(kinds)} AND x.cluster = h.cluster AND x.id = h.group_id"


def _same_tree(queue: str) -> str:
    """Whether a ClusterQueue shares quota with that of `a`: by its cohort, or the root above it.

    Roots are reported from time to time, cohorts are there with their ClusterQueues.
    """

    def both(table: str, column: str) -> str:
        return f"""SELECT 1 FROM {table} s JOIN {table} t ON t.cluster = s.cluster
           AND t.kind = s.kind AND t.{column} = s.{column}
        WHERE s.cluster = a.cluster AND s.kind = 'ClusterQueue' AND s.{column} <> ''
          AND s.name = a.cluster_queue AND t.name = {queue}"""

    return f"""({queue} = a.cluster_queue
       OR EXISTS ({both("objects", "cohort")})
       OR EXISTS ({both("standings", "root")}))"""


def _held(d: Dialect) -> str:
    """Whether `b` is an admission of group `x` in the tree and of a flavor of `a`."""
    mine = d.each.format(doc="a.resources", alias="m")
    theirs = d.each.format(doc="b.resources", alias="t")
    return f"""b.cluster = x.cluster AND b.group_id = x.id
   AND b.admitted_seq < a.seq AND {_same_tree("b.cluster_queue")}
   AND EXISTS (SELECT 1 FROM (SELECT 1 AS one) o {mine} {theirs} WHERE m.key = t.key)"""


def _raised(d: Dialect, asked: str) -> str:
    """Nominal quotas of the tree, of flavors of `a`, that became larger in the message."""
    number = d.whole.format(x=d.value.format(doc="r.value"))
    amounts = d.each.format(doc=d.nested.format(doc="f.value"), alias="r")
    before = f"""coalesce((SELECT {number} FROM quotas w
           {d.each.format(doc="w.nominal", alias="f")} {amounts}
          WHERE w.cluster = n.cluster AND w.shard = n.shard AND w.cluster_queue = n.cluster_queue
            AND f.key = n.flavor AND r.key = n.resource
            AND w.seq = (SELECT max(v.seq) FROM quotas v
                  WHERE v.cluster = n.cluster AND v.shard = n.shard
                    AND v.cluster_queue = n.cluster_queue AND v.seq < n.seq)), 0)"""
    mine = d.each.format(doc="a.resources", alias="m")
    return f"""
SELECT c.cluster, c.group_id, c.number, c.seq, c.at, c.own, 1 AS rank, 'QuotaRaised' AS cause,
       '' AS namespace, 'quota of ClusterQueue ' || c.cluster_queue || ': ' || c.resource || ' of '
       || c.flavor || ' ' || {_amount("c.resource", "c.before")} || ' → '
       || {_amount("c.resource", "c.amount")} AS says, c.cluster_queue AS name
  FROM (SELECT n.*, {before} AS before
          FROM (SELECT {_MINE}, a.shard, q.cluster_queue, f.key AS flavor, r.key AS resource,
                       {number} AS amount
                  FROM {asked}
                  CROSS JOIN quotas q
                  {d.each.format(doc="q.nominal", alias="f")} {amounts}
                 WHERE q.cluster = a.cluster AND q.shard = a.shard AND q.seq = a.seq
                   AND {_same_tree("q.cluster_queue")}
                   AND EXISTS (SELECT 1 FROM (SELECT 1 AS one) o {mine} WHERE m.key = f.key)) n) c
 WHERE c.amount > c.before"""


def _admitted(of: str) -> str:
    """Admissions `a` that are asked about: of the condition `of`, or all."""
    return f"""(
    SELECT a.cluster, g.shard, g.namespace AS own, a.group_id, a.number, a.admitted_seq AS seq,
           coalesce(h.at, a.admitted_at) AS at, h.seq AS reserved_seq, a.cluster_queue, a.resources
      FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
      LEFT JOIN history h ON h.cluster = a.cluster AND h.shard = g.shard
       AND h.seq = a.admitted_seq AND h.group_id = a.group_id AND h.kind = 'QuotaReserved'
     WHERE a.decided_by NOT IN ('kueue', 'adopted'){of and f" AND {of}"}) a"""


def _room(d: Dialect, asked: str) -> str:
    """Its own coming, and room that was made."""
    return f"""
SELECT DISTINCT {_MINE}, 1 AS rank, 'Created' AS cause, '' AS namespace,
       '{CAME}' AS says, '' AS name
  FROM {asked} CROSS JOIN history h
 WHERE {_noted(["GroupComplete"], "=")}
UNION
SELECT DISTINCT {_MINE}, 1, 'QuotaReleased', x.namespace,
       'group ' || {_X} || ' {GAVE_BACK}'
       || CASE WHEN b.release_reason = '' THEN '' ELSE ' (' || b.release_reason || ')' END, x.name
  FROM {asked} {_OTHERS} CROSS JOIN admissions b
 WHERE {_of_others(BACK)} AND {_held(d)} AND b.released_at = h.at
UNION
SELECT DISTINCT {_MINE}, 1, 'UnadmittedEnded', x.namespace,
       'group ' || {_X} || ' {RAN_UNADMITTED}', x.name
  FROM {asked} {_OTHERS} CROSS JOIN waits w
 WHERE {_of_others(["StateChanged"])}
   AND w.cluster = x.cluster AND w.group_id = x.id AND w.to_seq = a.seq
   AND w.reason = '{RUNNING_UNADMITTED}' AND {_same_tree("x.cluster_queue")}
UNION ALL
{_raised(d, asked)}
"""


def _otherwise(d: Dialect, asked: str) -> str:
    """Where nothing made room: pods that ended, another wait that did, the queue, or objects."""
    quota = ", ".join(f"'{reason}'" for reason in QUOTA_WAITS)
    return f"""
UNION
SELECT DISTINCT {_MINE}, 2, 'PodsEnded', x.namespace, 'pods of group ' || {_X} || ' ended', x.name
  FROM {asked} {_OTHERS} CROSS JOIN admissions b
 WHERE {_of_others(PODS)} AND {_held(d)} AND (b.released_at IS NULL OR b.released_at > h.at)
UNION
SELECT DISTINCT {_MINE}, 2, 'WaitOver', '', '{WAIT_OVER}' || w.message, w.reason
  FROM {asked} CROSS JOIN waits w
 WHERE w.cluster = a.cluster AND w.group_id = a.group_id AND w.to_seq = a.seq
   AND w.reason NOT IN ({quota})
UNION
SELECT DISTINCT {_MINE}, 3, 'LeftQueue', x.namespace,
       'group ' || {_X} || CASE WHEN h.reason = 'Admitted' THEN ' {BEFORE_IT}'
       ELSE ' {LEFT_QUEUE}' END, x.name
  FROM {asked} {_OTHERS}
 WHERE {_of_others(["StateChanged", "GroupGone"])} AND x.cluster_queue = a.cluster_queue
UNION ALL
SELECT {_MINE}, 4, 'Objects', '', '{OBJECTS}', ''
  FROM {asked}
"""


def causes(d: Dialect, of: str = "") -> str:
    """Return the statement; `of` is a condition on admissions `a`, "" for all of them."""
    asked = _admitted(of)
    return f"""
SELECT c.cluster, c.group_id, c.number, c.seq, c.at, c.cause, c.namespace, c.name, c.says,
       CASE WHEN c.cause = 'QuotaRaised' THEN 'quota was raised'
            WHEN c.namespace NOT IN ('', c.own) THEN 'a group of another namespace made room'
            ELSE c.says END AS says_to_own
  FROM (SELECT f.*, min(f.rank) OVER (PARTITION BY f.cluster, f.group_id, f.number) AS first
          FROM ({_room(d, asked)}{_otherwise(d, asked)}) f) c
 WHERE c.rank = c.first
UNION ALL
SELECT a.cluster, a.group_id, a.number, min(h.seq), min(h.at), 'ChecksAgreed', '', '',
       '{AGREED}', '{AGREED}'
  FROM {asked} CROSS JOIN history h
 WHERE h.cluster = a.cluster AND h.group_id = a.group_id AND h.kind = 'GroupAdmitted'
   AND h.seq > a.seq AND a.reserved_seq IS NOT NULL
 GROUP BY a.cluster, a.group_id, a.number
"""


VIEWS = {"v_admission_causes": causes}

COMMENTS = {
    "v_admission_causes": "What let each admitted group in: its own coming, a group that gave back "
    "its quota, a quota that was raised, checks that agreed; a row for each change of the message "
    "that made room",
}
