"""Quota held by an admission at a moment: its given amounts, less those of succeeded pods.

Theory. A pod that has succeeded gives its place back at once (KEP-976, "Dynamically reclaiming
Quota"); the given amounts stay in the admission's row. A place has the requests of its role, as in
`usage_views`. A pod that had succeeded before the admission was in none of its places.

Invariant: held amounts are at most the given amounts, and at least zero.
"""

from typing import NamedTuple

from projector.schema.clock import CLOCK
from projector.schema.dialect import Dialect, by_flavor, by_home, swapped

_GAVE_BACK = "p.phase = 'Succeeded' AND p.fate <> 'excess' AND p.ended_at > a.admitted_at"
"""Pods `p` of admission `a` that need their place no more."""


def _places(d: Dialect, role: str) -> tuple[str, str, str]:
    """FROM items that open the place of a pod of `role`: flavor, resource and amount."""
    each, nested = d.each.format, d.nested.format
    opened = f"""JOIN roles q ON q.cluster = a.cluster AND q.group_id = a.group_id
   AND q.name = {role}
  {each(doc=d.with_pods.format(doc="q.requests"), alias="y")}
  {each(doc="a.flavors", alias="s")}
  {each(doc=nested(doc="s.value"), alias="x")}"""
    its = f"x.key = y.key AND (s.key = lower({role}) OR g.kind = 'single')"
    return opened, its, d.value.format(doc="y.value")


def held(d: Dialect, at: str = "") -> str:
    """Return SQL of flavor -> resource -> amount that admission `a` of group `g` holds.

    `at`: a moment; "" is that of the rows. Resources that it no longer holds are left out.
    """
    given = d.value.format(doc="r.value")
    opened, its, place = _places(d, "n.role")
    by_then = f" AND p.ended_at <= {at}" if at else ""
    left = f"""(SELECT sum({place} * n.pods)
           FROM (SELECT p.role, count(*) AS pods FROM pods p
                  WHERE p.cluster = a.cluster AND p.group_id = a.group_id
                    AND {_GAVE_BACK}{by_then}
                  GROUP BY p.role) n
           {opened}
          WHERE {its} AND y.key = r.key AND {d.text.format(doc="x.value")} = f.key)"""
    amounts = d.object.format(key="h.resource", value="h.amount")
    whole = d.object.format(key="o.flavor", value=d.document.format(x="o.amounts"))
    return f"""(SELECT {whole} FROM (
       SELECT h.flavor, {amounts} AS amounts
         FROM (SELECT f.key AS flavor, r.key AS resource,
                      {d.whole.format(x=f"{given} - coalesce({left}, 0)")} AS amount
                 FROM (SELECT 1 AS one) u {by_flavor(d, "a.resources")}) h
        WHERE h.amount > 0
        GROUP BY h.flavor) o)"""


def with_held(query: str, at: str = "") -> dict[str, str]:
    """Return a statement, by database, that has what `a` holds where it says `a.resources`."""
    return by_home(lambda d: swapped(query, "a.resources", held(d, at)))


class GivenBack(NamedTuple):
    """SQL of what pods `p` left of their admission `a` of group `g`: FROM items and condition."""

    flavor: str
    resource: str
    amount: str
    items: str
    where: str


def given_back(d: Dialect) -> GivenBack:
    """Return SQL of what succeeded pods left, one row for each, flavor and resource."""
    opened, its, place = _places(d, "p.role")
    # In this order: SQLite would look at all pods of all times first.
    items = f"""admissions a CROSS JOIN groups g CROSS JOIN pods p
  {opened}"""
    where = f"""g.cluster = a.cluster AND g.id = a.group_id
   AND p.cluster = a.cluster AND p.group_id = a.group_id AND {_GAVE_BACK} AND {its}"""
    return GivenBack(d.text.format(doc="x.value"), "y.key", place, items, where)


def spans(d: Dialect) -> str:
    """Return the query of what admissions were given and, below zero, of what pods gave back.

    Both end with the admission; `admissions` counts these.
    """
    over = f"coalesce(a.released_at, {CLOCK})"
    left = given_back(d)
    return f"""
SELECT a.cluster, a.cluster_queue, f.key AS flavor, r.key AS resource,
       {d.value.format(doc="r.value")} AS amount, 1 AS admissions, a.admitted_at AS from_at,
       {over} AS to_at
  FROM admissions a {by_flavor(d, "a.resources")}
UNION ALL
SELECT a.cluster, a.cluster_queue, {left.flavor}, {left.resource}, -{left.amount}, 0, p.ended_at,
       {over}
  FROM {left.items}
 WHERE {left.where} AND p.ended_at < {over}"""


def _held(d: Dialect) -> str:
    return f"""
SELECT a.cluster, a.cluster_queue, a.group_id, a.number, g.namespace, g.name, g.state, g.queue,
       g.priority, a.admitted_at, {held(d)} AS resources
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.released_at IS NULL
"""


VIEWS = {"v_held": _held}

COMMENTS = {
    "v_held": "Who holds quota, since when, and what of it now: flavor -> resource -> amount as in "
    "the tables, without what succeeded pods gave back",
}
