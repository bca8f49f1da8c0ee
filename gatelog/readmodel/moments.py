"""What the console asks, over the public tables; each statement can be shown and pasted.

Theory. A page may ask about a past moment: what had begun by then and was not over. Now is asked
of columns that say how things stand, a past moment of the intervals that tables keep for ever.

Invariant: parameters are named, every list has a LIMIT, and order ends in an id.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.pages import STANDING
from gatelog.readmodel.rows import HolderRow
from gatelog.readmodel.statements import decided
from projector.schema.dialect import home, swapped
from projector.schema.held_views import held
from projector.schema.pending import ORDER, USE, WAITS_FOR, in_line, is_pending, stage

T = TypeVar("T", bound=msgspec.Struct)

_EXPECTED = "e.expected_at, e.latest_at, e.never"

_NOW = f"""
WITH pending AS (
SELECT g.id, g.namespace, g.name, g.queue, g.cluster_queue, g.priority,
       {stage("g.state", "g.wait_reason")} AS stage,
       CASE WHEN {in_line("g.state", "g.wait_reason")} THEN row_number() OVER (
            PARTITION BY g.cluster_queue, {in_line("g.state", "g.wait_reason")}
                ORDER BY {ORDER}) END AS position,
       {WAITS_FOR},
       coalesce(g.queued_at, g.created_at) AS since
  FROM groups g
  {USE}
 WHERE g.cluster = :cluster AND g.gone_at IS NULL AND {is_pending("g.state")}
   AND (g.cluster_queue = :queue OR :queue = ''))"""
"""As `v_why_pending` has it, of one queue: the view numbers all queues whatever is asked."""
_AT = f"""
WITH lived AS (
SELECT g.id, g.namespace, g.name, g.queue, g.cluster_queue, g.priority, w.reason, w.message,
       coalesce((SELECT a.queued_at FROM admissions a
                  WHERE a.cluster = g.cluster AND a.group_id = g.id AND a.admitted_at > :at
                  ORDER BY a.number LIMIT 1), g.queued_at, g.created_at) AS since,
       (SELECT h.reason FROM history h
         WHERE h.cluster = g.cluster AND h.group_id = g.id AND h.kind = 'StateChanged'
           AND h.at <= :at
         ORDER BY h.seq DESC, h.ord DESC LIMIT 1) AS state,
       (SELECT h.reason FROM history h
         WHERE h.cluster = g.cluster AND h.group_id = g.id AND h.kind = 'GroupEvicted'
           AND h.at <= :at
         ORDER BY h.seq DESC, h.ord DESC LIMIT 1) AS evicted
  FROM groups g
  LEFT JOIN waits w ON w.cluster = g.cluster AND w.group_id = g.id
   AND w.from_at <= :at AND (w.to_at IS NULL OR w.to_at > :at)
 WHERE g.cluster = :cluster AND g.created_at <= :at AND (g.gone_at IS NULL OR g.gone_at > :at)
   AND (g.cluster_queue = :queue OR :queue = '')),
waited AS (
SELECT l.id, l.namespace, l.name, l.queue, l.cluster_queue, l.priority, l.state, l.since,
       coalesce(l.reason, '') AS wait_reason,
       coalesce(l.reason, l.evicted, '') AS reason, coalesce(l.message, '') AS message
  FROM lived l WHERE {is_pending("l.state")}),
pending AS (
SELECT w.id, w.namespace, w.name, w.queue, w.cluster_queue, w.priority,
       {stage("w.state", "w.wait_reason")} AS stage,
       CASE WHEN {in_line("w.state", "w.wait_reason")} THEN row_number() OVER (
            PARTITION BY w.cluster_queue, {in_line("w.state", "w.wait_reason")}
                ORDER BY w.priority DESC, w.since, w.id) END AS position,
       w.reason, w.message, w.since
  FROM waited w)"""
"""Who had preempted others, and who had used least, is not kept: only priority and time count."""

_WAITING = """{line}
SELECT g.*, {expected}
  FROM pending g
  LEFT JOIN estimates e ON e.cluster = :cluster AND e.group_id = g.id AND {standing}
 WHERE (g.namespace = :namespace OR :namespace = '')
 ORDER BY g.cluster_queue, CASE WHEN g.position IS NULL THEN 1 ELSE 0 END, g.position, g.since,
       g.id LIMIT :limit OFFSET :offset
