"""Amounts used, held, wasted and waited for between two moments, and their cost.

Amounts of pods without an admission are apart (`Spent.unadmitted`), in no total and never priced.

Theory. Every figure is a sum over the spans of view `v_usage_spans`, cut at the two moments. The
database adds up microseconds per amount, as whole numbers; amounts times microseconds are added up
here, where whole numbers have no bound. So sums by namespace, queue, flavor, hour or any other key
are exactly equal.

Invariant: the totals of a period are the same, however it is divided.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
from msgspec import Struct, field

from gatelog.readmodel.rates import Rates, unit, unit_name
from gatelog.shell.errors import UsageFailed
from podgroup.model import quantities
from projector.schema import usage_sums
from projector.schema.dialect import Dialect

KEYS = ("namespace", "queue", "localqueue", "flavor", "user", "group", "hour", "day")
STEPS = ("hour", "day")
LABEL = "label:"
MOST_ROWS = 500_000
MOST_PERIODS = 20_000
_LABEL_KEY = re.compile(r"([A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_US_PER_HOUR = 3_600_000_000
_SIX_PLACES = Decimal("0.000001")

WASTES = ("failed", "preempted", "evicted")
COLUMNS = ("running", "held", "wasted", "waited", "unadmitted")
FREE = ("waited", "unadmitted")
"""What costs nothing."""
HOLDS = ("starting", "terminating", "incomplete")


class Spent(Struct, kw_only=True):
    """Amounts times microseconds, in the tables' amounts, by what became of them."""

    running: int = 0
    held: dict[str, int] = field(default_factory=dict)
    wasted: dict[str, int] = field(default_factory=dict)
    waited: int = 0
    unadmitted: int = 0

    def add(self, what: str, why: str, amount: int) -> None:
        """Add amounts times microseconds of one kind (`projector.schema.usage_views`)."""
        match what:
            case "running":
                self.running += amount
            case "waited":
                self.waited += amount
            case "unadmitted":
                self.unadmitted += amount
            case "held":
                self.held[why] = self.held.get(why, 0) + amount
            case "wasted":
                self.wasted[why] = self.wasted.get(why, 0) + amount
            case _:
                raise ValueError(f"a view tells of {what!r}, which this version does not know")

    def plus(self, other: "Spent") -> None:
        """Add what another has."""
        self.running += other.running
        self.waited += other.waited
        self.unadmitted += other.unadmitted
        for what, parts in (("held", other.held), ("wasted", other.wasted)):
            for why, amount in parts.items():
                self.add(what, why, amount)

    @property
    def taken(self) -> int:
        """All that an admission kept from others."""
        return self.running + sum(self.held.values()) + sum(self.wasted.values())

    @property
    def columns(self) -> dict[str, int]:
        """The columns of all outputs, by `COLUMNS`; the first three add up to the taken amount."""
        return {word: self.column(word) for word in COLUMNS}

    def column(self, word: str) -> int:
        """Return one of `columns`."""
        amount: int | dict[str, int] = getattr(self, word)
        return sum(amount.values()) if isinstance(amount, dict) else amount


class Share(Struct, kw_only=True):
    """The amounts of a resource spent by a key, and how many pods ran.

    `cost` is of taken amounts; waiting is free. `capped`: a pod asked for more than any node has,
    and was counted with the most that the webhook admits.
    """

    key: str
    resource: str
    spent: Spent = field(default_factory=Spent)
    pods: int = 0
    capped: bool = False
    cost: Fraction = Fraction(0)
    cost_of_held: Fraction = Fraction(0)
    cost_of_wasted: Fraction = Fraction(0)


class Idle(Struct, kw_only=True):
    """Quota and the taken part, in amounts times microseconds; below zero: borrowed.

    `unlimited`: for some of the time the quota had no limit, so the idle part is unknown.
    """

    cluster_queue: str
    flavor: str
    resource: str
    quota: int = 0
    taken: int = 0
    reserved: int = 0
    """The idle part that was kept for reserved starts."""
    unlimited: bool = False

    @property
    def idle(self) -> int:
        """Quota that nothing was taken of, on balance."""
        return self.quota - self.taken

    def cost(self, rates: Rates) -> Fraction:
        """Return the price of the idle part, as if it had been taken; below zero: borrowed.

        Unlimited quota has no price.
        """
        if self.unlimited:
            return Fraction(0)
        rate = Fraction(rates.rate(self.flavor, self.resource))
        return Fraction(self.idle, unit(self.resource) * _US_PER_HOUR) * rate


