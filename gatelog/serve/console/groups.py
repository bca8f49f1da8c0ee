"""The page that finds groups: a list to work with, or its sums by a label.

Invariant: counts, sums and the list are of one set; the address holds the whole view.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gatelog.readmodel import grouplist, statements
from gatelog.readmodel.advice import pods_exist
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.grouplist import LabelRow, ListedRow, StateCount
from gatelog.readmodel.past import Past
from gatelog.readmodel.shared import as_of_now
from gatelog.readmodel.statements.objects import NameRow
from gatelog.readmodel.timeline import plain
from gatelog.serve.api import finding
from gatelog.serve.api.selectors import label_conditions, read_labels
from gatelog.serve.api.status import bad
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import ROWS, PageView
from podgroup.model.lifecycle import OVER, STATES

_MOST_VALUES = 500
TEAM = "team"
"""Label that a view adds groups up by unless the address names another."""
_VIEWS: tuple[tuple[str, dict[str, str]], ...] = (
    ("all", {}),
    ("waiting longest", {"state": "Queued", "sort": "wait"}),
    ("blocked", {"state": "Blocked", "sort": "wait"}),
    ("most in use", {"state": "Running", "sort": "use"}),
    ("by team", {"by": TEAM}),
    ("came in the range", {"came": "1", "gone": "1"}),
    ("include deleted", {"gone": "1"}),
)
"""Predefined views: the name and the parameters of each."""


class Search(Struct, frozen=True, kw_only=True):
    """The search of an address: the parameters that a link keeps, and conditions with values.

    `everywhere` leaves out the state, for the counts by state.
    """

    chosen: dict[str, str]
    given: dict[str, Any]
    everywhere: list[str]
    conditions: list[str]
    past: bool


def read_search(asked: Asked, seen: PageView) -> Search:
    """Return what an address searches for.

    Raises:
        Refused: 400, a parameter cannot be read.
    """
    names = ("namespace", "name", "state", "label", "reason", "sort", "by", "resource")
    chosen = {name: seen.query.get(name, "").strip() for name in names}
    for name in ("gone", "came"):
        chosen[name] = "1" if seen.query.get(name, "") in ("1", "on", "true") else ""
    if chosen["state"] not in ("", *STATES):
        raise bad(f"state is {chosen['state'][:40]!r}: {', '.join(STATES)} are allowed")
    if chosen["sort"] not in ("", *grouplist.ORDERS):
        raise bad(f"sort is {chosen['sort'][:40]!r}: {', '.join(grouplist.ORDERS)} are allowed")
    labels, values = label_conditions(read_labels(chosen["label"]), asked.model.dialect)
    dialect = asked.model.dialect
    given = {
        **values,
        "namespace": chosen["namespace"],
        "text": grouplist.like(chosen["name"]),
        "state": chosen["state"],
        "reason": chosen["reason"],
        "gone": int(bool(chosen["gone"])),
        "at": seen.moment,
        "until": seen.moment,
        "since": seen.window().since,
        "resource": grouplist.key_parameter(chosen["resource"] or "cpu", dialect),
        "key": grouplist.key_parameter(chosen["by"] or TEAM, dialect),
        "limit": ROWS + 1,
        "offset": seen.offset,
    }
    everywhere = [*labels]
    everywhere += [grouplist.NAMED] if chosen["name"] else []
    everywhere += [grouplist.FOR_REASON] if chosen["reason"] else []
    everywhere += [grouplist.CAME] if chosen["came"] else []
    conditions = [*everywhere, grouplist.IN_STATE] if chosen["state"] else everywhere
    return Search(
        chosen=chosen,
        given=given,
        everywhere=everywhere,
        conditions=conditions,
        past=seen.at is not None,
    )


def groups(asked: Asked, seen: PageView) -> Page:
    """Return groups that were searched for, their counts by state, and the views of them."""
    search = read_search(asked, seen)
    counts = asked.rows(
        "groups by state",
        StateCount,
        grouplist.states(search.past, search.everywhere),
        {**search.given, "limit": ROWS},
    )
    if search.chosen["by"]:
        found, data = _by_label(asked, seen, search)
    else:
        found, data = _list(asked, seen, search)
    states = {one.state: one.groups for one in counts}
    shown = {
        "chosen": search.chosen,
        "views": _views(seen, search),
        "counts": _counts(seen, search, states),
        "sorts": _sorts(seen, search),
        "team": TEAM,
        **found,
    }
    return page("Groups", {"states": states, **data}, seen, "groups", **shown)


def suggested(asked: Asked, seen: PageView) -> list[dict[str, str]]:
    """Return groups (and queues, if the user may see them) whose name or label holds the words."""
    search, words = read_search(asked, seen), seen.query.get("name", "").strip().lower()
    if not words:
        return []
    query = grouplist.page(search.past, search.conditions, "age")
    rows = asked.rows("groups", ListedRow, query, {**search.given, "limit": 8})
    given = {"text": grouplist.like(words), "limit": 4}
    queues = (
        asked.rows("queues", NameRow, statements.objects.QUEUES_NAMED, given) if seen.quota else ()
    )
    found = [{"name": one.name, "link": seen.link(f"/queues/{one.name}")} for one in queues]
    found += [
        {"name": f"{key}={value}", "link": seen.link("/groups", label=f"{key}={value}")}
        for key, value in dict.fromkeys(
            (key, text)
            for one in rows
            for key, text in one.label_texts().items()
            if key in (TEAM, "user") and words in text.lower()
        )
    ]
    return found + [
        {
            "name": f"{one.namespace}/{one.name}",
            "link": seen.link(f"/groups/{one.namespace}/{one.name}", life=one.id),
        }
        for one in rows
    ]


def _link(seen: PageView, search: Search, **change: str) -> str:
    return seen.link("/groups", **{**search.chosen, **change})


def _views(seen: PageView, search: Search) -> list[tuple[str, str, bool]]:
    """Return links to views; a person's own are kept by their browser (console.js)."""
    namespace = search.chosen["namespace"]
    chosen = {k: v for k, v in search.chosen.items() if v and k != "namespace"}
    return [
        (words, seen.link("/groups", namespace=namespace, **given), given == chosen)
        for words, given in _VIEWS
    ]


