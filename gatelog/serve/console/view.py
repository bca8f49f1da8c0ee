"""The view that an address describes: the moment, the range of time, the offset in a list.

Theory. A range is chosen in the header and kept by every link. It ends now, and the page is live,
or earlier: then its end is the moment of the page, unless `at` names another.

Invariant: a link keeps the moment and the range of its page.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from msgspec import Struct

from gatelog.serve.api.status import bad
from gatelog.serve.words import rfc

ROWS = 50
RANGES = {
    "1h": ("1 h", timedelta(hours=1)),
    "6h": ("6 h", timedelta(hours=6)),
    "night": ("last night", timedelta(0)),
    "24h": ("24 h", timedelta(days=1)),
    "7d": ("7 d", timedelta(days=7)),
    "30d": ("30 d", timedelta(days=30)),
}
"""Ranges by their word in an address: what each is called, and how long before now it begins. Last
night is from 20 to 8 o'clock in the viewer's zone."""
DAY = timedelta(days=1)
_FIRST_YEAR = 1971
T = TypeVar("T")


class Range(Struct, frozen=True):
    """From when until when."""

    since: datetime
    until: datetime


class PageView(Struct, frozen=True, kw_only=True):
    """The view of an address: the moment (None: now), and its parameters."""

    at: datetime | None
    query: Mapping[str, str]
    now: datetime
    quota: bool = True
    """The viewer may see quota: pages of ClusterQueues."""
    names: bool = True
    """The viewer may see groups of all namespaces."""
    version: int = 0
    """How far the log was folded when the page was made (`feed.Feed`)."""
    zone: tzinfo = UTC
    """Where the viewer wants times to be of."""

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

    @property
    def range(self) -> Range | None:
        """The range that the address names, None for what suits the page.

        Raises:
            Refused: 400, it cannot be read.
        """
        word = self.query.get("range", "")
        if word not in ("", *RANGES):
            raise bad(f"range is {word[:40]!r}: {', '.join(RANGES)} are allowed")
        if word == "night":
            here = self.now.astimezone(self.zone)
            morning = here.replace(hour=8, minute=0, second=0, microsecond=0)
            evening = (morning - timedelta(hours=12)).astimezone(UTC)
            return Range(evening, min(morning.astimezone(UTC), self.now))
        if word:
            span, moment = RANGES[word][1], self.moment
            until = self.now if moment > self.now - span else moment
            return Range(until - span, until)
        first, last = (self.query.get(name, "").strip() for name in ("since", "until"))
        if not first and not last:
            return None
        end = read_moment(last, self.now, "until", self.zone) or self.now
        begin = read_moment(first, self.now, "since", self.zone) if first else end - DAY
        if begin is None or begin >= end:
            raise bad(f"since is {first[:40]!r}: a time before the range ends is allowed")
        return Range(begin, end)

    def window(self, span: timedelta = DAY) -> Range:
        """Return the range of the address, or a `span` up to the moment.

        Raises:
            Refused: 400, the range is malformed.
        """
        return self.range or Range(self.moment - span, self.moment)

    def link(self, path: str, **query: Any) -> str:
        """Return an address at the same moment and in the same range."""
        kept = {name: self.query.get(name) for name in ("range", "since", "until")}
        ends = any(kept.values()) and not self.query.get("at")
        at = {"at": rfc(self.at)} if self.at and not ends else {}
        shown = {k: v for k, v in {**kept, **at, **query}.items() if v not in ("", None)}
        return path + (f"?{urlencode(shown)}" if shown else "")

    def clock(self, at: datetime, *, fine: bool = False) -> str:
        """Return a time in full, in the viewer's zone; `fine`: with thousandths."""
        here = at.astimezone(self.zone)
        return f"{here:%Y-%m-%d %H:%M:%S}" + (f".{here.microsecond // 1000:03}" if fine else "")

    @property
    def zone_name(self) -> str:
        """The zone's name at the moment."""
        return self.moment.astimezone(self.zone).tzname() or "UTC"


def ordered(
    seen: PageView,
    path: str,
    rows: Iterable[T],
    keys: Mapping[str, Callable[[T], Any]],
    **kept: Any,
) -> tuple[list[T], dict[str, tuple[str, str]]]:
    """Return rows in the order that parameter `sort` chose, and of each column its link and mark.

    A column's word sorts upwards, with a hyphen before it downwards; without a wish rows stay as
    they come.

    Raises:
        Refused: 400, there is no such column.
    """
    chosen, found = seen.query.get("sort", ""), list(rows)
    word = chosen.removeprefix("-")
    if word and word not in keys:
        raise bad(f"sort is {chosen[:40]!r}: {', '.join(keys)} are allowed")
    if word:
        found.sort(key=keys[word], reverse=chosen.startswith("-"))
    marks = {word: " ↓" if chosen.startswith("-") else " ↑"}
    links = {
        one: (
            seen.link(path, **kept, sort=one if chosen == f"-{one}" else f"-{one}"),
            marks.get(one, ""),
        )
        for one in keys
    }
    return found, links


def read_zone(name: str) -> tzinfo:
    """Return the zone of an IANA name, UTC for unknown names."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC


def read_moment(text: str, now: datetime, name: str = "at", zone: tzinfo = UTC) -> datetime | None:
    """Return the time that an address chose, None for now; without a zone it is of `zone`.

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
        at = (at.replace(tzinfo=zone) if at.tzinfo is None else at).astimezone(UTC)
    except (ValueError, OverflowError):
        raise bad(
            f"{name} is {text[:40]!r}: a time such as 2026-11-22T10:00:00Z is allowed"
        ) from None
    if at.year < _FIRST_YEAR:
        raise bad(f"{name} is {text[:40]!r}: a time from {_FIRST_YEAR} on is allowed")
    if at > now:
        return None
    return at
