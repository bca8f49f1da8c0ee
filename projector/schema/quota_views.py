"""Quota that queues hold, borrow, lend and leave idle: one definition, for any moment.

Theory. Table `usage` has the amounts of each queue and cohort, as admission counts them: quota that
ended pods gave back is not held. Where Kueue admits (or counts are off) there is no such ledger;
then the amounts of admissions are added up instead, less what succeeded pods gave back. Both come
as spans that add up, so a moment, a series and the view `v_quota` are sums over the same rows.

Borrowed quota comes out of one pool of the whole tree of cohorts. It is lent by queues and Cohorts
with idle quota, each by its part of all idle quota.

Pods that run without ever having been admitted are `unadmitted`, apart from held quota; own quota
that they take is not idle.

Invariant: of a ClusterQueue in which nothing is unadmitted `held - borrowed + idle` is the nominal
quota unless it holds more than that in no cohort; `lent` is a part of `idle`. Amounts as in the
tables: larger amounts are capped at 2^63-1, so the idle part of an unlimited quota is 2^63-1.
"""

from podgroup.model.quantities import MAX_INT64
from projector.schema.dialect import Dialect, by_flavor
from projector.schema.held_views import given_back

KEY = "kind, namespace, name, flavor, resource"


def spans(d: Dialect, cluster: str = "{0}.cluster") -> str:
    """Return the query of spans of constant amounts; `to_at` is null while a span lasts.

    Args:
        d: the database's dialect.
        cluster: whose ledger to look for: a parameter, or the cluster of the row `{0}`.
    """
    value = d.whole.format(x=d.value.format(doc="r.value"))
    reported = "NOT EXISTS (SELECT 1 FROM usage x WHERE x.cluster = " + cluster + ")"
    each = by_flavor(d, "a.resources")
    cohort = """LEFT JOIN objects o ON o.cluster = {0}.cluster AND o.kind = 'ClusterQueue'
   AND o.namespace = '' AND o.name = {0}.cluster_queue"""
    left = given_back(d)
    less = f"-{d.whole.format(x=left.amount)}"
    meanwhile = f"""{left.where} AND {reported.format("a")}
   AND (a.released_at IS NULL OR a.released_at > p.ended_at)"""
    return f"""
SELECT u.cluster, u.kind, u.namespace, u.name, u.root, u.flavor, u.resource, u.nominal,
       u.reserved AS held, u.borrowed, u.unadmitted, 1 AS reported, u.from_at, u.to_at
  FROM usage u
UNION ALL
SELECT a.cluster, 'ClusterQueue', '', a.cluster_queue, coalesce(o.cohort, ''), f.key, r.key, 0,
       {value}, 0, 0, 0, a.admitted_at, a.released_at
  FROM admissions a {cohort.format("a")}
  {each}
 WHERE {reported.format("a")}
UNION ALL
SELECT a.cluster, 'LocalQueue', g.namespace, g.queue, '', f.key, r.key, 0, {value}, 0, 0, 0,
       a.admitted_at, a.released_at
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
  {each}
 WHERE {reported.format("a")}
UNION ALL
SELECT a.cluster, 'ClusterQueue', '', a.cluster_queue, coalesce(o.cohort, ''), {left.flavor},
       {left.resource}, 0, {less}, 0, 0, 0, p.ended_at, a.released_at
  FROM {left.items} {cohort.format("a")}
 WHERE {meanwhile}
UNION ALL
SELECT a.cluster, 'LocalQueue', g.namespace, g.queue, '', {left.flavor}, {left.resource}, 0, {less},
       0, 0, 0, p.ended_at, a.released_at
  FROM {left.items}
 WHERE {meanwhile}
UNION ALL
SELECT q.cluster, 'ClusterQueue', '', q.cluster_queue, coalesce(o.cohort, ''), f.key, r.key,
       {value}, 0, 0, 0, 0, q.at, q.to_at
  FROM (SELECT n.*, lead(n.at) OVER (
               PARTITION BY n.cluster, n.shard, n.cluster_queue ORDER BY n.seq) AS to_at
          FROM quotas n) q {cohort.format("q")}
  {by_flavor(d, "q.nominal")}
 WHERE {reported.format("q")}"""


_BORROWED = """CASE WHEN a.reported = 1 THEN a.borrowed
            WHEN a.root <> '' AND a.held > a.nominal THEN a.held - a.nominal ELSE 0 END"""
"""The borrowed amount, from spans `a` of one queue that cover a moment, added up."""
_IDLE = f"""CASE WHEN k.kind <> 'ClusterQueue' THEN 0 WHEN k.nominal = {MAX_INT64} THEN k.nominal
                 WHEN k.nominal > k.held AND k.nominal - k.held > k.unadmitted
                 THEN k.nominal - k.held - k.unadmitted ELSE 0 END"""
_LENDABLE = f"CASE WHEN k.kind = 'Cohort' THEN k.nominal ELSE {_IDLE} END"


def standing(d: Dialect, covers: str, cluster: str = "{0}.cluster") -> str:
    """Return the query of how all queues stand at a moment; spans `s` cover it where `covers`."""
    whole = "PARTITION BY k.cluster, k.root, k.flavor, k.resource"
    part = d.first.format(a="1.0", b="l.loans * 1.0 / l.lendable")
    lent = d.whole.format(x=f"round(l.idle * {part})")
    loans = d.roughly.format(x="CASE WHEN k.kind = 'ClusterQueue' THEN k.borrowed ELSE 0 END")
    amounts = ("nominal", "held", "borrowed", "unadmitted")
    sums = ", ".join(f"{d.total.format(x=f's.{one}')} AS {one}" for one in amounts)
    return f"""
WITH added AS (
SELECT s.cluster, s.kind, s.namespace, s.name, max(s.root) AS root, s.flavor, s.resource,
       max(s.reported) AS reported, {sums}
  FROM ({spans(d, cluster)}) s
 WHERE {covers}
 GROUP BY s.cluster, s.kind, s.namespace, s.name, s.flavor, s.resource),
stood AS (
SELECT a.cluster, a.kind, a.namespace, a.name, a.root, a.flavor, a.resource, a.nominal, a.held,
       {_BORROWED} AS borrowed, a.unadmitted
  FROM added a),
lending AS (
SELECT k.*, {_IDLE} AS idle, {loans} OVER ({whole}) AS loans,
       {d.roughly.format(x=_LENDABLE)} OVER ({whole}) AS lendable
  FROM stood k)
SELECT l.cluster, l.kind, l.namespace, l.name, l.root, l.flavor, l.resource, l.nominal, l.held,
       l.borrowed, l.unadmitted, l.idle,
       CASE WHEN l.root <> '' AND l.idle > 0 AND l.loans > 0
            THEN {lent} ELSE 0 END AS lent
  FROM lending l"""


def now(d: Dialect) -> str:
    """Return the view of how queues stand now."""
    return standing(d, "s.to_at IS NULL")


VIEWS = {"v_quota": now}

COMMENTS = {
    "v_quota": "Each ClusterQueue, LocalQueue and Cohort now, by flavor and resource: "
    "nominal quota, what of it is held, borrowed, idle and lent, and apart what runs and was never "
    "admitted; amounts as in the tables",
}
