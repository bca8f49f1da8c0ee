"""Times as the databases keep them.

Invariant: aware times only; nothing of the projector is imported, so that reading imports no table.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def utc_text(time: datetime) -> str:
    """Return a time as SQLite keeps it: 27 characters, UTC, microseconds, `Z`.

    Raises:
        ValueError: the time is naive.
    """
    if time.tzinfo is None:
        raise ValueError(f"time {time.isoformat()} has no zone: every time must be aware")
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    return time.isoformat(timespec="microseconds")[:26] + "Z"


def bound(database: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a statement in text, times as the database keeps them."""
    return {
        name: utc_text(value) if database == "sqlite" and isinstance(value, datetime) else value
        for name, value in values.items()
    }
