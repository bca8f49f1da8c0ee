"""The console: every page on both databases, accessible, escaped, within rights, at any moment."""

import asyncio
import hashlib
import html
import json
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import sqlalchemy as sa

from gatelog.readmodel.model import ReadModel
from gatelog.serve.bootstrap import local_console
from gatelog.serve.console.phases import PHASES
from gatelog.serve.console.svg import Html, h, join
from gatelog.serve.feed import Feed
from gatelog.serve.questions import Questions
from projector import tables
from projector.storage.database import reader, writer
from projector.writing.packing import pack
from runtime.settings import DatabaseSettings, ServeSettings, Settings
from tests.projector.support import Writer
from tests.serve import pages
from tests.serve.conftest import World
from tests.serve.test_door import ask
from tests.support.databases import migrated
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Model = tuple[str, Writer, Toy]
PAGES = (
    "/",
    "/?namespace=ns&range=7d",
    "/queues",
    "/queues?namespace=ns",
    "/queues/cq",
    "/groups",
    "/groups?namespace=ns&name=a&state=Running&label=!team&gone=1&sort=wait",
    "/groups?by=team&gone=1",
    "/groups/ns/a",
    "/groups/ns/c",
    "/groups/ns/single",
    "/groups/ns/a0",
    "/preemptions",
    "/preemptions?range=30d",
    "/usage",
    "/usage?by=user&range=7d",
    "/cohorts",
    "/topology",
    "/health",
)
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def console(read_model: Model) -> AsyncIterator[tuple[str, Model]]:
    async for address in served(read_model[0]):
        yield address, read_model


@pytest.fixture
async def small(sqlite_model: Model) -> AsyncIterator[tuple[str, Model]]:
    async for address in served(sqlite_model[0]):
        yield address, sqlite_model


async def served(url: str) -> AsyncIterator[str]:
    settings = Settings(
        cluster="test",
        database=DatabaseSettings(url=url),
        serve=ServeSettings(console_port=0, statement_timeout_s=60),
    )
    async with local_console(settings) as address:
        yield address.rstrip("/")


async def get(url: str, **headers: str) -> tuple[int, str, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers={k.replace("_", "-"): v for k, v in headers.items()}) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


def moment(path: str, at: datetime | None = None, **more: str) -> str:
    given = {**more, **({"at": f"{at:%Y-%m-%dT%H:%M:%SZ}"} if at else {})}
    query = "&".join(f"{k}={v}" for k, v in given.items())
    return path + (("&" if "?" in path else "?") + query if query else "")


async def test_every_page_is_there_now_and_then_and_can_be_read_by_all(console: Any):
    address, _ = console
    for path in (*PAGES, "/try"):
        for at in (None, START + timedelta(seconds=1), START - timedelta(days=1)):
            status, text, headers = await get(address + moment(path, at))
            assert status == 200, (path, at, text)
            assert pages.problems(text) == [], (path, at)
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "Set-Cookie" not in headers


async def test_a_browser_asks_for_style_and_script_once(console: Any):
    address, _ = console
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{address}/groups") as answer:
            assert "no-store" in answer.headers["Cache-Control"]
            links = re.findall(r'(?:href|src)="(/assets/[^"]+)"', await answer.text())
        assert len(links) == 4
        for link in links:
            async with http.get(address + html.unescape(link)) as answer:
                content = await answer.read()
                assert "immutable" in answer.headers["Cache-Control"]
                assert link.endswith(f"?v={hashlib.sha256(content).hexdigest()[:16]}")
            path = link.partition("?")[0]
            for other in (path, f"{path}?v=0"):
                async with http.get(address + other) as answer:
                    assert "no-store" in answer.headers["Cache-Control"]


async def test_every_page_has_its_json_and_its_sql(console: Any):
    address, (url, *_) = console
    engine = reader(url)
    with engine.connect() as connection:
        for path in PAGES:
            status, text, _ = await get(address + moment(path, format="json"))
            assert (status, isinstance(json.loads(text), dict)) == (200, True)
            status, text, _ = await get(address + moment(path, format="sql"))
            assert status == 200
            statements = [
                one.split("\n", 1)[1] for one in re.split(r"(?m)^-- (?=.*$)", text) if "\n" in one
            ]
            assert statements, path
            for statement in statements:
                connection.execute(sa.text(statement.replace(":", r"\:"))).all()
    engine.dispose()