"""
STOOD = """e.given_at <= :at
   AND (e.replaced_at IS NULL OR e.replaced_at > :at) AND (e.came_at IS NULL OR e.came_at > :at)"""

WAITING_AT = _WAITING.format(line=_AT, expected=_EXPECTED, standing=STOOD)
WAITING_NOW = _WAITING.format(line=_NOW, expected=_EXPECTED, standing=STANDING)

_SAME_QUEUE = """(SELECT o.cluster_queue FROM groups o
         WHERE o.cluster = :cluster AND o.id = :group_id)"""
POSITION_AT = f"""{swapped(_AT, ":queue OR :queue = ''", _SAME_QUEUE)}
SELECT position FROM pending WHERE id = :group_id LIMIT 1
"""
"""Position of a group in its ClusterQueue at a moment; null: it had none."""

_WITHIN = "(namespace = :namespace OR :namespace = '')"
LENGTHS_AT = f"""{_AT}
SELECT cluster_queue, namespace, queue, stage, count(*) AS groups, min(since) AS oldest
  FROM pending
 WHERE {_WITHIN}
 GROUP BY cluster_queue, namespace, queue, stage
 ORDER BY cluster_queue, namespace, queue, stage LIMIT :limit
"""
LENGTHS_NOW = f"""
SELECT cluster_queue, namespace, queue, stage, groups, oldest
  FROM v_pending
 WHERE cluster = :cluster AND {_WITHIN}
 ORDER BY cluster_queue, namespace, queue, stage LIMIT :limit
"""

_WAITED = """, spans AS (
SELECT cluster_queue, {micros_at} - {micros_since} AS took, 1 AS still FROM pending
 WHERE {within}
UNION ALL
SELECT a.cluster_queue, {micros_admitted} - {micros_queued}, 0
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.admitted_at > :since AND a.admitted_at <= :at AND {within}),
ranked AS (
SELECT cluster_queue, took, still,
       cume_dist() OVER (PARTITION BY cluster_queue ORDER BY took) AS part FROM spans)
SELECT cluster_queue, count(*) AS waits, sum(still) AS still,
       min(CASE WHEN part >= 0.5 THEN took END) / 1000000.0 AS half,
       min(CASE WHEN part >= 0.9 THEN took END) / 1000000.0 AS most, max(took) / 1000000.0 AS worst
  FROM ranked GROUP BY cluster_queue ORDER BY cluster_queue LIMIT :limit
"""
_PENDING_NOW = f"""
WITH pending AS (
SELECT g.namespace, g.cluster_queue, coalesce(g.queued_at, g.created_at) AS since FROM groups g
 WHERE g.cluster = :cluster AND g.gone_at IS NULL AND {is_pending("g.state")})"""


def waited(dialect: str, *, past: bool) -> str:
    """Return the statement of how long groups waited by ClusterQueue, as `WaitedRow`s.

    Counted is who was admitted from parameter `since` to `at`, and who waits still at `at`.
    """
    d = home(dialect)
    micros = {
        "micros_at": d.micros.format(t=d.time.format(name="at")),
        "micros_since": d.micros.format(t="since"),
        "micros_admitted": d.micros.format(t="a.admitted_at"),
        "micros_queued": d.micros.format(t="a.queued_at"),
    }
    return (_AT if past else _PENDING_NOW) + _WAITED.format(within=_WITHIN, **micros)


OVERTOOK = """
SELECT g.namespace, g.name, g.id, g.priority, a.admitted_at, count(*) OVER () AS in_all
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.cluster_queue = :queue AND a.group_id <> :group_id
   AND a.queued_at > :since AND a.admitted_at > :since AND a.admitted_at <= :at
 ORDER BY a.admitted_at DESC, g.id LIMIT :limit
"""
"""Who came to a ClusterQueue after a group that waits in it and was admitted, the newest
first: those whom `overtaking` counts."""

QUEUES_NAMED = r"""
SELECT name FROM objects
 WHERE cluster = :cluster AND kind = 'ClusterQueue' AND lower(name) LIKE :text ESCAPE '\'
 ORDER BY name LIMIT :limit
