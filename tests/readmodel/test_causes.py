"""What let a group in: named by the view, by `why`, `history` and `replay --step`. Both databases.

A batch is several events in one message: admission looks once after all of them.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

import pytest
from msgspec.structs import replace

from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.timeline import story_lines
from gatelog.replay.steps import Step, Stepper
from podgroup.engine import drain_journal, new_world, step
from podgroup.log import events as e
from podgroup.model.names import QUEUE_NAME
from projector import tables
from projector.replay.log import Entry
from projector.storage.database import writer
from tests.core.test_checks import asks, check, says
from tests.core.test_shared_quota import team
from tests.projector.support import Messages, Writer
from tests.readmodel.stories import Story
from tests.support.toy import Toy


def stepped(messages: Messages, *names: str) -> dict[str, list[Step]]:
    """The steps of groups, as `replay --step` has them."""
    world, steppers = new_world("test"), {name: Stepper("ns", name) for name in names}
    for position, at, batch in messages:
        step(world, position, at, batch)
        journal = drain_journal(world).journal
        for one in steppers.values():
            one.observe(Entry(position, at, batch, {}), world, journal)
    return {name: one.steps for name, one in steppers.items()}


def full() -> Toy:
    toy = Toy(cpu=2)
    toy.pod("first", cpu=2)
    toy.run("first")
    toy.pod("second", cpu=2)
    return toy


def ended() -> Toy:
    toy = full()
    toy.end("first")
    return toy


def raised() -> Toy:
    toy = full()
    toy.do(e.ObjectApplied(object=toy.cluster_queue(4)))
    return toy


def resumed() -> Toy:
    toy = Toy(cpu=2)
    for stop in ("Hold", "None"):
        team(toy, "red", 2, stop_policy=stop)
        if stop == "Hold":
            toy.pod("second", labels={QUEUE_NAME: "red"})
    return toy


def agreed() -> Toy:
    toy = Toy(cpu=2)
    check(toy, "prov")
    asks(toy, "prov")
    toy.pod("g-a", "g", 2)
    toy.pod("g-b", "g", 2)
    says(toy, "prov", "Ready")
    return toy


def came() -> Toy:
    toy = Toy(cpu=2)
    toy.pod("second", cpu=2)
    return toy


def lent() -> Toy:
    """What another ClusterQueue of the cohort gives back lets a group in."""
    toy = Toy()
    team(toy, "red", 2, reclaim_within_cohort="Never")
    team(toy, "blue", 2, reclaim_within_cohort="Never")
    toy.pod("first", cpu=4, labels={QUEUE_NAME: "red"})
    toy.run("first")
    toy.pod("second", cpu=2, labels={QUEUE_NAME: "blue"})
    toy.end("first")
    return toy


def unadmitted() -> Toy:
    toy = Toy(cpu=2)
    toy.pod("sly", cpu=2, gated=False)
    toy.run("sly")
    toy.pod("second", cpu=2)
    toy.end("sly")
    return toy


STORIES: Final[dict[str, tuple[Callable[[], Toy], str, str]]] = {
    "it came": (came, "second", "it came, and there was room"),
    "a group ended": (ended, "second", "group ns/first gave back its quota (Finished)"),
    "quota was raised": (raised, "second", "quota of ClusterQueue cq: cpu of f 2 → 4"),
    "a queue was resumed": (
        resumed,
        "second",
        "what it waited for is over: ClusterQueue red is stopped",
    ),
    "a group of the cohort ended": (
        lent,
        "second",
        "group ns/first gave back its quota (Finished)",
    ),
    "who ran unadmitted ended": (
        unadmitted,
        "second",
        "group ns/sly ended, which ran without quota",
    ),
    "checks agreed": (agreed, "g", "its admission checks agreed"),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_let_a_group_in_is_named(url: str, story: str) -> None:
    make, name, wanted = STORIES[story]
    toy = make()
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        group = model.groups("ns", name)[0]
        found = lines(explain(model, group, toy.now), toy.now)
        told = story_lines(model.entries(group.id))
    assert wanted in [one.text for one in found if one.label in ("let in", "")]
    rooms = [line.why for line in told if line.what == "room made"]
    assert (wanted in rooms) is (story != "it came"), "its coming has lines of its own"
    steps = stepped(toy.messages, name)[name]
    assert wanted in [text for one in steps for text in one.let_in]


@pytest.mark.parametrize("seed", range(3))
def test_view_and_steps_say_the_same_of_every_admission(url: str, seed: int) -> None:
    writer, fed = Writer(url), 0
    toy = Toy(ready=False)
    for toy in Story(seed).moments():
        writer.feed(toy.messages[fed:])
        fed = len(toy.messages)
    view: dict[tuple[str, int], set[str]] = defaultdict(set)
    with ReadModel(url, "test") as model:
        query = """SELECT g.name, c.seq, c.cause, c.says FROM v_admission_causes c
                     JOIN groups g ON g.cluster = c.cluster AND g.id = c.group_id"""
        for row in model.dicts(query, {}):
            said = "" if row["cause"] == "Objects" else row["says"]
            view[row["name"], row["seq"]].add(said)
        (row,) = model.dicts("SELECT count(*) AS many FROM admissions", {})
    assert len(view) == row["many"], "each has a cause"
    steps = stepped(toy.messages, *{name for name, _ in view})
    told = {
        (name, one.position): set(one.let_in)
        for name, some in steps.items()
        for one in some
        if one.let_in
    }
    assert told.keys() == view.keys()
    for key, said in view.items():
        assert said == {""} or told[key] == said, key


def test_of_a_message_with_several_changes_all_that_made_room_are_named(url: str) -> None:
    """Two groups of its queue end; one of another tree does too, and made no room for it."""
    toy = Toy(cpu=2)
    team(toy, "red", 2)
    names = ("one", "two", "other")
    for name in names:
        toy.pod(name, labels={QUEUE_NAME: "red" if name == "other" else "lq"})
    toy.run(*names)
    toy.pod("second", cpu=2)
    ended = [
        replace(toy.named(name), phase="Succeeded", resource_version=toy.bump()) for name in names
    ]
    toy.send(*(e.PodApplied(pod=view) for view in ended))
    toy.settle()
    Writer(url).feed(toy.messages)
    wanted = [f"group ns/{name} gave back its quota (Finished)" for name in ("one", "two")]
    with ReadModel(url, "test") as model:
        group = model.groups("ns", "second")[0]
        assert [one.says for one in model.causes(group.id)] == wanted
    (told,) = [one.let_in for one in stepped(toy.messages, "second")["second"] if one.let_in]
    assert list(told) == wanted


def test_who_sees_one_namespace_learns_no_name_of_another(url: str) -> None:
    toy = full()
    toy.end("first")
    Writer(url).feed(toy.messages)
    elsewhere = tables.groups.update().where(tables.groups.c.name == "first")
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(elsewhere.values(namespace="other"))
    engine.dispose()
    with ReadModel(url, "test") as model:
        group = model.groups("ns", "second")[0]
        found = lines(explain(model, group, toy.now), toy.now, own_only=True)
        told = story_lines(model.entries(group.id, own_only=True))
    wanted = "a group of another namespace made room"
    assert [one.text for one in found if one.label == "let in"] == [wanted]
    assert [line.why for line in told if line.what == "room made"] == [wanted]
