"""Pods that were ungated and do not run, each with its reason: now and at a moment.

Theory. Reasons are kept as intervals in `pod_waits`; a pod's own times show that it waits for its
scheduler or is being started. The words are from `podgroup.model.podwaits`, made into SQL.

Invariant: texts of our own only, none of a user.
"""

from typing import NamedTuple

from podgroup.model.podwaits import NOT_SCHEDULED, OTHERWISE, STARTING, WORDINGS, Wording
from projector.schema.dialect import Dialect


class _Conditions(NamedTuple):
    """Conditions on a pod `p` and a wait `w` at the moment of the query."""

    let_go: str
    there: str
    waits: str
    bound: str
    runs: str
    to_start: str


_NOW = _Conditions(
    let_go="NOT p.gated",
    there="p.gone_at IS NULL",
    waits="w.to_at IS NULL",
    bound="p.node <> ''",
    runs="p.started_at IS NOT NULL AND p.ended_at IS NULL",
    to_start="p.started_at IS NULL AND p.ended_at IS NULL AND p.deleted_at IS NULL",
)


def _at(moment: str) -> _Conditions:
    def later(column: str) -> str:
        return f"({column} IS NULL OR {column} > {moment})"

    unstarted = " AND ".join(map(later, ("p.started_at", "p.ended_at", "p.deleted_at")))
    return _Conditions(
        let_go=f"(p.ungated_at <= {moment} OR p.ungated_at IS NULL AND NOT p.gated)",
        there=f"p.created_at <= {moment} AND {later('p.gone_at')}",
        waits=f"w.from_at <= {moment} AND {later('w.to_at')}",
        bound=f"p.scheduled_at <= {moment}",
        runs=f"p.started_at <= {moment} AND {later('p.ended_at')}",
        to_start=unstarted,
    )


def not_running(moment: str = "") -> str:
    """Return the statement; `moment`: the time that is asked about, "" for now."""
    so = _at(moment) if moment else _NOW
    by_times = f"CASE WHEN {so.bound} THEN '{STARTING}' ELSE '{NOT_SCHEDULED}' END"
    return f"""
SELECT n.*, {says("n")} AS says, {_takes("n.reason")} AS it_takes
  FROM (
    SELECT p.cluster, p.group_id, g.namespace, g.name, g.kind, g.queue, g.cluster_queue,
           g.priority, g.state, g.pods_running, p.uid AS pod_uid, p.name AS pod,
           CASE WHEN {so.bound} THEN p.node ELSE '' END AS node,
           CASE WHEN {so.runs} THEN 1 ELSE 0 END AS runs,
           coalesce(w.reason, {by_times}) AS reason,
           coalesce(w.subject, '') AS subject, coalesce(w.message, '') AS message,
           coalesce(w.from_at, CASE WHEN {so.bound} THEN p.scheduled_at END, p.ungated_at,
                    p.created_at) AS since
      FROM pods p
      JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
      LEFT JOIN pod_waits w ON w.cluster = p.cluster AND w.pod_uid = p.uid AND {so.waits}
     WHERE {so.there} AND {so.let_go}
       AND (w.reason IS NOT NULL OR {so.to_start})) n
"""


def says(row: str) -> str:
    """Return SQL for the text of a row with reason, subject and message, as `podwaits.words`."""
    cases = "".join(
        f"\n            WHEN '{reason}' THEN {_worded(wording, row)}"
        for reason, wording in WORDINGS.items()
    )
    otherwise = f"""CASE WHEN {row}.subject = '' THEN 'is ' || {row}.reason
            ELSE {_worded(OTHERWISE, row)} || ' (' || {row}.reason || ')' END"""
    return f"""CASE {row}.reason{cases}
            ELSE {otherwise} END
       || CASE WHEN {row}.message = '' THEN '' ELSE ': ' || {row}.message END"""


def _worded(wording: Wording, row: str) -> str:
    before, found, after = wording.one.partition("{}")
    return f"'{before}' || {row}.subject || '{after}'" if found else f"'{before}'"


def _takes(reason: str) -> str:
    cases = "".join(f"\n            WHEN '{one}' THEN '{w.takes}'" for one, w in WORDINGS.items())
    return f"CASE {reason}{cases}\n            ELSE '{OTHERWISE.takes}' END"


def _view(_: Dialect) -> str:
    return not_running()


VIEWS = {"v_not_running": _view}
COMMENTS = {
    "v_not_running": "Pods that were let go and do not run, or have ended and are kept: why, since "
    "when, in the words of gatelog why, and what it takes",
}
