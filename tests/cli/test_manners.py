"""kubectl's manners: forms of output, one line per row in a pipe, namespaces, completion."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
import yaml

from gatelog import cli
from gatelog.shell import versions
from gatelog.shell.statedir import StateDir
from projector.upkeep import migrate
from tests.cli.conftest import Ran
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Db = tuple[str, Toy]
Gatelog = Callable[..., Ran]
PROGRAM = str(Path(sys.executable).with_name("gatelog"))


def ask(gatelog: Gatelog, db: Db, command: str, *args: str) -> Ran:
    return gatelog(command, *args, "--db", db[0], "--cluster", "test")


def columns(out: str) -> list[list[str]]:
    return [[cell for cell in line.split("   ") if cell] for line in out.splitlines()]


def test_rows_in_a_pipe_are_lines_and_values_are_whole(gatelog: Gatelog, busy_db: Db) -> None:
    long = "x" * 400
    query = f"SELECT '{long}' AS first, 'two' || chr(10) || 'lines' AS second"
    if busy_db[0].startswith("sqlite"):
        query = query.replace("chr", "char")
    code, out, err = gatelog("sql", query, "--db", busy_db[0])
    assert (code, err) == (0, "")
    heading, row = out.splitlines()
    assert heading.split() == ["first", "second"]
    assert row.split() == [long, "two\\nlines"]
    _, out, _ = gatelog("sql", query, "--no-headers", "--db", busy_db[0])
    assert out.splitlines() == [row]


def test_a_story_in_a_pipe_folds_nothing(
    gatelog: Gatelog, busy_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text, _ = ask(gatelog, busy_db, "history", "ns/a", "--json")
    messages = (entry["message"] for entry in json.loads(text)[0]["entries"])
    said = max((message.partition(" — ")[0] for message in messages), key=len)
    assert len(said) > 50
    _, folded, _ = ask(gatelog, busy_db, "history", "ns/a", "--full")
    assert said not in folded, "COLUMNS is obeyed"
    monkeypatch.delenv("COLUMNS")
    _, whole, _ = ask(gatelog, busy_db, "history", "ns/a", "--full")
    assert any(said in line for line in whole.splitlines())
    assert all(line == line.rstrip() for line in whole.splitlines())


def test_why_of_a_namespace_in_every_form(gatelog: Gatelog, busy_db: Db) -> None:
    code, table, err = ask(gatelog, busy_db, "why", "-n", "ns")
    assert (code, err) == (0, "")
    head, *rows = table.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "POSITION", "FOR", "REASON", "MESSAGE"]
    _, wide, _ = ask(gatelog, busy_db, "why", "-n", "ns", "-o", "wide")
    assert "CLUSTERQUEUE" in wide.splitlines()[0]
    _, names, _ = ask(gatelog, busy_db, "why", "-n", "ns", "-o", "name")
    assert len(names.splitlines()) == len(rows)
    assert all(name.startswith("ns/") for name in names.splitlines())
    _, text, _ = ask(gatelog, busy_db, "why", "-n", "ns", "-o", "json")
    _, same, _ = ask(gatelog, busy_db, "why", "ns", "--json")
    assert json.loads(text) == json.loads(same)
    _, text, _ = ask(gatelog, busy_db, "why", "-A", "-o", "yaml")
    assert [f"{row['namespace']}/{row['name']}" for row in yaml.safe_load(text)] >= names.split()
    _, bare, _ = ask(gatelog, busy_db, "why", "-n", "ns", "--no-headers")
    assert [line.split() for line in bare.splitlines()] == [line.split() for line in rows]


def test_a_name_with_its_namespace_apart(gatelog: Gatelog, busy_db: Db) -> None:
    code, apart, _ = ask(gatelog, busy_db, "why", "c", "-n", "ns")
    assert code == 0 and "ns/c" in apart
    assert yaml.safe_load(ask(gatelog, busy_db, "why", "c", "-n", "ns", "-o", "yaml")[1])["group"]
    code, _, err = ask(gatelog, busy_db, "why", "other/c", "-n", "ns")
    assert code == 2 and "not in the namespace of -n ns" in err
    code, _, err = ask(gatelog, busy_db, "why", "-n", "ns", "-A")
    assert code == 2 and "-A" in err


def test_lists(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, err = ask(gatelog, busy_db, "list", "groups")
    assert (code, err) == (0, "")
    rows = columns(out)
    assert rows[0][:3] == ["NAMESPACE", "NAME", "QUEUE"]
    names = [row[1].strip() for row in rows[1:]]
    assert names == sorted(names) and {"a", "b", "c", "d"} <= set(names)
    _, out, _ = ask(gatelog, busy_db, "list", "groups", "--state", "Queued", "-o", "json")
    assert {row["state"] for row in json.loads(out)} == {"Queued"}
    _, out, _ = ask(gatelog, busy_db, "list", "groups", "-q", "cq", "-o", "name")
    assert "ns/a" in out.splitlines()

    _, out, _ = ask(gatelog, busy_db, "list", "queues", "-o", "json")
    queues = {(row["kind"], row["name"]): row for row in json.loads(out)}
    queue, local = queues[("ClusterQueue", "cq")], queues[("LocalQueue", "lq")]
    assert queue["pending"] >= 1 and queue["admitted"] >= 1
    assert local["pending"] and queue["held"]
    _, table, _ = ask(gatelog, busy_db, "list", "queues")
    assert "clusterqueue/cq" in ask(gatelog, busy_db, "list", "queues", "-o", "name")[1].split()
    assert "LONGEST WAIT" in table.splitlines()[0] and "WAIT P50" not in table
    assert 0 <= queue["wait_half_s"] <= queue["wait_most_s"] and local["wait_half_s"] is None
    _, table, _ = ask(gatelog, busy_db, "list", "queues", "-o", "wide")
    assert "WAIT P50 (7 d)   WAIT P90 (7 d)" in table.splitlines()[0]

    code, out, err = ask(gatelog, busy_db, "list", "groups", "-n", "nowhere")
    assert code == 0 and "no groups in namespace nowhere" in err


def test_narrow_terminals_cut_nothing(busy_db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    for command in (["list", "queues"], ["why", "-A"], ["list", "groups", "-o", "wide"]):
        monkeypatch.delenv("NO_COLOR", raising=False)
        text = _on_a_terminal([*command, "--db", busy_db[0], "--cluster", "test"])
        assert "\x1b[" in text and "…" not in text
        monkeypatch.setenv("NO_COLOR", "1")
        plain = _on_a_terminal([*command, "--db", busy_db[0], "--cluster", "test"])
        assert not any(f"\x1b[{colour}" in plain for colour in ("3", "38", "9"))
        bare = re.sub(r"\x1b\[[0-9;]*m", "", plain)
        assert max(map(len, bare.splitlines())) <= 40


def test_on_a_terminal_an_answer_begins_with_whose_it_is(
    busy_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("NO_COLOR", "1")
    for command in (["why"], ["list", "groups"], ["parked"], ["why", "-o", "json"]):
        text = _on_a_terminal([*command, "--db", busy_db[0], "--cluster", "test"])
        first = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()[0]
        said = re.fullmatch(r".*read-model\S* · cluster test · as of 2\d{3}-.* UTC", first)
        if "postgresql" in busy_db[0]:
            said = re.fullmatch(r"postgresql://.* · cluster test · as of 2\d{3}-.* UTC", first)
        assert (said is None) == ("json" in command), first


def _on_a_terminal(args: list[str]) -> str:
    """What a command of this process writes to a terminal, whose other end a thread reads."""
    parent, child = pty.openpty()
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(_read, parent)
        with open(child, "w") as terminal, redirect_stdout(terminal), redirect_stderr(terminal):
            code = cli.run(args)
        found = reading.result(30)
    os.close(parent)
    assert code == 0, found
    return found.replace("\r\n", "\n")


def _read(terminal: int) -> str:
    found = b""
    with suppress(OSError):  # how a terminal says that nobody writes to it any more
        while chunk := os.read(terminal, 65536):
            found += chunk
    return found.decode()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    if shutil.which(shell) is None and shell != "bash":
        shell = "bash"
    given = {**os.environ, "_GATELOG_COMPLETE": f"complete_{shell}"}
    given |= {"COMP_WORDS": "gatelog li", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "gatelog li"}
    said = subprocess.run(
        [PROGRAM], env=given, capture_output=True, text=True, timeout=30, check=True
    )
    assert "list" in said.stdout and "Traceback" not in said.stderr


def test_version_says_schema(gatelog: Gatelog) -> None:
    code, out, _ = gatelog("version", "-o", "json")
    assert code == 0 and json.loads(out)["schema"] == migrate.head()
    assert f"schema: {migrate.head()}" in gatelog("version")[1]


def test_version_in_an_image_says_its_digest_and_what_is_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sbom.cdx.json").write_text("{}")
    monkeypatch.setenv("IMAGE_DIGEST", "sha256:1")
    found = versions.facts(tmp_path)
    assert (found["image"], found["sbom"]) == ("sha256:1", str(tmp_path / "sbom.cdx.json"))


def test_migrate_makes_no_directory_by_surprise(gatelog: Gatelog, tmp_path: Path) -> None:
    code, _, err = gatelog("migrate", "--db", str(tmp_path / "typo" / "model.db"))
    assert code == 1 and "no directory" in err and "typo" in err
    assert not (tmp_path / "typo").exists()
    assert gatelog("migrate", "--db", str(tmp_path / "model.db"))[0] == 0


def test_the_read_model_is_found_from_elsewhere(
    gatelog: Gatelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "project"
    below, elsewhere = home / "a" / "b", tmp_path / "elsewhere"
    below.mkdir(parents=True)
    elsewhere.mkdir()
    state = StateDir(home / ".gatelog")
    monkeypatch.chdir(home)
    with state.hold():
        migrate.upgrade(f"sqlite:///{state.model}")
    query = ("sql", "SELECT count(*) AS n FROM groups", "--json")
    assert gatelog(*query)[1:] == ('[{"n":0}]\n', "")
    for place in (below, elsewhere):
        monkeypatch.chdir(place)
        code, out, err = gatelog(*query)
        assert code == 0 and out == '[{"n":0}]\n'
        assert f"reading {home / '.gatelog'}" in err
    shutil.rmtree(tmp_path / "home-state")
    code, _, err = gatelog(*query)
    assert code == 1 and "no such database" in err


def test_migrate_is_named_only_where_it_helps(
    gatelog: Gatelog, tmp_path: Path, postgres_database: str
) -> None:
    (tmp_path / "empty.db").touch()
    _, _, err = gatelog("why", "--db", str(tmp_path / "empty.db"))
    assert "gatelog migrate" in err
    nobody = str(postgres_database).replace("postgresql://", "postgresql://nobody-of-that-name@", 1)
    if "@" in str(postgres_database):
        nobody = "postgresql://nobody-of-that-name@" + str(postgres_database).split("@", 1)[1]
    code, _, err = gatelog("why", "--db", nobody)
    assert code == 1 and "migrate" not in err and "nobody-of-that-name" in err
