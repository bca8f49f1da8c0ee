"""The page of one group: what is the case, its timeline, and everything known of it.

Invariant: nothing is shown from after the moment that is looked at, but for what says so.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from gatelog.readmodel import moments, pages, timeline
from gatelog.readmodel.explain import Explanation, ExplanationLine, explain, lines
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.phrases import QUIET_ACTIONS
from gatelog.readmodel.rows import AdmissionRow, GroupRow, LifeRow, WaitRow
from gatelog.readmodel.timeline import plain
from gatelog.serve.api import finding
from gatelog.serve.api.params import Listing
from gatelog.serve.api.selectors import Term
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.html import Columns, Html, h, listing
from gatelog.serve.console.parts import (
    ROWS,
    Page,
    PageView,
    clock,
    page,
    pager,
    queue_link,
    state,
    when,
    whens,
)
from gatelog.serve.console.preemptions import preemption_table

_MOST = 5000
_SHORT = timedelta(minutes=1)
"""Stories shorter than this are shown with fractions of seconds."""
_STORY = 300
"""Pods up to which a group's story is shown line by line on its page."""
_DRAWN = 20_000


def group(asked: Asked, seen: PageView, namespace: str, name: str) -> Page:
    """Return a group: its picture, decisions, waits, who stood in the way, and its pods."""
    life = _life(asked, seen, namespace, name)
    begin = life.created_at
    end = min(life.gone_at or life.finished_at or seen.moment, seen.moment)
    last = [life.finished_at, life.gone_at]
    end = max([end, *(min(at, seen.moment) for at in last if at is not None), begin])
    given: dict[str, Any] = {"group_id": life.id, "limit": _DRAWN, "offset": 0}
    pods = [
        pod.as_of(seen.moment) if seen.at else pod
        for pod in asked.rows("pods", picture.PodRow, moments.PODS, given)
        if pod.born_at <= seen.moment
    ]
    begin = min([pod.born_at for pod in pods], default=begin)
    fine = end - begin < _SHORT
    ended = _ended(asked, seen, given)
    why = explain(asked.model, life, seen.moment, past=seen.at is not None)
    waits = why.waits
    assert isinstance(why.group, LifeRow)
    decided = _decisions(asked, seen, given)
    preempted = _preempted(asked, seen, life, begin)
    estimates = asked.rows(
        "expected starts it was given",
        moments.EstimateRow,
        moments.ESTIMATES,
        {"group_id": life.id, "at": seen.moment, "limit": ROWS},
    )
    title = f"{life.namespace}/{life.name}"
    body = [
        _standing(why, seen),
        h("h2", "Timeline"),
        picture.timeline(f"Timeline of {title}", pods, waits, begin, end, ended),
        h("h2", "Why"),
        _decided(decided, fine=fine),
        h("h2", "Waits"),
        _wait_table(waits, seen, fine=fine),
        _estimates(estimates, seen),
        h("h2", "Who stood in the way"),
        preemption_table(preempted, seen, life.id),
        _story(asked, life, seen, fine=fine) if life.pods_seen <= _STORY else None,
        h("h2", f"Pods ({len(pods):,})"),
        _pods(pods, seen, title, life.id),
    ]
    data = {
        "group": finding.podgroup(why.group),
        "waits": waits,
        "decisions": decided,
        "preemptions": preempted,
        "estimates": estimates,
        "pods": pods[seen.offset : seen.offset + ROWS],
        "podsInAll": len(pods),
    }
    return page(title, data, body)


def _preempted(
    asked: Asked, seen: PageView, life: LifeRow, since: datetime
) -> list[moments.PreemptedRow]:
    window = {
        "since": since,
        "until": seen.moment,
        "group_id": life.id,
        "namespace": "",
        "own": "" if seen.quota else life.namespace,
        "limit": ROWS,
    }
    return asked.rows("preemptions", moments.PreemptedRow, moments.PREEMPTED, window)


def _decisions(asked: Asked, seen: PageView, given: dict[str, Any]) -> list[moments.DecidedRow]:
    of = {**given, "limit": _MOST, "own_only": int(not seen.quota)}
    rows = asked.rows("decisions", moments.DecidedRow, moments.DECIDED, of)
    return [one for one in rows if one.first_at <= seen.moment]


def _decided(decided: Iterable[moments.DecidedRow], *, fine: bool) -> Html:
    def why(one: moments.DecidedRow) -> str:
        return plain(one.message) + (f" ({one.rejected} refused)" if one.rejected else "")

    return listing(
        {
            "rule": "rule",
            "what": "action",
            "why": why,
            "times": "decisions",
            "first": lambda one: clock(one.first_at, fine=fine),
            "last": lambda one: clock(one.last_at, fine=fine),
        },
        [one for one in decided if one.action not in QUIET_ACTIONS],
        "Decisions, by rule, in the order they began; what only mirrors them is in the JSON",
        "nothing was decided yet",
    )


