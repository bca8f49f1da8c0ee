"""The pages of all ClusterQueues, and of the LocalQueues of a namespace.

Invariant: a number of groups that are pending is the sum of its stages.
"""

from collections import defaultdict
from collections.abc import Iterable

from markupsafe import Markup

from gatelog.readmodel import statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.quota import QuotaRow
from gatelog.readmodel.rows import CountRow
from gatelog.serve.api import finding_queues, params
from gatelog.serve.console import picture
from gatelog.serve.console.rendering import Page, age, page
from gatelog.serve.console.view import ROWS, PageView
from gatelog.serve.console.waiting import forecast_line, who_waits
from gatelog.serve.words import amount
from podgroup.model.lifecycle import STAGES
from podgroup.model.quantities import MAX_INT64

_MOST_CARDS = 200


def queues(asked: Asked, seen: PageView) -> Page:
    """Return ClusterQueues: quota, usage, and the number of waiting groups."""
    objects = finding_queues.all_queues(asked.model)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in asked.model.quota("ClusterQueue", at=seen.at, note=asked.note):
        stood[one.name].append(one)
    lengths: dict[str, list[CountRow]] = defaultdict(list)
    for row in lengths_of(asked, seen, ""):
        lengths[row.cluster_queue].append(row)
    cards, data = [], []
    for known in objects[seen.offset : seen.offset + ROWS]:
        queue = finding_queues.cluster_queue(known, (), stood[known.name])
        pending = sum(row.groups for row in lengths[known.name])
        told = {"name": known.name, "cohort": queue.cohort, "pending": pending}
        data.append({**told, "usage": queue.usage})
        bars = [_bar(u.flavor, u.resource, u.held, u.nominal) for u in queue.usage]
        lent = [u for u in queue.usage if u.lent]
        waits = _wait_line(lengths[known.name], seen)
        cards.append({**told, "bars": bars, "lent": lent, "waits": waits})
    waiting = sum(row.groups for rows in lengths.values() for row in rows)
    found = {"queues": data, "queuesInAll": len(objects), "waiting": waiting}
    shown = {"cards": cards, "waiting": waiting, "in_all": len(objects)}
    shown["legend"] = picture.bar_legend()
    return page("Queues", found, seen, "queues", **shown)


def local_queues(asked: Asked, seen: PageView, namespace: str) -> Page:
    """Return the LocalQueues of a namespace: what its groups hold, and its waiting groups."""
    objects = finding_queues.all_queues(asked.model, "LocalQueue", namespace)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in asked.model.quota("LocalQueue", namespace, at=seen.at, note=asked.note):
        stood[one.name].append(one)
    lengths: dict[str, list[CountRow]] = defaultdict(list)
    for row in lengths_of(asked, seen, namespace):
        lengths[row.queue].append(row)
    waiting = who_waits(asked, seen, "", ROWS + 1, seen.offset, namespace)
    cards, data = [], []
    for known in objects[:_MOST_CARDS]:
        told = {
            "name": known.name,
            "clusterQueue": finding_queues.cluster_queue_of(known),
            "pending": sum(row.groups for row in lengths[known.name]),
            "usage": [
                {
                    "flavor": u.flavor,
                    "resource": u.resource,
                    "held": amount(u.resource, u.held),
                    "unadmitted": amount(u.resource, u.unadmitted),
                }
                for u in stood[known.name]
                if u.held or u.unadmitted
            ],
        }
        data.append(told)
        cards.append({**told, "waits": _wait_line(lengths[known.name], seen)})
    shown = {"cards": cards, "forecast": forecast_line(asked, seen) if waiting else ""}
    found = {"namespace": namespace, "queues": data, "waiting": waiting[:ROWS]}
    title = f"Queues of {namespace}"
    return page(title, found, seen, "local_queues", namespace=namespace, waiting=waiting, **shown)


def lengths_of(asked: Asked, seen: PageView, namespace: str) -> list[CountRow]:
    """Return how many groups are pending, by queue and stage, since when the first of them."""
    query = statements.waiting.LENGTHS_AT if seen.at else statements.waiting.LENGTHS_NOW
    given = {"queue": "", "namespace": namespace, "limit": params.MOST_ROWS, "at": seen.moment}
    return asked.rows("how many wait", CountRow, query, given)


def _wait_line(rows: Iterable[CountRow], seen: PageView) -> str:
    """Say how many are pending in which stage, and for how long."""
    found = list(rows)
    since = [row.oldest for row in found if row.oldest is not None]
    longest = f", the first for {age((seen.moment - min(since)).total_seconds())}" if since else ""
    count = sum(row.groups for row in found)
    return f"{count:,} pending{_by_stage(found)}{longest}"


def _by_stage(rows: Iterable[CountRow]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row.stage] += row.groups
    names = [one for one in dict.fromkeys(stage.name for stage in STAGES) if counts[one]]
    parts = ", ".join(f"{counts[name]:,} {name}" for name in names)
    return f" ({parts})" if parts else ""


def _bar(flavor: str, resource: str, used: str, nominal: str) -> tuple[str, Markup]:
    words = f"{resource}: {used} of {nominal} ({flavor})"
    return words, picture.bar(_size(used), _size(nominal or "0"), words)


def _size(text: str) -> float:
    """Return what an amount that is shown is; without limit it is as large as can be drawn."""
    from podgroup.model.quantity_text import QuantityError, parse

    try:
        return float(parse(text))
    except QuantityError:
        return float(MAX_INT64)
