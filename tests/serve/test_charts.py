"""Pictures: round ticks in any zone, labels that have room, colours that all eyes tell apart.

Widths of letters here are those that `axis.width` allows; tests/serve/test_browser.py measures the
same pictures in a browser.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import combinations, pairwise
from random import Random
from xml.etree.ElementTree import Element, fromstring
from zoneinfo import ZoneInfo

import msgspec
import pytest

from gatelog.readmodel.cohorts import Pool
from gatelog.readmodel.quota import STEPS, QuotaRow, Series
from gatelog.readmodel.rows import WaitRow
from gatelog.serve.console import axis, picture
from gatelog.serve.console.axis import Amounts, Time
from gatelog.serve.console.phases import BUCKETS, PHASES, PodRow, counted, spans
from gatelog.serve.words import natural
from podgroup.model.quantities import MAX_INT64
from tests.serve import pages
from tests.serve.colours import EYES, apart, ciede2000

START = datetime(2026, 1, 1, tzinfo=UTC)
BESIDE = (PHASES, ("gated", "running", "failed"), ("running", "replaced", "succeeded"))
"""Colours of one picture: phases, what was taken, and held, borrowed and lent."""


def pod(name: str, begin: datetime, *after: float, phase: str = "Running") -> PodRow:
    """A pod that was created, ungated, started and has ended so many seconds after `begin`."""
    times = [begin + timedelta(seconds=one) for one in after]
    ungated, started, ended = [*times, None, None, None][:3]
    return PodRow(name, "r", phase, "node", "", "", begin, ungated, started, ended, None)


def drawn(text: object) -> Element:
    return fromstring(str(text).replace("&middot;", "·"))


def labels(root: Element, plot: float) -> Iterator[tuple[str, float, float, float, float]]:
    """Words of a picture with their box (left, right, top, bottom) in a plot so wide."""
    shown = {"wide"} if plot >= axis.WIDE else {"narrow"}
    hidden = {"wide", "narrow"} - shown
    for one in root.iter("text"):
        if hidden & set(one.get("class", "").split()):
            continue
        parts = [one.text or ""]
        for inner in one:
            if inner.tag == "tspan" and not hidden & set(inner.get("class", "").split()):
                parts.append(inner.text or "")
            parts.append(inner.tail or "")
        words, x = "".join(parts), one.get("x", "0")
        at = float(x[:-1]) * plot / 100 if x.endswith("%") else float(x)
        at, long, y = at + float(one.get("dx", "0")), axis.width(words), float(one.get("y", "0"))
        left = at - {"end": long, "middle": long / 2}.get(one.get("text-anchor", ""), 0.0)
        yield words, left, left + long, y - 9, y + 2


def cramped(root: Element) -> list[str]:
    """Labels that overlap each other or leave the picture, at widths from a phone's to a wall's."""
    found = []
    for plot in (axis.NARROW, 300, axis.WIDE - 1, axis.WIDE, 900, 1700):
        gutter = axis.WIDE_GUTTER if plot >= axis.WIDE else axis.GUTTER
        boxes = list(labels(root, plot))
        for words, left, right, _, _ in boxes:
            if left < -gutter or right > plot + axis.MARGIN:
                found.append(f"{words!r} leaves a plot of {plot}: {left:.0f} to {right:.0f}")
        for one, two in combinations(boxes, 2):
            if one[1] < two[2] and two[1] < one[2] and one[3] < two[4] and two[3] < one[4]:
                found.append(f"{one[0]!r} is over {two[0]!r} in a plot of {plot}")
    return found


def pictures() -> Iterator[tuple[str, object]]:
    """Pictures of many kinds and sizes, the same each time."""
    random = Random(39)
    for number in range(60):
        seconds = random.choice((0.4, 7, 70, 600, 5000, 15 * 3600, 86400, 7 * 86400, 40 * 86400))
        begin = START + timedelta(seconds=random.uniform(0, 400 * 86400))
        end = begin + timedelta(seconds=seconds * random.uniform(0.7, 1.4))
        moment = begin + (end - begin) * random.choice((0.2, 0.95, 1.0, 3.0))
        zone = random.choice((UTC, ZoneInfo("Asia/Kolkata"), ZoneInfo("America/New_York")))
        time = Time(begin, end, moment, past=number % 2 == 0, zone=zone)
        some = [begin + (end - begin) * random.random() for _ in range(random.choice((0, 2, 40)))]
        marks = [picture.Mark(at, "Preempted", f"/groups/ns/g{n}") for n, at in enumerate(some)]
        waits = [
            WaitRow(reason, "because", at, None if n % 2 else at + (end - at) / 2)
            for n, (at, reason) in enumerate(zip(some, REASONS * 9, strict=False))
        ]
        count = random.choice((0, 1, 12, 60, 1000))
        pods = [
            pod(
                f"{'a-long-name-of-a-group-' * random.randint(0, 2)}w-{n}", begin, 1, 2, seconds / 2
            )
            for n in range(count)
        ]
        yield f"timeline {number}", picture.timeline("t", pods, waits, time, marks)
        resource, most = random.choice(AMOUNTS)
        nominal = [random.choice((most, most // 2 or 1))] * (STEPS // 2)
        held = [random.randint(0, most) for _ in range(STEPS)]
        series = Series("f", resource, nominal + [most] * (STEPS - len(nominal)), held, *NOTHING)
        yield f"usage {number}", picture.usage("u", series, time, marks)
        bars = [(begin, {"running": most / 3600, "failed": 1.0, "starting": 0.0})]
        yield f"spent {number}", picture.spent("s", "core-h", bars, time, (end - begin) / 5)
        members = [member(f"queue-{n}-of-team", random.randint(0, most), most) for n in range(7)]
        yield f"pool {number}", picture.pool("p", Pool("all", "f", resource, members))


REASONS = ("WaitingForQuota", "WaitingForReplacementPods", "WaitingForPods", "Stopped")
AMOUNTS = (
    *(("cpu", 40_000), ("cpu", 700), ("cpu", 3_000_000_000), ("pods", 3), ("pods", 1)),
    *(("memory", 3 * 2**40), ("memory", 900), ("nvidia.com/gpu", 1_234_567), ("x", MAX_INT64)),
    ("a.vendor.example.com/accelerators-of-a-kind", 64),
)
NOTHING = tuple([0] * STEPS for _ in range(4))


def member(name: str, held: int, nominal: int) -> QuotaRow:
    return QuotaRow(
        kind="ClusterQueue",
        namespace="",
        name=name,
        root="all",
        flavor="f",
        resource="cpu",
        nominal=nominal,
        held=held,
        borrowed=held // 3,
        unadmitted=0,
        idle=0,
        lent=0,
    )


def test_no_label_overlaps_another_or_leaves_the_picture():
    found = {name: cramped(drawn(one)) for name, one in pictures()}
    assert not {name: words for name, words in found.items() if words}


def test_a_label_too_many_is_found():
    """What the test above would see."""
    texts = "".join(f'<text x="{x}%" y="9">00:00:00</text>' for x in (10, 12, 99))
    assert len(cramped(fromstring(f"<svg>{texts}</svg>"))) > 6


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("seconds", [0.5, 8, 250, 900, 4000, 54_000, 86_400, 700_000, 3e6, 9e7])
def test_ticks_are_round_in_the_zone_of_who_looks(zone: str, seconds: float):
    """Changes of the clock included: the range begins two hours before New York's in March."""
    begin = datetime(2026, 3, 8, 5, 13, 7, 123456, tzinfo=UTC)
    time = Time(begin, begin + timedelta(seconds=seconds), zone=ZoneInfo(zone))
    ticks = time.ticks()
    assert 1 <= len([one for one in ticks if not one.wide]) <= 6
    assert 2 <= len(ticks) <= 14
    assert all(a.at < b.at for a, b in pairwise(ticks))
    for one in ticks:
        here = one.at.astimezone(ZoneInfo(zone))
        shown = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?", one.words)
        said = [int(part) for part in shown.groups()[:3] if part] if shown else [0, 0]
        assert [here.hour, here.minute, here.second][: len(said)] == said, one
        if len(said) == 2:
            assert (here.second, here.microsecond) == (0, 0)


