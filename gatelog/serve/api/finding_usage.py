"""How usage is found: what namespaces, users and labels spent, as `gatelog usage` counts it.

Invariant: reads only; a day that is no day has no usage.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gatelog.readmodel import usage as sums
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rates import Rates
from gatelog.serve.api import objects as o
from gatelog.serve.api.params import MOST_ROWS, Listing, Page
from gatelog.serve.api.selectors import equal, holds
from gatelog.serve.api.status import bad
from gatelog.shell.errors import UsageFailed
from projector.schema.dialect import home

DAYS = 7


def usage_page(model: ReadModel, namespace: str, asked: Listing) -> Page:
    """Return what namespaces used on each of the last days, newest first."""
    if asked.labels:
        raise bad("usage of a namespace has no labels: ask view v_pod_usage_daily by label")
    if any(t.key not in ("metadata.name", "metadata.namespace") for t in asked.fields):
        raise bad("usage is selected by metadata.name (a day) or metadata.namespace only")
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days=back)).isoformat() for back in range(DAYS)]
    wanted = equal(asked.fields, "metadata.name")
    found: list[Any] = []
    for day in [wanted] if wanted else days:
        found += usage_of(model, namespace, day)
    keep = [
        one
        for one in found
        if holds(
            asked.fields,
            {"metadata.name": one.metadata.name, "metadata.namespace": one.metadata.namespace},
        )
    ]
    return keep, None


def usage_of(model: ReadModel, namespace: str, day: str) -> list[o.NamespaceUsage]:
    """Return what namespaces used on a day (YYYY-MM-DD)."""
    try:
        since = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
        until = since + timedelta(days=1)
    except (ValueError, OverflowError):
        return []  # a name that no day has
    by_namespace: dict[str, list[sums.Share]] = defaultdict(list)
    for share in spent_by(model, "namespace", since, until, namespace).shares:
        by_namespace[share.key].append(share)
    return [
        o.NamespaceUsage(
            kind="NamespaceUsage",
            api_version=o.API_VERSION,
            metadata=o.ObjectMeta(name=day, namespace=name),
            usage=[resource_hours(share, model.rates) for share in shares],
            currency=model.rates.currency if model.rates else "",
        )
        for name, shares in by_namespace.items()
    ]


def resource_hours(share: sums.Share, known: Rates | None) -> o.ResourceHours:
    """Return a share as `gatelog usage` shows it: in core hours, GiB hours, or unit hours of other
    resources.
    """
    hours = {
        word: float(sums.hours(share.resource, amount))
        for word, amount in share.spent.columns.items()
    }
    return o.ResourceHours(
        resource=share.resource,
        pods=share.pods,
        capped=share.capped,
        cost=None if known is None else float(sums.money(share.cost)),
        **hours,
    )


class Divided(msgspec.Struct, frozen=True, kw_only=True):
    """Spending by a key and by hour or day; `unpriced` (flavor, resource) has no rate."""

    shares: list[sums.Share]
    steps: list[sums.Share]
    unpriced: list[tuple[str, str]]
    query: str
    given: dict[str, Any]


def spent_by(
    model: ReadModel, by: str, since: datetime, until: datetime, namespace: str = "", step: str = ""
) -> Divided:
    """Return spending by a key as `gatelog usage` counts it, by the rates of the settings.

    `step` (`hour` or `day`): the same by time, too.

    Raises:
        Refused: 400, there is no such key.
    """
    if step and by in sums.STEPS:
        steps = spent_by(model, step, since, until, namespace).shares
        found = spent_by(model, by, since, until, namespace)
        return msgspec.structs.replace(found, steps=steps)
    dialect = home(model.dialect)
    try:
        query = sums.query(by, dialect, one_namespace=bool(namespace), step=step)
        cut = sums.first_cut(step or by, since, until)
    except UsageFailed as error:
        raise bad(str(error).replace("--by", "by")) from None
    given: dict[str, Any] = {"since": since, "until": until, "limit": MOST_ROWS}
    given |= {"cut": cut} if step or by in sums.STEPS else {}
    given |= {"namespace": namespace} if namespace else {}
    given |= {"key": by.removeprefix(sums.LABEL)} if by.startswith(sums.LABEL) else {}
    rows = list(model.dicts(query, given))
    stepped = [row for row in rows if row["begins"] is not None] if step else []
    keyed = [row for row in rows if row["begins"] is None] if step else rows
    shares, unpriced = sums.added_up(keyed, model.rates)
    steps, _ = sums.added_up(stepped, model.rates)
    return Divided(shares=shares, steps=steps, unpriced=unpriced, query=query, given=given)
