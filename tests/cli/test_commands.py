"""The command line itself: help, refusals, exit codes; nothing is started here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from gatelog import cli
from tests.support.databases import migrated
from tests.support.imports import imported

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

ASKED_FOR = {"up", "demo", "ingest", "project", "actuate", "migrate", "history", "why", "doctor"}
REGISTERED = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined] # a group
COMMANDS = sorted(REGISTERED)
EXAMPLES = sorted(
    {
        example.strip()
        for command in REGISTERED.values()
        for example in re.findall(r"gatelog ([a-z]+ ?[^\n|&]*)", command.epilog or "")
    }
)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = cli.run(list(args))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_with_examples(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, out, err = run(capsys, command, "--help")
    assert code == 0 and not err
    assert f"gatelog {command}" in out and "Examples" in out
    assert max(map(len, out.splitlines())) <= 100
    assert "Traceback" not in out


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert set(COMMANDS) >= ASKED_FOR
    for command in COMMANDS:
        assert re.search(rf"^│ {command}\b", out, re.M), command


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_in_help_are_understood(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, *example.split(), "--help")
    assert (code, err) == (0, "")


def test_an_option_that_does_not_exist_is_noticed_before_help() -> None:
    """What the test above relies on."""
    assert cli.run(["up", "--nope", "--help"]) == 2


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["frobnicate"], 2, ["frobnicate", "gatelog --help"]),
        (["up", "--nope"], 2, ["--nope", "gatelog up --help"]),
        (["up", "--install", "magic"], 2, ["magic", "webhook", "policy"]),
        (["up", "--mode", "both"], 2, ["both", "builtin", "kueue"]),
        (["up", "--set", "novalue"], 2, ["--set novalue", "section.field=value"]),
        (["up", "--set", "no.such=1"], 2, ["no.such"]),
        (["up", "--set", "projector.open_decisions=9"], 2, ["no setting any more", "50000"]),
        (["up", "--set", "streams.replicas=0"], 2, ["streams.replicas", "1"]),
        (["up", "--cluster", "a b"], 2, ["cluster", "'a b'"]),
        (["project", "--config", "/nowhere.toml"], 2, ["/nowhere.toml", "No such file"]),
        (["ingest"], 2, ["nats.url", "gatelog up"]),
        (["project"], 2, ["nats.url"]),
        (["actuate"], 2, ["nats.url"]),
        (["history"], 2, ["NAMESPACE/NAME"]),
        (["history", "train"], 2, ["'train'", "NAMESPACE/NAME"]),
        (["why", "a/b/c"], 2, ["'a/b/c'"]),
        (["history", "a/b", "--db", "/nowhere/x.db"], 1, ["/nowhere/x.db", "--db"]),
        (["why", "a/b", "--db", "mysql://h/d"], 1, ["mysql", "postgresql://"]),
        (["migrate", "--db", "nonsense://"], 1, ["database.url"]),
    ],
)
def test_refusals_are_one_sentence_with_the_right_code(
    args: list[str], code: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    got, out, err = run(capsys, *args)
    assert got == code, err
    assert out == ""
    assert err.startswith("gatelog: ") and err.count("\n") == 1
    for word in words:
        assert word in err


def test_bad_settings_in_file_and_environment_name_field_and_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gatelog.toml"
    file.write_text("[streams]\nreplicas = 9\n")
    code, _, err = run(capsys, "migrate", "-c", str(file))
    assert code == 2 and "streams.replicas = 9" in err and str(file) in err
    monkeypatch.setenv("GATELOG_STREAMS_REPLICAS", "many")
    code, _, err = run(capsys, "migrate")
    assert code == 2 and "streams.replicas" in err and "GATELOG_STREAMS_REPLICAS" in err
    monkeypatch.delenv("GATELOG_STREAMS_REPLICAS")
    monkeypatch.setenv("GATELOG_PROJECTOR_SHARD", "1")
    code, _, err = run(capsys, "migrate")
    assert code == 2 and "GATELOG_PROJECTOR_SHARD is no setting any more" in err


def test_a_password_is_never_echoed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "why", "a/b", "--db", "postgresql://gatelog:s3cret@127.0.0.1:1/none"
    )
    assert code == 1
    assert "s3cret" not in out + err and "127.0.0.1" in err


def test_debug_adds_the_traceback_and_may_stand_anywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for args in (["--debug", "history", "x"], ["history", "x", "--debug"]):
        code, _, err = run(capsys, *args)
        assert code == 2 and "Traceback" in err
        assert err.splitlines()[-1].startswith("gatelog: ")


def test_version_and_module(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "gatelog", "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and re.fullmatch(r"gatelog \d+\.\d+.*\n", done.stdout)


def test_the_command_line_loads_no_extra_before_a_command_needs_it() -> None:
    clients = ("nats", "kubernetes_asyncio", "aiohttp", "sqlalchemy", "alembic")
    others = ("cryptography", "yaml", "simcluster")
    assert imported("import gatelog.cli", *clients, *others) == "[]\n"


def test_a_forecast_loads_no_client_of_log_or_cluster() -> None:
    """They took a third of the second that `why` and `forecast` need before they play."""
    clients = ("nats", "kubernetes_asyncio", "aiohttp")
    assert imported("import gatelog.forecast.refreshing", *clients) == "[]\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    line = f"{sys.executable} -m gatelog --help | head -c 1"
    argv = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("words", [["--version"], []])
def test_what_needs_no_command_imports_none(words: list[str]) -> None:
    """Completion of a name and the version are asked for while a person types."""
    asked = (
        "import sys\nfrom gatelog import cli\n"
        f"cli.run({words}) if {words} else None\n"
        "heavy = {'sqlalchemy', 'structlog', 'asyncio', 'msgspec', 'gatelog.shell.options'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "words", [["ask", "holding"], ["list", "queues"], ["why", "ns/x"], ["usage"]], ids=" ".join
)
def test_a_question_to_a_file_loads_no_more_than_it_takes(words: list[str], tmp_path: Path) -> None:
    """What these weigh in imports is most of the processor time of a command."""
    file = tmp_path / "model.sqlite3"
    migrated(f"sqlite:///{file}")
    asked = f"from gatelog import cli\ncli.run({[*words, '--db', str(file)]})"
    printed = imported(asked, "sqlalchemy", "structlog", "asyncio")
    assert printed.splitlines()[-1] == "[]", printed


def test_names_are_completed_with_what_they_stand_for() -> None:
    asked = {"_GATELOG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "gatelog wh"}
    done = subprocess.run(
        [sys.executable, "-m", "gatelog"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert '"why":"Why a group' in done.stdout and '"what-if":' in done.stdout
