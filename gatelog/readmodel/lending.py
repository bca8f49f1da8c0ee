"""What queues of a cohort lend each other, and what they held over time.

Theory. What a queue holds beyond its nominal quota it borrows; what it holds less is idle. What is
borrowed of a flavor's resource in a cohort is lent by those who have it idle, each by its part of
all that is idle, as `gatelog what-if` counts it. Over time admissions are taken as changes: the
database adds up by how much they changed what was held in each of `STEPS` equal parts of a window,
so a day of many thousand admissions comes as a few hundred rows.

Invariant: at each moment `held - borrowed + idle` is the nominal quota, and `lent` a part of idle.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from msgspec import Struct

from projector.schema.dialect import home

STEPS = 240
MOST_QUEUES = 200
"""Queues of a cohort that are looked at."""
Key = tuple[str, str]
"""Flavor and resource."""
Amounts = Mapping[str, Mapping[Key, float]]
"""By queue."""


class ChangeRow(Struct, frozen=True):
    """By how much admissions changed what a queue held, in one step of a window."""

    cluster_queue: str
    flavor: str
    resource: str
    step: int
    amount: float


class QuotaRow(Struct, frozen=True):
    """What quota there was from when to when."""

    cluster_queue: str
    flavor: str
    resource: str
    amount: float
    from_at: datetime
    to_at: datetime


class Series(Struct, frozen=True):
    """One resource of one flavor over a window, at the end of each step; amounts as in tables."""

    flavor: str
    resource: str
    nominal: list[float]
    held: list[float]
    borrowed: list[float]
    lent: list[float]
    idle: list[float]


def lent(
    cohorts: Mapping[str, str], nominal: Amounts, held: Amounts
) -> dict[str, dict[Key, float]]:
    """Return what each queue lends, by queue; `cohorts` by queue, "" for none."""
    beyond: dict[tuple[str, Key], float] = defaultdict(float)
    idle: dict[tuple[str, Key], float] = defaultdict(float)
    for queue, cohort in cohorts.items():
        for key, quota in nominal.get(queue, {}).items() if cohort else ():
            more = held.get(queue, {}).get(key, 0) - quota
            beyond[cohort, key] += max(0, more)
            idle[cohort, key] += max(0, -more)
    found: dict[str, dict[Key, float]] = {}
    for queue, cohort in cohorts.items():
        for key, quota in nominal.get(queue, {}).items():
            less = quota - held.get(queue, {}).get(key, 0)
            if less > 0 and beyond[cohort, key] > 0:
                part = min(1.0, beyond[cohort, key] / idle[cohort, key])
                found.setdefault(queue, {})[key] = less * part
    return found


def named(queues: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a list of parameters for names of queues, and their values."""
    values = {f"queue_{number}": name for number, name in enumerate(queues)}
    return ", ".join(f":{name}" for name in values), values


def changes(dialect: str, names: str) -> str:
    """Return the statement of changes; parameters since, until, since_us, step_us, limit."""
    d = home(dialect)
    since = d.time.format(name="since")

    def step(t: str) -> str:
        passed = f"{d.micros.format(t=t)} - CAST(:since_us AS bigint)"
        return f"({passed}) / CAST(:step_us AS bigint)"

    begin = step(d.last.format(a="admitted_at", b=since))
    return f"""
WITH span AS (
SELECT a.cluster_queue, f.key AS flavor, r.key AS resource,
       {d.value.format(doc="r.value")} AS amount, a.admitted_at, a.released_at
  FROM admissions a
  {d.each.format(doc="a.resources", alias="f")}
  {d.each.format(doc=d.nested.format(doc="f.value"), alias="r")}
 WHERE a.cluster = :cluster AND a.cluster_queue IN ({names}) AND a.admitted_at <= :until
   AND (a.released_at IS NULL OR a.released_at > :since))
SELECT c.cluster_queue, c.flavor, c.resource, c.step, sum(c.amount) AS amount
  FROM (SELECT cluster_queue, flavor, resource, amount, {begin} AS step FROM span
        UNION ALL
        SELECT cluster_queue, flavor, resource, -amount, {step("released_at")} FROM span
         WHERE released_at <= :until) c
 GROUP BY c.cluster_queue, c.flavor, c.resource, c.step
 ORDER BY c.cluster_queue, c.flavor, c.resource, c.step LIMIT :limit
"""


