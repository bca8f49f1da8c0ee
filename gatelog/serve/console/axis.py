"""Axes: positions of times and amounts, round ticks with labels, and room for words.

Theory. A picture is as wide as its place while letters keep their size, so positions are per cent
of the plot's width. Room for words is worked out for the narrowest plot and for a wide plot: words
that only fit the wide plot bear the class `wide`, which narrow places hide. Letters count as in a
wide font, so that any other font leaves room.

Invariant: ticks are round, in the viewer's zone; labels that are shown together do not overlap and
stay inside the picture.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from math import ceil, floor, log10

from msgspec import Struct

from gatelog.serve.console.svg import Html, h
from gatelog.serve.words import is_bytes

NARROW, WIDE = 240, 520
"""Width of the plot on a phone, and from which on it is wide, in pixels."""
GUTTER, WIDE_GUTTER, MARGIN = 104, 176, 14
"""Room for words to the left of the plot, narrow and wide, and to its right, in pixels."""
LETTER, _GAP, _LINE = 12, 10, 16
"""Size of letters, room between labels, and height of a line of labels, in pixels."""
_THIN, _FAT = frozenset("iljI.,:;'|! ()[]-/"), frozenset("mwMW@%…→&")
_DAY = 86400.0
_STEPS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, _DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY),
)
"""Round steps of time, in seconds."""
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_WIDEST = datetime(2026, 11, 28, 22, 48, 8, tzinfo=UTC)
_SHORTEST = timedelta(seconds=1)
_SHORT_S, _LONG_S = 90, 20 * 3600
"""Axes shorter than `_SHORT_S` show tenths of seconds, longer than `_LONG_S` days."""


def width(text: str) -> float:
    """Return how wide a text is at most, in pixels."""
    each = (
        0.42 if c in _THIN else 1.02 if c in _FAT else 0.76 if c.isupper() else 0.66 for c in text
    )
    return LETTER * sum(each)


def fitting(text: str, room: float) -> str:
    """Return a text, or as much of its end as has room: names differ at their end."""
    if width(text) <= room:
        return text
    while text and width(f"…{text}") > room:
        text = text[1:]
    return f"…{text}"


class Label(Struct, frozen=True):
    """Words at a position in per cent, `dx` pixels off; `wide`: for wide plots alone."""

    x: float
    words: str
    anchor: str = "middle"
    dx: int = 0
    wide: bool = False

    def box(self, plot: float) -> tuple[float, float]:
        """Return from where to where it reaches in a plot so wide, in pixels."""
        long, at = width(self.words), plot * self.x / 100 + self.dx
        left = at - {"start": 0.0, "middle": long / 2, "end": long}[self.anchor]
        return left, left + long


def placed(labels: Sequence[Label], gap: float = _GAP) -> list[str | None]:
    """Return the class of each label that has room, None for the others; the first go first."""
    found: list[str | None] = [None] * len(labels)
    for name, plot, gutter in (("", NARROW, GUTTER), ("wide", WIDE, WIDE_GUTTER)):
        for number, label in enumerate(labels):
            left, right = label.box(plot)
            inside = left >= -gutter and right <= plot + MARGIN
            if found[number] is not None or not inside or (label.wide and not name):
                continue
            others = [labels[n] for n, one in enumerate(found) if one is not None]
            if all(_apart(label, one, plot, gap) for one in others):
                found[number] = name
    return found


def _apart(one: Label, other: Label, plot: float, gap: float) -> bool:
    """Tell whether two labels have room in a plot of width `plot`, and so in every wider plot."""
    (left, right), (begin, end) = one.box(plot), other.box(plot)
    return (right + gap <= begin and one.x <= other.x) or (end + gap <= left and other.x <= one.x)


def beside(words: str, y: float, title: str = "") -> Html:
    """Return words in the gutter: their end where it is narrow, and more where it is wide."""
    long, short = fitting(words, WIDE_GUTTER - _GAP), fitting(words, GUTTER - _GAP)
    tail = short.removeprefix("…")
    head = long.removesuffix(tail)
    more = [h("tspan", head, class_="wide"), h("tspan", "…", class_="narrow")] if head else None
    named = h("title", title) if title else None
    return h("text", named, more, tail, x=-8, y=y, text_anchor="end")


class Tick(Struct, frozen=True):
    """A round time, with its words; `wide`: too fine for a narrow plot."""

    at: datetime
    words: str
    wide: bool


class Time:
    """An axis of time, in a zone; `moment`, which is now unless `past`, is marked within it."""

    def __init__(
        self,
        begin: datetime,
        end: datetime,
        moment: datetime | None = None,
        *,
        past: bool = False,
        zone: tzinfo = UTC,
    ) -> None:
        self.begin, self.end = begin, max(end, begin + _SHORTEST)
        self.zone, self.moment, self.called = zone, moment, "then" if past else "now"
        self.seconds = (self.end - self.begin).total_seconds()

    def x(self, at: datetime) -> float:
        """Return the position of a time in per cent, within the plot."""
        part = (at - self.begin).total_seconds() / self.seconds
        return round(min(max(part, 0.0), 1.0) * 100, 3)

    def said(self, at: datetime) -> str:
        """Return a time as the values of this axis say it."""
        here = at.astimezone(self.zone)
        day = f"{here:%b} {here.day} " if self.seconds > _LONG_S else ""
        fine = f":{here.second:02}.{here.microsecond // 100_000}"
        seconds = fine if self.seconds < _SHORT_S else f":{here:%S}" if self.seconds < 7200 else ""
        return f"{day}{here:%H:%M}{seconds}"

    def ticks(self) -> list[Tick]:
        """Return round times in order; ticks too fine for a narrow plot are `wide`."""
        fine = self._step(WIDE, _STEPS)
        coarse = self._step(NARROW, [one for one in _STEPS if _divides(fine, one)])
        local = self.begin.astimezone(self.zone).replace(tzinfo=UTC)
        number = ceil(round((local - _MONDAY).total_seconds() / fine, 6))
        found: list[Tick] = []
        while (at := (here := _after(number, fine)).replace(tzinfo=self.zone)) <= self.end:
            # A local time that a change of the clock leaves out gets no tick.
            if at.astimezone(UTC).astimezone(self.zone).replace(tzinfo=UTC) == here:
                whole = number * fine / coarse
                wide = abs(whole - round(whole)) > 1e-6
                found.append(Tick(at, _tick_words(here, fine), wide))
            number += 1
        return found

    def _step(self, plot: float, steps: Iterable[float]) -> float:
        for step in steps:
            room = width(_tick_words(_WIDEST, step)) + 2 * _GAP
            if self.seconds / step * room <= plot:
                return step
        return _STEPS[-1]

    def drawn(self, height: float) -> Html:
        """Return lines at round times, and their words below; the gutter says day and zone."""
        labels = [Label(self.x(one.at), one.words, wide=one.wide) for one in self.ticks()]
        first = self.begin.astimezone(self.zone)
        # The day reaches to the right end of the gutter, and no label may reach it.
        day = Label(0, f"{first:%b} {first.day} {first:%Z}", "end", -8)
        return _below([day, *labels], height, [day, *sorted(labels, key=lambda one: one.wide)])


def _below(labels: Sequence[Label], height: float, order: Sequence[Label]) -> Html:
    """Return words below a plot, as far as in this order they have room, and lines above them."""
    classes = dict(zip(order, placed(order), strict=True))
    drawn = []
    for label in labels:
        x = f"{label.x}%"
        if not label.dx:
            line = "rule wide" if label.wide else "rule"
            drawn.append(h("line", x1=x, x2=x, y1=_LINE, y2=height, class_=line))
        if (name := classes[label]) is not None:
            place = {"x": x, "dx": label.dx or None, "y": height + _LINE}
            quiet = f"quiet {name}".strip()
            drawn.append(h("text", label.words, **place, text_anchor=label.anchor, class_=quiet))
    return h("g", drawn)


def _divides(step: float, other: float) -> bool:
    return other >= step and abs(other / step - round(other / step)) < 1e-6


def _after(number: int, step: float) -> datetime:
    return _MONDAY + timedelta(microseconds=round(number * step * 1e6))


def _tick_words(here: datetime, step: float) -> str:
    if step >= _DAY or here.time() == datetime.min.time():
        return f"{here:%b} {here.day}"
    if step >= 60:
        return f"{here:%H:%M}"
    tenths = f"{here.microsecond / 1e6:.2f}".rstrip("0")[1:].rstrip(".")
    return f"{here:%H:%M:%S}" + (tenths if step < 1 else "")


class Amounts:
    """An axis of amounts from zero up to `most`, with ticks at round amounts."""

    def __init__(self, resource: str, most: float, unit: str = "", lines: int = 4) -> None:
        self.of, self.sign = _scale(resource, most)
        self.unit = unit or resource
        top = max(most / self.of, 1e-9)
        rough = 10.0 ** floor(log10(top / lines))
        self._step = next(s * rough for s in (1, 2, 5, 10) if s * rough * lines >= top * 0.999999)
        if not unit and self.of == 1:
            self._step = max(1.0, self._step)  # there is no half pod
        self._count = max(1, floor(round(top / self._step, 6)))
        self.top = max(top, self._step) * self.of

    def part(self, amount: float) -> float:
        """Return which part of the axis an amount is, 0 to 1."""
        return min(max(amount / self.top, 0.0), 1.0)

    def ticks(self) -> list[tuple[float, str]]:
        """Return round amounts from zero on with their words; the last bears the unit."""
        places = max(0, -floor(log10(self._step) + 1e-9))
        found = []
        for number in range(self._count + 1):
            words = f"{number * self._step:,.{places}f}{self.sign}" if number else "0"
            found.append((number * self._step * self.of, words))
        return found

    def upright(self, top: float, bottom: float) -> Html:
        """Return lines across the plot, from its foot to its top, and their words beside it."""
        drawn, ticks = [], self.ticks()
        for amount, words in ticks:
            y = round(bottom - self.part(amount) * (bottom - top), 1)
            last = words == ticks[-1][1] and width(f"{words} {self.unit}") <= GUTTER - _GAP
            drawn.append(h("line", x1=0, x2="100%", y1=y, y2=y, class_="rule"))
            said = f"{words} {self.unit}" if last else words
            drawn.append(h("text", said, x=-8, y=y + 4, text_anchor="end", class_="quiet"))
        return h("g", drawn)

    def along(self, height: float) -> Html:
        """Return lines down the plot, and their words below it."""
        ticks = self.ticks()
        labels = [Label(round(100 * self.part(amount), 3), words) for amount, words in ticks]
        unit = Label(0, fitting(self.unit, GUTTER - _GAP), "end", -8)
        order = [labels[-1], unit, *labels[:-1]]
        return _below([unit, *labels], height, order)


def _scale(resource: str, most: float) -> tuple[float, str]:
    """Return the divisor of amounts in labels, and its unit prefix."""
    if is_bytes(resource):
        power = min(6, int(log10(max(most, 1)) / log10(1024)))
        return 1024.0**power, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")[power]
    base = 1000.0 if resource == "cpu" else 1.0
    if resource == "cpu" and most < base:
        return 1.0, "m"
    power = max(0, min(6, int(log10(max(most / base, 1)) / 3)))
    # Amounts up to a million are written without a prefix for thousands.
    return (
        (base * 1000.0**power, ("", "", "M", "G", "T", "P", "E")[power])
        if power > 1
        else (base, "")
    )
