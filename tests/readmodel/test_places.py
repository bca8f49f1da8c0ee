"""Where there is room, and who has it: what people see of topologies."""

import json
from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from gatelog import cli
from gatelog.readmodel import places
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.places import FlavorRoom, Room
from projector import tables
from projector.storage.database import reader
from tests.projector.support import Writer
from tests.readmodel.racks import NEAR, RACK, Racks
from tests.support.databases import migrated


def placements(url: str) -> list[tuple[object, ...]]:
    p, g = tables.placements.c, tables.groups.c
    query = sa.select(g.name, p.domain, p.pods, p.to_at.is_(None)).join_from(
        tables.placements, tables.groups, p.group_id == g.id
    )
    engine = reader(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(query.order_by(p.from_seq, p.domain))]
    engine.dispose()
    return found


def test_each_domain_a_group_has_places_in_is_a_row_that_ends_with_the_admission(url: str) -> None:
    toy = Racks()
    writer = Writer(url)
    names = toy.several("g", 5)
    writer.feed(toy.messages)
    assert placements(url) == [("g", "a1", 4, True), ("g", "a2", 1, True)]
    toy.run(*names)
    toy.end(*names)
    writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
    assert placements(url) == [("g", "a1", 4, False), ("g", "a2", 1, False)]


def test_pods_that_get_other_places_leave_the_rows_of_before_closed(url: str) -> None:
    toy = Racks()
    names = toy.several("g", 2, cpu=4, asked=NEAR)
    toy.run(names[0])
    toy.renode("a2", ready=False)
    Writer(url).feed(toy.messages)
    rows = placements(url)
    assert rows[:2] == [("g", "a1", 1, False), ("g", "a2", 1, False)]
    assert rows[2:] == [("g", "a1", 1, True), ("g", "b1", 1, True)]


def of_flavor(url: str, at: datetime) -> FlavorRoom:
    with ReadModel(url, "test") as model:
        (found,) = places.rooms(model, at)
    return found


def test_what_is_free_held_and_whole_adds_up_from_hosts_to_racks(url: str) -> None:
    toy = Racks()
    toy.run(*toy.several("g", 5))
    toy.others_take("b1", 1000)
    toy.renode("b2", unschedulable=True)
    Writer(url).feed(toy.messages)
    found = of_flavor(url, toy.now)
    rack_a, rack_b = found.at(["a"]), found.at(["b"])
    assert rack_a is not None
    assert rack_b is not None
    assert (rack_a.free["cpu"], rack_a.held["cpu"], rack_a.total["cpu"]) == (3000, 5000, 8000)
    assert (rack_a.whole, rack_a.nodes) == (0, 2)
    assert [(one.name, one.pods, one.amount) for one in rack_a.most()] == [("g", 5, 5000)]
    assert (rack_b.free["cpu"], rack_b.taken["cpu"], rack_b.whole) == (3000, 1000, 1)
    assert rack_b.cannot() == "b2 cordoned"
    assert found.root.free["cpu"] == 6000
    assert found.fragmentation == 0.5, "three cores are on a whole node, three beside the group"
    assert found.largest == {RACK: 1}
    assert "6 of 12 cpu free on 3 nodes; whole nodes: 1 (1 in one rack)" in found.headline()


def test_a_past_moment_is_as_it_was(url: str) -> None:
    toy = Racks()
    before = toy.now
    names = toy.several("g", 5)
    toy.run(*names)
    during = toy.now
    toy.wait(10)
    toy.end(*names)
    toy.renode("a1", ready=False)
    toy.wait(10)
    Writer(url).feed(toy.messages)
    assert of_flavor(url, before).root.free["cpu"] == 16_000
    assert of_flavor(url, during).root.held["cpu"] == 5000
    after = of_flavor(url, toy.now).root
    assert (after.held["cpu"], after.free["cpu"], after.cannot()) == (0, 12_000, "a1 not ready")


def test_at_most_so_many_domains_of_a_level_are_shown() -> None:
    root = Room(level="", path=())
    for number in range(60):
        rack = root.below[f"r{number:02}"] = Room(level=RACK, path=(f"r{number:02}",))
        rack.below["h"] = Room(level="host", path=(*rack.path, "h"))
    shown = list(places.shown_below(root))
    assert shown[-1] == 10
    assert sum(isinstance(one, Room) for one in shown) == 2 * places.SHOWN


def test_why_says_where_pods_are_and_what_racks_have_left(url: str) -> None:
    toy = Racks()
    toy.run(*toy.several("g", 5))
    toy.several("h", 8)
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:

        def said(name: str, *, own_only: bool = False) -> str:
            found = explain(model, model.groups("ns", name)[0], toy.now)
            return "\n".join(one.text for one in lines(found, toy.now, own_only=own_only))

        assert "rack a: 5 pods (node a1: 4, node a2: 1)" in said("g")
        assert "rack b: 8 pods (node b1: 4, node b2: 4)" in said("h")


def test_why_of_who_waits_for_a_rack_says_which_has_most_free(url: str) -> None:
    toy = Racks()
    toy.run(*toy.several("g", 5), *toy.several("h", 6))
    toy.several("i", 5)
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        found = explain(model, model.groups("ns", "i")[0], toy.now)
        text = "\n".join(one.text for one in lines(found, toy.now))
        hidden = "\n".join(one.text for one in lines(found, toy.now, own_only=True))
    assert "rack a: 3 of 8 cpu free, 0 of 2 nodes whole" in text
    assert "held there by ns/g 5" in text
    assert "rack a: 3 of 8 cpu free" in hidden
    assert "held there by" not in hidden


def test_the_command_shows_a_tree_and_its_statements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/read-model.sqlite3"
    migrated(url)
    toy = Racks()
    toy.run(*toy.several("g", 5))
    Writer(url).feed(toy.messages)

    def asked(*words: str) -> tuple[int, str]:
        code = cli.run(["topology", *words, "--db", url, "--cluster", "test"])
        return code, capsys.readouterr().out

    code, out = asked()
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("flavor f, topology t: 11 of 16 cpu free on 4 nodes")
    assert lines[2].split() == ["rack", "a", "3", "5", "0", "8", "0", "of", "2", "ns/g", "5"]
    assert lines[3].startswith("  node a1")
    assert asked("-o", "name", "--in", "b") == (0, "b,b1\nb,b2\n")
    (one,) = json.loads(asked("t", "-o", "json")[1])
    assert one["fragmentation"] == pytest.approx(3 / 11)
    assert one["domain"]["domains"][0]["heldBy"][0]["name"] == "g"
    assert "FROM placements" in asked("--sql")[1]
    assert asked("nothing")[0] == 1