"""

_HOLDING = """
SELECT g.id, g.namespace, g.name, g.state, g.priority, a.admitted_at, a.resources AS resources,
       (SELECT count(*) FROM pods p
         WHERE p.cluster = g.cluster AND p.group_id = g.id AND p.started_at <= :at
           AND (p.ended_at IS NULL OR p.ended_at > :at)
           AND (p.gone_at IS NULL OR p.gone_at > :at)) AS running,
       (SELECT max(coalesce(p.ended_at, p.gone_at)) FROM pods p
         WHERE p.cluster = g.cluster AND p.group_id = g.id AND p.started_at IS NOT NULL
           AND coalesce(p.ended_at, p.gone_at) BETWEEN a.admitted_at AND :at) AS last_ran_at
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.cluster_queue = :queue AND a.admitted_at <= :at
   AND (a.released_at IS NULL OR a.released_at > :at)
 ORDER BY a.admitted_at, g.id LIMIT :limit OFFSET :offset
"""

HOLDING = {
    name: swapped(_HOLDING, "a.resources", held(home(name), ":at"))
    for name in ("sqlite", "postgresql")
}

TAKEN_BACK = """
SELECT a.released_at AS at, a.release_reason AS reason, g.id, g.namespace, g.name
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.cluster_queue = :queue AND a.released_at >= :since
   AND a.released_at <= :until AND a.release_reason NOT IN ('', 'Finished', 'Gone')
 ORDER BY a.released_at, g.id LIMIT :limit
"""

FORECAST = """
SELECT max(at) AS at, max(as_of_seq) AS seq
  FROM forecasts WHERE cluster = :cluster AND at <= :at LIMIT :limit
"""

ESTIMATES = """
SELECT given_at, expected_at, latest_at, never, came, came_at
  FROM estimates
 WHERE cluster = :cluster AND group_id = :group_id AND given_at <= :at
 ORDER BY given_at DESC LIMIT :limit
"""

STORY = """
SELECT coalesce(min(e.at), (SELECT min(g.created_at) FROM groups g WHERE g.cluster = :cluster))
       AS first, (SELECT max(c.at) FROM checkpoints c WHERE c.cluster = :cluster) AS last
  FROM epochs e
 WHERE e.cluster = :cluster LIMIT :limit
"""

PODS = """
SELECT p.name, p.role, p.phase, p.node, p.fate, p.exit_reason, p.created_at, p.ungated_at,
       p.started_at, p.ended_at, p.gone_at, s.seen_at
  FROM pods p
  LEFT JOIN (SELECT h.pod_uid, min(h.at) AS seen_at FROM history h
              WHERE h.cluster = :cluster AND h.group_id = :group_id AND h.kind = 'PodSeen'
              GROUP BY h.pod_uid) s ON s.pod_uid = p.uid
 WHERE p.cluster = :cluster AND p.group_id = :group_id
 ORDER BY p.created_at, p.name, p.uid LIMIT :limit OFFSET :offset
"""

DECIDED = f"""
SELECT d.rule, d.action, d.reason, min({decided(":own_only = 1")}) AS message,
       count(*) AS decisions,
       min(d.issued_at) AS first_at, max(d.issued_at) AS last_at,
       sum(CASE WHEN d.status = 'rejected' THEN 1 ELSE 0 END) AS rejected
  FROM decisions d
 WHERE d.cluster = :cluster AND d.group_id = :group_id
 GROUP BY d.rule, d.action, d.reason
 ORDER BY min(d.as_of_seq), min(d.number), d.rule, d.action, d.reason LIMIT :limit
