"""A group at a past moment: the answers that `ReadModel` would have given then.

Theory. Intervals are kept for ever (waits, admissions, shortages, usage, reasons of pods), and
times of pods and states in history: a statement about now reads open rows, the statement of a
moment reads rows that had begun by then and were not over (`of_moment`). So both have one
definition.

Facts that are kept for the present only (conditions of pods, repeated writes, parked events) are
left out of a past answer.

Invariant: an answer has nothing from after the moment, but for a pod's end where it names the pod.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from gatelog.readmodel import reserving, running, statements
from gatelog.readmodel.model import MOST_HELD, ReadModel
from gatelog.readmodel.overtaking import AdmittedRow
from gatelog.readmodel.reserving import ReservedRow
from gatelog.readmodel.rows import (
    BorrowerRow,
    EndingRow,
    ExpectedRow,
    GivingWayRow,
    GroupRow,
    HolderRow,
    PoolRow,
    ShortageRow,
    ShortRow,
    WaitRow,
)
from gatelog.readmodel.running import NotRunningRow
from gatelog.readmodel.shared import Shared
from gatelog.readmodel.statements.pods import pods_then
from podgroup.model.lifecycle import OVER
from projector.schema.dialect import swapped
from projector.schema.held_views import with_held

G = TypeVar("G", bound=GroupRow)

_BEGINS = {"to_at": "from_at", "released_at": "admitted_at"}
_OPEN = re.compile(r"\b((?:\w+\.)?)(to_at|released_at) IS NULL")
_THERE = re.compile(r"\b((?:\w+\.)?)(gone_at|ended_at) IS NULL")
_ASKED = re.compile(r"\b((?:\w+\.)?)deleted_at IS NOT NULL")


def of_moment(query: str) -> str:
    """Return a statement about now as one about parameter `at`.

    Raises:
        ValueError: the statement is not about now.
    """

    def covers(found: re.Match[str]) -> str:
        whose, end = found.groups()
        begin = f"{whose}{_BEGINS[end]}"
        return f"{begin} <= :at AND ({whose}{end} IS NULL OR {whose}{end} > :at)"

    then = _OPEN.sub(covers, query)
    then = _THERE.sub(r"(\1\2 IS NULL OR \1\2 > :at)", then)
    if then == query:
        raise ValueError(f"nothing is about now in the statement {query.strip()[:200]!r}")
    # The earliest sign of its failure is that its deletion was asked for.
    return _ASKED.sub(r"\1deleted_at IS NOT NULL AND \1failed_at <= :at", then)


_SHORT = of_moment(statements.shared.SHORT)
_SHORTAGES = {name: of_moment(query) for name, query in statements.shared.SHORTAGES.items()}
_POOLS = of_moment(statements.shared.POOLS)
_BORROWERS = with_held(of_moment(statements.shared.BORROWERS_GIVEN), ":at")
_RESERVED = of_moment(reserving.RESERVED)
_ENDING = of_moment(statements.pods.ENDING)
_GIVING_WAY = of_moment(
    swapped(statements.holders.GIVING_WAY, "g.state = 'Evicted'", "x.at <= :at")
)


_STATE = """
SELECT coalesce(h.reason, 'Composing') AS state,
       coalesce((SELECT 'admitted by ClusterQueue ' || a.cluster_queue FROM admissions a
                  WHERE a.cluster = g.cluster AND a.group_id = g.id AND a.admitted_at <= :at
                    AND h.reason IN ('Admitted', 'Running')
                  ORDER BY a.number DESC LIMIT 1), '') AS message,
       coalesce(w.reason, '') AS wait_reason, coalesce(w.message, '') AS wait_message,
       w.from_at AS wait_since,
       (SELECT max(a.admitted_at) FROM admissions a
         WHERE a.cluster = g.cluster AND a.group_id = g.id AND a.admitted_at <= :at) AS admitted_at,
       coalesce((SELECT a.queued_at FROM admissions a
                  WHERE a.cluster = g.cluster AND a.group_id = g.id AND a.admitted_at > :at
                  ORDER BY a.number LIMIT 1), g.queued_at) AS queued_at
  FROM groups g
  LEFT JOIN waits w ON w.cluster = g.cluster AND w.group_id = g.id
   AND w.from_at <= :at AND (w.to_at IS NULL OR w.to_at > :at)
  LEFT JOIN history h ON h.cluster = g.cluster AND h.group_id = g.id AND h.kind = 'StateChanged'
   AND h.at <= :at
 WHERE g.cluster = :cluster AND g.id = :group_id
 ORDER BY h.seq DESC, h.ord DESC, w.from_seq DESC LIMIT 1
"""

_COUNTS = f"""
SELECT {pods_then()}
  FROM pods p
 WHERE p.cluster = :cluster AND p.group_id = :group_id
"""

_HELD = with_held(
    """
SELECT g.namespace, g.name, CASE WHEN EXISTS (
          SELECT 1 FROM pods p WHERE p.cluster = g.cluster AND p.group_id = g.id
             AND p.started_at <= :at AND (p.ended_at IS NULL OR p.ended_at > :at)
             AND (p.gone_at IS NULL OR p.gone_at > :at))
       THEN 'Running' ELSE 'Admitted' END AS state,
       g.priority, a.admitted_at, a.resources AS resources
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.cluster_queue = :cluster_queue AND a.admitted_at <= :at
   AND (a.released_at IS NULL OR a.released_at > :at)
 ORDER BY a.admitted_at, g.id LIMIT :limit
