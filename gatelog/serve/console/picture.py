"""Pictures: a group's timeline, and what a queue held over time, as SVG.

Theory. A group is drawn over time: on top what it waited for, below its pods. Few pods have a lane
each; many become one area per phase, whose height is how many pods were in it, so that a group of
10,000 costs what one of 60 does. What is drawn is also said in words, for those who do not see it.

Invariant: the number of elements is bounded whatever the group's size; nothing is drawn by style,
only by class and position, so that no page needs inline styles.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gatelog.readmodel.cohorts import Pool
from gatelog.readmodel.quota import QuotaRow, Series
from gatelog.readmodel.rows import WaitRow
from gatelog.readmodel.timeline import duration
from gatelog.serve.console.html import Html, h
from gatelog.serve.words import amount, quota
from podgroup.model.quantities import MAX_INT64

WIDTH, LEFT, RIGHT = 1000, 180, 12
LANES = 60
"""Pods that have a lane of their own; more share areas."""
BUCKETS = 160
PHASES = ("gated", "starting", "running", "succeeded", "failed", "replaced")
_LANE, _BAND, _AREA = 16, 26, 220
_MOST_BANDS = 200
_BAR, _NUMBERS = 30, 260
"""Height of a queue's bar, and room for its numbers."""
_SPENT = {"running": "running", "failed": "wasted", "starting": "held"}
_QUOTA = {
    "held": "held of its own quota",
    "borrowed": "borrowed from its cohort",
    "lent": "lent to its cohort",
}
_SHORTEST, _NONE = timedelta(seconds=1), timedelta(0)
_FINE_S = 60.0
"""Stories shorter than this show fractions of seconds."""


class PodRow(Struct, frozen=True, gc=False):
    """A pod of a group, as its picture needs it."""

    name: str
    role: str
    phase: str
    node: str
    fate: str
    exit_reason: str
    created_at: datetime
    ungated_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    gone_at: datetime | None
    seen_at: datetime | None = None

    @property
    def born_at(self) -> datetime:
        """When it came to be: creation counts whole seconds, and the log saw it within that one."""
        seen = self.seen_at
        within = seen is not None and _NONE <= seen - self.created_at < _SHORTEST
        return seen if seen is not None and within else self.created_at

    def as_of(self, moment: datetime) -> "PodRow":
        """Return it as it was at a moment: what came later had not come."""

        def by_then(at: datetime | None) -> datetime | None:
            return at if at is not None and at <= moment else None

        over, ran = by_then(self.ended_at), by_then(self.started_at)
        return replace(
            self,
            phase=self.phase if over else "Running" if ran else "Pending",
            node=self.node if by_then(self.ungated_at) else "",
            fate=self.fate if over or by_then(self.gone_at) else "",
            exit_reason=self.exit_reason if over else "",
            ungated_at=by_then(self.ungated_at),
            started_at=ran,
            ended_at=over,
            gone_at=by_then(self.gone_at),
        )


class Span(Struct, frozen=True):
    """A phase of a pod from one time to another."""

    phase: str
    begin: datetime
    end: datetime


def spans(pod: PodRow, until: datetime) -> list[Span]:
    """Return the phases of a pod up to a time, in order; they do not overlap."""
    over = min(pod.gone_at or until, until)
    failed = bool(pod.exit_reason) or pod.phase == "Failed"
    last = "failed" if failed else "succeeded"
    if pod.fate in ("replaced", "lost", "excess"):
        last = "replaced"
    steps = [
        ("gated", pod.born_at),
        ("starting", pod.ungated_at),
        ("running", pod.started_at),
        (last, pod.ended_at),
    ]
    known: list[tuple[str, datetime]] = []
    for phase, at in steps:
        if at is not None:
            # Clocks differ (a kubelet's counts whole seconds): nothing begins before the last.
            known.append((phase, max(at, known[-1][1]) if known else at))
    known = [(phase, at) for phase, at in known if at < over]
    found = []
    for number, (phase, at) in enumerate(known):
        end = known[number + 1][1] if number + 1 < len(known) else over
        if end > at:
            found.append(Span(phase, at, end))
    return found


class Scale:
    """From times to positions."""

    def __init__(self, begin: datetime, end: datetime) -> None:
        self.begin = begin
        self.end = max(end, begin + _SHORTEST)
        self._seconds = (self.end - self.begin).total_seconds()

    def x(self, at: datetime) -> float:
        """Return the position of a time, within the drawing."""
        part = (at - self.begin).total_seconds() / self._seconds
        return round(LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self, height: int) -> list[Html]:
        """Return lines and times along the drawing."""
        found = []
        for number in range(6):
            at = self.begin + timedelta(seconds=self._seconds * number / 5)
            x = self.x(at)
            shown = f"{at:%H:%M:%S}" if self._seconds < 86400 else f"{at:%m-%d %H:%M}"
            if self._seconds < _FINE_S:  # marks are less than a dozen seconds apart
                shown += f".{at.microsecond // 10_000:02}"
            anchor = "start" if number == 0 else ("end" if number == 5 else "middle")
            found.append(h("line", x1=x, x2=x, y1=0, y2=height, class_="rule"))
            found.append(h("text", shown, x=x, y=height + 14, text_anchor=anchor, class_="quiet"))
        return found