async def test_what_pages_tell_is_what_happened(console: Any):
    address, _ = console
    _, text, _ = await get(address + "/queues?format=json")
    (queue,) = json.loads(text)["queues"]
    assert (queue["name"], queue["pending"]) == ("cq", 2), "one waits for quota, one for its pods"
    _, text, _ = await get(address + "/queues/cq?format=json")
    found = json.loads(text)
    assert [(one["name"], one["stage"], one["position"]) for one in found["waiting"]] == [
        ("c", "queued", 1),
        ("d", "composing", None),
    ]
    assert [one["name"] for one in found["holding"]] == ["a", "b"]
    assert found["usage"][0]["held"] == "6"
    _, text, _ = await get(address + "/groups/ns/a")
    for word in (
        "fits the quota of ClusterQueue cq",
        "pod extra: the group has no more than 3 pods",
        "Story",
    ):
        assert word in text
    assert text.count('class="running"') >= 3
    _, text, _ = await get(address + "/groups?namespace=ns&label=team%3Dred&format=json")
    assert [one["metadata"]["name"] for one in json.loads(text)["groups"]] == ["b"]
    _, text, _ = await get(address + "/groups/ns/single?format=json")
    assert json.loads(text)["group"]["status"]["state"] == "Gone"


async def test_a_past_moment_is_shown_as_it_was(small: Any):
    address, (_, one, toy) = small
    before = toy.now + timedelta(seconds=5)
    toy.wait(3600)
    count = len(toy.messages)
    for name in ("driver", "w0", "w1"):
        toy.end(name)
        toy.delete(name)
    one.feed(toy.messages[count:])
    _, now, _ = await get(address + "/queues/cq?format=json")
    assert "b" not in [h["name"] for h in json.loads(now)["holding"]]
    _, then, _ = await get(address + moment("/queues/cq", before, format="json"))
    assert [h["name"] for h in json.loads(then)["holding"]] == ["a", "b"]
    assert [w["name"] for w in json.loads(then)["waiting"]] == ["c", "d"]
    _, text, _ = await get(address + moment("/queues/cq", before))
    assert f"as of {before:%Y-%m-%dT%H:%M:%SZ}" in text
    assert "data-live" not in text
    assert "is not kept" in text  # whom use or a preemption had put first
    assert "is not kept" not in (await get(address + "/queues/cq"))[1]


async def test_nonsense_is_refused_with_a_page_and_a_sentence(small: Any):
    address, _ = small
    for path, code in (
        ("/nothing", 404),
        ("/queues/none", 404),
        ("/groups/ns/nobody", 404),
        ("/?at=yesterday", 400),
        ("/preemptions?at=0001-01-01T00:00:00Z", 400),
        ("/usage?at=0001-01-01T00:00:00%2B23:59", 400),
        ("/?format=xml", 400),
        ("/groups?label=a%20b", 400),
        ("/groups?namespace=N!", 400),
        ("/groups?state=Sleeping", 400),
        ("/groups?sort=colour", 400),
        ("/usage?range=3d", 400),
        ("/cohorts/none", 404),
        ("/queues/cq?offset=-1", 400),
        (f"/groups?name={'x' * 600}", 400),
        ("/groups/ns/%00", 400),
        ("/groups?nmae=a", 400),
        ("/groups/ns/a?life=%27%20OR%201=1", 404),
    ):
        status, text, _ = await get(address + path)
        assert status == code, (path, text)
        assert pages.problems(text) == []
        (said,) = re.findall(r'<p class="notice">(.+?)</p>', text)
        assert len(said.split()) > 4
    _, text, _ = await get(address + "/groups?nmae=a")  # U9: what is ignored looks answered
    assert "parameter 'nmae' is unknown: did you mean name" in html.unescape(text)
    status, text, _ = await get(address + "/nothing?format=json")
    assert json.loads(text)["code"] == 404
    async with aiohttp.ClientSession() as session, session.post(address + "/") as answer:
        assert answer.status == 405


