"""Groups as a list to work with: searched, counted by state, sorted, added up by a label.

Theory. All answers are about one set: groups that existed at the moment and match the search, with
their state and wait of that moment. The page, the counts by state and the sums by label query the
same set, so they agree. The present is read from the columns of a group, a past moment from its
history.

Invariant: a user's words are parameters; every list has a LIMIT, and its order ends in the id.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from gatelog.readmodel.rows import LifeRow
from gatelog.readmodel.statements.groups import ESTIMATED, FIRST_LABELS, LIFE_COLUMNS
from gatelog.readmodel.statements.pods import counted
from projector.schema.dialect import IN_HALVES
from projector.schema.pending import is_pending

_THERE = """g.cluster = :cluster AND (g.namespace = :namespace OR :namespace = '')"""

_NOW = f"""
SELECT g.id, g.namespace, g.name, g.created_at, g.state, g.wait_reason, g.wait_since,
       g.pods_running, {FIRST_LABELS} AS labels
  FROM groups g
 WHERE {_THERE} AND (g.gone_at IS NULL OR :gone = 1)"""

_AT = f"""
SELECT g.id, g.namespace, g.name, g.created_at,
       coalesce((SELECT h.reason FROM history h
         WHERE h.cluster = g.cluster AND h.group_id = g.id AND h.kind = 'StateChanged'
           AND h.at <= :at
         ORDER BY h.seq DESC, h.ord DESC LIMIT 1), '') AS state,
       coalesce(w.reason, '') AS wait_reason, w.from_at AS wait_since,
       (SELECT count(*) FROM pods p WHERE p.cluster = g.cluster AND p.group_id = g.id
           AND {counted("pods_running")}) AS pods_running, {FIRST_LABELS} AS labels
  FROM groups g
  LEFT JOIN waits w ON w.cluster = g.cluster AND w.group_id = g.id
   AND w.from_at <= :at AND (w.to_at IS NULL OR w.to_at > :at)
 WHERE {_THERE} AND g.created_at <= :at AND (g.gone_at IS NULL OR g.gone_at > :at)"""

NAMED: Final = r"""(lower(x.name) LIKE :text ESCAPE '\'
        OR lower(CAST(x.labels AS TEXT)) LIKE :text ESCAPE '\')"""
"""Condition: the name, or a label (a user's, a team's) holds parameter `text`."""
IN_STATE: Final = "x.state = :state"
FOR_REASON: Final = "x.wait_reason = :reason"
CAME: Final = "x.created_at >= :since"

_ASKED: Final = "CAST(p.requests ->> CAST(:resource AS TEXT) AS BIGINT)"
USE: Final = f"""(SELECT coalesce({IN_HALVES.format(x=_ASKED)}, 0)
          FROM pods p
         WHERE p.cluster = :cluster AND p.group_id = x.id AND p.started_at <= :until
           AND (p.ended_at IS NULL OR p.ended_at > :until)
           AND (p.gone_at IS NULL OR p.gone_at > :until))"""
"""What pods of `x` that ran at parameter `until` had asked for of a resource."""


ORDERS: Final[Mapping[str, tuple[str, str]]] = {
    "age": ("newest first", "x.created_at DESC"),
    "oldest": ("oldest first", "x.created_at"),
    "wait": (
        "longest wait first",
        f"CASE WHEN {is_pending('x.state')} THEN 0 ELSE 1 END,"
        " CASE WHEN x.wait_since IS NULL THEN 1 ELSE 0 END, x.wait_since",
    ),
    # What runs nothing uses nothing: most groups of a busy cluster wait.
    "use": ("most in use first", f"CASE WHEN x.pods_running > 0 THEN {USE} ELSE 0 END DESC"),
    "name": ("by namespace and name", "x.namespace, x.name"),
}
"""Word of an address: its text for people, and the order."""


class ListedRow(LifeRow, frozen=True, kw_only=True):
    """A life, and how it was at the moment that is looked at."""

    state_then: str
    reason_then: str
    since_then: datetime | None
    used: int
    """What its running pods asked for of the resource that is looked at, as tables have it."""


class StateCount(msgspec.Struct, frozen=True):
    """How many are in a state."""

    state: str
    groups: int


class LabelRow(msgspec.Struct, frozen=True):
    """How many of a label's value are in a state, since when the first of them has waited."""

    value: str
    state: str
    groups: int
    running: int
    since: datetime | None


def _found(at: bool, conditions: Sequence[str]) -> str:
    where = " AND ".join(conditions) or "1 = 1"
    return f"FROM ({_AT if at else _NOW}) x\n WHERE {where}"


def page(at: bool, conditions: Sequence[str], order: str) -> str:
    """Return the statement of one page of `ListedRow`s.

    Args:
        at: at the past moment of parameter `at`.
        conditions: fragments on `x`.
        order: a key of `ORDERS`.
    """
    by = ORDERS[order][1]
    return f"""
WITH page AS (
SELECT x.id, x.state, x.wait_reason, x.wait_since,
       row_number() OVER (ORDER BY {by}, x.id) AS place
  {_found(at, conditions)}
 ORDER BY place LIMIT :limit OFFSET :offset)
SELECT {LIFE_COLUMNS}, x.state AS state_then, x.wait_reason AS reason_then,
       x.wait_since AS since_then, {USE} AS used
  FROM page x JOIN groups g ON g.cluster = :cluster AND g.id = x.id{ESTIMATED}
 ORDER BY x.place
"""


def states(at: bool, conditions: Sequence[str]) -> str:
    """Return the statement that counts groups by state, as `StateCount`s."""
    return f"""
SELECT x.state, count(*) AS groups
  {_found(at, conditions)}
 GROUP BY x.state ORDER BY x.state LIMIT :limit
"""


def by_label(at: bool, conditions: Sequence[str]) -> str:
    """Return the statement that adds up groups by the label :key, as `LabelRow`s."""
    return f"""
SELECT coalesce(x.labels ->> CAST(:key AS TEXT), '') AS value, x.state, count(*) AS groups,
       CAST(sum(x.pods_running) AS BIGINT) AS running, min(x.wait_since) AS since
  {_found(at, conditions)}
 GROUP BY 1, x.state ORDER BY 1, x.state LIMIT :limit
"""


def key_parameter(key: str, dialect: str) -> str:
    """Return the parameter that names a member of a document.

    SQLite takes a key with dots for a path, unless the key is quoted.
    """
    return f'$."{key}"' if dialect == "sqlite" else key


def like(text: str) -> str:
    """Return parameter `text` of `NAMED`: the words anywhere, in any case of letters."""
    escaped = text.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