def timeline(
    title: str,
    pods: Sequence[PodRow],
    waits: Sequence[WaitRow],
    begin: datetime,
    end: datetime,
    marks: Sequence[tuple[datetime, str]] = (),
) -> Html:
    """Return the picture of a group from `begin` to `end`; `marks` are what ended admissions."""
    scale = Scale(begin, end)
    reasons = list(dict.fromkeys(w.reason for w in sorted(waits, key=lambda w: w.from_at)))[:8]
    parts: list[Html] = []
    y = 0
    for reason in reasons:
        parts.append(h("text", reason[:27], x=0, y=y + 17))
        for wait in [w for w in waits if w.reason == reason][:_MOST_BANDS]:
            parts.append(_band(scale, wait, y))
        y += _BAND
    y += 6
    if len(pods) <= LANES:
        for pod in pods:
            parts.append(_lane(scale, pod, y))
            y += _LANE
    else:
        parts.append(_areas(scale, pods, y))
        y += _AREA
    body = [h("g", scale.ticks(y)), *parts, [_mark(scale, at, words, y) for at, words in marks]]
    words = h("desc", described(pods, waits))
    return h("div", _framed(title, y + 20, words, body), legend())


def _framed(title: str, height: int, *drawn: Any, newest: bool = False) -> Html:
    """Return a drawing in its frame; `newest`: a phone shows its end first."""
    svg = h(
        "svg",
        h("title", title),
        drawn,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_label=title,
    )
    kind = "picture newest" if newest else "picture"
    return h("div", svg, class_=kind, tabindex="0", role="region", aria_label=title)


def described(pods: Sequence[PodRow], waits: Sequence[WaitRow]) -> str:
    """Return the picture in words."""
    failed = sum(1 for pod in pods if pod.exit_reason)
    reasons = ", ".join(dict.fromkeys(w.reason for w in waits))
    return (
        f"{len(pods)} pods, {failed} of them failed; waited for {reasons or 'nothing'}. "
        "The tables below tell the same."
    )


def _mark(scale: Scale, at: datetime, words: str, height: int) -> Html:
    """Return a line through all lanes, with its word at the foot."""
    x = scale.x(at)
    line = h("line", h("title", f"{words} at {at:%H:%M:%S}"), x1=x, x2=x, y1=0, y2=height)
    anchor = "end" if x > WIDTH - 120 else "start"
    text = h("text", f"↺ {words}", x=x, y=height - 4, text_anchor=anchor)
    return h("g", line, text, class_="mark")


def _band(scale: Scale, wait: WaitRow, y: int) -> Html:
    end = wait.to_at or scale.end
    x = scale.x(wait.from_at)
    took = duration((end - wait.from_at).total_seconds())
    width = max(round(scale.x(end) - x, 1), 1)
    return h(
        "rect",
        h("title", f"{wait.reason} for {took}: {wait.message}"),
        x=x,
        y=y + 2,
        width=width,
        height=_BAND - 4,
        rx=3,
        class_="band",
    )


def _lane(scale: Scale, pod: PodRow, y: int) -> Html:
    name = pod.name if len(pod.name) <= 20 else f"…{pod.name[-19:]}"
    bars = []
    for one in spans(pod, scale.end):
        x = scale.x(one.begin)
        took = duration((one.end - one.begin).total_seconds())
        bars.append(
            h(
                "rect",
                h("title", f"{pod.name} {one.phase} for {took} {pod.exit_reason}".strip()),
                x=x,
                y=y + 3,
                width=max(round(scale.x(one.end) - x, 1), 1),
                height=_LANE - 6,
                class_=one.phase,
            )
        )
    return h("g", h("text", name, x=0, y=y + 12), bars)


