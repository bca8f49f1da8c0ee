"""Usage as a picture: per resource and key a bar of what ran, was held and was wasted; what waited.

Invariant: the bars of one resource have one scale; keys left out are counted.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gatelog.pictures import axes
from gatelog.pictures.svg import MARGIN, WIDTH, Sheet, shortened

MOST = 15
_LEFT, _RIGHT = 230, WIDTH - MARGIN - 130
_PARTS = (("good", "running"), ("held", "held"), ("bad", "wasted"))


def draw(
    by: str,
    begin: datetime,
    end: datetime,
    rows: Sequence[dict[str, Any]],
    quota: Sequence[dict[str, Any]],
) -> Sheet:
    """Return the picture of sums and of quota, as `gatelog usage --output json` has them."""
    span = f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    about = "; ".join(
        f"{row['key'] or '(none)'}, {row['resource']} in {row['unit']}: "
        + ", ".join(f"{name} {float(row[name]):.2f}" for name in ("running", "held", "wasted"))
        + "".join(f", {name} {float(row[name]):.2f}" for name in ("waited", "unadmitted"))
        for row in rows[:MOST]
    )
    sheet = Sheet(f"Usage by {by}, {span}", about or "Nothing was used.")
    sheet.legend([(kind, name) for kind, name in _PARTS] + [("empty", "waited for, not had")])
    for resource in dict.fromkeys(str(row["resource"]) for row in rows):
        some = [row for row in rows if row["resource"] == resource]
        some.sort(key=lambda row: (-float(row["taken"]) - float(row["waited"]), str(row["key"])))
        _resource(sheet, resource, some)
    if quota:
        _quota(sheet, quota)
    return sheet


def _resource(sheet: Sheet, resource: str, rows: list[dict[str, Any]]) -> None:
    most = max(max(float(row["taken"]), float(row["waited"])) for row in rows) or 1.0
    _head(sheet, f"{resource}, in {rows[0]['unit']}", most)
    for row in rows[:MOST]:
        sheet.y += 30
        sheet.text(MARGIN, sheet.y, shortened(str(row["key"] or "(none)"), 28))
        x = float(_LEFT)
        for kind, name in _PARTS:
            wide = (_RIGHT - _LEFT) * float(row[name]) / most
            sheet.box(x, sheet.y - 14, wide, 12, kind, f"{name} {float(row[name]):.2f}")
            x += wide
        sheet.text(x + 8, sheet.y - 4, f"{float(row['taken']):,.2f}", "quiet")
        wide = (_RIGHT - _LEFT) * float(row["waited"]) / most
        sheet.box(_LEFT, sheet.y, wide, 6, "empty", f"waited {float(row['waited']):.2f}")
    if len(rows) > MOST:
        sheet.y += 24
        sheet.text(MARGIN, sheet.y, f"{len(rows) - MOST} more are not drawn", "quiet")


def _quota(sheet: Sheet, quota: Sequence[dict[str, Any]]) -> None:
    for resource in dict.fromkeys(str(row["resource"]) for row in quota):
        rows = [row for row in quota if row["resource"] == resource]
        most = max(max(float(row["quota"]), float(row["taken"])) for row in rows) or 1.0
        _head(sheet, f"Quota of {resource}: taken, and dashed what there was", most)
        for row in rows[:MOST]:
            sheet.y += 26
            name = f"{row['cluster_queue']} ({row['flavor']})"
            sheet.text(MARGIN, sheet.y, shortened(name, 28))
            scale = (_RIGHT - _LEFT) / most
            taken, whole = float(row["taken"]) * scale, float(row["quota"]) * scale
            sheet.box(_LEFT, sheet.y - 12, taken, 13, "now", f"taken {float(row['taken']):.2f}")
            sheet.box(_LEFT, sheet.y - 12, whole, 13, "empty", f"quota {float(row['quota']):.2f}")
            said = f"{float(row['idle']):,.2f} idle"
            sheet.text(_LEFT + max(taken, whole) + 8, sheet.y, said, "quiet")
        if len(rows) > MOST:
            sheet.y += 24
            sheet.text(MARGIN, sheet.y, f"{len(rows) - MOST} more are not drawn", "quiet")


def _head(sheet: Sheet, words: str, most: float) -> None:
    sheet.y += 38
    sheet.text(MARGIN, sheet.y, words, "head")
    sheet.y += 20
    for tick in axes.amounts(most):
        x = _LEFT + (_RIGHT - _LEFT) * tick / most
        sheet.text(x, sheet.y, axes.short(tick), "quiet mid")
        sheet.line(x, sheet.y + 3, x, sheet.y + 8, "grid")