"""

_VICTIM_SEEN, _PREEMPTOR_SEEN = (f":own IN ('', {side}.namespace)" for side in "dp")
"""Whether a side may be named: `:own` is the one namespace that the asker sees, '' for all."""


def _named(column: str) -> str:
    seen = _VICTIM_SEEN if column[0] in "dv" else _PREEMPTOR_SEEN
    return f"CASE WHEN {seen} THEN {column} ELSE '' END"


def _came_of(column: str) -> str:
    return f"""(SELECT r.{column} FROM v_preemptions r WHERE r.cluster = d.cluster
               AND r.victim_id = d.group_id AND r.seq = d.as_of_seq)"""


PREEMPTED = f"""
WITH page AS (
SELECT d.id, d.issued_at, d.as_of_seq, d.cluster, d.group_id, d.namespace, d.name, d.message,
       d.command ->> 'message' AS plainly, p.id AS preemptor_id
  FROM decisions d JOIN groups p ON p.cluster = d.cluster
   AND p.id = d.command ->> 'preempted_by'
 WHERE d.cluster = :cluster AND d.rule = 'preempt' AND d.issued_at >= :since
   AND d.issued_at <= :until
   AND (d.group_id = :group_id OR p.id = :group_id OR :group_id = '')
   AND (d.namespace = :namespace OR p.namespace = :namespace OR :namespace = '')
 ORDER BY d.issued_at DESC, d.id LIMIT :limit)
SELECT d.issued_at, {_named("d.group_id")} AS victim_id,
       {_named("d.namespace")} AS victim_namespace, {_named("d.name")} AS victim,
       {_named("p.id")} AS preemptor_id,
       {_named("p.namespace")} AS preemptor_namespace, {_named("p.name")} AS preemptor,
       p.priority,
       CASE WHEN {_PREEMPTOR_SEEN} THEN d.message ELSE d.plainly END AS message,
       CASE WHEN {_VICTIM_SEEN} THEN {_came_of("lost_hours")} END AS lost_hours,
       CASE WHEN {_PREEMPTOR_SEEN} THEN {_came_of("brought")} END AS brought,
       CASE WHEN {_PREEMPTOR_SEEN} THEN {_came_of("admitted_after_seconds")} END
       AS admitted_after_seconds,
       CASE WHEN {_PREEMPTOR_SEEN} THEN {_came_of("ran_seconds")} END AS ran_seconds
  FROM page d JOIN groups p ON p.cluster = d.cluster AND p.id = d.preemptor_id
 ORDER BY d.issued_at DESC, d.id
"""
"""The page comes first, and the view is asked of its rows by key: beside a left join SQLite works
out all of it."""

PREEMPTED_SUMS = f"""
SELECT {_named("d.namespace")} AS victim_namespace, {_named("v.cluster_queue")} AS victim_queue,
       {_named("p.namespace")} AS preemptor_namespace,
       {_named("p.cluster_queue")} AS preemptor_queue,
       count(*) AS preemptions, count(DISTINCT d.group_id) AS victims, max(d.issued_at) AS last_at
  FROM decisions d
  JOIN groups p ON p.cluster = d.cluster AND p.id = d.command ->> 'preempted_by'
  JOIN groups v ON v.cluster = d.cluster AND v.id = d.group_id
 WHERE d.cluster = :cluster AND d.rule = 'preempt' AND d.issued_at >= :since
   AND d.issued_at <= :until
   AND (d.namespace = :namespace OR p.namespace = :namespace OR :namespace = '')
 GROUP BY 1, 2, 3, 4
 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT :limit
"""

PARKED = """
SELECT seq, ord, at, reason, object, message
  FROM parked
 WHERE cluster = :cluster AND resolution = ''
 ORDER BY seq DESC, ord LIMIT :limit
"""

CHECKPOINTS = """
SELECT seq, epoch, mode, at, written_at
  FROM checkpoints
 WHERE cluster = :cluster
 LIMIT :limit
"""

GAPS = """
SELECT number, at, reason, lost_from, lost_to
  FROM epochs
 WHERE cluster = :cluster
 ORDER BY number DESC LIMIT :limit
"""

UNRESOLVED = """
SELECT action, count(*) AS decisions, min(issued_at) AS oldest
  FROM decisions
 WHERE cluster = :cluster AND status IS NULL
 GROUP BY action
 ORDER BY action LIMIT :limit
"""


class Asked:
    """One page's questions: runs them and remembers their statements."""

    def __init__(self, model: ReadModel) -> None:
        self.model = model
        self.statements: list[tuple[str, str]] = []

    def rows(self, title: str, kind: type[T], query: str, given: Mapping[str, Any]) -> list[T]:
        """Return the rows of a statement and note it under a title."""
        self.note(title, query, given)
        return list(self.model.rows(kind, query, given))

    def note(self, title: str, query: str, given: Mapping[str, Any]) -> None:
        """Note a statement that another module runs."""
        self.statements.append((title, self.model.statement(query, given)))


