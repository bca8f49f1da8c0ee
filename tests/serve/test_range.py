"""The range of time that pages share, the overview, suggestions, order by address, zones."""

import html
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from gatelog.serve.api.status import Refused
from gatelog.serve.console.view import PageView, Range, ordered, read_zone
from tests.serve.conftest import World
from tests.serve.test_console import Model, get, moment, served
from tests.serve.test_door import ask

NOW = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
INDIA = read_zone("Asia/Kolkata")


@pytest.fixture
async def small(sqlite_model: Model) -> Any:
    async for address in served(sqlite_model[0]):
        yield address, sqlite_model


def seen(**query: str) -> PageView:
    return PageView(at=None, query=query, now=NOW)


def test_a_range_ends_now_or_where_the_address_says() -> None:
    hour = timedelta(hours=1)
    assert seen().range is None
    assert seen(range="6h").range == Range(NOW - 6 * hour, NOW)
    assert seen(range="night").range == Range(NOW - 14.5 * hour, NOW - 2.5 * hour)
    local = PageView(at=None, query={"range": "night"}, now=NOW, zone=INDIA)
    assert local.range == Range(NOW - 20 * hour, NOW - 8 * hour), "20 to 8 o'clock in India"
    found = seen(since="2026-11-21 10:00", until="2026-11-21T12:00:00Z").range
    assert found == Range(NOW - 24.5 * hour, NOW - 22.5 * hour)
    assert seen(until="2026-11-21T12:00:00Z").range == Range(NOW - 46.5 * hour, NOW - 22.5 * hour)
    for bad in ({"range": "year"}, {"since": "yesterday"}, {"since": "2026-11-22T11:00:00Z"}):
        with pytest.raises(Refused):
            _ = seen(**bad).range


def test_every_link_keeps_the_range() -> None:
    assert seen(range="6h").link("/groups") == "/groups?range=6h"
    given = {"since": "2026-11-21T10:00:00Z", "until": "2026-11-21T12:00:00Z"}
    past = PageView(at=NOW - timedelta(days=1), query=given, now=NOW)
    link = past.link("/groups", state="Queued")
    assert "since=2026-11-21" in link and "until=2026-11-21" in link and "at=" not in link


def test_rows_are_sorted_by_the_address_and_its_headings() -> None:
    rows, links = ordered(seen(sort="-size"), "/x", [1, 3, 2], {"size": lambda one: one})
    assert rows == [3, 2, 1]
    assert links["size"] == ("/x?sort=size", " ↓")
    with pytest.raises(Refused):
        ordered(seen(sort="colour"), "/x", [1], {"size": lambda one: one})


async def test_a_page_of_a_range_that_is_over_is_a_past_moment(small: Any) -> None:
    address, (_, _, toy) = small
    since, until = (f"{toy.now + timedelta(seconds=s):%Y-%m-%dT%H:%M:%SZ}" for s in (-60, 5))
    _, text, _ = await get(f"{address}/groups?since={since}&until={until}")
    assert f"as of {until}" in text and "data-live" not in text
    links = [html.unescape(one) for one in re.findall(r'href="(/[^"]*)"', text)]
    pages = [one for one in links if one.startswith(("/queues", "/usage", "/groups/"))]
    assert pages and all("since=" in one and "until=" in one for one in pages)
    live = (await get(f"{address}/groups?range=6h"))[1]
    assert 'aria-current="true">6 h<' in live and "data-live" in live


async def test_groups_that_came_in_a_range_are_listed(small: Any) -> None:
    address, (_, one, toy) = small
    count, before = len(toy.messages), toy.now + timedelta(seconds=30)
    toy.wait(3600)
    toy.pod("late")
    one.feed(toy.messages[count:])
    query = f"since={before:%Y-%m-%dT%H:%M:%SZ}&came=1&format=json"
    _, text, _ = await get(f"{address}/groups?{query}")
    found = json.loads(text)
    assert [one["metadata"]["name"] for one in found["groups"]] == ["late"]
    assert sum(found["states"].values()) == 1


