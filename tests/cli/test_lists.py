"""Lists of groups of a time, queues with quota, rows as CSV, names completed: on a story's rows."""

import csv
import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from gatelog import cli
from gatelog.terminal import completing
from gatelog.terminal.printing import _widths
from projector.replay.files import Export, Header
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy

LOW, HIGH = ({"kueue.x-k8s.io/priority-class": name} for name in ("low", "high"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A read model as options name it: two users, one group that waited for the other."""
    file = tmp_path_factory.mktemp("lists") / "model.sqlite3"
    migrated(f"sqlite:///{file}")
    toy = Toy(cpu=2)
    toy.pod("first", cpu=2, labels={"user": "ann"})
    toy.run("first")
    toy.pod("second", cpu=2, labels={"user": "bob"})
    toy.wait(60)
    toy.end("first")
    toy.run("second")
    toy.wait(30)
    toy.end("second")
    toy.pod("third", cpu=4, labels={"user": "ann"})
    Writer(f"sqlite:///{file}").feed(toy.messages)
    return ["--db", str(file), "--cluster", "test"]


def asked(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.run(words) == 0
    return str(capsys.readouterr().out)


def test_groups_of_a_user_with_waits_and_run_times(
    model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = asked(["list", "groups", "--since", "2026-01-01", "--user", "bob", *model], capsys)
    (line,) = [line for line in out.splitlines() if "second" in line]
    assert "1 m" in line and "30.0 s" in line, "it waited for the first, and ran for half a minute"
    assert "first" not in out
    mine = asked(["list", "groups", "--since", "2026-01-01", "-l", "user=ann", *model], capsys)
    assert "first" in mine and "third" in mine and "second" not in mine
    lately = asked(["list", "groups", "--since", "2026-02-01", *model], capsys)
    assert "third" in lately and "second" not in lately, "it is over, though its pod is there"
    early = ["list", "groups", "--since", "2026-01-01", "--until", "2026-01-01T00:00:30Z", *model]
    out = asked(early, capsys)
    assert "second" in out and "third" not in out


def test_an_empty_list_says_where_else_to_look(
    model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["list", "groups", "--state", "preempted", *model]) == 0
    assert "--gone or --since lists those that are" in capsys.readouterr().err
    assert cli.run(["list", "groups", "--user", "nn", *model]) == 0
    assert "of user nn: asked is label user (see --user-label)" in capsys.readouterr().err


def test_a_group_waits_again_after_its_eviction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It held quota for half a minute, was preempted, and waits since."""
    toy = Toy(cpu=2)
    toy.pod("low", "low", 1, cpu=2, labels=LOW)
    toy.run("low")
    toy.wait(30)
    toy.pod("high", cpu=2, labels=HIGH)
    toy.pod("low-2", "low", 1, cpu=2, labels=LOW)
    toy.wait(600)
    toy.pod("later")
    model = f"sqlite:///{tmp_path}/model.sqlite3"
    migrated(model)
    Writer(model).feed(toy.messages)
    words = ["list", "groups", "--since", "2026-01-01", "--db", model, "--cluster", "test"]
    (line,) = [one for one in asked(words, capsys).splitlines() if " low " in one]
    assert " 10 m" in line, line


@pytest.mark.parametrize(
    "words",
    [
        ["list", "queues", "--user", "ann"],
        ["list", "groups", "--label", "ann"],
        ["list", "groups", "--since", "soon"],
        ["usage", "-n", "ns", "--idle"],
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], model: list[str]) -> None:
    assert cli.run([*words, *model[:2]]) == 2


def test_queues_are_listed_with_their_quota(
    model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = asked(["list", "queues", *model], capsys)
    assert "QUOTA" in out and "f: 2 cpu" in out


def test_usage_of_one_namespace(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["usage", "--since", "2026-01-01", "-o", "csv", *model]
    everything = asked(words, capsys)
    assert asked([*words, "-n", "ns"], capsys) == everything
    assert "ns" not in asked([*words, "-n", "other"], capsys)


def test_rows_of_a_statement_as_csv(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT name, state FROM groups ORDER BY name"
    rows = list(csv.reader(io.StringIO(asked(["sql", query, "-o", "csv", *model[:2]], capsys))))
    assert rows[0] == ["name", "state"] and [row[0] for row in rows[1:]] == [
        "first",
        "second",
        "third",
    ]


def test_names_are_completed(model: list[str]) -> None:
    line = SimpleNamespace(params={"db": model[1], "cluster": "test"})
    assert completing.groups(line, "ns/th") == ["ns/third"]
    assert completing.namespaces(line, "n") == ["ns"]
    assert completing.queues(line, "") == ["cq", "lq"]
    assert completing.questions("preem") == ["preempted"]
    away = SimpleNamespace(params={"db": "/nowhere/at/all", "cluster": "test"})
    assert completing.groups(away, "") == []


def test_a_name_in_two_words_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["why", "etl", "giant"]) == 2
    assert "did you mean gatelog why etl/giant?" in capsys.readouterr().err


def test_a_file_named_jsonl_is_not_compressed(tmp_path: Path) -> None:
    header = Header(cluster="test", mode="builtin")
    for name, begin in (("x.jsonl", b"{"), ("x.jsonl.gz", b"\x1f\x8b"), ("x", b"\x1f\x8b")):
        with Export(tmp_path / name, header):
            pass
        assert (tmp_path / name).read_bytes().startswith(begin)


def test_no_word_is_broken_where_columns_fit() -> None:
    headings = ["NAMESPACE", "NAME", "WITHOUT QUOTA"]
    cells = [["team-a", "train-worker", "f: 2 cpu, 40 memory and some more words that fold"]]
    widths = _widths([headings, *cells], 50)
    assert widths is not None and sum(widths) + 4 <= 50
    assert widths[:2] >= [9, 12] and widths[2] >= len("WITHOUT")
    assert _widths([headings, ["x" * 60, "y", "z"]], 50) is None, "a block of lines then"