async def test_only_this_machine_may_ask_without_login(small: Any):
    address, _ = small
    status, text, _ = await get(address + "/", Host="console.example.com")
    assert (status, "its own machine" in text) == (403, True)
    assert (await get(address + "/", Host="localhost:1234"))[0] == 200


async def test_words_of_a_cluster_are_never_markup(small: Any):
    address, (url, *_) = small
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.waits).values(message=bad, reason='"><b>'))
        connection.execute(sa.update(tables.groups).values(message=bad, wait_message=bad))
    engine.dispose()
    for path in ("/groups/ns/c", "/groups/ns/a", "/queues/cq"):
        _, text, _ = await get(address + path)
        assert "<script>alert" not in text
        assert "<img" not in text
        assert pages.problems(text) == []


def test_elements_escape_what_is_not_html():
    assert h("p", "<b>&", title='"<') == '<p title="&quot;&lt;">&lt;b&gt;&amp;</p>'
    assert join([Html("<i>"), None, False, ["<", 1]]) == "<i>&lt;1"
    assert h("g", focusable=True, id="x", hidden=False) == '<g focusable id="x"></g>'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(scheme: str):
    """WCAG 2.2 AA: 4.5 for text, 3 for what a picture says."""
    colours = pages.palettes()[scheme]
    for text in ("text", "quiet", "link"):
        for back in ("back", "panel"):
            assert pages.contrast(colours[text], colours[back]) >= 4.5, (text, back)
    for shown in (*PHASES, "mark"):
        assert pages.contrast(colours[shown], colours["back"]) >= 2.0, shown


async def test_a_group_says_first_what_is_the_case_and_what_to_do(console: Any):
    address, _ = console
    _, text, _ = await get(address + "/groups/ns/c")
    first = re.findall(r"<p[^>]*>(.+?)</p>", text.split("<h1>")[1])[0]
    words = re.sub(r"<[^>]+>", "", first)
    assert words.startswith("◷ Queued") and "It takes:" in words
    assert text.index("It takes:") < text.index("<svg")


async def test_a_story_says_composed_before_admitted(console: Any):
    """Both follow from one message, so their times do not say which was first."""
    address, (url, _, _) = console
    path = f"{address}/groups/ns/b"  # not a: it lived before
    _, raw, _ = await get(f"{path}?format=json")
    began = {one["action"]: one["first_at"] for one in json.loads(raw)["decisions"]}
    assert began["ComposeGroup"] == began["AdmitGroup"]
    _, text, _ = await get(path)
    shown = text[text.index("Decisions, by rule") :]
    with ReadModel(url, "test") as model:
        (known,) = [one for one in model.listed("ns", limit=99) if one.name == "b"]
        story = [one.kind for one in model.entries(known.id)]
    for places in (list(began), story, re.findall(r"<td[^>]*>(\w+)</td>", shown)):
        assert places.index("ComposeGroup") < places.index("AdmitGroup"), places


async def test_a_queue_says_who_holds_and_runs_nothing_and_what_is_stuck(console: Any):
    address, (_, one, toy) = console
    count = len(toy.messages)
    toy.end("driver", "w0", "w1", phase="Failed")
    one.feed(toy.messages[count:])
    _, text, _ = await get(address + "/queues/cq")
    assert "Who waits, in order" in text and "Needs someone to act" in text
    assert "<b>nothing</b>, since" in text
    assert pages.problems(text) == []