def test_a_week_has_a_label_for_each_day_and_fifteen_hours_are_in_even_hours():
    """Labels of seven days every six hours overlapped elsewhere."""
    week = Time(START, START + timedelta(days=7)).ticks()
    assert [one.words for one in week] == [f"Jan {n}" for n in range(1, 9)]
    hours = Time(START + timedelta(minutes=24, seconds=43), START + timedelta(hours=15.4)).ticks()
    assert [one.words for one in hours] == [f"{n:02}:00" for n in range(2, 15, 2)]


@pytest.mark.parametrize(("resource", "most"), AMOUNTS)
def test_amounts_are_round_and_bear_their_unit(resource: str, most: int):
    ticks = Amounts(resource, most).ticks()
    assert 2 <= len(ticks) <= 6 and ticks[0] == (0, "0")
    assert Amounts(resource, most).top >= most * 0.999999
    assert ticks[-1][0] >= min(most, ticks[1][0]) * 0.999999
    steps = {round(b[0] / ticks[1][0] - a[0] / ticks[1][0], 6) for a, b in pairwise(ticks)}
    assert steps == {1.0}
    digits = re.sub(r"\D", "", re.sub(r"[a-zA-Z]+$", "", ticks[1][1])).strip("0")
    assert digits in ("1", "2", "5"), ticks