class WaitingRow(msgspec.Struct, frozen=True):
    """A group or pod that is pending; only one that waits for quota has a position."""

    id: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    priority: int
    reason: str
    message: str
    since: datetime | None
    stage: str
    position: int | None
    expected_at: datetime | None
    latest_at: datetime | None
    never: str | None
    """None: no forecast knows it."""


class WaitedRow(msgspec.Struct, frozen=True):
    """How long groups waited for a ClusterQueue, in seconds; `still` of them wait yet."""

    cluster_queue: str
    waits: int
    still: int
    half: float | None
    most: float | None
    worst: float | None


class NameRow(msgspec.Struct, frozen=True):
    """The name of an object."""

    name: str


class OvertakerRow(msgspec.Struct, frozen=True):
    """A group that came after another which waits and was admitted, and how many these are."""

    namespace: str
    name: str
    id: str
    priority: int
    admitted_at: datetime
    in_all: int


class ForecastRow(msgspec.Struct, frozen=True):
    """When the latest forecast was made, and of which position; 0: the first is still to come."""

    at: datetime | None
    seq: int | None


class StoryRow(msgspec.Struct, frozen=True):
    """When the log began, and when its newest event happened."""

    first: datetime | None
    last: datetime | None


class EstimateRow(msgspec.Struct, frozen=True):
    """An estimate, and what came true."""

    given_at: datetime
    expected_at: datetime | None
    latest_at: datetime | None
    never: str
    came: str
    came_at: datetime | None


class HoldingRow(HolderRow, frozen=True, kw_only=True):
    """Who holds quota at a moment, and whether anything of it runs."""

    id: str
    running: int
    """Its pods that run."""
    last_ran_at: datetime | None
    """When the last of them that is over ended, within this admission."""

    @property
    def nothing_since(self) -> datetime | None:
        """Since when it has held quota and run nothing; None: something runs."""
        return None if self.running else self.last_ran_at or self.admitted_at


class TakenBackRow(msgspec.Struct, frozen=True):
    """An admission that something else than its end took back, and whose it was."""

    at: datetime
    reason: str
    id: str
    namespace: str
    name: str


class DecidedRow(msgspec.Struct, frozen=True):
    """Decisions of one rule with one reason, counted."""

    rule: str
    action: str
    reason: str
    message: str
    decisions: int
    first_at: datetime
    last_at: datetime
    rejected: int


class PreemptedRow(msgspec.Struct, frozen=True):
    """Who had to go, and for whom; "" for what is of a namespace that the asker may not see."""

    issued_at: datetime
    victim_id: str
    victim_namespace: str
    victim: str
    preemptor_id: str
    preemptor_namespace: str
    preemptor: str
    priority: int
    message: str
    lost_hours: dict[str, float] | None
    """What the victim had held, by resource; None: not seen, or the log does not say."""
    brought: str | None
    """As `v_preemptions` says, also of a past moment: what came of it."""
    admitted_after_seconds: float | None
    ran_seconds: float | None


class PreemptedSum(msgspec.Struct, frozen=True):
    """Preemptions of one namespace and ClusterQueue for another, added up.

    Of namespaces that the asker may not see, one sum with "" for their names.
    """

    victim_namespace: str
    victim_queue: str
    preemptor_namespace: str
    preemptor_queue: str
    preemptions: int
    victims: int
    last_at: datetime


class ParkedRow(msgspec.Struct, frozen=True):
    """A parked event."""

    seq: int
    ord: int
    at: datetime
    reason: str
    object: str
    message: str


class CheckpointSummary(msgspec.Struct, frozen=True):
    """How far a projector is."""

    seq: int
    epoch: int
    mode: str
    at: datetime | None
    written_at: datetime


class GapRow(msgspec.Struct, frozen=True):
    """A beginning of the log, and what may be missing before it."""

    number: int
    at: datetime | None
    reason: str
    lost_from: int | None
    lost_to: int | None


class UnresolvedRow(msgspec.Struct, frozen=True):
    """Decisions without outcome."""

    action: str
    decisions: int
    oldest: datetime