def enlarge(url: str, uid: str, pods: int) -> None:
    """Give a group many pods, by rows."""
    engine = writer(url)
    with engine.begin() as connection:
        one = dict(
            connection.execute(sa.select(tables.pods).where(tables.pods.c.group_id == uid).limit(1))
            .mappings()
            .one()
        )
        rows = [
            {
                **one,
                "uid": f"huge-{i}",
                "name": f"worker-{i:05}",
                "created_at": START + timedelta(seconds=i % 60),
                "ungated_at": START + timedelta(seconds=90 + i % 30),
                "started_at": START + timedelta(seconds=120 + i % 300),
                "ended_at": START + timedelta(seconds=1200 + i % 900) if i % 3 else None,
                "exit_reason": "OOMKilled" if i % 50 == 1 else "",
                "fate": "",
                "phase": "Succeeded" if i % 3 else "Running",
                "gone_at": None,
            }
            for i in range(pods)
        ]
        connection.execute(sa.insert(tables.pods), rows)
        connection.execute(
            sa.update(tables.groups)
            .where(tables.groups.c.id == uid)
            .values(pods_seen=pods, total_count=pods)
        )
    engine.dispose()


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
async def test_ten_thousand_pods_are_areas_and_pages(console: Any):
    address, (url, *_) = console
    _, text, _ = await get(address + "/groups/ns/a?format=json")
    enlarge(url, json.loads(text)["group"]["metadata"]["uid"], 10_000)
    # A page of before may be shown for a second, as nobody announced the change.
    async with asyncio.timeout(30):
        while "10,005 pods" not in text:
            begin = time.perf_counter()
            status, text, _ = await get(address + "/groups/ns/a")
            took_s = time.perf_counter() - begin
    assert status == 200
    assert pages.problems(text) == []
    assert len(text) < 120_000
    assert "<polygon" in text
    assert text.count("<tr>") < 120
    assert "offset=50" in text
    assert took_s < 5  # 0.3 s on a quiet machine; the others here are not
    _, text, _ = await get(address + "/groups/ns/a?offset=9990")
    assert "worker-0" in text


async def test_admissions_that_were_taken_back_are_marks_that_lead_to_their_groups(console: Any):
    address, (url, _, toy) = console
    engine = writer(url)
    with engine.begin() as connection:
        taken = "UPDATE admissions SET released_at = admitted_at, release_reason = 'Preempted'"
        connection.execute(
            sa.text(f"{taken} WHERE group_id IN (SELECT id FROM groups WHERE name = 'b')")
        )
    engine.dispose()
    at = f"{toy.now + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"
    _, text, _ = await get(f"{address}/queues/cq?at={at}")
    (mark,) = set(re.findall(r'<a href="([^"]+)" class="mark \w+"', text))
    assert mark.startswith("/groups/ns/b?")
    assert "Preempted ns/b" in text


async def test_a_page_hears_that_something_changed_and_one_look_serves_all(small: Any):
    address, (_, one, toy) = small
    async with aiohttp.ClientSession() as session:
        answers = [
            await session.get(address + "/events", timeout=aiohttp.ClientTimeout(total=30))
            for _ in range(100)
        ]
        heard = [asyncio.create_task(_heard(answer)) for answer in answers]
        await asyncio.sleep(0.2)
        count = len(toy.messages)
        toy.pod("new")
        one.feed(toy.messages[count:])
        async with asyncio.timeout(20):
            assert all(await asyncio.gather(*heard))
        for answer in answers:
            answer.close()


async def test_a_page_hears_of_what_changed_before_it_listened(small: Any):
    address, (_, one, toy) = small
    async with aiohttp.ClientSession() as session:
        async with session.get(address + "/groups") as answer:
            live = re.search(r'data-live="([^"]+)"', await answer.text())
        assert live is not None
        count = len(toy.messages)
        toy.pod("new")
        one.feed(toy.messages[count:])
        async with session.get(address + html.unescape(live[1])) as answer, asyncio.timeout(20):
            assert await _heard(answer)


async def _heard(answer: aiohttp.ClientResponse) -> bool:
    assert answer.status == 200, await answer.text()
    async for line in answer.content:
        if line == b"event: change\n":
            return True
    return False


async def test_a_crowd_is_shown_one_page_and_sees_what_it_hears_of(small: Any):
    """A page that was made for others is not shown to whoever was told of a change since."""
    address, (_, one, toy) = small
    async with aiohttp.ClientSession() as session:

        async def look() -> str:
            async with session.get(address + "/queues/cq") as answer:
                assert answer.status == 200
                return await answer.text()

        found = await asyncio.gather(*(look() for _ in range(100)))
        assert not any("ns/new" in page for page in found)
        async with session.get(address + "/events") as heard:
            count = len(toy.messages)
            toy.pod("new")
            one.feed(toy.messages[count:])
            async with asyncio.timeout(20):
                assert await _heard(heard)
            assert "ns/new" in await look()


