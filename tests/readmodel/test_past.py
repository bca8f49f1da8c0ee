"""A past moment tells that moment: later the same is said of it as was then. Both databases."""

import re
from datetime import datetime, timedelta

import pytest
from msgspec.structs import asdict

from gatelog import cli
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.past import of_moment
from gatelog.serve.console import group, groups
from gatelog.serve.console.view import PageView
from podgroup.model.names import PRIORITY_CLASS
from projector.schema.dialect import swapped
from tests.projector.support import Writer
from tests.support.toy import Toy

Said = dict[str, tuple[dict[str, object], list[tuple[str, str]]]]
LEFT_OUT = {
    "as_of_seq": "the position of the latest write, of now",
    "priority": "what it was before its pods or their class changed is not kept",
}
"""Columns of a group in which a past answer may differ, and why."""


def said(model: ReadModel, at: datetime, *, past: bool) -> Said:
    """Counts and words of each group that there was."""
    found: Said = {}
    for row in model.listed("", gone=True, limit=100):
        if row.created_at > at:
            continue
        told = explain(model, row, at, past=past)
        columns = {k: v for k, v in asdict(told.group).items() if k not in LEFT_OUT}
        columns["position"] = told.position
        # Holders' states are those of the group, told apart by what runs. Whether forecasts were on
        # then is not kept.
        spoken = [one for one in lines(told, at) if not one.text.startswith("no estimate")]
        words = [(one.label, one.text) for one in spoken if one.label != "Kueue"]
        found[row.name] = columns, words
    return found


def steps(toy: Toy) -> list[object]:
    """A day of a queue, step by step: waits, runs, failures, a preemption, a pod without a node."""
    low, high = {PRIORITY_CLASS: "low"}, {PRIORITY_CLASS: "high"}
    return [
        lambda: [toy.pod(f"a{n}", "a", 2, labels=low) for n in range(2)],
        lambda: toy.run("a0", "a1"),
        lambda: [toy.pod(f"b{n}", "b", 3, labels=low) for n in range(2)],
        lambda: toy.pod("b2", "b", 3, labels=low),
        lambda: toy.pod("c", cpu=3, labels=low),
        lambda: toy.end("a0"),
        lambda: toy.end("a1"),
        lambda: toy.unfit("b0"),
        lambda: toy.run("b1"),
        lambda: toy.run("b0"),
        lambda: toy.pod("d", cpu=4, labels=high),
        lambda: toy.run("d"),
        lambda: toy.end("d", phase="Failed"),
    ]


@pytest.fixture
def told(url: str) -> tuple[str, dict[datetime, Said]]:
    """What was said after each step, an hour apart, and the read model of the whole story."""
    toy, writer = Toy(cpu=4), Writer(url)
    then: dict[datetime, Said] = {}
    with ReadModel(url, "test") as model:
        for step in steps(toy):
            assert callable(step)
            step()
            writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
            moment = toy.now + timedelta(minutes=1)
            then[moment] = said(model, moment, past=False)
            toy.now += timedelta(hours=1)
    return url, then


def test_what_is_said_later_of_a_moment_is_what_was_said_then(
    told: tuple[str, dict[datetime, Said]],
) -> None:
    url, then = told
    with ReadModel(url, "test") as model:
        for moment, expected in then.items():
            found = said(model, moment, past=True)
            for name, one in expected.items():
                columns, words = found[name]
                differ = {k: (v, columns[k]) for k, v in one[0].items() if v != columns[k]}
                assert not differ, (
                    f"{moment:%H:%M}, {name}, then and as said later: {differ}. Say in `as_it_was` "
                    "of gatelog/readmodel/past.py how it was then, or why not in LEFT_OUT here"
                )
                assert words == one[1], (moment, name)
            assert set(found) == set(expected)


def test_pages_of_a_past_moment_know_nothing_of_later(
    told: tuple[str, dict[datetime, Said]],
) -> None:
    """`b` waited then; it runs later, is preempted, and hours go by."""
    url, then = told
    moment = list(then)[3]
    seen = PageView(at=moment, query={}, now=moment + timedelta(hours=13))
    with ReadModel(url, "test") as model:
        page = group.group(Asked(model), seen, "ns", "b")
        text = str(page.body)
        assert "Queued" in text and "s-queued" in text and "position" in text
        assert not [word for word in ("preempted by", "13 h", "12 h", "Evicted") if word in text]
        assert page.data["group"].status.state == "Queued"
        assert page.data["group"].status.pods.gated == 3
        assert [pod.phase for pod in page.data["pods"]] == ["Pending"] * 3
        listed = groups.groups(Asked(model), seen)
        states = {one.metadata.name: one.status.state for one in listed.data["groups"]}
        assert states == {"a": "Running", "b": "Queued"}
        assert "counted now" not in str(listed.body)


def test_of_moment_leaves_nothing_of_now() -> None:
    query = of_moment(
        "SELECT 1 WHERE u.to_at IS NULL AND a.released_at IS NULL AND gone_at IS NULL"
    )
    assert query.count(":at") == 5 and "u.from_at <= :at" in query


AGES = re.compile(r"\b\d+ (?:d|h|days?)\b|\b\d{3,} m\b")


@pytest.mark.parametrize(
    "words",
    [
        ["why", "ns/big"],
        ["why", "ns/runs"],
        ["why"],
        ["history", "ns/big"],
        ["list", "groups"],
        ["list", "queues"],
        ["usage", "--since", "1h"],
        ["ask", "waiting"],
    ],
    ids=" ".join,
)
def test_a_copy_is_told_as_of_its_last_message(
    url: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The wall clock is months off: a command that reads it beside the log's shows days."""
    toy = Toy(cpu=2)
    toy.pod("runs", cpu=2)
    toy.run("runs")
    toy.pod("big", cpu=2)
    toy.now += timedelta(minutes=30)
    toy.pod("later")
    Writer(url).feed(toy.messages)
    cli.run([*words, "--db", url, "--cluster", "test"])
    shown = capsys.readouterr()
    assert shown.out and not AGES.findall(shown.out), shown.out
    if words[0] == "usage":
        assert "0.99" in shown.out or "1.00" in shown.out, shown.out


def test_views_of_a_copy_count_to_its_last_message(url: str) -> None:
    toy = Toy(cpu=2)
    toy.pod("runs", cpu=2)
    toy.pod("big", cpu=2)
    toy.now += timedelta(minutes=30)
    toy.pod("later")
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        (row,) = model.dicts("SELECT * FROM v_why_pending WHERE name = 'big'", {})
        (placed,) = model.dicts("SELECT * FROM v_queue_position WHERE name = 'big'", {})
    for seconds in (row["waiting_seconds"], row["age_seconds"], placed["waiting_seconds"]):
        assert 1800 <= float(seconds) < 1810


def test_a_past_statement_that_changes_nothing_is_refused() -> None:
    """Else the answer of now would be given for that of then."""
    with pytest.raises(ValueError, match="nothing is about now in the statement 'SELECT 1'"):
        of_moment("SELECT 1")
    with pytest.raises(ValueError, match="'b' is not in the statement 'SELECT a'"):
        swapped("SELECT a", "b", "c")