""",
    ":at",
)

_EXPECTED = f"""
SELECT e.expected_at, e.earliest_at, e.latest_at, e.never, e.position, e.given_at AS as_of
  FROM estimates e
 WHERE e.cluster = :cluster AND e.group_id = :group_id AND {statements.starts.STOOD}
 ORDER BY e.given_at DESC LIMIT 1
"""


class Past:
    """Answers of `ReadModel` about a group, for a past moment."""

    def __init__(self, model: ReadModel, at: datetime) -> None:
        self._model, self._at = model, at

    def as_it_was(self, group: G) -> G:
        """Return a life as it was then: state, wait, counts and times."""
        given = {"group_id": group.id, "at": self._at}
        (then,) = self._model.rows(_Then, _STATE, given)
        (pods,) = self._model.rows(_Pods, _COUNTS, given)
        over = then.state in OVER
        same = over and group.state in OVER

        def by_then(at: datetime | None) -> datetime | None:
            return at if at is not None and at <= self._at else None

        return msgspec.structs.replace(
            group,
            **msgspec.structs.asdict(then)
            | msgspec.structs.asdict(pods)
            | {
                "reason": group.reason if same else then.wait_reason,
                "message": group.message if same else then.message or then.wait_message,
                "queued_at": by_then(then.queued_at),
            },
            parked="",
            ended=group.ended if over else "",
            complete_at=by_then(group.complete_at),
            finished_at=by_then(group.finished_at),
            gone_at=by_then(group.gone_at),
        )

    def position(self, group_id: str) -> int | None:
        """Return the position of a group in its ClusterQueue then."""
        found = self._model.dicts(
            statements.waiting.POSITION_AT, {"group_id": group_id, "at": self._at}
        )
        return None if not found or found[0]["position"] is None else int(found[0]["position"])

    def expected(self, group_id: str) -> ExpectedRow | None:
        """Return when it was expected to start then."""
        given = {"group_id": group_id, "at": self._at}
        return next(self._model.rows(ExpectedRow, _EXPECTED, given), None)

    def reserved(self, group_id: str, now: datetime) -> ReservedRow | None:
        """Return the start that was reserved for a group then."""
        given = {"group_id": group_id, "at": self._at}
        return next(self._model.rows(ReservedRow, _RESERVED, given), None)

    def admitted(self, group: GroupRow, at: datetime) -> list[AdmittedRow]:
        """Return the newest admissions of others in its ClusterQueue up to a moment."""
        return self._model.admitted(group, min(at, self._at))

    def holders(self, cluster_queue: str, limit: int = 5) -> list[HolderRow]:
        """Return holders of quota of a ClusterQueue at the moment, oldest admission first."""
        given = {"cluster_queue": cluster_queue, "at": self._at, "limit": limit}
        rows = self._model.rows(HolderRow, _HELD[self._model.dialect], given)
        return [one for one in rows if one.resources]

    def shared(self, group_id: str, limit: int = 200) -> Shared:
        """Return what a group was short of, the state of its tree, and possible givers."""
        given = {"group_id": group_id, "limit": limit, "at": self._at}
        rows = self._model.rows
        short = self._model.with_room(list(rows(ShortRow, _SHORT, given)), self._at)
        if not short:
            return Shared([], [], [])
        return Shared(
            short,
            list(rows(PoolRow, _POOLS, given)),
            list(rows(BorrowerRow, _BORROWERS[self._model.dialect], given)),
            self._model.reclaims(short[0].cluster_queue),
        )

    def shortages(self, ids: Iterable[str]) -> list[ShortageRow]:
        """Return what groups that waited were short of, of those with these ids."""
        given = {"ids": msgspec.json.encode(list(ids)).decode(), "limit": MOST_HELD, "at": self._at}
        rows = self._model.rows(ShortageRow, _SHORTAGES[self._model.dialect], given)
        return self._model.with_room(list(rows), self._at)

    def waits(self, group_id: str) -> list[WaitRow]:
        """Return the waits that had begun; a wait that was not over by then goes on."""
        return [
            one if one.to_at is None or one.to_at <= self._at else _going_on(one)
            for one in self._model.waits(group_id)
            if one.from_at <= self._at
        ]

    def not_running(self, group_id: str) -> list[NotRunningRow]:
        """Return why pods of a group did not run that had been let go."""
        given = {"group_id": group_id, "limit": 100, "at": self._at}
        return list(self._model.rows(NotRunningRow, running.AT, given))

    def ending(self, group_id: str) -> list[EndingRow]:
        """Return pods of a group that were being deleted."""
        given = {"group_id": group_id, "limit": 5, "at": self._at}
        return list(self._model.rows(EndingRow, _ENDING, given))

    def giving_way(self, preemptor: str = "", limit: int = 5) -> list[GivingWayRow]:
        """Return groups that had to stop for it and had not."""
        given = {"group_id": preemptor, "limit": limit, "at": self._at}
        return list(self._model.rows(GivingWayRow, _GIVING_WAY, given))

    def nothing(self, *_: Any, **__: Any) -> list[Any]:
        """Return nothing: such facts are kept for the present only."""
        return []

    parked_of = unstarted = kept_at_gate = unreplaced = repeated = held_up = nothing


class _Then(msgspec.Struct, frozen=True):
    state: str
    message: str
    wait_reason: str
    wait_message: str
    wait_since: datetime | None
    admitted_at: datetime | None
    queued_at: datetime | None


class _Pods(msgspec.Struct, frozen=True):
    pods_seen: int
    pods_gated: int
    pods_ungated: int
    pods_running: int
    pods_succeeded: int
    pods_failed: int
    pods_excess: int
    pods_replaced: int


def _going_on(wait: WaitRow) -> WaitRow:
    return WaitRow(wait.reason, wait.message, wait.from_at, None)