async def test_in_a_cluster_pages_need_rights(world: World):
    def of(user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {user}-token"}

    status, text = await ask(world, "/")
    assert status == 401
    assert pages.problems(text) == []
    assert (await ask(world, "/groups?namespace=ns", of("ann")))[0] == 200
    assert (await ask(world, "/groups/ns/a", of("ann")))[0] == 200
    for path in (
        "/",
        "/queues/cq",
        "/cohorts",
        "/topology",
        "/health",
        "/groups",
        "/groups?namespace=other",
        "/usage",
    ):
        status, text = await ask(world, path, of("ann"))
        assert status == 403, path
        assert "ann" in text
    for path in ("/groups/ns/a", "/events?namespace=ns", "/preemptions?namespace=ns"):
        assert (await ask(world, path, of("bob")))[0] == 403
    assert (await ask(world, "/", of("lead")))[0] == 200
    assert (await ask(world, "/groups?namespace=ns", {"X-Remote-User": "ann"}))[0] == 401


async def test_a_page_made_for_others_is_not_had_by_naming_two_namespaces(world: World):
    ann, bob = ({"Authorization": f"Bearer {user}-token"} for user in ("ann", "bob"))
    assert (await ask(world, "/groups?namespace=other", bob))[0] == 200
    for given in ("namespace=other&namespace=ns", "namespace=ns&namespace=other"):
        for path in ("/", "/groups", "/usage", "/preemptions", "/groups/ns/a", "/events"):
            status, text = await ask(world, f"{path}?{given}", ann)
            assert status == 400, path
            assert "given twice" in str(text)
    status, text = await ask(world, "/groups?naemspace=ns", ann)
    assert status == 400 and "did you mean namespace" in str(text)


async def test_who_sees_one_namespace_finds_its_queues_and_no_dead_links(world: World):
    ann = {"Authorization": "Bearer ann-token"}
    status, text = await ask(world, "/queues?namespace=ns", ann)
    assert (status, pages.problems(text)) == (200, [])
    for words in (
        "Queues of ns",
        "holds 6 cpu (f)",
        "2 pending (1 composing, 1 queued)",
        "ns/c",
        "WaitingForQuota",
    ):
        assert words in text
    _, found = await ask(world, "/queues?namespace=ns&format=json", ann)
    assert [(one["name"], one["position"]) for one in found["waiting"]] == [
        ("c", 1),
        ("d", None),
    ]
    _, text = await ask(world, "/groups/ns/c", ann)
    links = re.findall(r'href="([^"#]+)"', text)
    for link in {
        "/queues?namespace=ns",
        "/?namespace=ns",
        "/groups?namespace=ns",
        "/usage?namespace=ns",
    }:
        assert link in links
    for link in links:
        if not link.startswith(("/assets", "data:")) and link != "/":  # its name: the first page
            assert (await ask(world, html.unescape(link), ann))[0] == 200, link
    for path in ("/?namespace=other", "/?namespace=ns&at=yesterday"):
        assert (await ask(world, path, ann))[0] in (400, 403)
    # Who may see quota has its links, whoever asked for the page before.
    root = {"Authorization": f"Bearer {world.cluster.token}"}
    assert "/queues/cq" in (await ask(world, "/groups/ns/c", root))[1]


async def test_queues_beyond_a_thousand_are_pages_and_one_cohort(small: Any):
    address, (url, one, _) = small
    queue = one.world.cluster_queues["cq"]
    engine = writer(url)
    with engine.begin() as connection:
        row = dict(
            connection.execute(
                sa.select(tables.objects).where(tables.objects.c.kind == "ClusterQueue")
            )
            .mappings()
            .one()
        )
        quota = dict(connection.execute(sa.select(tables.quotas)).mappings().one())
        made, quotas = [], []
        for number in range(1200):
            name = f"q{number:04}"
            view = msgspec.structs.replace(queue, name=name, uid=name, cohort="all")
            own = {"name": name, "uid": name, "cohort": "all", "folded": pack(view)}
            made.append({**row, **own})
            quotas.append({**quota, "cluster_queue": name})
        connection.execute(sa.insert(tables.objects), made)
        connection.execute(sa.insert(tables.quotas), quotas)
    engine.dispose()
    _, text, _ = await get(address + "/queues?format=json")
    found = json.loads(text)
    assert (found["queuesInAll"], len(found["queues"])) == (1201, 50)
    _, text, _ = await get(address + "/queues?offset=1200")
    assert "/queues/q1199" in text
    assert pages.problems(text) == []
    status, text, _ = await get(address + "/queues/q1150?format=json")
    assert status == 200
    assert json.loads(text)["usage"][0]["nominal"] == "6"


async def test_an_error_of_our_own_is_a_page_with_a_sentence(small: Any):
    address, (url, *_) = small
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE groups SET priority = 'high' WHERE name = 'c'"))
    engine.dispose()
    status, text, headers = await get(address + "/groups/ns/c")
    assert (status, pages.problems(text)) == (500, [])
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "its log" in text


async def test_users_are_not_told_where_the_database_is(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/secret-place.sqlite3"
    migrated(url)
    async for address in served(url):
        engine = writer(url)
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE groups"))
        engine.dispose()
        status, text, _ = await get(address + "/groups")
        assert status == 503
        assert "the database has no read model" in text
        assert "secret-place" not in text


async def test_groups_are_found_by_any_part_of_name_or_label(console: Any):
    address, (_, one, toy) = console
    count = len(toy.messages)
    toy.pod("nightly-report", labels={"user": "Ann_Ray", "team": "red"})
    toy.pod("nightly-index", labels={"user": "bo", "team": "red"})
    one.feed(toy.messages[count:])

    async def page(query: str) -> Any:
        _, text, _ = await get(f"{address}/groups?format=json&{query}")
        return json.loads(text)

    async def names(query: str) -> list[str]:
        return [one["metadata"]["name"] for one in (await page(query))["groups"]]

    async with asyncio.timeout(10):
        while not await names("name=nightly"):  # a page of before is shown for a second
            await asyncio.sleep(0.2)
    assert await names("name=REPORT") == ["nightly-report"]
    assert await names("name=ann_") == ["nightly-report"]
    assert await names("name=annXray") == []
    assert await names("name=%25") == []
    assert await names("name=nightly&sort=name") == ["nightly-index", "nightly-report"]
    assert await names("label=user=bo") == ["nightly-index"]
    found = await page("by=team")
    assert {r["value"] for r in found["rows"]} == {"", "red"}
    assert sum(r["groups"] for r in found["rows"]) == sum(found["states"].values())


async def test_groups_are_counted_sorted_and_shown_as_they_were(console: Any):
    address, (_, one, toy) = console

    async def page(at: datetime | None = None, **given: str) -> Any:
        _, text, _ = await get(address + moment("/groups", at, format="json", **given))
        return json.loads(text)

    found = await page()
    assert found["states"] == {"Blocked": 1, "Composing": 1, "Queued": 1, "Running": 2}
    waiting = [one["metadata"]["name"] for one in (await page(sort="wait"))["groups"]]
    assert waiting[:2] == ["c", "d"]
    use = [one["metadata"]["name"] for one in (await page(sort="use"))["groups"]]
    assert use[0] == "a"
    before = toy.now + timedelta(seconds=1)
    toy.wait(60)
    count = len(toy.messages)
    toy.end("driver", "w0", "w1")
    one.feed(toy.messages[count:])
    assert (await page(before))["states"] == found["states"]
    running = [one["metadata"]["name"] for one in (await page(before, state="Running"))["groups"]]
    assert "a" in running


async def test_who_comes_at_once_shares_one_follower(sqlite_model: Model):
    settings = Settings(cluster="test", database=DatabaseSettings(url=sqlite_model[0]))
    asking = Questions(sqlite_model[0], settings)
    feed = Feed(asking)

    async def follow() -> None:
        async with feed.watching(None):
            await together.wait()

    before, together = asyncio.all_tasks(), asyncio.Barrier(5)
    await asyncio.gather(*(follow() for _ in range(5)))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before, "nobody watches, and nobody asks"
    asking.close()
