"""The first page: groups that wait and hold, lengths of waits, preemptions, and who must act.

Invariant: its numbers equal those of the pages behind its links; a user with rights to one
namespace sees only that namespace, and a user with rights to queues alone sees no group.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gatelog.readmodel import grouplist, statements
from gatelog.readmodel.advice import remedy
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.grouplist import ListedRow
from gatelog.readmodel.past import Past
from gatelog.readmodel.statements.waiting import WaitedRow
from gatelog.serve.api import params
from gatelog.serve.console.preemptions import preempted
from gatelog.serve.console.queues import lengths_of
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import PageView, Range, ordered
from gatelog.serve.words import amount, quota

_MOST = 12
"""Most blocked groups, and most idle groups, that are shown."""


class Line(Struct, kw_only=True):
    """A queue in the overview; spans in seconds."""

    name: str
    pending: int = 0
    held: str = ""
    oldest: float | None = None
    waits: int = 0
    half: float | None = None
    most: float | None = None
    preemptions: int = 0


_ORDERS: dict[str, Callable[[Line], Any]] = {
    "queue": lambda one: one.name,
    "pending": lambda one: one.pending,
    "oldest": lambda one: one.oldest or 0,
    "p50": lambda one: one.half or 0,
    "p90": lambda one: one.most or 0,
    "preempted": lambda one: one.preemptions,
}


def overview(asked: Asked, seen: PageView, namespace: str = "") -> Page:
    """Return the present state and the events of the range, of all namespaces or of one."""
    window = seen.window()
    sums, rows = preempted(asked, seen, window, namespace)
    lines = _lines(asked, seen, window, namespace)
    for one in sums:
        if one.victim_queue and one.victim_queue in lines:
            lines[one.victim_queue].preemptions += one.preemptions
    lost: dict[str, float] = defaultdict(float)
    for row in rows:
        for resource, hours in (row.lost_hours or {}).items():
            lost[resource] += hours
    listed, sorts = ordered(seen, "/", lines.values(), _ORDERS, namespace=namespace)
    named = bool(namespace) or seen.names
    blocked = _blocked(asked, seen, namespace) if named else []
    idle = [] if seen.at or not named else asked.model.idle(namespace=namespace, limit=_MOST)
    preemptions = sum(one.preemptions for one in sums)
    data = {
        "since": window.since,
        "until": window.until,
        "queues": listed,
        "preemptions": preemptions,
        "lost": lost,
        "act": [
            {"namespace": r.namespace, "name": r.name, "reason": r.reason_then} for r in blocked
        ],
    }
    shown = {
        "window": window,
        "namespace": namespace,
        "lines": listed,
        "sorts": sorts,
        "preemptions": preemptions,
        "lost": lost,
        "all_told": preemptions <= len(rows),
        "blocked": blocked[:_MOST],
        "more": len(blocked) > _MOST,
        "idle": idle,
        "remedy": remedy,
        "named": named,
    }
    title = f"Overview of {namespace}" if namespace else "Overview"
    return page(title, data, seen, "overview", **shown)


def _lines(asked: Asked, seen: PageView, window: Range, namespace: str) -> dict[str, Line]:
    """Return the ClusterQueues that have quota or for which groups wait or waited."""
    found: dict[str, Line] = {}

    def line(name: str) -> Line:
        return found.setdefault(name, Line(name=name))

    held: dict[str, list[str]] = defaultdict(list)
    if not namespace:
        for stood in asked.model.quota("ClusterQueue", at=seen.at, note=asked.note):
            number, most = amount(stood.resource, stood.held), quota(stood.resource, stood.nominal)
            held[stood.name].append(f"{number} of {most} {stood.resource}")
            line(stood.name).held = ", ".join(held[stood.name][:3])
    for row in lengths_of(asked, seen, namespace):
        one = line(row.cluster_queue)
        one.pending += row.groups
        if row.oldest is not None:
            one.oldest = max(one.oldest or 0.0, (seen.moment - row.oldest).total_seconds())
    given = {
        **{"since": window.since, "at": seen.moment, "queue": "", "namespace": namespace},
        "limit": params.MOST_ROWS,
    }
    query = statements.waiting.waited(asked.model.dialect, past=seen.at is not None)
    for waited in asked.rows("how long groups waited", WaitedRow, query, given):
        one = line(waited.cluster_queue)
        one.waits, one.half, one.most = waited.waits, waited.half, waited.most
    return dict(sorted(found.items()))


def _blocked(asked: Asked, seen: PageView, namespace: str) -> list[ListedRow]:
    """Return groups that nothing but a person lets go on, longest first."""
    past, dialect = seen.at is not None, asked.model.dialect
    given = {
        **{"namespace": namespace, "state": "Blocked", "gone": 0, "offset": 0, "limit": _MOST + 1},
        **{"at": seen.moment, "until": seen.moment},
        "resource": grouplist.key_parameter("cpu", dialect),
    }
    query = grouplist.page(past, [grouplist.IN_STATE], "wait")
    rows = asked.rows("who needs someone to act", ListedRow, query, given)
    return list(map(Past(asked.model, seen.moment).as_it_was, rows)) if past else rows
