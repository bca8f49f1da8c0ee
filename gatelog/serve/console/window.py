"""The window of time that a page draws, and the slider that goes through it.

Theory. Who looks at a page wants the range in which something happened. Without a wish of theirs a
window is the shortest of `WINDOWS` that has the whole log; where none has, a day. It neither
begins before the log does nor ends long after it.

Invariant: a window ends after it begins.
"""

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.serve.api.status import bad
from gatelog.serve.console.view import PageView

WINDOWS = {1: "hour", 6: "6 hours", 24: "day", 168: "week"}
"""Windows that are drawn, in hours."""
_SHORTEST = timedelta(seconds=1)
_QUIET = timedelta(days=1)
_STEPS = 400
"""Places of a slider."""


class Window(Struct, frozen=True):
    """From when until when, and the entry of `WINDOWS` that it is."""

    since: datetime
    until: datetime
    hours: int


def fitting(asked: Asked, seen: PageView, *, around: bool = False) -> Window:
    """Return the window that an address wishes for, or one that fits the log.

    It ends at the moment that is looked at, or now (`around`) if that moment is within; where
    nothing has happened for a day, with the log.

    Raises:
        Refused: 400, the wish is none of `WINDOWS`.
    """
    (story,) = asked.rows("the log", moments.StoryRow, moments.STORY, {"limit": 1})
    text = seen.query.get("hours", "")
    if text not in ("", *[str(hours) for hours in WINDOWS]):
        raise bad(f"hours is {text[:40]!r}: {', '.join(map(str, WINDOWS))} are allowed")
    until = seen.now if around else seen.moment
    if not text and story.last is not None and story.last < until - _QUIET:
        until = max(story.last + _SHORTEST, seen.at or story.last)
    hours = int(text) if text else _fits(story, until)
    if seen.at is not None and not text:  # a moment of before lies within
        hours = next((one for one in WINDOWS if until - timedelta(hours=one) <= seen.at), hours)
    since = until - timedelta(hours=hours)
    if seen.at is not None and seen.at < since:
        since, until = seen.at - timedelta(hours=hours / 2), seen.at + timedelta(hours=hours / 2)
    if story.first is not None and since < story.first < until - _SHORTEST:
        since = story.first
    return Window(since, until, hours)


def _fits(story: moments.StoryRow, until: datetime) -> int:
    if story.first is not None:
        for hours in WINDOWS:
            if story.first >= until - timedelta(hours=hours):
                return hours
    return 24


def others(seen: PageView, path: str, window: Window) -> list[tuple[str, str, bool]]:
    """Return links to the other windows: words, address, and whether it is the one in force."""
    return [
        (words, seen.link(path, hours=one), one == window.hours) for one, words in WINDOWS.items()
    ]


def slider(seen: PageView, path: str, window: Window) -> dict[str, Any]:
    """Return a slider over the window: the page of the moment that it is at."""
    begin, end = int(window.since.timestamp()), int(window.until.timestamp())
    step = max(1, (end - begin) // _STEPS)
    return {
        "windows": others(seen, path, window),
        "window": window,
        "path": path,
        "min": end - -(-(end - begin) // step) * step,  # so that its last place is the end
        "max": end,
        "step": step,
        "value": min(max(int(seen.moment.timestamp()), begin), end),
    }
