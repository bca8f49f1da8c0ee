"""What-if as a picture: quota used over time, then and what-if, and how long groups waited.

Invariant: what is left out for want of room is said in the picture.
"""

from datetime import datetime

from gatelog.pictures import axes
from gatelog.pictures.svg import MARGIN, WIDTH, Sheet, shortened
from gatelog.readmodel.timeline import duration
from gatelog.whatif.tallying import Key, Tally

MOST = 12
"""Quotas, and queues, that are drawn."""
_LEFT, _RIGHT = 70, WIDTH - MARGIN
_HIGH = 84
_BARS = 250
"""Where bars begin."""


def draw(title: str, then: Tally, other: Tally | None, names: tuple[str, str]) -> Sheet:
    """Return the picture of one play, or of two: `names` are theirs."""
    tallies = [each for each in (then, other) if each is not None]
    sheet = Sheet(title, _about(tallies, names))
    legend = [
        ("then", f"used {names[0]}"),
        ("limit", "nominal quota (unused: idle)"),
    ]
    if other is not None:
        legend.insert(1, ("line", f"used {names[1]}"))
        legend.append(("limit other", f"nominal quota {names[1]}, where it differs"))
    sheet.legend(legend)
    begin = min((each.begin for each in tallies if each.begin is not None), default=None)
    end = max((each.end for each in tallies if each.end is not None), default=None)
    if begin is not None and end is not None and end > begin:
        _courses(sheet, tallies, begin, end)
    _waits(sheet, tallies, names)
    return sheet


def _about(tallies: list[Tally], names: tuple[str, str]) -> str:
    said = []
    for name, tally in zip(names, tallies, strict=False):
        for key, quota in sorted(tally.quota.items())[:MOST]:
            share = f"{100 * quota.used / quota.nominal:.0f} %" if quota.nominal else "no quota"
            said.append(f"{name}, {key.queue} used {share} of its {key.resource} ({key.flavor})")
        for queue in _queues([tally])[:MOST]:
            spread = tally.spread(k for k in tally.waits if k.queue == queue)
            said.append(
                f"{name}, {spread.count} groups of {queue} waited {duration(spread.p50_s)} "
                f"(median), nine in ten at most {duration(spread.p90_s)}"
            )
    return "; ".join(said) + "."


def _courses(sheet: Sheet, tallies: list[Tally], begin: datetime, end: datetime) -> None:
    whole = (end - begin).total_seconds()
    most = {
        key: max(each.quota[key].nominal for each in tallies if key in each.quota)
        for key in {key for each in tallies for key in each.quota}
    }
    keys = sorted(key for key in most if most[key])
    shown = sorted(sorted(keys, key=lambda key: -_used(tallies, key))[:MOST])
    for key in shown:
        _course(sheet, key, tallies, begin, end, whole)
    if len(keys) > len(shown):
        sheet.y += 22
        sheet.text(
            MARGIN,
            sheet.y,
            f"{len(keys) - len(shown)} quotas that were used less are not drawn",
            "quiet",
        )


def _used(tallies: list[Tally], key: Key) -> float:
    return max(
        each.quota[key].used / (each.quota[key].nominal or 1)
        for each in tallies
        if key in each.quota
    )


def _course(
    sheet: Sheet,
    key: Key,
    tallies: list[Tally],
    begin: datetime,
    end: datetime,
    whole: float,
) -> None:
    scale = 1000.0 if key.resource == "cpu" else 1.0
    lines, limits = [], []
    for tally in tallies:
        assert tally.courses is not None
        assert tally.begin is not None
        late = (tally.begin - begin).total_seconds()
        steps = tally.courses.means((key, "used"), whole - late)
        lines.append([(late + a, late + b, v / scale) for a, b, v in steps])
        steps = tally.courses.means((key, "nominal"), (_end(tally) - tally.begin).total_seconds())
        limits.append([(late + a, late + b, v / scale) for a, b, v in steps])
    top = max(v for steps in (*lines, *limits) for _, _, v in steps) or 1.0
    sheet.y += 34
    unit = "cores" if key.resource == "cpu" else key.resource
    sheet.text(MARGIN, sheet.y, f"{key.queue}: {unit} of {key.flavor}", "head")
    lower = sheet.y + 12 + _HIGH

    def x(seconds: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * seconds / whole

    def y(amount: float) -> float:
        return lower - _HIGH * amount / top

    for tick in axes.amounts(top):
        sheet.line(_LEFT, y(tick), _RIGHT, y(tick), "grid")
        sheet.text(_LEFT - 8, y(tick) + 4, axes.short(tick), "quiet end")
    for index, steps in enumerate(lines):
        points = [(x(at), y(v)) for a, b, v in steps for at in (a, b)]
        if index == 0:
            sheet.path([(x(steps[0][0]), lower), *points, (x(steps[-1][1]), lower)], "then")
        else:
            sheet.path(points, "line")
    kinds = [("limit", limits[0])]
    if {round(v, 6) for _, _, v in limits[0]} != {round(v, 6) for _, _, v in limits[-1]}:
        kinds.append(("limit other", limits[-1]))
    for kind, steps in kinds:
        sheet.path([(x(at), y(v)) for a, b, v in steps for at in (a, b)], kind)
    for at, words in axes.times(begin, end):
        sheet.line(x(at), lower, x(at), lower + 4, "grid")
        sheet.text(x(at), lower + 17, words, "quiet mid")
    sheet.y = lower + 20


def _end(tally: Tally) -> datetime:
    assert tally.begin is not None
    return tally.end or tally.begin


def _queues(tallies: list[Tally]) -> list[str]:
    return sorted({kind.queue for each in tallies for kind in each.waits})


def _waits(sheet: Sheet, tallies: list[Tally], names: tuple[str, str]) -> None:
    queues = _queues(tallies)
    if not queues:
        return
    sheet.y += 38
    sheet.text(MARGIN, sheet.y, "How long groups waited", "head")
    sheet.text(
        _RIGHT, sheet.y, "bar: nine in ten waited at most so long; mark: median", "quiet end"
    )
    found = {
        (queue, at): tally.spread(k for k in tally.waits if k.queue == queue)
        for queue in queues[:MOST]
        for at, tally in enumerate(tallies)
    }
    most = max(spread.p90_s for spread in found.values()) or 1.0
    room = _RIGHT - _BARS - 310
    for queue in queues[:MOST]:
        sheet.y += 10
        for at, name in enumerate(names[: len(tallies)]):
            spread = found[queue, at]
            sheet.y += 19
            if at == 0:
                sheet.text(MARGIN, sheet.y, shortened(queue, 18))
            sheet.text(_BARS - 8, sheet.y, name, "quiet end")
            sheet.box(_BARS, sheet.y - 11, room * spread.p90_s / most, 13, "now" if at else "then")
            median = _BARS + room * min(1.0, spread.p50_s / most)
            sheet.line(median, sheet.y - 13, median, sheet.y + 4, "mark")
            said = f"{duration(spread.p50_s)} / {duration(spread.p90_s)}, {spread.count:,} groups"
            still = sum(len(w) for kind, w in tallies[at].waiting.items() if kind.queue == queue)
            if still:
                said += f", {still:,} wait still"
            sheet.text(_BARS + room * spread.p90_s / most + 8, sheet.y, said, "quiet")
    if len(queues) > MOST:
        sheet.y += 22
        sheet.text(MARGIN, sheet.y, f"{len(queues) - MOST} more queues are not drawn", "quiet")
