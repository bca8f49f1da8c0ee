"""What an address says: the moment, the range of time, where in a list.

Invariant: a link keeps the moment of the page that it is on.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from gatelog.serve.api.status import bad
from gatelog.serve.words import rfc

ROWS = 50
DAYS = {1: "day", 7: "week", 30: "month"}
"""Ranges of days that a page may be of."""
_FIRST_YEAR = 1971


class PageView(Struct, frozen=True, kw_only=True):
    """What an address says: the moment (None: now), and its parameters."""

    at: datetime | None
    query: Mapping[str, str]
    now: datetime
    quota: bool = True
    """The viewer may see quota: pages of ClusterQueues."""
    version: int = 0
    """How far the log was folded when the page was made (`feed.Feed`)."""

    @property
    def moment(self) -> datetime:
        """The time that is looked at."""
        return self.at or self.now

    @property
    def offset(self) -> int:
        """Rows to skip."""
        text = self.query.get("offset", "")
        if not text:
            return 0
        if not (text.isascii() and text.isdigit() and len(text) < 9):
            raise bad(f"offset is {text[:40]!r}: a whole number from 0 on is allowed")
        return int(text)

    def link(self, path: str, **query: Any) -> str:
        """Return an address at the same moment."""
        given = {**query, **({"at": rfc(self.at)} if self.at else {})}
        shown = {key: value for key, value in given.items() if value not in ("", None)}
        return path + (f"?{urlencode(shown)}" if shown else "")


def read_days(seen: PageView, default: int = 1) -> int:
    """Return how many days an address chose: a day, a week or a month.

    Raises:
        Refused: 400, neither.
    """
    text = seen.query.get("days", "") or str(default)
    if text not in map(str, DAYS):
        raise bad(f"days is {text[:40]!r}: 1, 7 or 30 are allowed")
    return int(text)


def read_moment(text: str, now: datetime) -> datetime | None:
    """Return the time that an address chose, None for now; without a zone it is UTC.

    A whole number is seconds since 1970, as a slider says it.

    Raises:
        Refused: 400, it is no time, or lies ahead.
    """
    if not text.strip():
        return None
    try:
        if re.fullmatch(r"[0-9]{1,11}", text, re.ASCII):
            at = datetime.fromtimestamp(int(text), UTC)
        else:
            at = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise bad(f"at is {text[:40]!r}: a time such as 2026-11-22T10:00:00Z is allowed") from None
    if at.year < _FIRST_YEAR:
        raise bad(f"at is {text[:40]!r}: a time from {_FIRST_YEAR} on is allowed")
    if at > now:
        return None
    return at