def _ended(asked: Asked, seen: PageView, given: dict[str, Any]) -> list[tuple[datetime, str]]:
    """Return when admissions ended that something else than its end took back, and why."""
    return [
        (one.released_at, one.release_reason)
        for one in asked.rows("admissions", AdmissionRow, pages.ADMISSIONS, given)
        if one.released_at is not None
        and one.released_at <= seen.moment
        and one.release_reason not in ("", "Finished", "Gone")
    ]


def _life(asked: Asked, seen: PageView, namespace: str, name: str) -> LifeRow:
    uid = seen.query.get("life", "")
    fields = [Term("metadata.uid", "in", (uid,))] if uid else []
    if uid:
        rows, _ = finding.lives(
            asked.model, namespace, Listing(fields=tuple(fields)), 1, note=asked.note
        )
        found = rows[0] if rows else None
    else:
        found = finding.life(asked.model, namespace, name)
    if found is None:
        raise Refused(
            404,
            f"there is no group or pod {namespace}/{name}, and there was none that is remembered",
        )
    return found


def _standing(why: Explanation, seen: PageView) -> Html:
    life = why.group
    what = "single pod" if life.kind == "single" else f"group of {life.total_count:,} pods"
    cluster_queue = (
        [" of ClusterQueue ", queue_link(seen, life.cluster_queue)] if life.cluster_queue else None
    )
    case, left = _case(life, lines(why, seen.moment, own_only=not seen.quota))
    return h(
        "div",
        case,
        h(
            "p",
            f"{what.capitalize()}, queue {life.queue or '(none)'}",
            cluster_queue,
            f", priority {life.priority}, created ",
            when(life.created_at, seen),
        ),
        [h("p", h("b", f"{one.label}: ") if one.label else None, one.text) for one in left],
    )


def _case(life: GroupRow, said: Sequence[ExplanationLine]) -> tuple[Html, list[ExplanationLine]]:
    """Return what is the case and what to do about it, for the top, and the lines that are left."""
    until = next((n for n, one in enumerate(said) if n and one.label), len(said))
    case = ". ".join(one.text.rstrip(".") for one in said[:until])
    to_do = next((n for n, one in enumerate(said) if one.label == "it takes"), None)
    it_takes = "" if to_do is None else said[to_do].text.rstrip(".")
    words = h(
        "p",
        state(life.standing),
        f" {case}." if case else None,
        [" ", h("b", "It takes: "), it_takes, "."] if it_takes else None,
        class_="notice",
    )
    return words, [one for n, one in enumerate(said) if n >= until and n != to_do]


def _estimates(rows: Sequence[moments.EstimateRow], seen: PageView) -> Html | None:
    def came(one: moments.EstimateRow) -> str:
        if one.came_at is None or one.came_at > seen.moment:
            return "it waits still"
        return f"{one.came} at {one.came_at:%Y-%m-%d %H:%M:%S}"

    if not rows:
        return None
    columns: Columns = {
        "said": lambda one: clock(one.given_at),
        "to start": lambda one: clock(one.expected_at) if one.expected_at else "–",
        "nine in ten by": lambda one: clock(one.latest_at) if one.latest_at else "–",
        "never while": lambda one: plain(one.never) or "–",
        "what came": came,
    }
    return h(
        "div", h("h2", "When it was expected to start"), listing(columns, rows, "Newest first")
    )


def _wait_table(waits: Iterable[WaitRow], seen: PageView, *, fine: bool) -> Html:
    def took(one: WaitRow) -> str:
        span = (one.to_at or seen.moment) - one.from_at
        return timeline.duration(span.total_seconds()) + ("" if one.to_at else ", and still")

    columns: Columns = {
        "reason": "reason",
        "since": lambda one: clock(one.from_at, fine=fine),
        "for": took,
        "in words": lambda one: plain(one.message),
    }
    return listing(columns, waits, "Newest first", "it never waited")


def _story(asked: Asked, life: LifeRow, seen: PageView, *, fine: bool) -> Html:
    entries = asked.model.entries(life.id, own_only=not seen.quota)
    lines = [line for line in timeline.story_lines(entries) if line.at <= seen.moment]
    columns: Columns = {
        "when": lambda line: clock(line.at, fine=fine),
        "state": lambda line: line.state or "",
        "what": lambda line: line.text(),
        "why": lambda line: f"{line.rule}: {line.because()}" if line.rule else line.because(),
    }
    table = listing(columns, lines, "Everything that happened, in order")
    return h("div", h("h2", "Story"), table)


def _pods(pods: list[picture.PodRow], seen: PageView, title: str, uid: str) -> Html:
    columns: Columns = {
        "pod": "name",
        "phase": "phase",
        "node": "node",
        "fate": "fate",
        "ended by": "exit_reason",
        "created": whens(seen, "created_at"),
        "started": whens(seen, "started_at"),
    }
    shown = pods[seen.offset :]
    more = pager(seen, f"/groups/{title}", len(shown), life=uid)
    return h("div", listing(columns, shown[:ROWS], "By creation"), more)
