"""Expected starts as sentences.

Invariant: pure.
"""

from datetime import datetime

from gatelog.readmodel.timeline import plain

TOO_LATE = "30 days"


def sentence(
    expected_at: datetime | None,
    latest_at: datetime | None,
    never: str,
    now: datetime,
) -> str:
    """Say when a group starts, as seen at `now`."""
    if never:
        return f"does not start while this is so: {plain(never)}"
    if expected_at is None:
        return f"hardly starts within {TOO_LATE} if as many go on to come before it"
    if latest_at is None:
        return f"{_in(expected_at, now)} (9 in 10: later than can be said, if others go on to come)"
    if latest_at <= now:
        return "late: 9 of 10 like it had started by now"
    return f"{_in(expected_at, now)} (9 in 10: within {rough((latest_at - now).total_seconds())})"


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