def _areas(scale: Scale, pods: Sequence[PodRow], y: int) -> Html:
    """Return one area per phase, stacked: how many pods were in it."""
    counts = counted(pods, scale.begin, scale.end)
    top = max((sum(column) for column in zip(*counts.values(), strict=True)), default=1) or 1
    step = (WIDTH - LEFT - RIGHT) / BUCKETS
    below = [0.0] * BUCKETS
    drawn = []
    for phase in PHASES:
        series = counts[phase]
        if not any(series):
            continue
        upper, lower = [], []
        for number, value in enumerate(series):
            x = LEFT + number * step
            bottom = below[number]
            below[number] = bottom + value / top * (_AREA - 10)
            high, low = y + _AREA - below[number], y + _AREA - bottom
            upper += [f"{x:.1f},{high:.1f}", f"{x + step:.1f},{high:.1f}"]
            lower += [f"{x:.1f},{low:.1f}", f"{x + step:.1f},{low:.1f}"]
        points = " ".join([*upper, *reversed(lower)])
        most = max(series)
        title = h("title", f"{phase}: up to {most} pods at once")
        drawn.append(h("polygon", title, points=points, class_=phase))
    label = h("text", f"{len(pods):,} pods", x=0, y=y + 20)
    return h("g", label, h("text", f"{top:,} at once", x=0, y=y + 38, class_="quiet"), drawn)


def counted(pods: Iterable[PodRow], begin: datetime, end: datetime) -> dict[str, list[int]]:
    """Return how many pods were in a phase, in each of `BUCKETS` equal parts of the time.

    A pod counts once in each part: for the phase that it was in when the part ended, or at last.
    """
    seconds = max((end - begin).total_seconds(), 1.0)
    change = {phase: [0] * (BUCKETS + 1) for phase in PHASES}

    def part(at: datetime) -> int:
        return min(max(int((at - begin).total_seconds() / seconds * BUCKETS), 0), BUCKETS)

    for pod in pods:
        phases = spans(pod, end)
        for number, one in enumerate(phases):
            first, last = part(one.begin), part(one.end)
            if number + 1 == len(phases):
                first = min(first, BUCKETS - 1)
                last = max(last, first + 1)
            change[one.phase][first] += 1
            change[one.phase][last] -= 1
    found: dict[str, list[int]] = {}
    for phase, steps in change.items():
        now, series = 0, []
        for step in steps[:BUCKETS]:
            now += step
            series.append(now)
        found[phase] = series
    return found


def legend() -> Html:
    """Return what the colours mean."""
    return _legend({"band": "waits, by reason", **{name: name for name in PHASES}})


def _legend(meanings: Mapping[str, str], *more: Html) -> Html:
    boxes = [h("li", _box(name), words) for name, words in meanings.items()]
    return h("ul", boxes, *more, class_="legend")


def _box(name: str) -> Html:
    box = h("rect", width=10, height=10, class_=name)
    return h("svg", box, viewBox="0 0 10 10", aria_hidden="true")


def bar(used: float, nominal: float, words: str) -> Html:
    """Return how much of a quota is held."""
    whole = max(used, nominal, 1e-9)
    within, beyond = min(used, nominal) / whole * 100, max(used - nominal, 0) / whole * 100
    return h(
        "svg",
        h("title", words),
        h("rect", width=100, height=10, class_="all"),
        h("rect", width=round(within, 2), height=10, class_="used"),
        h("rect", x=round(within, 2), width=round(beyond, 2), height=10, class_="over")
        if beyond
        else None,
        class_="bar",
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=words,
    )


def _drawn(quotas: Sequence[int], *others: Sequence[int]) -> list[int]:
    """Return quotas as they are drawn: one without limit a little above all that has a limit."""
    finite = [one for values in (quotas, *others) for one in values if one < MAX_INT64]
    above = max([*finite, 1]) * 5 // 4 + 1
    return [one if one < MAX_INT64 else above for one in quotas]


def usage(title: str, series: Series, begin: datetime, end: datetime) -> Html:
    """Return what was held, borrowed and lent over time as areas, with the quota as a line."""
    scale, height = Scale(begin, end), 120
    nominal, held = _drawn(series.nominal, series.held), _drawn(series.held, series.nominal)
    top = max([*nominal, *held, 1e-9])
    count = len(held)
    xs = [LEFT + (WIDTH - LEFT - RIGHT) * number / count for number in range(count + 1)]

    def edge(values: Iterable[float]) -> list[str]:
        ys = [f"{height - value / top * (height - 8):.1f}" for value in values]
        return [f"{xs[i + more]:.1f},{y}" for i, y in enumerate(ys) for more in (0, 1)]

    def area(name: str, low: Sequence[float], high: Sequence[float]) -> Html | None:
        if not any(h > b for b, h in zip(low, high, strict=True)):
            return None
        points = " ".join([*edge(high), *reversed(edge(low))])
        return h("polygon", h("title", name), points=points, class_=name)

    own = [min(h, n) for h, n in zip(held, nominal, strict=True)]
    lent = [h + one for h, one in zip(own, _drawn(series.lent, held), strict=True)]
    words = f"{series.resource} ({series.flavor or 'no flavor'})"
    return _framed(
        title,
        height + 20,
        h("g", scale.ticks(height)),
        area("held", [0.0] * count, own),
        area(
            "borrowed",
            nominal,
            [max(p) for p in zip(nominal, held, strict=True)],
        ),
        area("lent", own, lent),
        h("polyline", points=" ".join(edge(nominal)), class_="quota"),
        h("text", words[:27], x=0, y=20),
        h(
            "text",
            f"quota {quota(series.resource, series.nominal[-1])}",
            x=0,
            y=38,
            class_="quiet",
        ),
        newest=True,
    )


