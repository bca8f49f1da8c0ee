"""Pictures: a group's timeline, a queue's and a cohort's quota, and usage, as SVG.

Theory. Every picture is drawn on the axes of `axis`. A group is drawn over time: on top its reasons
to wait, below its pods. Few pods have a lane each; many become one area per phase, whose height is
the number of pods in the phase, so that a group of 10,000 pods costs no more than a group of 60.
Shapes with a value have a `title`, which a pointer shows and charts.js reads out at the key's
position.

Invariant: the number of elements is bounded; elements are drawn by class and position alone, so
that no page needs inline styles.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from gatelog.readmodel.cohorts import Pool
from gatelog.readmodel.quota import QuotaRow, Series
from gatelog.readmodel.rows import WaitRow
from gatelog.readmodel.timeline import duration
from gatelog.serve.console.axis import NARROW, Amounts, Label, Time, beside, fitting, placed
from gatelog.serve.console.phases import BUCKETS, PHASES, PodRow, counted, spans
from gatelog.serve.console.svg import Html, h, join
from gatelog.serve.words import amount, natural, quota, rfc
from podgroup.model.quantities import MAX_INT64

LANES = 60
"""Pods that have a lane of their own; more share areas."""
_ENDED = ("succeeded", "failed", "replaced")
_TOP, _FOOT = 18, 20
"""Room above a plot for marks, and below it for the words of its axis, in pixels."""
_LANE, _BAND, _AREA, _BAR = 16, 30, 200, 34
_MOST_BANDS, _MOST_REASONS = 200, 8
_APART = 100 * 14 / NARROW
"""Marks nearer than this become one mark, in per cent."""
_SPENT = {"running": "running", "failed": "wasted", "starting": "held"}
_QUOTA = {
    "held": "held of its own quota",
    "borrowed": "borrowed from its cohort",
    "lent": "lent to its cohort",
}
_SIGNS = {"changed": "◆", "evicted": "↺"}
"""Signs of marks by kind; merged marks have the first sign in this order."""


class Mark(Struct, frozen=True):
    """What happened at a time: in words, as a link, and its kind, an entry of `_SIGNS`; the
    namespace that it is of, "" for any.
    """

    at: datetime
    words: str
    link: str = ""
    kind: str = "evicted"
    namespace: str = ""


def timeline(
    title: str,
    pods: Sequence[PodRow],
    waits: Sequence[WaitRow],
    axis: Time,
    marks: Sequence[Mark] = (),
) -> Html:
    """Return the picture of a group; `marks` are what ended admissions, and changes of quota."""
    waits = [w for w in waits if (w.to_at or axis.end) > axis.begin and w.from_at < axis.end]
    reasons = list(dict.fromkeys(w.reason for w in sorted(waits, key=lambda w: w.from_at)))
    parts: list[Html] = []
    y = _TOP
    for reason in reasons[:_MOST_REASONS]:
        bands = [_band(axis, w, y) for w in waits if w.reason == reason][:_MOST_BANDS]
        parts.append(h("g", h("text", fitting(reason, NARROW), x=2, y=y + 11), bands))
        y += _BAND
    y += 4
    if len(pods) <= LANES:
        for pod in sorted(pods, key=lambda pod: natural(pod.name)):
            parts.append(_lane(axis, pod, y))
            y += _LANE
    else:
        parts.append(_areas(axis, pods, y))
        y += _AREA
    meanings = {"band": "waits, by reason", **{name: name for name in PHASES}}
    more = [_sign_meaning(kind) for kind in dict.fromkeys(mark.kind for mark in marks)]
    body = [h("desc", described(pods, waits)), axis.drawn(y), parts, _marks(axis, marks, y)]
    return _figure(title, "", y, body, _legend(meanings, *more), axis)


def _figure(
    title: str, caption: str, height: int, body: Any, legend: Html | None, axis: Time | None = None
) -> Html:
    """Return a drawing with its caption and its legend; a drag over an axis of time zooms."""
    svg = h("svg", body, width="100%", height=height + _FOOT, role="group", aria_label=title)
    ends = (axis.begin, axis.end) if axis else ()
    times = dict(zip(("data_since", "data_until"), map(_iso, ends), strict=False))
    parts = [h("figcaption", caption) if caption else None, svg, legend]
    named = {"class_": "chart", "tabindex": "0", "aria_label": title}
    return h("figure", parts, **named, **times)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def described(pods: Sequence[PodRow], waits: Sequence[WaitRow]) -> str:
    """Return the picture in words."""
    failed = sum(1 for pod in pods if pod.exit_reason)
    reasons = ", ".join(dict.fromkeys(w.reason for w in waits))
    return (
        f"{len(pods):,} pods, {failed:,} of them failed; waited for {reasons or 'nothing'}. "
        "The tables below tell the same."
    )


def _piece(axis: Time, begin: datetime, end: datetime, **attributes: Any) -> dict[str, Any]:
    """Return the attributes of a box from `begin` to `end`."""
    x = axis.x(begin)
    return {"x": f"{x}%", "width": f"{max(round(axis.x(end) - x, 3), 0.15)}%", **attributes}


def _marks(axis: Time, marks: Sequence[Mark], height: int) -> Html:
    """Return lines for marks, each with its sign on top; near marks become one."""
    together: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: (mark.at, mark.words)):
        if axis.begin <= mark.at <= axis.end:
            if together and axis.x(mark.at) - axis.x(together[-1][0].at) < _APART:
                together[-1].append(mark)
            else:
                together.append([mark])
    signs = [Label(axis.x(some[0].at), "↺") for some in together]
    words = [_word_beside(axis.x(some[0].at), _counted(some)) for some in together]
    moment = axis.moment or axis.end
    now = _word_beside(axis.x(moment), axis.called)
    *shown, name = placed([*signs, *words, now], gap=1)[len(signs) :]
    drawn = [_mark(axis, *each, height) for each in zip(together, words, shown, strict=True)]
    if axis.moment is not None and axis.begin <= moment <= axis.end:
        title = h("title", f"{axis.called}: {axis.said(moment)}")
        line = h("line", title, x1=f"{now.x}%", x2=f"{now.x}%", y1=0, y2=height)
        drawn.append(h("g", line, _word(now, name), class_="mark now"))
    return h("g", drawn)


def _word_beside(x: float, words: str) -> Label:
    right = x > 60
    return Label(x, words, "end" if right else "start", -8 if right else 8)


def _word(label: Label, name: str | None) -> Html | None:
    if name is None:
        return None
    place = {"x": f"{label.x}%", "dx": label.dx, "y": 11, "text_anchor": label.anchor}
    return h("text", label.words, **place, class_=name or None)


def _counted(some: Sequence[Mark]) -> str:
    """Return the words of merged marks."""
    kinds = dict.fromkeys(one.words for one in some)
    return some[0].words if len(kinds) == 1 == len(some) else f"{len(some)}×"


def _mark(axis: Time, some: Sequence[Mark], label: Label, name: str | None, height: int) -> Html:
    kind = min((one.kind for one in some), key=list(_SIGNS).index)
    each = "; ".join(f"{axis.said(one.at)} {one.words}" for one in some[:6])
    more = f"; and {len(some) - 6} more" if len(some) > 6 else ""
    x = f"{label.x}%"
    links = {one.link for one in some if one.link}
    link = links.pop() if len(links) == 1 else ""
    if links:  # several: the preemptions of that time
        link = f"/preemptions?since={rfc(some[0].at)}&until={rfc(some[-1].at + _SECOND)}"
        link += f"&namespace={some[0].namespace}" if some[0].namespace else ""
    drawn = [
        h("title", each + more),
        h("line", x1=x, x2=x, y1=14, y2=height),
        h("text", _SIGNS[kind], x=x, y=11, text_anchor="middle", class_="sign"),
        _word(label, name),
    ]
    if link:
        return h("a", drawn, href=link, class_=f"mark {kind}")  # its title is its name
    return h("g", drawn, class_=f"mark {kind}")


_SECOND = timedelta(seconds=1)


def _band(axis: Time, wait: WaitRow, y: int) -> Html:
    end = wait.to_at or axis.end
    took = duration((end - wait.from_at).total_seconds())
    words = f"{axis.said(wait.from_at)} {wait.reason} for {took}: {wait.message}"
    place = _piece(axis, wait.from_at, end, y=y + 14, height=_BAND - 18)
    return h("rect", h("title", words), **place, class_="band")


def _lane(axis: Time, pod: PodRow, y: int) -> Html:
    """Return the lane of a pod; phases after its end are thin lines."""
    bars = []
    for one in spans(pod, axis.end):
        if one.end <= axis.begin:
            continue
        took = duration((one.end - one.begin).total_seconds())
        words = f"{axis.said(one.begin)} {pod.name} {one.phase} for {took} {pod.exit_reason}"
        thin = one.phase in _ENDED
        place = {"y": y + (6 if thin else 2), "height": 4 if thin else _LANE - 4}
        box = _piece(axis, one.begin, one.end, **place)
        bars.append(h("rect", h("title", words.strip()), **box, class_=one.phase))
    return h("g", beside(pod.name, y + 12, pod.name), bars)


def _areas(axis: Time, pods: Sequence[PodRow], y: int) -> Html:
    """Return one area per phase, stacked: how many pods were in it."""
    counts = counted(pods, axis.begin, axis.end)
    columns = list(zip(*counts.values(), strict=True))
    pillar = Amounts("pods", max((sum(column) for column in columns), default=1) or 1)
    top, bottom = y + 6, y + _AREA
    below = [0.0] * BUCKETS
    drawn = []
    for phase, series in counts.items():
        if any(series):
            above = [low + value for low, value in zip(below, series, strict=True)]
            drawn.append(_area(phase, below, above, pillar))
            below = above
    step = timedelta(seconds=axis.seconds / BUCKETS)
    said = [
        ", ".join(f"{n:,} {phase}" for n, phase in zip(one, PHASES, strict=True) if n)
        for one in columns
    ]
    hits = _hits(axis, [one or "no pod" for one in said], step, top, bottom)
    return h("g", pillar.upright(top, bottom), _plot(drawn, BUCKETS, top, bottom), hits)


def _plot(drawn: Any, steps: int, top: int, bottom: int) -> Html:
    """Return a drawing of so many steps and a height of 1,000, stretched to its place."""
    place = {"y": top, "width": "100%", "height": bottom - top, "preserveAspectRatio": "none"}
    return h("svg", drawn, viewBox=f"0 0 {steps} 1000", aria_hidden="true", **place)


def _edge(values: Iterable[float], pillar: Amounts) -> list[str]:
    heights = [f"{1000 - 1000 * pillar.part(value):.0f}" for value in values]
    return [f"{n + more},{y}" for n, y in enumerate(heights) for more in (0, 1)]


def _area(name: str, low: Sequence[float], high: Sequence[float], pillar: Amounts) -> Html | None:
    if not any(h > b for b, h in zip(low, high, strict=True)):
        return None
    points = " ".join([*_edge(high, pillar), *reversed(_edge(low, pillar))])
    return h("polygon", points=points, class_=name)


def _hits(axis: Time, said: Sequence[str], step: timedelta, top: int, bottom: int) -> Html:
    """Return boxes for a pointer: for each run of steps with the same words, a box with a title.

    A busy day has a box for each step, so they are written in one go.
    """
    found, begin, wide = [], 0, 100 / max(len(said), 1)
    place = f'%" y="{top}" height="{bottom - top}" class="hit"><title>'
    for number in range(1, len(said) + 1):
        if number == len(said) or said[number] != said[begin]:
            words = join(f"{axis.said(axis.begin + begin * step)} {said[begin]}")
            box = f'x="{begin * wide:.3f}%" width="{(number - begin) * wide:.3f}'
            found.append(f"<rect {box}{place}{words}</title></rect>")
            begin = number
    return Html("".join(found))


def _legend(meanings: Mapping[str, str], *more: Html) -> Html:
    boxes = [h("li", _box(name), words) for name, words in meanings.items()]
    return h("ul", boxes, *more, class_="legend")


def _box(name: str) -> Html:
    box = h("rect", width=10, height=10, class_=name)
    return h("svg", box, viewBox="0 0 10 10", aria_hidden="true")


def _sign_meaning(kind: str) -> Html:
    words = {"evicted": "admission taken back", "changed": "quota changed"}[kind]
    return h("li", h("b", f"{_SIGNS[kind]} "), words)


def bar(used: float, nominal: float, words: str) -> Html:
    """Return how much of a quota is held; a line is where the quota ends."""
    whole = max(used, nominal, 1e-9)
    within, edge = (round(one / whole * 100, 2) for one in (min(used, nominal), nominal))
    beyond = [
        h("rect", x=edge, width=round(100 - edge, 2), height=10, class_="over"),
        h("line", x1=edge, x2=edge, y1=-2, y2=12, class_="quota"),
    ]
    held = h("rect", width=within, height=10, class_="used")
    drawn = [
        h("rect", width=100, height=10, class_="all"),
        held,
        beyond if used > nominal else None,
    ]
    frame = {"viewBox": "0 0 100 10", "preserveAspectRatio": "none", "role": "img"}
    return h("svg", h("title", words), drawn, class_="bar", aria_label=words, **frame)


def bar_legend() -> Html:
    """Return what the colours of `bar` mean."""
    return _legend({"used": "held of its own quota", "over": "beyond it"}, _quota_line())


def _drawn(quotas: Sequence[int], *others: Sequence[int]) -> list[int]:
    """Return quotas as they are drawn: one without limit a little above all that has a limit."""
    finite = [one for values in (quotas, *others) for one in values if one < MAX_INT64]
    above = max([*finite, 1]) * 5 // 4 + 1
    return [one if one < MAX_INT64 else above for one in quotas]


def usage(title: str, series: Series, axis: Time, marks: Sequence[Mark] = ()) -> Html:
    """Return quota held, borrowed and lent over time as areas, with the nominal quota as a line."""
    top, bottom = _TOP, _TOP + 120
    nominal, held = _drawn(series.nominal, series.held), _drawn(series.held, series.nominal)
    pillar = Amounts(series.resource, max([*nominal, *held, 1]))
    count = len(held)
    own = [min(h, n) for h, n in zip(held, nominal, strict=True)]
    lent = [h + one for h, one in zip(own, _drawn(series.lent, held), strict=True)]
    beyond = [max(p) for p in zip(nominal, held, strict=True)]
    line = h("polyline", points=" ".join(_edge(nominal, pillar)), class_="quota")
    drawn = [
        _area("held", [0.0] * count, own, pillar),
        _area("borrowed", nominal, beyond, pillar),
        _area("lent", own, lent, pillar),
        line,
    ]
    step = timedelta(seconds=axis.seconds / max(count, 1))
    said = [_stood(series, number) for number in range(count)]
    changed = [
        Mark(
            axis.begin + n * step,
            f"quota {_quota(series, n - 1)} → {_quota(series, n)}",
            "",
            "changed",
        )
        for n in range(1, count)
        if series.nominal[n] != series.nominal[n - 1]
    ]
    body = [
        axis.drawn(bottom),
        pillar.upright(top, bottom),
        _plot(drawn, count, top, bottom),
        _hits(axis, said, step, top, bottom),
        _marks(axis, [*marks, *changed], bottom),
    ]
    unit = f", in {pillar.sign}{'' if pillar.sign else pillar.unit}"
    caption = f"{series.resource} of {series.flavor or 'no flavor'}{unit}"
    return _figure(title, caption, bottom, body, None, axis)


def _quota(series: Series, number: int) -> str:
    return quota(series.resource, series.nominal[number])


def _stood(series: Series, number: int) -> str:
    """Say how much quota a queue held, borrowed and lent at a step."""
    said = [f"{amount(series.resource, series.held[number])} of {_quota(series, number)} held"]
    for name, values in (("borrowed", series.borrowed), ("lent", series.lent)):
        said += [f"{amount(series.resource, values[number])} {name}"] if values[number] else []
    return ", ".join(said)


def usage_legend() -> Html:
    """Return what the colours of `usage` mean."""
    return _legend(_QUOTA, _quota_line(), *map(_sign_meaning, _SIGNS))


def spent(
    caption: str,
    unit: str,
    bars: Sequence[tuple[datetime, dict[str, float]]],
    axis: Time,
    step: timedelta,
) -> Html:
    """Return usage in each step as stacked bars; parts are named as their classes."""
    top, bottom = _TOP, _TOP + 120
    pillar = Amounts("", max([sum(parts.values()) for _, parts in bars] + [1e-9]), unit)
    drawn = []
    for begin, parts in bars:
        x, wide = axis.x(begin), axis.x(begin + step) - axis.x(begin)
        box = {"x": f"{x + wide * 0.08:.3f}%", "width": f"{wide * 0.84:.3f}%"}
        until, y = f"{(begin + step).astimezone(axis.zone):%H:%M}", float(bottom)
        said = ", ".join(f"{_SPENT[name]} {value:,.2f}" for name, value in parts.items() if value)
        when = axis.said(begin) + (f"–{until}" if step < timedelta(days=1) else "")
        boxes = []
        for name, value in parts.items():
            if (tall := pillar.part(value) * (bottom - top)) > 0:
                y -= tall
                place = {"y": round(y, 1), "height": round(tall, 1)}
                boxes.append(h("rect", **box, **place, class_=name))
        words = h("title", f"{when} {said or 'nothing'} {unit}")
        hit = h("rect", words, **box, y=top, height=bottom - top, class_="hit")
        drawn.append(h("g", boxes, hit))
    body = [axis.drawn(bottom), pillar.upright(top, bottom), drawn, _marks(axis, (), bottom)]
    return _figure(caption, caption, bottom, body, None, axis)


def spent_legend() -> Html:
    """Return what the colours of `spent` mean."""
    return _legend(_SPENT)


def pool(title: str, found: Pool) -> Html:
    """Return a cohort as bars on one scale: own quota held, lent and idle, and borrowed quota.

    The numbers of each bar are written above the bar, so it reads without colour.
    """
    counts = [(one.held, one.borrowed, one.lent) for one in found.members]
    nominals = _drawn([one.nominal for one in found.members], *counts)
    borrowed = [min(one.borrowed, max(nominals)) for one in found.members]
    scale = Amounts(
        found.resource, max([n + b for n, b in zip(nominals, borrowed, strict=True)] + [1])
    )
    pairs = sorted(
        zip(found.members, nominals, strict=True),
        key=lambda pair: (pair[0].kind == "Cohort", natural(pair[0].name)),
    )
    parts = [_member(found.resource, *pair, scale, n * _BAR) for n, pair in enumerate(pairs)]
    height = len(pairs) * _BAR + 4
    return _figure(title, "", height, [scale.along(height), parts], None)


def _member(resource: str, one: QuotaRow, nominal: int, scale: Amounts, y: int) -> Html:
    """Return the bar of a queue or cohort."""
    queue = one.kind == "ClusterQueue"
    own = one.held - one.borrowed if queue else 0
    apart = one.unadmitted if queue else 0
    pieces = (
        ("held", own),
        ("lent", one.lent),
        ("idle", max(0, nominal - own - apart - one.lent)),
        ("borrowed", one.borrowed if queue else 0),
    )
    drawn, x = [beside(one.name, y + 25, one.name)], 0.0
    for name, value in pieces:
        if value > 0:
            words = h("title", f"{one.name}: {name} {amount(resource, value)}")
            wide = min(100 * scale.part(value), 100 - x)
            box = {"x": f"{x:.3f}%", "width": f"{wide:.3f}%", "y": y + 17, "height": _BAR - 20}
            drawn.append(h("rect", words, **box, class_=name))
            x += wide
    edge = f"{100 * scale.part(nominal):.3f}%"
    said = f"{amount(resource, own)} of {quota(resource, one.nominal)}"
    said += f" + {amount(resource, one.borrowed)}" if one.borrowed and queue else ""
    return h(
        "g",
        drawn,
        h("line", x1=edge, x2=edge, y1=y + 14, y2=y + _BAR, class_="quota"),
        h("text", fitting(said, NARROW), x=0, y=y + 13, class_="quiet"),
    )


def pool_legend() -> Html:
    """Return what the colours of `pool` mean."""
    return _legend({**_QUOTA, "idle": "idle"}, _quota_line())


def _quota_line() -> Html:
    line = h("line", x1=0, x2=10, y1=5, y2=5, class_="quota")
    return h("li", h("svg", line, viewBox="0 0 10 10", aria_hidden="true"), "its quota")
