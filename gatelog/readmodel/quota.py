"""Quota that queues held, borrowed and lent: at a moment, and over a window as a series.

Theory. The definition is `projector.schema.quota_views`; the view `v_quota` is the same for now,
and dearer: a query that knows its cluster looks once whether there is a ledger, not for each row. A
series has the values at the end of each of `STEPS` equal parts of a window; the database leaves out
intervals that were over before such an end, so a busy day gives a few hundred rows for each queue.

Invariant: the last value of a series is that of `at` for the same moment.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from msgspec import Struct

from projector.schema.dialect import Dialect, by_home
from projector.schema.quota_views import spans, standing

STEPS = 240
_OURS = "s.cluster = :cluster AND (:kind <> 'ClusterQueue' OR s.kind <> 'LocalQueue')"
"""LocalQueues neither borrow nor lend: no other queue's row has to do with them."""
_COVERS = "s.from_at <= {at} AND (s.to_at IS NULL OR s.to_at > {at})"
_WHOSE = """
 WHERE (q.kind = :kind OR :kind = '') AND (q.namespace = :namespace OR :namespace = '')
   AND (q.name = :name OR :name = '')
 ORDER BY q.kind, q.namespace, q.name, q.flavor, q.resource LIMIT :limit
"""


def _standing(d: Dialect, covers: str) -> str:
    return f"SELECT q.* FROM ({standing(d, f'{covers} AND {_OURS}', ':cluster')}) q{_WHOSE}"


def _at(d: Dialect) -> str:
    return _standing(d, _COVERS.format(at=d.time.format(name="at")))


def _over_time(d: Dialect) -> str:
    def step(t: str) -> str:
        """Number of the first end of a step that is not before `t`; 1 is the first."""
        passed = f"{d.micros.format(t=t)} - CAST(:since_us AS bigint) + :step_us - 1"
        return f"({passed}) / CAST(:step_us AS bigint)"

    until = d.time.format(name="until")
    ends = f"CASE WHEN s.to_at IS NULL THEN {STEPS + 1} ELSE {step('s.to_at')} END"
    amounts = ("nominal", "held", "borrowed", "unadmitted")
    sums = ", ".join(f"{d.total.format(x=f's.{one}')} AS {one}" for one in amounts)
    begins = step(d.last.format(a="s.from_at", b=d.time.format(name="since")))
    return f"""
WITH tree AS (
SELECT max(s.root) AS root FROM ({spans(d, ":cluster")}) s
 WHERE s.cluster = :cluster AND s.kind = 'ClusterQueue' AND s.name = :name AND s.to_at IS NULL),
cut AS (
SELECT s.kind, s.name, s.root, s.flavor, s.resource, s.nominal, s.held, s.borrowed,
       s.unadmitted, s.reported,
       {begins} AS first, {ends} AS last
  FROM ({spans(d, ":cluster")}) s
 WHERE s.cluster = :cluster AND s.kind <> 'LocalQueue' AND s.from_at <= {until}
   AND (s.to_at IS NULL OR s.to_at > {d.time.format(name="since")})
   AND (s.name = :name AND s.kind = 'ClusterQueue'
        OR s.root <> '' AND s.root IN (SELECT root FROM tree)))
SELECT s.kind, s.name, max(s.root) AS root, s.flavor, s.resource, s.first, s.last,
       max(s.reported) AS reported, {sums}
  FROM cut s WHERE s.last > s.first
 GROUP BY s.kind, s.name, s.flavor, s.resource, s.first, s.last
 ORDER BY s.kind, s.name, s.flavor, s.resource, s.first, s.last LIMIT :limit
"""


NOW = by_home(lambda d: _standing(d, "s.to_at IS NULL"))
AT = by_home(_at)
OVER_TIME = by_home(_over_time)

Key = tuple[str, str]
"""Flavor and resource."""


class QuotaRow(Struct, frozen=True, kw_only=True):
    """The quota of a queue or cohort for one resource of one flavor, as in view `v_quota`."""

    kind: str
    namespace: str
    name: str
    root: str
    flavor: str
    resource: str
    nominal: int
    held: int
    borrowed: int
    unadmitted: int
    idle: int
    lent: int


