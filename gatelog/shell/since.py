"""Times and spans as people give them: `7d`, `12h`, `yesterday`, or a moment."""

import re
from datetime import UTC, datetime, timedelta

from gatelog.shell.errors import UsageFailed

_SPAN = re.compile(r"(\d{1,6})([smhdw])")
_DAYS = {"today": 0, "yesterday": 1}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def span(text: str) -> timedelta | None:
    """Return the span that `text` names, None if it names none."""
    match = _SPAN.fullmatch(text)
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]]) if match else None


def moment(option: str, text: str, end: datetime) -> datetime:
    """Return the moment that `text` names: a span is before `end`, a day its begin in UTC.

    Raises:
        UsageFailed: the text is neither.
    """
    if (found := span(text)) is not None:
        return end - found
    if text in _DAYS:
        begin = end.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return begin - timedelta(days=_DAYS[text])
    return instant(option, text, "a span like 7d, 12h or 30m, yesterday, or a")


def instant(option: str, text: str, wanted: str = "a") -> datetime:
    """Return the time that `text` names, in UTC if it names no zone.

    Raises:
        UsageFailed: the text is no time; `wanted` names, before the word time, other accepted
            forms.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageFailed(
            f"{option} {text}: give {wanted} time like 2026-11-21T03:00:00Z"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
