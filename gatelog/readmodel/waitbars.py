"""Waits as bars: the reasons to wait of a group, when and for how long, on one scale.

    waits for                0 s                              5 m 1 s
    WaitingForReplacement    ················━━━················  15.4 s
    WaitingForQuota          ···················━━━━━━━━━━━━━━━━  2 m 10 s

The scale runs from the group's first moment to the end of its last wait (now, while it waits).

Invariant: every shown wait has at least one cell, and a bar is `WIDTH` cells long.
"""

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from gatelog.readmodel.timeline import NO_WAIT, TimelineEntry, duration

WIDTH = 44
_WAITED, _NOT = "━", "·"


def bars(
    entries: Sequence[TimelineEntry], start: datetime, now: datetime, style: str
) -> Table | None:
    """Return one bar per reason, in order of their first wait; None if it never waited."""
    waits = [
        entry
        for entry in entries
        if entry.source == "wait" and (entry.until or now) - entry.at >= NO_WAIT
    ]
    if not waits:
        return None
    end = max(entry.until or now for entry in waits)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("waits for", no_wrap=True)
    whole = duration((end - start).total_seconds())
    table.add_column("0 s" + whole.rjust(WIDTH - 3), no_wrap=True)
    table.add_column("", no_wrap=True)
    for reason in dict.fromkeys(entry.reason for entry in waits):
        spans = [(e.at, e.until or now) for e in waits if e.reason == reason]
        took = duration(sum((b - a).total_seconds() for a, b in spans))
        still = any(e.until is None for e in waits if e.reason == reason)
        table.add_row(reason, _bar(spans, start, end, style), f"{took}, still" if still else took)
    return table


def _bar(
    spans: Sequence[tuple[datetime, datetime]], start: datetime, end: datetime, style: str
) -> Text:
    scale = WIDTH / max((end - start).total_seconds(), 1e-9)
    cells = [_NOT] * WIDTH
    for a, b in spans:
        first = min(WIDTH - 1, max(0, int((a - start).total_seconds() * scale)))
        last = min(WIDTH - 1, max(first, round((b - start).total_seconds() * scale) - 1))
        cells[first : last + 1] = [_WAITED] * (last + 1 - first)
    text = Text()
    for cell in cells:
        text.append(cell, style=style if cell == _WAITED else "")
    return text