async def test_times_are_of_the_zone_that_a_cookie_names(small: Any) -> None:
    address, _ = small
    kept = {"zone": "Asia%2FKolkata", "mine": "team%3Dred"}  # as console.js writes it
    async with aiohttp.ClientSession(cookies=kept) as session:
        async with session.get(f"{address}/groups/ns/a") as answer:
            text = await answer.text()
        assert "/groups?label=team%3Dred&amp;gone=1" in text
        for path in ("/groups/ns/a", "/queues/cq", "/usage?at=2026-01-01T06:00:00Z"):
            async with session.get(address + path) as answer:
                assert re.search(r" IST</text>", await answer.text()), f"an axis of {path}"
        utc = (await get(f"{address}/groups/ns/a"))[1]
    pattern = r'<time datetime="([^"]+)" class="num" data-full>([^<]+)<'
    for page, minutes in ((text, 330), (utc, 0)):
        at, said = re.findall(pattern, page)[0]
        shown = datetime.fromisoformat(said[:19]).replace(tzinfo=UTC)
        assert shown - datetime.fromisoformat(at) == timedelta(minutes=minutes)
    assert read_zone("../../etc/passwd") is UTC
    assert read_zone("Nowhere/None") is UTC


async def test_the_overview_adds_up_to_what_pages_say(small: Any) -> None:
    address, (_, _, toy) = small
    at = toy.now + timedelta(seconds=30)
    text = (await get(address + moment("/", at, format="json")))[1]
    (line,) = [one for one in json.loads(text)["queues"] if one["name"] == "cq"]
    waiting = json.loads((await get(address + moment("/queues/cq", at, format="json")))[1])
    assert line["pending"] == len(waiting["waiting"]) == 2
    longest = max(
        (at - datetime.fromisoformat(w["since"])).total_seconds() for w in waiting["waiting"]
    )
    assert line["oldest"] == pytest.approx(longest, abs=1.1)
    assert line["most"] == pytest.approx(longest, abs=1.1), "who waits still is among the waits"
    assert line["waits"] > line["pending"]
    assert line["half"] <= line["most"]


async def test_overview_and_suggestions_show_what_the_viewer_may_see(world: World) -> None:
    ann, lead = ({"Authorization": f"Bearer {user}-token"} for user in ("ann", "lead"))
    root = {"Authorization": f"Bearer {world.cluster.token}"}
    status, text = await ask(world, "/?namespace=ns", ann)
    assert status == 200 and "other/" not in text and "/queues/cq" not in text
    assert (await ask(world, "/?namespace=other", ann))[0] == 403
    status, text = await ask(world, "/", lead)
    assert status == 200 and "/groups/ns/" not in text and "/groups/other/" not in text
    for words, user, namespace, found in (
        ("far", ann, "ns", []),
        ("far", root, "", ["other/far"]),
        ("nothing-like-it", root, "", []),
    ):
        status, names = await ask(world, f"/suggest?name={words}&namespace={namespace}", user)
        assert (status, [one["name"] for one in names]) == (200, found), words
    _, names = await ask(world, "/suggest?name=cq", root)
    assert names[0] == {"name": "cq", "link": "/queues/cq"}
    _, names = await ask(world, "/suggest?name=cq&namespace=ns", ann)
    assert all(one["name"].startswith("ns/") for one in names), "its groups, and no ClusterQueue"
    for path in ("/suggest?name=far", "/suggest?name=far&namespace=other"):
        assert (await ask(world, path, ann))[0] == 403
    assert (await ask(world, "/suggest?name=far", lead))[0] == 403


async def test_a_row_of_usage_leads_to_its_groups_worst_waste_first(small: Any) -> None:
    address, (_, _, toy) = small
    at = toy.now + timedelta(seconds=30)
    _, text, _ = await get(address + moment("/usage", at))
    link = html.unescape(re.findall(r'<th scope="row"><a href="([^"]+)">ns<', text)[0])
    assert "by=group" in link and "sort=-wasted" in link and "namespace=ns" in link
    status, text, _ = await get(address + link)
    assert status == 200 and re.search(r'href="/groups/ns/a\?', text)
    assert "wasted ↓" in text


async def test_a_group_that_waits_says_who_overtook_it(small: Any) -> None:
    address, (_, one, toy) = small
    count = len(toy.messages)
    toy.wait(60)
    toy.pod("quick", cpu=0)
    one.feed(toy.messages[count:])
    _, text, _ = await get(f"{address}/groups/ns/c")
    card = text[text.index('<dl class="card">') : text.index("</dl>")]
    assert card.count("that came after it") == 1 == card.count("<dt>overtaken</dt>")
    assert "/groups/ns/quick" in card
    assert card.count("<a ") == 1, "who was ahead of it did not overtake it"
