"""The window of time that a page draws, and its slider.

Theory. Viewers want the range in which something happened. Where the address names no range, the
window is the shortest of `WINDOWS` that contains the whole log, else a day. It begins no earlier
than the log and ends soon after the log.

Invariant: a window ends after it begins.
"""

from datetime import timedelta
from typing import Any

from gatelog.readmodel import statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.statements.position import StoryRow
from gatelog.serve.console.view import DAY, PageView, Range

WINDOWS = tuple(timedelta(hours=hours) for hours in (1, 6, 24, 168))
"""Lengths of windows if no range is chosen."""
_SHORTEST = timedelta(seconds=1)
_STEPS = 400
"""Places of a slider."""


def fitting(asked: Asked, seen: PageView, *, around: bool = False) -> Range:
    """Return the range of an address, or a range that fits the log.

    The range ends at the chosen moment, or now (`around`) if that moment is within; where nothing
    has happened for a day, with the log.

    Raises:
        Refused: 400, the range is malformed.
    """
    (story,) = asked.rows("the log", StoryRow, statements.position.STORY, {"limit": 1})
    chosen = seen.range
    if chosen is not None:
        since, until = chosen.since, chosen.until
    else:
        until = seen.now if around else seen.moment
        if story.last is not None and story.last < until - DAY:
            until = max(story.last + _SHORTEST, seen.at or story.last)
        span = next((one for one in WINDOWS if story.first and story.first >= until - one), DAY)
        if seen.at is not None:  # a moment of before lies within
            span = next((one for one in WINDOWS if until - one <= seen.at), span)
        since = until - span
    if seen.at is not None and seen.at < since:
        half = (until - since) / 2
        since, until = seen.at - half, seen.at + half
    if story.first is not None and since < story.first < until - _SHORTEST:
        since = story.first
    return Range(since, until)


def slider(seen: PageView, path: str, window: Range) -> dict[str, Any]:
    """Return a slider over the window: the page of the moment that it is at."""
    begin, end = int(window.since.timestamp()), int(window.until.timestamp())
    step = max(1, (end - begin) // _STEPS)
    return {
        "window": window,
        "path": path,
        "min": end - -(-(end - begin) // step) * step,  # so that its last place is the end
        "max": end,
        "step": step,
        "value": min(max(int(seen.moment.timestamp()), begin), end),
    }