def _counts(
    seen: PageView, search: Search, number: Mapping[str, int]
) -> list[tuple[str, int, str, bool]]:
    """Return how many are in each state ("": in any), with the link that chooses it."""
    chosen = search.chosen["state"]
    shown = [("", sum(number.values())), *((word, number.get(word, 0)) for word in STATES)]
    return [
        (word, count, _link(seen, search, state=word), word == chosen)
        for word, count in shown
        if count or not word or word == chosen
    ]


def _list(asked: Asked, seen: PageView, search: Search) -> tuple[dict[str, Any], dict[str, Any]]:
    order = search.chosen["sort"] or "age"
    query = grouplist.page(search.past, search.conditions, order)
    rows = asked.rows("groups", ListedRow, query, search.given)
    there = Past(asked.model, seen.moment) if search.past else asked.model
    if isinstance(there, Past):
        rows = list(map(there.as_it_was, rows))
    rows = as_of_now(rows, there.shortages(one.id for one in rows))
    found = {
        "by": "",
        "rows": rows[:ROWS],
        "found": len(rows),
        "caption": grouplist.ORDERS[order][0].capitalize(),
        "resource": search.chosen["resource"] or "cpu",
        "standing": _standing,
        "why": lambda one: _why(one, past=search.past),
        "labelled": _labelled,
    }
    return found, {"groups": [finding.podgroup(one) for one in rows[:ROWS]]}


def _standing(one: ListedRow) -> str:
    return (one.state_then in OVER and one.ended) or one.state_then


def _sorts(seen: PageView, search: Search) -> dict[str, tuple[str, str]]:
    """Return for each order that a heading chooses its link and the mark of how it sorts now."""
    now = search.chosen["sort"] or "age"
    found = {}
    for order in ("name", "wait", "use", "age"):
        to = "oldest" if order == now == "age" else order  # only age has a reverse order
        mark = {"age": " ↓", "oldest": " ↑"}.get(now, " ↓") if now in (order, to) else ""
        found[order] = _link(seen, search, sort=to), mark
    return found


def _why(one: ListedRow, *, past: bool) -> str:
    if exist := pods_exist(one):
        return f"{one.reason_then}: {exist}"
    if one.reason_then:
        return f"{one.reason_then}: {plain(one.wait_message)}"
    return "–" if past else plain(one.message or one.reason) or "–"


def _labelled(one: ListedRow) -> str:
    labels = one.label_texts()
    return ", ".join(labels[key] for key in (TEAM, "user") if labels.get(key)) or "–"


def _by_label(
    asked: Asked, seen: PageView, search: Search
) -> tuple[dict[str, Any], dict[str, Any]]:
    key = search.chosen["by"]
    rows = asked.rows(
        f"groups by label {key}",
        LabelRow,
        grouplist.by_label(search.past, search.conditions),
        {**search.given, "limit": _MOST_VALUES * len(STATES)},
    )
    values: dict[str, list[LabelRow]] = defaultdict(list)
    for row in rows:
        values[row.value].append(row)

    def line(value: str, found: list[LabelRow]) -> dict[str, Any]:
        number = {row.state: row.groups for row in found}
        terms = f"{key}={value}" if value else f"!{key}"
        label = ",".join(part for part in (search.chosen["label"], terms) if part)

        def link(word: str) -> str:
            return _link(seen, search, by="", label=label, state=word)

        return {
            "value": value or f"no label {key}",
            "link": link(search.chosen["state"]),
            "groups": sum(number.values()),
            "states": {word: (count, link(word)) for word, count in number.items()},
            "running": sum(row.running for row in found),
            "since": min((row.since for row in found if row.since is not None), default=None),
        }

    shown = {
        "by": key,
        "lines": [line(value, of) for value, of in values.items()],
        "there": [word for word in STATES if any(row.state == word for row in rows)],
    }
    return shown, {"by": key, "rows": rows}