def spent(
    title: str,
    bars: Sequence[tuple[datetime, dict[str, float]]],
    since: datetime,
    until: datetime,
    step: timedelta,
) -> Html:
    """Return what was taken in each step as stacked bars; parts are named as their classes."""
    scale, height = Scale(since, until), 120
    top = max([sum(parts.values()) for _, parts in bars] + [1e-9])
    drawn = []
    for begin, parts in bars:
        x, y = scale.x(begin), float(height)
        width = max(scale.x(begin + step) - x - 1, 1)
        for name, value in parts.items():
            tall = value / top * (height - 8)
            if tall > 0:
                y -= tall
                said = h("title", f"{begin:%Y-%m-%d %H:%M} UTC: {_SPENT[name]} {value:,.2f}")
                box = {"width": round(width, 1), "height": round(tall, 1), "class_": name}
                drawn.append(h("rect", said, x=x, y=round(y, 1), **box))
    return _framed(
        title,
        height + 20,
        h("g", scale.ticks(height)),
        drawn,
        h("text", title.partition(",")[0][:27], x=0, y=20),
        h("text", f"up to {top:,.2f}", x=0, y=38, class_="quiet"),
        newest=True,
    )


def spent_legend() -> Html:
    """Return what the colours of `spent` mean."""
    return _legend(_SPENT)


def pool(title: str, found: Pool) -> Html:
    """Return a cohort as bars on one scale: held of one's own, lent, idle, and borrowed beyond it.

    What each bar says is beside it in numbers, so it reads without colour.
    """
    counts = [(one.held, one.borrowed, one.lent) for one in found.members]
    nominals = _drawn([one.nominal for one in found.members], *counts)
    borrowed = [min(one.borrowed, max(nominals)) for one in found.members]
    top = max([n + b for n, b in zip(nominals, borrowed, strict=True)] + [1])
    scale = (WIDTH - LEFT - _NUMBERS) / top
    parts: list[Html] = []
    for number, (one, nominal) in enumerate(zip(found.members, nominals, strict=True)):
        y = number * _BAR
        own = one.held - one.borrowed if one.kind == "ClusterQueue" else 0
        apart = one.unadmitted if one.kind == "ClusterQueue" else 0
        pieces = (
            ("held", own),
            ("lent", one.lent),
            ("idle", max(0, nominal - own - apart - one.lent)),
            ("borrowed", one.borrowed if one.kind == "ClusterQueue" else 0),
        )
        x = float(LEFT)
        for name, value in pieces:
            if value > 0:
                words = h("title", f"{one.name}: {name} {amount(found.resource, value)}")
                box = {"x": round(x, 1), "y": y + 4, "height": _BAR - 8, "class_": name}
                wide = min(value, top) * scale
                parts.append(h("rect", words, width=round(wide, 1), **box))
                x += wide
        edge = round(LEFT + nominal * scale, 1)
        parts.append(h("line", x1=edge, x2=edge, y1=y + 1, y2=y + _BAR - 1, class_="quota"))
        parts.append(h("text", one.name[:27], x=0, y=y + 19))
        said = _pool_words(found.resource, own, one)
        parts.append(h("text", said, x=round(x + 8, 1), y=y + 19, class_="quiet"))
    return _framed(title, len(found.members) * _BAR + 4, parts)


def _pool_words(resource: str, own: int, one: QuotaRow) -> str:
    words = [f"{amount(resource, own)} of {quota(resource, one.nominal)}"]
    words += [f"+ {amount(resource, one.borrowed)} borrowed"] if one.borrowed else []
    words += [f"{amount(resource, one.lent)} lent"] if one.lent else []
    return ", ".join(words)


def pool_legend() -> Html:
    """Return what the colours of `pool` mean."""
    return _legend({**_QUOTA, "idle": "idle"}, _quota_line())


def usage_legend() -> Html:
    """Return what the colours of `usage` mean."""
    return _legend(_QUOTA, _quota_line())


def _quota_line() -> Html:
    line = h("line", x1=0, x2=10, y1=5, y2=5, class_="quota")
    return h("li", h("svg", line, viewBox="0 0 10 10", aria_hidden="true"), "its quota")