def quotas(names: str) -> str:
    """Return the statement of what quota there was in a window; parameters as `changes`."""
    return f"""
SELECT q.cluster_queue, q.flavor, q.resource, q.amount, q.from_at, q.to_at
  FROM v_quota_spans q
 WHERE q.cluster = :cluster AND q.cluster_queue IN ({names}) AND q.from_at <= :until
   AND q.to_at > :since
 ORDER BY q.cluster_queue, q.flavor, q.resource, q.from_at LIMIT :limit
"""


def window(since: datetime, until: datetime) -> dict[str, Any]:
    """Return the parameters of both statements."""
    step = (until - since) / STEPS
    epoch = datetime(1970, 1, 1, tzinfo=since.tzinfo)
    return {
        "since": since,
        "until": until,
        "since_us": (since - epoch) // timedelta(microseconds=1),
        "step_us": step // timedelta(microseconds=1),
    }


def over_time(
    name: str,
    members: Sequence[str],
    now: Amounts,
    changed: Iterable[ChangeRow],
    quota: Iterable[QuotaRow],
    since: datetime,
    until: datetime,
) -> list[Series]:
    """Return what a queue held over a window, by flavor and resource.

    `members` are the queues of its cohort, itself among them; `now` their quota, which is taken for
    the times of which the read model knows none.
    """
    step = (until - since) / STEPS
    ends = [since + step * (number + 1) for number in range(STEPS)]
    held: dict[tuple[str, Key], list[float]] = {}
    for one in changed:
        series = held.setdefault((one.cluster_queue, (one.flavor, one.resource)), [0.0] * STEPS)
        series[min(one.step, STEPS - 1)] += float(one.amount)
    held = {key: list(accumulate(series)) for key, series in held.items()}
    spans: dict[tuple[str, Key], list[QuotaRow]] = defaultdict(list)
    for row in quota:
        spans[row.cluster_queue, (row.flavor, row.resource)].append(row)
    nominal = {
        (queue, key): _at_each(spans.get((queue, key), []), float(amount), ends)
        for queue in members
        for key, amount in now.get(queue, {}).items()
    }
    nothing = [0.0] * STEPS
    keys = list(now.get(name, {}))
    keys += [key for queue, key in held if queue == name and key not in keys]
    cohort = dict.fromkeys(members, "the same" if len(members) > 1 else "")
    found = []
    for key in keys:
        quotas = {queue: nominal.get((queue, key), nothing) for queue in members}
        taken = {queue: held.get((queue, key), nothing) for queue in members}
        mine, own = taken[name], quotas[name]
        given = [
            lent(
                cohort,
                {queue: {key: quotas[queue][i]} for queue in members},
                {queue: {key: taken[queue][i]} for queue in members},
            )
            .get(name, {})
            .get(key, 0.0)
            for i in range(STEPS)
        ]
        found.append(
            Series(
                *key,
                nominal=own,
                held=mine,
                borrowed=[max(0.0, h - n) for h, n in zip(mine, own, strict=True)],
                lent=given,
                idle=[max(0.0, n - h) for h, n in zip(mine, own, strict=True)],
            )
        )
    return found


def _at_each(rows: list[QuotaRow], otherwise: float, ends: Sequence[datetime]) -> list[float]:
    found, number = [], 0
    for end in ends:
        while number + 1 < len(rows) and rows[number + 1].from_at <= end:
            number += 1
        known = rows and rows[number].from_at <= end
        found.append(float(rows[number].amount) if known else otherwise)
    return found
