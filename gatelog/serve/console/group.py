"""The page of one group: its situation, its timeline, and everything known about it.

Invariant: only parts that say so show anything from after the chosen moment.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from gatelog.readmodel import statements, timeline
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.explain import Explanation, explain, lines
from gatelog.readmodel.phrases import QUIET_ACTIONS
from gatelog.readmodel.rows import AdmissionRow, CauseRow, LifeRow, WaitRow
from gatelog.readmodel.statements.preempted import PreemptedRow
from gatelog.readmodel.statements.starts import EstimateRow
from gatelog.readmodel.statements.story import DecidedRow
from gatelog.readmodel.statements.waiting import OvertakerRow
from gatelog.serve.api import finding
from gatelog.serve.api.params import Listing
from gatelog.serve.api.selectors import Term
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.axis import Time
from gatelog.serve.console.phases import PodRow
from gatelog.serve.console.preemptions import CELLS
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import ROWS, PageView
from podgroup.model.reasons import effect_of

_MOST = 5000
_SHORT = timedelta(minutes=1)
"""Stories shorter than this are shown with fractions of seconds."""
_STORY = 300
"""Pods up to which a group's story is shown line by line on its page."""
_DRAWN = 20_000


def group(asked: Asked, seen: PageView, namespace: str, name: str) -> Page:
    """Return a group: its picture, decisions, waits, overtakers, preemptions, and pods."""
    life = _life(asked, seen, namespace, name)
    begin = life.created_at
    end = min(life.gone_at or life.finished_at or seen.moment, seen.moment)
    last = [life.finished_at, life.gone_at]
    end = max([end, *(min(at, seen.moment) for at in last if at is not None), begin])
    given: dict[str, Any] = {"group_id": life.id, "limit": _DRAWN, "offset": 0}
    pods = [
        pod.as_of(seen.moment) if seen.at else pod
        for pod in asked.rows("pods", PodRow, statements.pods.PODS, given)
        if pod.born_at <= seen.moment
    ]
    begin = min([pod.born_at for pod in pods], default=begin)
    fine = end - begin < _SHORT
    axis = _axis(seen, begin, end)
    causes = asked.model.causes(life.id)
    why = explain(asked.model, life, seen.moment, past=seen.at is not None, causes=causes)
    waits = why.waits
    assert isinstance(why.group, LifeRow)
    decided = _decisions(asked, seen, given)
    preempted = _preempted(asked, seen, life, begin)
    ended = _ended(asked, seen, life, preempted)
    estimates = asked.rows(
        "expected starts it was given",
        EstimateRow,
        statements.starts.ESTIMATES,
        {"group_id": life.id, "at": seen.moment, "limit": ROWS},
    )
    title = f"{life.namespace}/{life.name}"
    shown = {
        **_standing(why, seen),
        "overtakers": _overtakers(asked, seen, life, waits),
        "life": life,
        "picture": picture.timeline(f"Timeline of {title}", pods, waits, axis, ended),
        "fine": fine,
        "decided": [one for one in decided if one.action not in QUIET_ACTIONS],
        "waits": waits,
        "estimates": estimates,
        "preempted_rows": preempted,
        "story": _story(asked, life, seen, causes) if life.pods_seen <= _STORY else None,
        "pods": pods,
        **CELLS,
    }
    data = {
        "group": finding.podgroup(why.group),
        "waits": waits,
        "decisions": decided,
        "preemptions": preempted,
        "estimates": estimates,
        "pods": pods[seen.offset : seen.offset + ROWS],
        "podsInAll": len(pods),
    }
    return page(title, data, seen, "group", **shown)


def _axis(seen: PageView, begin: datetime, end: datetime) -> Time:
    """Return the axis of a life, or of the part that the address chose."""
    chosen = seen.range if "range" not in seen.query else None
    if chosen is not None and begin < chosen.since < end:
        begin = chosen.since
    return Time(begin, end, seen.moment, past=seen.at is not None, zone=seen.zone)


def _preempted(asked: Asked, seen: PageView, life: LifeRow, since: datetime) -> list[PreemptedRow]:
    window = {
        "since": since,
        "until": seen.moment,
        "group_id": life.id,
        "namespace": "",
        "own": "" if seen.quota else life.namespace,
        "limit": ROWS,
    }
    return asked.rows("preemptions", PreemptedRow, statements.preempted.PREEMPTED, window)


def _decisions(asked: Asked, seen: PageView, given: dict[str, Any]) -> list[DecidedRow]:
    of = {**given, "limit": _MOST, "own_only": int(not seen.quota)}
    rows = asked.rows("decisions", DecidedRow, statements.story.DECIDED, of)
    return [one for one in rows if one.first_at <= seen.moment]


def _ended(
    asked: Asked,
    seen: PageView,
    life: LifeRow,
    preempted: Sequence[PreemptedRow],
) -> list[picture.Mark]:
    """Return marks of evictions with their reasons; a preemption links to its preemptor."""

    def instead(at: datetime) -> str:
        """Return the link of the latest preemptor before a time that the viewer may see."""
        for one in preempted:
            if one.issued_at <= at and one.victim_id == life.id and one.preemptor:
                path = f"/groups/{one.preemptor_namespace}/{one.preemptor}"
                return seen.link(path, life=one.preemptor_id)
        return ""

    given = {"group_id": life.id, "limit": _DRAWN, "offset": 0}
    return [
        picture.Mark(
            one.released_at,
            one.release_reason,
            instead(one.released_at) if effect_of(one.release_reason).preempts else "",
            namespace=life.namespace,
        )
        for one in asked.rows("admissions", AdmissionRow, statements.holders.ADMISSIONS, given)
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


def _standing(why: Explanation, seen: PageView) -> dict[str, Any]:
    """Return the group's situation, what to do about it, and the remaining lines."""
    said = lines(why, seen.moment, own_only=not seen.quota)
    until = next((n for n, one in enumerate(said) if n and one.label), len(said))
    to_do = next((n for n, one in enumerate(said) if one.label == "it takes"), None)
    return {
        "standing": why.group,
        "case": ". ".join(one.text.rstrip(".") for one in said[:until]),
        "it_takes": "" if to_do is None else said[to_do].text.rstrip("."),
        "left": [one for n, one in enumerate(said) if n >= until and n != to_do],
    }


def _overtakers(
    asked: Asked, seen: PageView, life: LifeRow, waits: Sequence[WaitRow]
) -> list[OvertakerRow]:
    """Return groups queued after this group in its ClusterQueue and admitted, newest first."""
    still = [one for one in waits if one.to_at is None or one.to_at > seen.moment]
    if not still or not life.cluster_queue:
        return []
    since = life.queued_at if life.queued_at and life.queued_at <= seen.moment else still[0].from_at
    given = {"queue": life.cluster_queue, "group_id": life.id, "since": since, "at": seen.moment}
    return asked.rows(
        "who overtook", OvertakerRow, statements.waiting.OVERTOOK, {**given, "limit": 5}
    )


def _story(
    asked: Asked, life: LifeRow, seen: PageView, causes: list[CauseRow]
) -> list[timeline.StoryLine]:
    entries = asked.model.entries(life.id, own_only=not seen.quota, causes=causes)
    return [line for line in timeline.story_lines(entries) if line.at <= seen.moment]
