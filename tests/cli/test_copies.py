"""Commands on a copy: a log that was read into an empty database, months later."""

import json
from pathlib import Path

import pytest

from gatelog import cli
from tests.projector.support import Writer, busy_toy
from tests.support.databases import migrated


@pytest.fixture
def copy(tmp_path: Path) -> list[str]:
    """Options that name a copy, which no part of gatelog ever wrote to."""
    file = tmp_path / "copy.sqlite3"
    migrated(f"sqlite:///{file}")
    Writer(f"sqlite:///{file}").feed(busy_toy().messages)
    return ["--db", str(file), "--cluster", "test"]


def test_doctor_says_that_it_looks_at_a_copy(
    copy: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["doctor", "--json", *copy]) == 0
    found = {(f["area"], f["what"]): f for f in json.loads(capsys.readouterr().out)}
    assert "as of 2026-01-01 00:00:" in found["replicas", "copy"]["detail"]
    for area in ("log", "cluster"):
        assert found[area, "reachable"]["verdict"] == "skip"
        assert found[area, "reachable"]["detail"].endswith(f"a copy, which names no {area}")
    shown = [f for f in found.values() if f["what"] != "checkpoint"]  # it says when it was written
    assert not [f for f in shown if f["verdict"] == "fail" or " d " in f["detail"]]


def test_epochs_of_an_import_are_those_of_its_log(
    copy: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not cli.run(["epochs", *copy])
    shown = capsys.readouterr().out
    assert shown.startswith("epoch 1  2026-01-01 00:00:00 UTC  its log was read into a copy\n")
    assert "queueing.preemption_grace_s" in shown