class StepRow(Struct, frozen=True, kw_only=True):
    """A queue's or cohort's quota from the end of step `first` until before the end of `last`."""

    kind: str
    name: str
    root: str
    flavor: str
    resource: str
    first: int
    last: int
    reported: int
    nominal: int
    held: int
    borrowed: int
    unadmitted: int


class Series(Struct, frozen=True):
    """A resource of a flavor over a window, at the end of each step; amounts as in tables."""

    flavor: str
    resource: str
    nominal: list[int]
    held: list[int]
    borrowed: list[int]
    unadmitted: list[int]
    lent: list[int]
    idle: list[int]


class _Course:
    """The quota of one queue at the end of each step; rows are added, then it is `closed`.

    Until then an amount lies at the step where it begins, and is taken off where it ends.
    """

    def __init__(self) -> None:
        self.nominal, self.held, self.borrowed = ([0] * (STEPS + 1) for _ in range(3))
        self.unadmitted = [0] * (STEPS + 1)
        self.reported, self.root, self.cohort = 0, "", False

    def add(self, row: StepRow) -> None:
        self.reported, self.root = max(self.reported, row.reported), max(self.root, row.root)
        self.cohort = row.kind == "Cohort"
        begin, end = max(row.first, 1) - 1, min(row.last - 1, STEPS)
        if begin >= end:
            return
        for course, amount in (
            (self.nominal, row.nominal),
            (self.held, row.held),
            (self.borrowed, row.borrowed),
            (self.unadmitted, row.unadmitted),
        ):
            course[begin] += amount
            course[end] -= amount

    def closed(self) -> None:
        """Add up what begins and ends, step after step."""
        for course in (self.nominal, self.held, self.borrowed, self.unadmitted):
            course[:] = list(accumulate(course))[:STEPS]

    def beyond(self, step: int) -> int:
        """Return the borrowed amount."""
        if self.reported or not self.root or self.cohort:
            return 0 if self.cohort else self.borrowed[step]
        return max(0, self.held[step] - self.nominal[step])

    def lendable(self, step: int) -> int:
        """Return the amount that others could have had."""
        own = self.nominal[step]
        return own if self.cohort else max(0, own - self.held[step] - self.unadmitted[step])


def window(since: datetime, until: datetime) -> dict[str, Any]:
    """Return the parameters of `OVER_TIME` that say when."""
    epoch = datetime(1970, 1, 1, tzinfo=since.tzinfo)
    return {
        "since": since,
        "until": until,
        "since_us": (since - epoch) // timedelta(microseconds=1),
        "step_us": (until - since) // STEPS // timedelta(microseconds=1),
    }


def over_time(name: str, rows: Iterable[StepRow]) -> list[Series]:
    """Return what a ClusterQueue held over a window, by flavor and resource."""
    courses: dict[Key, dict[tuple[str, str], _Course]] = defaultdict(dict)
    for row in rows:
        of_key = courses[row.flavor, row.resource]
        of_key.setdefault((row.kind, row.name), _Course()).add(row)
    for of_key in courses.values():
        for course in of_key.values():
            course.closed()
    found = []
    for key in sorted(courses):
        mine = courses[key].get(("ClusterQueue", name))
        if mine is None:
            continue
        tree = [one for one in courses[key].values() if one.root and one.root == mine.root]
        idle = [mine.lendable(step) for step in range(STEPS)]
        found.append(
            Series(
                *key,
                nominal=mine.nominal,
                held=mine.held,
                borrowed=[mine.beyond(step) for step in range(STEPS)],
                unadmitted=mine.unadmitted,
                lent=[_lent(idle[step], tree, step) for step in range(STEPS)],
                idle=idle,
            )
        )
    return found


def _lent(idle: int, tree: list[_Course], step: int) -> int:
    loans = sum(one.beyond(step) for one in tree)
    lendable = sum(one.lendable(step) for one in tree)
    return int(idle * min(1.0, loans / lendable) + 0.5) if idle and loans else 0
