"""The pages of all ClusterQueues, and of the LocalQueues of a namespace.

Invariant: a number of groups that are pending is the sum of its stages.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.quota import QuotaRow
from gatelog.readmodel.rows import CountRow
from gatelog.serve.api import finding_queues, params
from gatelog.serve.console import picture
from gatelog.serve.console.html import Html, h
from gatelog.serve.console.parts import (
    ROWS,
    Page,
    PageView,
    age,
    page,
    pager,
    queue_link,
)
from gatelog.serve.console.waiting import forecast_line, line_table, who_waits
from gatelog.serve.words import amount
from podgroup.model.lifecycle import STAGES
from podgroup.model.quantities import MAX_INT64

_MOST_CARDS = 200


def queues(asked: Asked, seen: PageView) -> Page:
    """Return ClusterQueues: quota, what is held, who waits."""
    model = asked.model
    objects = finding_queues.all_queues(model)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in asked.model.quota("ClusterQueue", at=seen.at, note=asked.note):
        stood[one.name].append(one)
    lengths: dict[str, list[CountRow]] = defaultdict(list)
    for row in _lengths(asked, seen, ""):
        lengths[row.cluster_queue].append(row)
    cards, data = [], []
    for known in objects[seen.offset : seen.offset + ROWS]:
        queue = finding_queues.cluster_queue(known, (), stood[known.name])
        pending = sum(row.groups for row in lengths[known.name])
        data.append(
            {"name": known.name, "cohort": queue.cohort, "pending": pending, "usage": queue.usage}
        )
        cards.append(
            h(
                "li",
                h("h2", h("a", known.name, href=seen.link(f"/queues/{known.name}"))),
                h("p", f"cohort {queue.cohort}", class_="quiet") if queue.cohort else None,
                [_bar(u.flavor, u.resource, u.held, u.nominal) for u in queue.usage]
                or h("p", "no quota", class_="quiet"),
                [
                    h("p", f"lends {u.lent} {u.resource} ({u.flavor})", class_="quiet")
                    for u in queue.usage
                    if u.lent
                ],
                _wait_line(lengths[known.name], seen),
            )
        )
    waiting = sum(row.groups for rows in lengths.values() for row in rows)
    body = [
        h("p", f"Pending groups: {waiting:,}. ClusterQueues: {len(objects):,}.", class_="quiet"),
        h("ul", cards, class_="cards")
        if cards
        else h("p", "No ClusterQueue is known yet.", class_="notice"),
        pager(seen, "/", len(objects) - seen.offset),
    ]
    data_ = {"queues": data, "queuesInAll": len(objects), "waiting": waiting}
    return page("Queues", data_, body)


def local_queues(asked: Asked, seen: PageView, namespace: str) -> Page:
    """Return the LocalQueues of a namespace: what its groups hold, and who of them waits."""
    objects = finding_queues.all_queues(asked.model, "LocalQueue", namespace)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in asked.model.quota("LocalQueue", namespace, at=seen.at, note=asked.note):
        stood[one.name].append(one)
    lengths: dict[str, list[CountRow]] = defaultdict(list)
    for row in _lengths(asked, seen, namespace):
        lengths[row.queue].append(row)
    waiting = who_waits(asked, seen, "", ROWS + 1, seen.offset, namespace)
    cards, data = [], []
    for known in objects[:_MOST_CARDS]:
        usage = [
            {
                "flavor": u.flavor,
                "resource": u.resource,
                "held": amount(u.resource, u.held),
                "unadmitted": amount(u.resource, u.unadmitted),
            }
            for u in stood[known.name]
            if u.held or u.unadmitted
        ]
        pending = sum(row.groups for row in lengths[known.name])
        cluster_queue = finding_queues.cluster_queue_of(known)
        data.append(
            {
                "name": known.name,
                "clusterQueue": cluster_queue,
                "pending": pending,
                "usage": usage,
            }
        )
        cards.append(
            h(
                "li",
                h("h2", known.name),
                h("p", "of ClusterQueue ", queue_link(seen, cluster_queue), class_="quiet")
                if cluster_queue
                else None,
                [h("p", _holds(u)) for u in usage] or h("p", "holds nothing"),
                _wait_line(lengths[known.name], seen),
            )
        )
    body = [
        h("ul", cards, class_="cards")
        if cards
        else h("p", f"Namespace {namespace} has no LocalQueue.", class_="notice"),
        h("h2", "Who waits"),
        h("p", forecast_line(asked, seen), class_="quiet") if waiting else None,
        line_table(waiting, seen),
        pager(seen, "/", len(waiting), namespace=namespace),
    ]
    data_ = {"namespace": namespace, "queues": data, "waiting": waiting[:ROWS]}
    return page(f"Queues of {namespace}", data_, body)


def _holds(u: Mapping[str, str]) -> str:
    apart = f", and {u['unadmitted']} run unadmitted" if u["unadmitted"] != "0" else ""
    return f"holds {u['held']} {u['resource']} ({u['flavor']}){apart}"


def _lengths(asked: Asked, seen: PageView, namespace: str) -> list[CountRow]:
    query = moments.LENGTHS_AT if seen.at else moments.LENGTHS_NOW
    given = {"queue": "", "namespace": namespace, "limit": params.MOST_ROWS, "at": seen.moment}
    return asked.rows("how many wait", CountRow, query, given)


def _wait_line(rows: Iterable[CountRow], seen: PageView) -> Html:
    """Say how many are pending in which stage, and for how long."""
    found = list(rows)
    since = [row.oldest for row in found if row.oldest is not None]
    longest = f", the first for {age((seen.moment - min(since)).total_seconds())}" if since else ""
    count = sum(row.groups for row in found)
    return h("p", f"{count:,} pending{_by_stage(found)}{longest}")


def _by_stage(rows: Iterable[CountRow]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row.stage] += row.groups
    names = [one for one in dict.fromkeys(stage.name for stage in STAGES) if counts[one]]
    parts = ", ".join(f"{counts[name]:,} {name}" for name in names)
    return f" ({parts})" if parts else ""


def _bar(flavor: str, resource: str, used: str, nominal: str) -> Html:
    words = f"{resource}: {used} of {nominal} ({flavor})"
    return h(
        "div",
        h("span", words, class_="num"),
        picture.bar(_size(used), _size(nominal or "0"), words),
    )


def _size(text: str) -> float:
    """Return what an amount that is shown is; without limit it is as large as can be drawn."""
    from podgroup.model.quantity_text import QuantityError, parse

    try:
        return float(parse(text))
    except QuantityError:
        return float(MAX_INT64)