def test_names_are_in_the_order_of_their_numbers():
    pods = [pod(f"hero-{n}", START, 1, 2) for n in (10, 2, 1)]
    text = str(picture.timeline("t", pods, [], Time(START, START + timedelta(seconds=60))))
    assert re.findall(r"<title>(hero-\d+)</title>", text) == ["hero-1", "hero-2", "hero-10"]
    assert sorted(["b", "a-1-x", "a-1", "a", "a-01"], key=natural) == [
        "a",
        "a-01",
        "a-1",
        "a-1-x",
        "b",
    ]


def test_what_a_pod_was_after_its_end_is_a_thin_line():
    time = Time(START, START + timedelta(seconds=60))
    text = str(picture.timeline("t", [pod("p", START, 1, 2, 9, phase="Succeeded")], [], time))
    heights = dict(re.findall(r'y="\d+" height="(\d+)" class="(running|succeeded)"', text))
    assert {v: int(k) for k, v in heights.items()} == {"running": 12, "succeeded": 4}


def test_marks_that_are_near_become_one_and_lead_to_their_groups():
    time = Time(START, START + timedelta(hours=1), START + timedelta(minutes=50))
    near = [START + timedelta(minutes=20, seconds=n) for n in range(9)]
    marks = [picture.Mark(at, "Preempted", f"/groups/ns/g{n}") for n, at in enumerate(near)]
    marks.append(picture.Mark(START + timedelta(minutes=40), "Preempted", "/groups/ns/alone"))
    text = unescape(str(picture.timeline("t", [], [], time, marks)))
    assert "/preemptions?since=2026-01-01T00:20:00Z&until=2026-01-01T00:20:09Z" in text
    assert 'href="/groups/ns/alone"' in text and "9×" in text and "and 3 more" in text
    of = [picture.Mark(one.at, one.words, one.link, namespace="ns") for one in marks]
    own = unescape(str(picture.timeline("t", [], [], time, of)))
    assert "until=2026-01-01T00:20:09Z&namespace=ns" in own
    assert ">now<" in text and text.count("<a ") == 2
    assert re.search(r"<figure [^>]*role=", text) is None, "a figure with a caption has its own"


def test_a_change_of_quota_is_marked():
    nominal = [20_000] * 100 + [30_000] * (STEPS - 100)
    series = Series("f", "cpu", nominal, [20_000] * STEPS, *NOTHING)
    text = str(picture.usage("u", series, Time(START, START + timedelta(hours=4))))
    assert "01:40:00 quota 20 → 30".replace(":00 ", " ") in text
    assert "20 of 30 held" in text and ">30 cpu<" in text


def test_a_mark_is_not_drawn_as_a_line_of_quota():
    """Its words were: a class of both gave letters a stroke."""
    named = {part for kind in picture._SIGNS for part in f"mark {kind}".split()}
    assert not named & {"quota", *PHASES, "held", "borrowed", "lent"}