def key_expression(by: str, d: Dialect) -> str:
    """Return the SQL of a key as `usage_sums.sums` takes it; a label's name is parameter `key`.

    Hours and days are steps instead.

    Raises:
        UsageFailed: no such key.
    """
    if by.startswith(LABEL):
        if not _LABEL_KEY.fullmatch(by.removeprefix(LABEL)):
            raise UsageFailed(f"--by {by}: {by.removeprefix(LABEL)!r} is no label's key")
        return d.label.format(doc="{labels}", name="key")
    match by:
        case "flavor":
            return ""
        case "namespace":
            return "o.namespace"
        case "queue":
            return "o.cluster_queue"
        case "localqueue":
            return "o.namespace || '/' || o.queue"
        case "group":
            return "o.namespace || '/' || o.name"
        case str(step) if step in STEPS:
            return "''"
        case _:
            raise UsageFailed(f"--by {by}: choose one of {', '.join(KEYS)} or label:KEY")


def query(by: str, d: Dialect, *, one_namespace: bool = False, step: str = "") -> str:
    """Return the statement; parameters `cluster`, `since`, `until`, `cut` (end of the first
    period) and, for a label, `key`; `one_namespace`: that of parameter `namespace` alone.

    With a `step` (`hour` or `day`) there are rows by that beside those by key, which have no
    `begins`.

    Raises:
        UsageFailed: no such key.
    """
    key = key_expression(by, d)
    only = OF_CLUSTER + (" AND o.namespace = :namespace" if one_namespace else "")
    if by in STEPS:
        return usage_sums.sums(d, key, only=only, step=by, keyed=False) + " LIMIT :limit"
    return usage_sums.sums(d, key, only=only, step=step) + " LIMIT :limit"


OF_CLUSTER = "o.cluster = :cluster"


def quota_query(d: Dialect) -> str:
    """Return the statement for quota and its taken part; parameters as `query`."""
    since, until = d.time.format(name="since"), d.time.format(name="until")
    begin, end = d.last.format(a="s.from_at", b=since), d.first.format(a="s.to_at", b=until)
    length = f"{d.micros.format(t=end)} - {d.micros.format(t=begin)}"
    return f"""
SELECT s.cluster_queue, s.flavor, s.resource, s.amount, 'quota' AS what,
       CAST(sum({length}) AS BIGINT) AS micros
  FROM v_quota_spans s
 WHERE s.cluster = :cluster AND s.from_at < {until} AND s.to_at > {since}
 GROUP BY s.cluster_queue, s.flavor, s.resource, s.amount
UNION ALL
SELECT s.cluster_queue, s.flavor, s.resource, s.amount, 'reserved', CAST(sum({length}) AS BIGINT)
  FROM v_reserved_idle s
 WHERE s.cluster = :cluster AND s.from_at < {until} AND s.to_at > {since}
 GROUP BY s.cluster_queue, s.flavor, s.resource, s.amount
UNION ALL
SELECT t.key, t.flavor, t.resource, t.amount, 'taken', t.micros
  FROM ({usage_sums.sums(d, key_expression("queue", d), only=OF_CLUSTER)}) t
 WHERE t.what NOT IN {FREE} AND t.flavor <> ''
"""


def first_cut(by: str, since: datetime, until: datetime) -> datetime:
    """Return the end of the first period.

    Raises:
        UsageFailed: there would be more than `MOST_PERIODS`.
    """
    match by:
        case "hour":
            size = timedelta(hours=1)
            cut = since.replace(minute=0, second=0, microsecond=0) + size
        case "day":
            size = timedelta(days=1)
            cut = since.replace(hour=0, minute=0, second=0, microsecond=0) + size
        case _:
            return until
    if (until - since) / size > MOST_PERIODS:
        raise UsageFailed(f"--by {by}: that are more than {MOST_PERIODS}; ask for less at once")
    return min(cut, until)


def added_up(
    rows: Iterable[dict[str, Any]], rates: Rates | None
) -> tuple[list[Share], list[tuple[str, str]]]:
    """Return shares by key and resource, in this order, and the unpriced (flavor, resource)."""
    shares: dict[tuple[str, str], Share] = {}
    unpriced: set[tuple[str, str]] = set()
    texts: dict[Any, str] = {}
    for row in rows:
        key, begins = str(row["key"]), row.get("begins")
        if begins is not None:
            key = texts.get(begins) or texts.setdefault(begins, _moment(begins))
        resource, flavor = str(row["resource"]), str(row["flavor"])
        share = shares.get((key, resource))
        if share is None:
            share = shares[key, resource] = Share(key=key, resource=resource)
        taken = int(row["amount"]) * int(row["micros"])
        share.spent.add(row["what"], row["why"], taken)
        share.pods += int(row.get("pods", 0))
        share.capped = share.capped or bool(row.get("capped"))
        if rates is None or row["what"] in FREE:
            continue
        if rates.unknown(flavor, resource):
            unpriced.add((flavor, resource))
        cost = Fraction(taken, unit(resource) * _US_PER_HOUR) * Fraction(
            rates.rate(flavor, resource)
        )
        share.cost += cost
        if row["what"] == "held":
            share.cost_of_held += cost
        elif row["what"] == "wasted":
            share.cost_of_wasted += cost
    return [shares[key] for key in sorted(shares)], sorted(unpriced)


