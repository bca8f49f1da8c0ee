"""The page that finds groups: a list to work with, or what it adds up to by a label.

Invariant: counts, sums and the list are of one set; a view is its address.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from gatelog.readmodel import grouplist
from gatelog.readmodel.advice import pods_exist
from gatelog.readmodel.grouplist import LabelRow, ListedRow, StateCount
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.past import Past
from gatelog.readmodel.timeline import plain
from gatelog.serve.api import finding
from gatelog.serve.api.selectors import label_conditions, read_labels
from gatelog.serve.api.status import bad
from gatelog.serve.console.html import Columns, Html, choices, h, listing, table
from gatelog.serve.console.parts import (
    ROWS,
    Page,
    PageView,
    group_link,
    page,
    pager,
    state,
    when,
    whens,
)
from gatelog.serve.words import amount, rfc
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
    ("what is gone, too", {"gone": "1"}),
)
"""Views that need no saving: what each is called, and its parameters."""


class Search(Struct, frozen=True, kw_only=True):
    """What an address searches for: the parameters that a link keeps, and conditions with values.

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
    chosen["gone"] = "1" if seen.query.get("gone", "") in ("1", "on", "true") else ""
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
        "resource": grouplist.key_parameter(chosen["resource"] or "cpu", dialect),
        "key": grouplist.key_parameter(chosen["by"] or TEAM, dialect),
        "limit": ROWS + 1,
        "offset": seen.offset,
    }
    everywhere = [*labels]
    everywhere += [grouplist.NAMED] if chosen["name"] else []
    everywhere += [grouplist.FOR_REASON] if chosen["reason"] else []
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
    namespace = search.chosen["namespace"]
    body = [
        _views(seen, search),
        _form(seen, search.chosen),
        _counts(seen, search, counts),
        h("p", h("a", f"Queues of {namespace}", href=seen.link("/", namespace=namespace)))
        if namespace
        else None,
        found,
    ]
    states = {one.state: one.groups for one in counts}
    return page("Groups", {"states": states, **data}, body)


def _link(seen: PageView, search: Search, **change: str) -> str:
    return seen.link("/groups", **{**search.chosen, **change})


def _views(seen: PageView, search: Search) -> Html:
    """Return links to views; a person's own are kept by their browser (console.js)."""
    kept = {name: search.chosen[name] for name in search.chosen if name != "namespace"}
    namespace = search.chosen["namespace"]
    chosen = {k: v for k, v in kept.items() if v}
    links = (
        (words, seen.link("/groups", namespace=namespace, **given), given == chosen)
        for words, given in _VIEWS
    )
    return choices("Views", links, data_views="groups")


def _counts(seen: PageView, search: Search, counts: list[StateCount]) -> Html:
    """Return how many are in each state, as links that choose it."""
    number = {one.state: one.groups for one in counts}
    chosen = search.chosen["state"]
    shown = [("", sum(number.values())), *((word, number.get(word, 0)) for word in STATES)]
    links = (
        (
            [state(word) if word else "all", h("b", f" {count:,}")],
            _link(seen, search, state=word),
            word == chosen,
        )
        for word, count in shown
        if count or not word or word == chosen
    )
    return choices("Groups by state", links, class_="choices counts")


def _list(asked: Asked, seen: PageView, search: Search) -> tuple[Html, dict[str, Any]]:
    order = search.chosen["sort"] or "age"
    query = grouplist.page(search.past, search.conditions, order)
    rows = asked.rows("groups", ListedRow, query, search.given)
    if search.past:
        rows = list(map(Past(asked.model, seen.moment).as_it_was, rows))
    resource = search.chosen["resource"] or "cpu"

    columns: Columns = {
        "group": lambda one: group_link(seen, one.namespace, one.name, one.id),
        "state": lambda one: state((one.state_then in OVER and one.ended) or one.state_then),
        "why": lambda one: _why(one, past=search.past),
        _sorted("waits since", "wait", seen, search): whens(seen, "since_then"),
        _sorted(f"uses {resource}", "use", seen, search): lambda one: amount(resource, one.used),
        "pods": "pods",
        "team, user": _labelled,
        "queue": "queue",
        _sorted("age", "age", seen, search): whens(seen, "created_at"),
    }
    words = grouplist.ORDERS[order][0].capitalize()
    empty = "No group is like that; clear a field, or choose all."
    found = listing(columns, rows[:ROWS], words, empty)
    more = pager(seen, "/groups", len(rows), **search.chosen)
    return h("div", found, more), {"groups": [finding.podgroup(one) for one in rows[:ROWS]]}


def _sorted(words: str, order: str, seen: PageView, search: Search) -> Html:
    """Return a heading that sorts; where it does already, the other way round if there is one."""
    now = search.chosen["sort"] or "age"
    to = "oldest" if order == now == "age" else order
    mark = {"age": " ↓", "oldest": " ↑"}.get(now, " ↓") if now in (order, to) else ""
    return h("a", words + mark, href=_link(seen, search, sort=to))


def _why(one: ListedRow, *, past: bool) -> str:
    if exist := pods_exist(one):
        return f"{one.reason_then}: {exist}"
    if one.reason_then:
        return f"{one.reason_then}: {plain(one.message_then)}"
    return "–" if past else plain(one.message or one.reason) or "–"


def _labelled(one: ListedRow) -> str:
    labels = one.label_texts()
    return ", ".join(labels[key] for key in (TEAM, "user") if labels.get(key)) or "–"


def _by_label(asked: Asked, seen: PageView, search: Search) -> tuple[Html, dict[str, Any]]:
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
    there = [word for word in STATES if any(row.state == word for row in rows)]

    def line(value: str, found: list[LabelRow]) -> list[Any]:
        number = {row.state: row.groups for row in found}
        since: list[datetime] = [row.since for row in found if row.since is not None]
        terms = f"{key}={value}" if value else f"!{key}"
        label = ",".join(part for part in (search.chosen["label"], terms) if part)

        def link(words: str, word: str) -> Html:
            return h("a", words, href=_link(seen, search, by="", label=label, state=word))

        return [
            link(value or f"no label {key}", search.chosen["state"]),
            f"{sum(number.values()):,}",
            *(link(f"{number[word]:,}", word) if word in number else "–" for word in there),
            f"{sum(row.running for row in found):,}",
            when(min(since, default=None), seen),
        ]

    found = table(
        [key, "groups", *there, "pods that run", "first waits since"],
        [line(value, of) for value, of in values.items()],
        f"By label {key} of the first pod",
        "No group is like that; clear a field, or choose all.",
    )
    return found, {"by": key, "rows": rows}


def _form(seen: PageView, chosen: Mapping[str, str]) -> Html:
    def field(name: str, label: str, **more: Any) -> Html:
        more = {"autocapitalize": "off", **more}
        return h("label", label, h("input", name=name, value=chosen.get(name, ""), **more))

    kept = ("state", "sort", "resource")
    return h(
        "form",
        field("namespace", "namespace"),
        field("name", "name, user or label holds", type="search"),
        field("label", "labels", placeholder="team=red"),
        field("reason", "waits for", placeholder="WaitingForQuota"),
        field("by", "add up by label", placeholder=TEAM),
        h(
            "label",
            "what is gone, too",
            h("input", type="checkbox", name="gone", value="1", checked=bool(chosen["gone"])),
        )
        if seen.at is None
        else None,
        [h("input", type="hidden", name=one, value=chosen[one]) for one in kept if chosen[one]],
        h("input", type="hidden", name="at", value=rfc(seen.at)) if seen.at else None,
        h("button", "Search", type="submit"),
        method="get",
        action="/groups",
        role="search",
    )