def test_hours_are_bars_apart():
    bars = [(START + timedelta(hours=n), {"running": 8.0}) for n in range(24)]
    time = Time(START, START + timedelta(days=1))
    root = drawn(picture.spent("s", "core-h", bars, time, timedelta(hours=1)))
    boxes = [one for one in root.iter("rect") if one.get("class") == "running"][:24]
    ends = [(float(b.get("x", "")[:-1]), float(b.get("width", "")[:-1])) for b in boxes]
    assert all(x + wide + 0.5 < after for (x, wide), (after, _) in pairwise(ends))


def test_a_bar_beyond_its_quota_marks_where_the_quota_ends():
    assert 'class="quota"' in picture.bar(30, 20, "30 of 20")
    assert 'x1="66.67"' in picture.bar(30, 20, "30 of 20")
    assert 'class="quota"' not in picture.bar(10, 20, "10 of 20")


@pytest.mark.parametrize("count", [1000, 10_000])
def test_a_picture_of_many_pods_is_as_large_as_of_a_few(count: int):
    end = START + timedelta(hours=1)
    pods = [pod(f"w-{n}", START, n % 60, n % 900 + 60, n % 900 + 900) for n in range(count)]
    text = str(picture.timeline("t", pods, [], Time(START, end)))
    assert len(text) < 60_000
    assert re.search(r"<title>00:14:\d\d [\d,]+ starting, [\d,]+ running</title>", text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("eyes", EYES)
def test_colours_of_one_picture_are_told_apart(scheme: str, eyes: str):
    """CIEDE2000 of 20 and more between each two, to protanopes and deuteranopes as well."""
    colours = pages.palettes()[scheme]
    for one, other in {pair for names in BESIDE for pair in combinations(names, 2)}:
        assert apart(colours[one], colours[other], eyes) >= 20, (one, other)


def test_the_difference_of_colours_is_that_of_its_authors():
    """Three of the pairs of Sharma, Wu and Dalal (2005)."""
    for one, other, far in (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((90.8027, -2.0831, 1.4410), (91.1528, -1.6435, 0.0447), 1.4441),
    ):
        assert ciede2000(one, other) == pytest.approx(far, abs=1e-4)


def test_phases_of_a_pod_follow_each_other():
    one = PodRow(
        *("p", "r", "Failed", "node", "", "Error"),
        START,
        START + timedelta(seconds=10),
        START + timedelta(seconds=20),
        START + timedelta(seconds=30),
        None,
    )
    found = spans(one, START + timedelta(seconds=60))
    assert [span.phase for span in found] == ["gated", "starting", "running", "failed"]
    assert all(a.end == b.begin for a, b in pairwise(found))
    assert [o.phase for o in spans(one, START + timedelta(seconds=15))] == [
        *("gated", "starting"),
    ]
    counts = counted([one], START, START + timedelta(seconds=60))
    assert all(sum(column) == 1 for column in zip(*counts.values(), strict=True))
    counts = counted([one] * 7, START, START + timedelta(days=300))
    assert {sum(column) for column in zip(*counts.values(), strict=True)} == {7}, "once each"
    assert counts["failed"] == [7] * BUCKETS


def test_nothing_is_drawn_before_it_existed_and_evictions_are_marked():
    """Creation counts whole seconds; a log that saw the pod within that second knows better."""
    seen = START + timedelta(seconds=0.4)
    one = PodRow(
        *("p", "r", "Running", "node", "", ""),
        START,
        START + timedelta(seconds=0.9),
        START + timedelta(seconds=1.5),
        None,
        None,
        seen,
    )
    end = START + timedelta(seconds=12)
    assert spans(one, end)[0].begin == seen
    late = msgspec.structs.replace(one, seen_at=START + timedelta(seconds=30))
    assert late.born_at == START  # the log began after the pod
    evicted = [picture.Mark(START + timedelta(seconds=6), "Preempted")]
    text = str(picture.timeline("t", [one], [], Time(seen, end), evicted))
    assert "↺" in text and "00:00:06.0 Preempted" in text
    marks = re.findall(r">(\d\d:\d\d:\d\d)<", text)
    assert marks == [f"00:00:{n:02}" for n in range(2, 12, 2)]