def totals(shares: Iterable[Share]) -> list[Share]:
    """Return the sum of shares, by resource."""
    found: dict[str, Share] = {}
    for share in shares:
        total = found.setdefault(share.resource, Share(key="", resource=share.resource))
        total.spent.plus(share.spent)
        total.pods += share.pods
        total.capped = total.capped or share.capped
        if share.cost:  # fractions are dear to add up, and most places have no rates
            total.cost += share.cost
            total.cost_of_held += share.cost_of_held
            total.cost_of_wasted += share.cost_of_wasted
    return [found[resource] for resource in sorted(found)]


def idle(rows: Iterable[dict[str, Any]]) -> list[Idle]:
    """Return quota and its taken part, by ClusterQueue, flavor and resource."""
    found: dict[tuple[str, str, str], Idle] = {}
    for row in rows:
        key = (str(row["cluster_queue"]), str(row["flavor"]), str(row["resource"]))
        one = found.setdefault(key, Idle(cluster_queue=key[0], flavor=key[1], resource=key[2]))
        amount = int(row["amount"]) * int(row["micros"])
        if row["what"] == "quota":
            one.quota += amount
            one.unlimited = one.unlimited or int(row["amount"]) >= quantities.MAX_INT64
        elif row["what"] == "reserved":
            one.reserved += amount
        else:
            one.taken += amount
    return [found[key] for key in sorted(found)]


def hours(resource: str, amount: int) -> Decimal:
    """Return amounts times microseconds as hours of the resource's unit, to six places."""
    return (Decimal(amount) / (unit(resource) * _US_PER_HOUR)).quantize(_SIX_PLACES)


def decimals(amounts: Iterable[Decimal]) -> int:
    """Return how many places tables show: a cluster of minutes has no whole hour."""
    return 2 if max(amounts, default=Decimal(1)) >= 1 else 4


IDLE_HOLDERS = """
SELECT namespace, name, cluster_queue, since, idle_seconds, resources FROM v_idle_holders
 WHERE cluster = :cluster ORDER BY since, group_id LIMIT :limit
"""
"""Groups that hold quota now and run nothing, longest first."""


def idle_holders(
    rows: Iterable[dict[str, Any]], rates: Rates | None
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return what each holds since it runs nothing, and the unpriced (flavor, resource).

    There is a row per flavor and resource: `holds` is in `unit`s without the hour, `cost` that of
    the hours by now, if there are rates.
    """
    found = []
    unpriced: set[tuple[str, str]] = set()
    for row in rows:
        held, since = row["resources"], row["since"]
        held = msgspec.json.decode(held) if isinstance(held, str) else held
        since = datetime.fromisoformat(since) if isinstance(since, str) else since
        took_us = round(float(row["idle_seconds"]) * 1_000_000)
        for flavor, resource in sorted((f, r) for f, amounts in held.items() for r in amounts):
            amount = int(held[flavor][resource])
            one = {name: row[name] for name in ("namespace", "name", "cluster_queue")}
            one |= {"since": since.astimezone(UTC), "flavor": flavor, "resource": resource}
            one |= {"holds": amount / unit(resource), "unit": unit_name(resource)}
            one["hours"] = float(hours(resource, amount * took_us))
            if rates is not None:
                cost = Fraction(rates.rate(flavor, resource)) * Fraction(str(one["hours"]))
                one["cost"] = float(money(cost))
                if rates.unknown(flavor, resource):
                    unpriced.add((flavor, resource))
            found.append(one)
    return found, sorted(unpriced)


def capped(shares: Iterable[Share]) -> list[str]:
    """Name resources whose absurd amounts were counted as the greatest possible amount."""
    most = {s.resource: _most(s.resource) for s in shares if s.capped}
    return [
        f"a pod asked for more {resource} than any node has: counted as {text}"
        for resource, text in sorted(most.items())
    ]


def _most(resource: str) -> str:
    return quantities.MOST_CPU if resource == quantities.CPU else quantities.MOST


def money(cost: Fraction) -> Decimal:
    """Return a cost to four places."""
    return (Decimal(cost.numerator) / Decimal(cost.denominator)).quantize(Decimal("0.0001"))


def _moment(at: datetime | str) -> str:
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
