"""Expected starts as sentences.

Theory. A missing estimate is a line with its reason: forecasts are off, the first is not ready,
none was made since, too few runs have ended to draw from, or the line is too long to be played.

Invariant: pure.
"""

from datetime import datetime, timedelta

from gatelog.readmodel.timeline import plain

TOO_LATE = "30 days"
ENDS = 20
"""Ends that must have been seen before there is an estimate."""
OFF = "no estimate (forecasts are off)"
FIRST = "no estimate yet: the first forecast is being made"
_AWAITED = timedelta(minutes=5)
"""Time within which a forecast comes where any are made."""


def sentence(
    expected_at: datetime | None,
    latest_at: datetime | None,
    never: str,
    now: datetime,
    overtakers: str = "others",
) -> str:
    """Say when a group starts, as seen at `now`; `overtakers`: groups that start before it."""
    if never:
        return f"cannot start until this is fixed: {plain(never)}"
    if expected_at is None:
        return f"not within {TOO_LATE}: {overtakers} keep overtaking it"
    if latest_at is None:
        said = _in(expected_at, now)
        return f"{said}; no safe upper limit: {overtakers} keep overtaking it"
    if latest_at <= now:
        return "late: 9 of 10 like it had started by now"
    return f"{_in(expected_at, now)} (9 in 10: within {rough((latest_at - now).total_seconds())})"


def unknown(
    made_at: datetime | None, runs: int | None, since: datetime | None, now: datetime
) -> str:
    """Say why there is no estimate for a group that waits since `since`.

    Args:
        made_at: when the latest forecast was made, None: forecasts are off.
        runs: how many ends the forecast had to draw from; None: it is still to come.
        since: since when the group waits.
        now: the moment of the question.
    """
    if made_at is None:
        return OFF
    if runs is None:
        return FIRST
    old = f"no estimate: the latest forecast is {rough((now - made_at).total_seconds())} old"
    if since is not None and made_at < since:
        young = now - since < _AWAITED
        return "no estimate yet: it came after the latest forecast" if young else old
    if runs < ENDS:
        return f"no estimate yet: {runs} of {ENDS} groups have ended from which it is drawn"
    if now - made_at > _AWAITED:
        return old
    return "no estimate: too many wait to play when each starts"


def _in(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return "starts at any moment" if seconds < 1 else f"starts in about {rough(seconds)}"


def short(
    expected_at: datetime | None, latest_at: datetime | None, never: str | None, now: datetime
) -> str:
    """Say the same in a word, for a table; "" where there is no estimate (`never` None)."""
    if never is None:
        return ""
    if never:
        return "never"
    if expected_at is None:
        return f">{TOO_LATE}"
    if latest_at is not None and latest_at <= now:
        return "late"
    seconds = (expected_at - now).total_seconds()
    return "now" if seconds < 1 else f"~{rough(seconds)}"


def short_of(expected: str | None, latest: str | None, never: str | None, now: datetime) -> str:
    """Say `short` of times as the API writes them."""
    at, last = (datetime.fromisoformat(text) if text else None for text in (expected, latest))
    return short(at, last, never, now)


def rough(seconds: float) -> str:
    """Return a span in one unit, or two where one would hide much: `12 min`, `3 h`, `4 d`."""
    for size, unit, most in ((1, "s", 90), (60, "min", 90), (3600, "h", 36)):
        if seconds < most * size:
            return f"{max(1, round(seconds / size))} {unit}"
    return f"{round(seconds / 86_400)} d"
