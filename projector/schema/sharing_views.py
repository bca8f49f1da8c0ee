"""Views of how quota was shared: possible borrowers and lenders, and shares hour by hour.

Theory. Both are cut from `usage`, whose rows are intervals with constant amounts of a queue or
cohort. Borrowed quota comes out of one pool, so the owner of a borrowed core is unknown: a lender
is any queue of the same tree that had unused quota meanwhile, and `amount` is its largest possible
part of the loan. Rows that are open end at `v_clock`.

Invariant: no row is longer than the interval it was cut from; amounts are cores or whole units.
"""

from projector.schema.clock import CLOCK
from projector.schema.dialect import Dialect, by_flavor, in_units


def borrowed(d: Dialect) -> str:
    """Return the view of loans: borrower, possible lender, and from when to when."""
    begin = d.last.format(a="b.from_at", b="l.from_at")
    ends = [f"coalesce({row}.to_at, {CLOCK})" for row in "bl"]
    end = d.first.format(a=ends[0], b=ends[1])
    free = "l.nominal - l.reserved - l.unadmitted"
    idle = f"CASE WHEN l.kind = 'Cohort' THEN l.nominal ELSE {free} END"
    amount = in_units("b.resource", f"({d.first.format(a='b.borrowed', b=idle)})")
    seconds = f"({d.micros.format(t='c.to_at')} - {d.micros.format(t='c.from_at')}) / 1000000.0"
    return f"""
WITH cut AS (
SELECT b.cluster, b.name AS borrower, l.kind AS lender_kind, l.name AS lender, b.root,
       b.flavor, b.resource, {amount} AS amount, {begin} AS from_at, {end} AS to_at
  FROM usage b
  JOIN usage l ON l.cluster = b.cluster AND l.root = b.root AND l.flavor = b.flavor
   AND l.resource = b.resource AND l.from_at < {ends[0]} AND {ends[1]} > b.from_at
   AND (l.kind = 'Cohort' OR (l.kind = 'ClusterQueue' AND l.name <> b.name
                              AND {free} > 0))
 WHERE b.kind = 'ClusterQueue' AND b.borrowed > 0 AND b.root <> '' AND l.nominal > 0)
SELECT c.*, c.amount * {seconds} / 3600.0 AS resource_hours
  FROM cut c WHERE c.to_at > c.from_at
"""


def shares(d: Dialect) -> str:
    """Return the view of ClusterQueues and Cohorts by hour, each mean weighed by time."""
    columns = "cluster, kind, name, cohort, root, flavor, resource"
    amounts = ("quota", "reserved", "borrowed")
    values = ", ".join((*amounts, "share"))
    start = d.hour.format(t="u.from_at")
    after = d.next_hour.format(t="b.begins")
    end = d.first.format(a="b.to_at", b=after)
    begin = d.last.format(a="b.from_at", b="b.begins")
    seconds = f"({d.micros.format(t=end)} - {d.micros.format(t=begin)}) / 1000000.0"
    names = ", ".join(f"b.{name}" for name in f"{columns}, {values}".split(", "))
    means = ", ".join(
        f"sum({in_units('s.resource', f's.{one}')} * s.seconds) / sum(s.seconds) AS {one}"
        for one in amounts
    )
    keys = ", ".join(f"s.{name}" for name in columns.split(", "))
    return f"""
WITH RECURSIVE buckets AS (
SELECT {columns}, {values}, from_at, coalesce(u.to_at, {CLOCK}) AS to_at, {start} AS begins
  FROM usage u WHERE u.kind <> 'LocalQueue'
UNION ALL
SELECT {names}, b.from_at, b.to_at, {after} FROM buckets b WHERE {after} < b.to_at),
spans AS (
SELECT {names}, b.begins, {seconds} AS seconds FROM buckets b)
SELECT {keys}, s.begins AS hour, sum(s.seconds) AS seconds, {means},
       sum(s.share * s.seconds) / sum(s.seconds) AS share, max(s.share) AS most_share
  FROM spans s WHERE s.seconds > 0 GROUP BY {keys}, s.begins
"""


def reserved_idle(d: Dialect) -> str:
    """Return the view of quota that was free, and kept for starts that were reserved.

    Free of the ClusterQueue, or of the whole tree that it is in. Of several that are reserved at
    once in a tree it is kept for the first: nothing is counted twice.
    """
    wanted = d.whole.format(x=d.value.format(doc="r.value"))
    begin = d.last.format(a="w.from_at", b="u.from_at")
    end = d.first.format(a="w.to_at", b=f"coalesce(u.to_at, {CLOCK})")
    own = "u.nominal - u.reserved - u.unadmitted"
    free = f"CASE WHEN u.kind = 'Cohort' THEN u.spare ELSE {own} END"
    return f"""
WITH wanted AS (
SELECT s.cluster, s.group_id, s.cluster_queue, coalesce(z.root, '') AS root, f.key AS flavor,
       r.key AS resource, {wanted} AS amount, s.from_at, coalesce(s.to_at, {CLOCK}) AS to_at
  FROM reserved_starts s
  LEFT JOIN standings z ON z.cluster = s.cluster AND z.kind = 'ClusterQueue'
   AND z.namespace = '' AND z.name = s.cluster_queue
  {by_flavor(d, "s.resources")}),
one AS (
SELECT w.cluster, w.group_id, w.cluster_queue, w.root, w.flavor, w.resource, w.amount, w.to_at,
       coalesce((SELECT max(e.to_at) FROM wanted e
          WHERE e.cluster = w.cluster AND e.flavor = w.flavor AND e.resource = w.resource
            AND (e.cluster_queue = w.cluster_queue OR (e.root = w.root AND e.root <> ''))
            AND e.to_at > w.from_at AND (e.from_at < w.from_at
             OR (e.from_at = w.from_at AND e.group_id < w.group_id))), w.from_at) AS from_at
  FROM wanted w),
cut AS (
SELECT w.cluster, w.group_id, w.cluster_queue, w.flavor, w.resource,
       {d.first.format(a="w.amount", b=free)} AS amount, {begin} AS from_at, {end} AS to_at
  FROM one w
  JOIN usage u ON u.from_at < w.to_at AND coalesce(u.to_at, {CLOCK}) > w.from_at
   AND u.cluster = w.cluster AND u.flavor = w.flavor AND u.resource = w.resource
   AND u.namespace = '' AND u.kind = CASE WHEN w.root = '' THEN 'ClusterQueue' ELSE 'Cohort' END
   AND u.name = CASE WHEN w.root = '' THEN w.cluster_queue ELSE w.root END)
SELECT c.* FROM cut c WHERE c.amount > 0 AND c.to_at > c.from_at
"""


VIEWS = {"v_borrowed": borrowed, "v_share_hourly": shares, "v_reserved_idle": reserved_idle}

COMMENTS = {
    "v_borrowed": "What ClusterQueues borrowed, and of whom it can have been, from when to when: "
    "who of the same tree did not use its quota meanwhile; amounts are the most it can have been",
    "v_reserved_idle": "Quota that was free and kept for a group that is reserved a start, from "
    "when to when: what that costs; amounts as in the tables",
    "v_share_hourly": "Quota, what was held and borrowed and the weighted share (thousandths) of "
    "each ClusterQueue and Cohort per hour (UTC), means over the seconds that it was reported for",
}
