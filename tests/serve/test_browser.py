"""What console.js and charts.js do in a real Chromium: times, views, pictures. Skipped without.

The browser's zone is five and a half hours ahead of UTC the whole year.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.serve.test_console import Model, served
from tests.support.browser import PHONE, WIDE, Tab, browser, chromium

pytestmark = pytest.mark.skipif(chromium() is None, reason="chromium is not installed")
Opened = tuple[Tab, str]


@pytest.fixture
async def opened(sqlite_model: Model, tmp_path: Path) -> AsyncIterator[Opened]:
    async for address in served(sqlite_model[0]):
        async with browser(tmp_path, "Asia/Kolkata") as tab:
            yield tab, address


async def until(tab: Tab, expression: str) -> None:
    """Wait until JavaScript says true: a page that loads another is away for a moment."""
    async with asyncio.timeout(30):
        while not await tab.value(f"Boolean({expression})"):
            await asyncio.sleep(0.05)


async def test_times_in_full_have_the_hour_of_the_viewers_zone_beside_them(opened: Opened) -> None:
    tab, address = opened
    await tab.open(f"{address}/groups/ns/a", WIDE, "light")
    one = "document.querySelector('time[data-full]')"
    said = await tab.value(f"{one}.firstChild.textContent")
    small = await tab.value(f"{one}.querySelector('small').textContent")
    hours, minutes = (int(part) for part in said[11:16].split(":"))
    here = (hours * 60 + minutes + 330) % 1440
    assert small.startswith(f" ({here // 60:02}:{here % 60:02}:")
    assert "UTC; here " in await tab.value(f"{one}.title")
    assert tab.said == []


async def test_the_button_has_all_times_in_the_viewers_zone_and_back(opened: Opened) -> None:
    tab, address = opened
    await tab.open(f"{address}/groups/ns/a", WIDE, "light")
    one, button = (
        "document.querySelector('time[data-full]')",
        "document.querySelector('[data-zone]')",
    )
    utc, at = await tab.value(f"{one}.firstChild.textContent"), await tab.value(f"{one}.dateTime")
    await tab.value(f"{button}.click()")
    await until(tab, f"{button}?.dataset.zone.startsWith('Asia/') && !{button}.hidden")
    here = datetime.fromisoformat((await tab.value(f"{one}.firstChild.textContent"))[:19])
    assert here.replace(tzinfo=UTC) - datetime.fromisoformat(at) == timedelta(minutes=330)
    ticks = "[...document.querySelectorAll('.chart text')].map((each) => each.textContent)"
    assert any(said.endswith(" IST") for said in await tab.value(ticks))
    await tab.value(f"{button}.click()")
    await until(
        tab, f"{button}?.dataset.zone === 'UTC' && {one}.firstChild.textContent === '{utc}'"
    )


async def test_mine_leads_to_the_groups_of_the_label(opened: Opened) -> None:
    tab, address = opened
    await tab.open(f"{address}/groups?label=team%3Dred,user%3Dann", WIDE, "light")
    await tab.value("document.querySelector('[data-mine]').click()")
    mine = "[...document.querySelectorAll('nav a')].find((one) => one.textContent === 'Mine')"
    await until(tab, mine)
    assert await tab.value(f"new URL({mine}.href).searchParams.get('label')") == "team=red,user=ann"


async def test_on_a_phone_the_first_row_of_a_list_is_in_the_upper_half(opened: Opened) -> None:
    tab, address = opened
    days = "since=2025-12-31T12:00:00Z&until=2026-01-01T12:00:00Z"
    row = "document.querySelector('main tbody tr, main .cards > li')?.getBoundingClientRect().top"
    for path in (
        *("/", "/queues", "/queues/cq", "/groups", "/groups?by=team", "/health"),
        *("/groups?label=!team&namespace=ns", f"/usage?{days}", f"/usage?by=queue&{days}"),
    ):
        await tab.open(address + path, PHONE, "light")
        assert 0 < (await tab.value(row) or 0) < PHONE[1] / 2, path


# Landmarks of a page by tag, role and name, and how much of the panel's tables is out of reach.
PANEL = """(() => {
  const marks = "header, nav, main, aside, footer, [role=search], [role=region]";
  const named = [...document.querySelectorAll(marks)].map((one) =>
    [one.tagName, one.getAttribute("role"), one.getAttribute("aria-label")].join());
  const tables = [...document.querySelectorAll("aside .scroll")];
  const cut = tables.filter((one) => getComputedStyle(one).overflowX === "visible"
    && one.scrollWidth > one.clientWidth);
  return [named.filter((one, i) => named.indexOf(one) !== i), cut.length, tables.length];
})()"""


async def test_a_panel_has_its_own_landmarks_and_no_table_of_it_is_cut(opened: Opened) -> None:
    tab, address = opened
    await tab.open(f"{address}/groups", (1024, 800), "light")
    await tab.value("document.querySelector('main tbody a[href^=\"/groups/\"]').click()")
    await until(tab, "document.querySelector('aside:not([hidden]) table')")
    twice, cut, tables = await tab.value(PANEL)
    assert (twice, cut) == ([], 0) and tables > 2


async def test_a_view_is_kept_by_name_marked_and_forgotten(opened: Opened) -> None:
    tab, address = opened
    await tab.open(f"{address}/groups?sort=wait", WIDE, "light")
    await tab.value("window.prompt = () => '<b>mine</b>'")
    await tab.value("document.querySelector('[data-views] > li:last-child button').click()")
    kept = "[...document.querySelectorAll('[data-views] a')].find(a => a.textContent[0] === '★')"
    await until(tab, kept)
    assert await tab.value(f"{kept}.textContent") == "★ <b>mine</b>"
    assert await tab.value(f"{kept}.getAttribute('aria-current')") == "true"
    await tab.open(f"{address}/groups", WIDE, "light")
    assert await tab.value(f"{kept}.getAttribute('aria-current')") is None
    assert await tab.value(f"{kept}.search") == "?sort=wait"
    await tab.value(f"{kept}.parentElement.querySelector('button').click()")
    await until(tab, f"document.readyState === 'complete' && !{kept}")


async def test_the_slider_says_its_moment_and_goes_there(opened: Opened) -> None:
    tab, address = opened
    await tab.open(f"{address}/cohorts?range=6h", WIDE, "light")
    slider = "document.querySelector('input[data-slider]')"
    begin = int(await tab.value(f"{slider}.min"))
    await tab.value(f"{slider}.value = {begin + 60}; {slider}.oninput()")
    said = await tab.value(f"{slider}.form.querySelector('output').textContent")
    assert said.endswith(" UTC")
    await tab.value(f"void {slider}.onchange()")
    await until(tab, "new URLSearchParams(location.search).get('at')")
    went = await tab.value("new URLSearchParams(location.search).get('at')")
    assert went.replace("T", " ").replace("Z", " UTC") == said
    await until(tab, f"{slider} && {slider}.form.querySelector('output').textContent === '{said}'")


@pytest.mark.retried("the page looks for changes while six workers share two cores")
async def test_a_key_goes_to_the_search_field_and_a_page_changes_by_itself(
    opened: Opened, sqlite_model: Model
) -> None:
    tab, address = opened
    await tab.open(f"{address}/groups", WIDE, "light")
    await tab.value("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))")
    assert await tab.value("document.activeElement.name") == "name"
    await tab.value("document.activeElement.blur()")
    _, writer, toy = sqlite_model
    before = len(toy.messages)
    toy.pod("newcomer")
    writer.feed(toy.messages[before:])
    await until(tab, "document.querySelector('main').textContent.includes('newcomer')")
    assert tab.said == []


OVERLAPS = """(() => {
  const found = [], frame = document.documentElement.clientWidth;
  for (const svg of document.querySelectorAll(".chart > svg")) {
    const boxes = [...svg.querySelectorAll("text")].map((one) => [one.textContent,
      one.getBoundingClientRect()]).filter(([, box]) => box.width);
    boxes.forEach(([words, a], i) => {
      if (a.left < 0 || a.right > frame) found.push(words + " is cut");
      for (const [other, b] of boxes.slice(i + 1)) {
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4
            && b.top < a.bottom - 4) found.push(words + " is over " + other);
      }
    });
  }
  return found;
})()"""


@pytest.mark.parametrize("width", [390, 1400])
async def test_no_label_of_a_picture_overlaps_another_or_is_cut(opened: Opened, width: int) -> None:
    tab, address = opened
    for path in ("/groups/ns/a", "/groups/ns/c", "/queues/cq", "/usage?at=2026-01-01T06:00:00Z"):
        await tab.open(address + path, (width, 844), "light")
        assert await tab.value("document.querySelectorAll('.chart > svg text').length") > 3
        assert await tab.value(OVERLAPS) == [], path
        sideways = "document.documentElement.scrollWidth - innerWidth"
        assert await tab.value(sideways) <= 0, path


async def test_a_picture_says_its_values_by_keys_and_zooms_by_a_drag(opened: Opened) -> None:
    tab, address = opened
    await tab.open(f"{address}/groups/ns/a?at=2026-01-01T00:10:00Z", WIDE, "light")
    await tab.value("document.querySelector('.chart').focus()")
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End"):
        event = f"new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})"
        await tab.value(f"document.activeElement.dispatchEvent({event})")
        said.append(await tab.value("document.querySelector('.chart output').textContent"))
    assert len(set(said)) >= 3 and all(re.match(r"then: |\d\d:\d\d", one) for one in said), said
    await tab.value("document.querySelector('.chart').scrollIntoView()")
    box = await tab.value(
        "(() => { const b = document.querySelector('.chart > svg').getBoundingClientRect();"
        " return [b.left, b.top, b.width]; })()"
    )
    ends = await tab.value("Object.values({...document.querySelector('.chart').dataset})")
    for kind, part in (("mousePressed", 0.25), ("mouseMoved", 0.5), ("mouseReleased", 0.75)):
        place = {"x": box[0] + part * box[2], "y": box[1] + 30}
        pressed = {"button": "left", "buttons": 1, "clickCount": 1, "pointerType": "mouse"}
        await tab.do("Input.dispatchMouseEvent", type=kind, **place, **pressed)
    await until(tab, "new URLSearchParams(location.search).get('since')")
    since, before = (
        datetime.fromisoformat(one)
        for one in (
            await tab.value("new URLSearchParams(location.search).get('since')"),
            min(ends),
        )
    )
    whole = datetime.fromisoformat(max(ends)) - before
    assert abs((since - before) / whole - 0.25) < 0.02
    assert await tab.value("new URLSearchParams(location.search).get('at')") is None
