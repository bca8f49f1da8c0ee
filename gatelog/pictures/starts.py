"""A forecast as a picture: for each group that waits the range of its start, and the middle of it.

Invariant: groups are in the order of the table; those left out are counted.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gatelog.pictures import axes
from gatelog.pictures.svg import MARGIN, WIDTH, Sheet, shortened
from gatelog.readmodel.timeline import duration

MOST = 12
"""Groups of a ClusterQueue that are drawn."""
_LEFT, _RIGHT = 290, WIDTH - MARGIN - 60


def draw(rows: Sequence[dict[str, Any]], now: datetime) -> Sheet:
    """Return the picture of estimates, as `commands.forecast.rows_of` gives them."""
    places: Counter[str] = Counter()
    shown = []
    for row in rows:
        places[row["cluster_queue"]] += 1
        if places[row["cluster_queue"]] <= MOST:
            shown.append(row)
    about = "; ".join(f"{row['namespace']}/{row['name']}: {row['said']}" for row in shown)
    sheet = Sheet(f"Who starts when, as of {now:%Y-%m-%d %H:%M} UTC", about or "Nothing waits.")
    sheet.legend(
        [
            ("now", "nine in ten plays start by its end, one in ten before its beginning"),
            ("mark", "half of them start before"),
        ]
    )
    latest = [
        (at - now).total_seconds()
        for row in shown
        for at in (row["latest_at"] or row["expected_at"],)
        if at is not None
    ]
    most = max(60.0, *latest) if latest else 60.0

    def x(at: datetime) -> float:
        return _LEFT + (_RIGHT - _LEFT) * min(1.0, max(0.0, (at - now).total_seconds() / most))

    top = sheet.y + 24
    bottom = top + 16 + 28 * len({row["cluster_queue"] for row in shown}) + 22 * len(shown)
    for seconds in axes.spans(most):
        at = _LEFT + (_RIGHT - _LEFT) * seconds / most
        sheet.line(at, top + 6, at, bottom, "grid")
        sheet.text(at, top, duration(seconds) if seconds else "now", "quiet mid")
    sheet.y = top + 8
    queue = None
    for row in shown:
        if row["cluster_queue"] != queue:
            queue = row["cluster_queue"]
            sheet.y += 28
            sheet.text(MARGIN, sheet.y, str(queue or "(no queue)"), "head")
        sheet.y += 22
        place = f"{row['position']}. " if row["position"] else ""
        sheet.text(MARGIN, sheet.y, shortened(f"{place}{row['namespace']}/{row['name']}", 38))
        if row["never"]:
            sheet.text(_LEFT, sheet.y, shortened(str(row["said"]), 86), "quiet")
            continue
        begin = x(row["earliest_at"] or now)
        end = x(row["latest_at"]) if row["latest_at"] is not None else float(_RIGHT)
        kind = "now" if row["latest_at"] is not None else "empty"
        sheet.box(begin, sheet.y - 11, max(2.0, end - begin), 13, kind, str(row["said"]))
        if row["expected_at"] is not None:
            middle = x(row["expected_at"])
            sheet.line(middle, sheet.y - 14, middle, sheet.y + 5, "mark")
            said = duration(max(0.0, (row["expected_at"] - now).total_seconds()))
            sheet.text(end + 8, sheet.y, said, "quiet")
    if len(rows) > len(shown):
        sheet.y += 28
        said = f"{len(rows) - len(shown)} more wait behind them"
        sheet.text(MARGIN, sheet.y, said, "quiet")
    return sheet
