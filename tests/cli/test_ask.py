"""`gatelog ask`: questions by name, on one's own data, with defaults that fit it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatelog.readmodel.questions import questions, readable
from tests.cli.conftest import Ran
from tests.cli.test_asking import written
from tests.support.toy import Toy

Gatelog = Callable[..., Ran]
Db = tuple[str, Any]


def where(db: Db) -> tuple[str, ...]:
    return "--db", db[0], "--cluster", "test"


def test_without_a_name_it_lists_what_can_be_asked(gatelog: Gatelog) -> None:
    code, out, _ = gatelog("ask", "--no-headers")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line[:1].strip()] == list(questions())


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
def test_every_question_is_answered_without_an_option(gatelog: Gatelog, busy_db: Db) -> None:
    for name in questions():
        code, out, err = gatelog("ask", name, "-o", "json", *where(busy_db))
        assert code == 0, err
        assert isinstance(json.loads(out), list)


def test_it_is_asked_of_what_is_named_and_sql_prints_that(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, _ = gatelog("ask", "waiting", "-n", "ns", "--json", *where(busy_db))
    everywhere = json.loads(out)
    assert code == 0 and {"c", "d"} <= {row["name"] for row in everywhere}
    _, out, _ = gatelog("ask", "waiting", "-n", "other", "--json", *where(busy_db))
    assert json.loads(out) == []
    _, statement, _ = gatelog("ask", "waiting", "-n", "ns", "--sql", *where(busy_db))
    _, out, _ = gatelog("sql", statement, "--json", "--db", busy_db[0])
    assert json.loads(out) == everywhere


def test_programs_read_numbers_times_and_documents_of_either_database(
    gatelog: Gatelog, busy_db: Db
) -> None:
    """PostgreSQL's means were texts, and SQLite's documents; jq had to know which it was."""
    _, out, _ = gatelog("ask", "holding", "--json", *where(busy_db))
    held = json.loads(out)
    assert held and all(row["resources"]["f"]["cpu"] > 0 for row in held)
    assert held[0]["admitted_at"].startswith("2026-01-01T00:00:0")
    _, out, _ = gatelog("ask", "latency", "--json", *where(busy_db))
    (queue,) = json.loads(out)
    assert all(isinstance(queue[name], int | float) for name in ("mean", "half", "p90", "worst"))
    assert queue["hour"] == "2026-01-01T00:00:00Z"
    text = """SELECT 1.5 AS a, '{"b' AS c"""
    _, out, _ = gatelog("sql", text, "-o", "json", "--db", busy_db[0])
    assert json.loads(out) == [{"a": 1.5, "c": '{"b'}]
    text = """SELECT '["a", {"b": 1}]' AS a, '[1] is next' AS b, '[]' AS c"""
    _, out, _ = gatelog("sql", text, "-o", "json", "--db", busy_db[0])
    assert json.loads(out) == [{"a": ["a", {"b": 1}], "b": "[1] is next", "c": []}]


def test_a_group_is_named_or_the_newest(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, err = gatelog("ask", "history", "--json", *where(busy_db))
    assert code == 0 and json.loads(out)
    assert "of the newest group, ns/" in err
    _, out, _ = gatelog("ask", "history", "--group", "ns/a", "--json", *where(busy_db))
    assert any(row["kind"] == "GroupAdmitted" for row in json.loads(out))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("wating",), "did you mean waiting"),
        (("waiting", "--since", "1d"), "takes no --since; it takes --namespace, --queue, --team"),
        (("waits", "--group", "a"), "write it as NAMESPACE/NAME"),
        (("latency", "--since", "soon"), "give a span"),
    ],
)
def test_what_would_be_ignored_is_refused(
    gatelog: Gatelog, busy_db: Db, words: tuple[str, ...], said: str
) -> None:
    code, _, err = gatelog("ask", *words, *where(busy_db))
    assert code != 0 and said in " ".join(err.split())


def test_who_waits_still_hears_who_was_admitted_meanwhile(gatelog: Gatelog, tmp_path: Path) -> None:
    toy = Toy(cpu=10)
    toy.pod("first", cpu=6)
    toy.pod("large", cpu=6)
    toy.pod("small", cpu=2)
    url, writer = written(tmp_path, toy)
    writer.store.close()
    code, out, _ = gatelog(
        "ask", "overtook", "--group", "ns/large", "--no-headers", *where((url, 0))
    )
    assert code == 0 and [line.split()[1] for line in out.splitlines()] == ["small"]


def test_a_table_is_for_people_and_json_for_programs(gatelog: Gatelog, tmp_path: Path) -> None:
    toy = Toy(cpu=10)
    toy.pod("first", cpu=6)
    toy.pod("large", cpu=6)
    url, writer = written(tmp_path, toy)
    writer.store.close()
    _, out, _ = gatelog("ask", "holding", "--no-headers", *where((url, 0)))
    assert out.rstrip().endswith("2026-01-01 00:00:00Z   6 cpu of f")
    _, out, _ = gatelog("ask", "short", "--no-headers", *where((url, 0)))
    assert "cpu   6   4" in out
    _, out, _ = gatelog("ask", "short", "--json", *where((url, 0)))
    assert json.loads(out)[0]["requested"] == 6000


def test_people_read_hours_with_their_unit_and_sentences_without_ids() -> None:
    ours = "2 of 3 pods exist: preempted by a group of another namespace (priority 9 over 0)"
    kueues = "Preempted to accommodate a workload (UID: 1, JobUID: UNKNOWN) due to prioritization"
    assert readable(["message"], [f"{ours} — {kueues}"]) == (ours,)
    names = ["resource", "hours", "borrowed"]
    assert readable(names, ["memory", 3.0 * 2**30, 0.5 * 2**30]) == (
        "memory",
        "3.00 GiB-h",
        "0.50Gi",
    )
    assert readable(names, ["cpu", 0.25, 3.5]) == ("cpu", "0.25 core-h", "3.50")
    assert readable(names, ["cpu", None, 3500]) == ("cpu", None, "3500m")
    assert readable(["message", "resource"], [None, ""]) == (None, "")
