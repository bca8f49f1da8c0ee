"""Expected starts of groups, their forecast, and actual starts.

Invariant: of several estimates of a group at most one holds at any moment.
"""

from datetime import datetime

import msgspec

EXPECTED = """
SELECT expected_at, earliest_at, latest_at, never, position, as_of
  FROM v_expected_starts
 WHERE cluster = :cluster AND group_id = :group_id
"""

MADE = """
SELECT at, CASE WHEN as_of_seq > 0
                THEN coalesce(CAST(drawn_from ->> 'runs' AS BIGINT), 0) END AS runs
  FROM forecasts WHERE cluster = :cluster ORDER BY at LIMIT 1
"""
"""The latest forecast."""

STANDING = "e.came = '' AND e.replaced_at IS NULL"
"""Condition on an estimate: it holds now."""

STOOD = """e.given_at <= :at
   AND (e.replaced_at IS NULL OR e.replaced_at > :at) AND (e.came_at IS NULL OR e.came_at > :at)"""

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


class ForecastRow(msgspec.Struct, frozen=True):
    """Time and position of the latest forecast; 0: the first is still to come."""

    at: datetime | None
    seq: int | None


class EstimateRow(msgspec.Struct, frozen=True):
    """An estimate, and the actual start."""

    given_at: datetime
    expected_at: datetime | None
    latest_at: datetime | None
    never: str
    came: str
    came_at: datetime | None
