"""What pages have in common: what an address says, a page, and small marks.

Invariant: a name that is a link leads to a page that is there.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from gatelog.readmodel.timeline import duration
from gatelog.serve.api.status import bad
from gatelog.serve.console.html import Html, h
from gatelog.serve.words import amount, rfc

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


class Page(Struct, frozen=True, kw_only=True):
    """A page: its title, its data, and how it is shown."""

    title: str
    data: Any
    body: Html


def page(title: str, data: Any, *body: Any, heading: str = "") -> Page:
    """Return a page under its heading, which is its title unless it has another."""
    return Page(title=title, data=data, body=h("div", h("h1", heading or title), body))


def whens(seen: PageView, field: str) -> Callable[[Any], Html]:
    """Return `when` of a field of a row."""
    return lambda row: when(getattr(row, field), seen)


def age(seconds: float) -> str:
    """Return a span of whole seconds, in the form that every other page and command uses."""
    return duration(seconds) if seconds >= 60 else f"{max(0, int(seconds))} s"


def when(at: datetime | None, seen: PageView) -> Html:
    """Return a time with how long ago it was."""
    if at is None:
        return h("span", "–")
    ago = age((seen.moment - at).total_seconds())
    return h(
        "time", f"{ago} ago", datetime=rfc(at), title=f"{at:%Y-%m-%d %H:%M:%S} UTC", class_="num"
    )


def clock(at: datetime, *, fine: bool = False) -> Html:
    """Return a time in full; `fine`: with thousandths, where a story is short."""
    words = f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at.microsecond // 1000:03}" if fine else "")
    return h("time", words, datetime=rfc(at), class_="num", data_full="")


_SIGNS = {
    "Composing": "…",
    "Queued": "◷",
    "Blocked": "✕",
    "Admitted": "○",
    "Running": "▶",
    "Evicted": "↺",
    "Finishing": "✓",
    "Finished": "✓",
    "Gone": "–",
    "Succeeded": "✓",
    "Failed": "✕",
    "Preempted": "⇤",
    "Deleted": "⌫",
}


def state(word: str) -> Html:
    """Return a state as a mark: its colour says what its sign and its word say too."""
    sign = h("span", _SIGNS.get(word, "?"), aria_hidden="true")
    return h("span", sign, f" {word or 'unknown'}", class_=f"state s-{word.lower()}")


def group_link(seen: PageView, namespace: str, name: str, uid: str = "") -> Html:
    """Return a link to a group."""
    return h("a", f"{namespace}/{name}", href=seen.link(f"/groups/{namespace}/{name}", life=uid))


def queue_link(seen: PageView, name: str) -> Html:
    """Return a ClusterQueue's name, as a link for those who may see it."""
    return h("a", name, href=seen.link(f"/queues/{name}")) if seen.quota else h("span", name)


def pager(seen: PageView, path: str, shown: int, **query: Any) -> Html | None:
    """Return links to the pages before and after."""
    before, behind = seen.offset > 0, shown > ROWS
    if not before and not behind:
        return None
    back = seen.link(path, **query, offset=max(seen.offset - ROWS, 0) or None)
    on = seen.link(path, **query, offset=seen.offset + ROWS)
    return h(
        "p",
        h("a", "← earlier", href=back, rel="prev") if before else None,
        " " if before and behind else None,
        h("a", "further →", href=on, rel="next") if behind else None,
    )


def held_text(resources: Mapping[str, Mapping[str, int]]) -> str:
    """Return amounts held."""
    return ", ".join(
        f"{amount(resource, number)} {resource} of {flavor or 'no flavor'}"
        for flavor, held in resources.items()
        for resource, number in held.items()
    )


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
