"""Every command has the manners that its kind of answer asks for; what one lacks is named here.

Invariant: a command, or an option of these, that comes or goes without this table is a failure.
"""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gatelog import cli
from tests.cli.conftest import Ran
from tests.projector.support import Writer, busy_toy
from tests.support.databases import migrated

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Gatelog = Callable[..., Ran]

WATCHED = ("-n", "-A", "-o", "--watch", "--no-headers", "--db", "--state-dir", "--dry-run")
"""Options that this table is about; `-c` of a file of settings and `--set` go with all of them."""
ROWS = "-n -A -o --watch --no-headers --db --state-dir"
MODEL = "-o --db --state-dir"
ACT = "-n -o --dry-run"

TABLE = {
    # Rows of things that have a namespace.
    "why": ROWS,
    "list": ROWS,
    "parked": ROWS,
    # --every makes one forecast after the other, and keeps them.
    "forecast": "-n -A -o --no-headers --db --state-dir --dry-run",
    # One thing, or sums over all.
    "history": "-n -o --watch --db --state-dir",
    "try": "-n -o --db --state-dir",
    "usage": "-n -o --no-headers --db --state-dir",
    "topology": "-o --no-headers --db --state-dir",
    "ask": "-n -o --no-headers --db --state-dir",
    "sql": "-o --no-headers --db --state-dir",
    "epochs": MODEL,
    "doctor": MODEL,
    "archive": MODEL,
    "prune": f"{MODEL} --dry-run",
    "version": "-o",
    "what-if": "-o --db --state-dir",
    # Its answer is whether two things are equal: the exit status, and what differs in words.
    "replay": "--db --state-dir",
    # What is made is a file.
    "export": "-n --db --state-dir",
    "import": "",  # --to names the empty database
    "bundle": "-n --db --state-dir",
    # What is changed are objects of the cluster.
    "stop": ACT,
    "resume": ACT,
    "uninstall": "-n -o --dry-run --state-dir",
    # What goes on until it is stopped.
    "up": "--db --state-dir",
    "demo": "--db --state-dir",
    "migrate": "--db --state-dir",
    "secrets": "-n",
    # What it prints is for kubectl.
    "rights": "",
    "ingest": "",
    "project": "--db",
    "actuate": "",
    "serve": "--db --state-dir",
}


def commands() -> Iterator[tuple[str, Any]]:
    """Name and command of all that can be called, but for short names."""

    def under(prefix: str, command: Any) -> Iterator[tuple[str, Any]]:
        for name, one in getattr(command, "commands", {}).items():
            if not one.hidden:
                if getattr(one, "commands", None):
                    yield from under(f"{prefix}{name} ", one)
                else:
                    yield f"{prefix}{name}", one

    return under("", typer.main.get_command(cli.app))


def test_every_command_has_the_options_of_its_kind() -> None:
    found = {}
    for name, command in commands():
        options = {text for parameter in command.params for text in parameter.opts}
        found[name] = " ".join(option for option in WATCHED if option in options)
    wanted = {
        name: " ".join(option for option in WATCHED if option in text.split())
        for name, text in TABLE.items()
    }
    assert found == wanted


def test_forms_have_the_same_names_everywhere(gatelog: Gatelog) -> None:
    for name, text in TABLE.items():
        if "-o" in text.split():
            code, _, err = gatelog(*name.split(), "-o", "paper")
            rows = ("wide", "name") if "-A" in text.split() else ()
            assert code == 2 and "paper" in err, (name, err)
            assert all(f"'{form}'" in err for form in ("json", "yaml", *rows)), (name, err)


@pytest.fixture
def asked(tmp_path: Path) -> tuple[str, ...]:
    """How a command is told of a read model with a bit of everything."""
    url = f"sqlite:///{tmp_path}/read-model.sqlite3"
    migrated(url)
    writer = Writer(url)
    writer.feed(busy_toy().messages)
    writer.store.close()
    return ("--db", url, "--cluster", "test")


QUESTIONS = (
    ("why", "-A"),
    ("why", "ns/c"),
    ("list", "groups"),
    ("list", "queues"),
    ("parked", "--all"),
    ("history", "a", "-n", "ns"),
    ("epochs",),
    ("usage",),
    ("forecast", "--dry-run"),
)


def test_json_and_yaml_say_the_same(gatelog: Gatelog, asked: tuple[str, ...]) -> None:
    for words in QUESTIONS:
        code, text, err = gatelog(*words, "-o", "json", *asked)
        assert code == 0, (words, err)
        found = json.loads(text)
        code, text, _ = gatelog(*words, "-o", "yaml", *asked)
        assert code == 0 and type(yaml.safe_load(text)) is type(found), words
        if words[0] in ("list", "parked", "epochs"):  # the others tell how long ago
            assert json.loads(json.dumps(yaml.safe_load(text), default=str)) == found, words
    sql = ("sql", "SELECT name, state FROM groups ORDER BY name", *asked[:2])
    assert yaml.safe_load(gatelog(*sql, "-o", "yaml")[1]) == json.loads(gatelog(*sql, "--json")[1])
    code, _, err = gatelog("epochs", "--json", "-o", "yaml", *asked)
    assert code == 2 and "exclude each other" in err


def test_forty_columns_and_no_colour(asked: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever is shown fits or folds, nothing is cut; one process asks all of it."""
    lines = [[*words, *asked] for words in QUESTIONS]
    lines.append(["sql", "SELECT * FROM groups", *asked[:2]])
    lines.append(["doctor", *asked, "--kubeconfig", str(tmp_path / "none")])
    program = (
        "import json, sys\nfrom gatelog.cli import run\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    print('#', *words[:2], flush=True)\n    run(words)\n"
    )
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "40", "NO_COLOR": "1"}
    # Sentences on stderr are folded by the terminal itself.
    with (tmp_path / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(lines)], stdout=child, stderr=errors, env=env
        )
    os.close(child)
    said = b""
    try:
        while chunk := os.read(parent, 65536):
            said += chunk
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    finally:
        os.close(parent)
    assert process.wait(60) == 0, said.decode()
    text = said.decode().replace("\r\n", "\n")
    assert "…" not in text and "Traceback" not in (tmp_path / "stderr").read_text()
    assert not re.search(r"\x1b\[[0-9;]*(3|4|9)[0-9]", text), "a colour"
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    wide = [
        (part.splitlines()[0], line)
        for part in bare.split("# ")[1:]
        for line in part.splitlines()
        if len(line) > 40
    ]
    assert not wide, wide


def test_what_is_parked_of_a_namespace_and_in_every_form(
    gatelog: Gatelog, asked: tuple[str, ...]
) -> None:
    _, text, _ = gatelog("parked", "--all", "-o", "json", *asked)
    rows = json.loads(text)
    _, names, _ = gatelog("parked", "--all", "-o", "name", *asked)
    assert names.split() == [f"{row['seq']}/{row['ord']}" for row in rows]
    code, out, _ = gatelog("parked", "-n", "nowhere", *asked)
    assert (code, out) == (0, "nothing is parked\n")
    code, _, err = gatelog("parked", "show", "1/0", "-n", "ns", *asked)
    assert code == 2 and "parked list" in err
