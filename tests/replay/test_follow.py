"""`gatelog history --follow` while things happen, and the lives a name had before."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projector.support import Writer, busy_toy
from tests.replay.conftest import Ran
from tests.support.databases import migrated
from tests.support.processes import GATELOG
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")


def test_what_happens_is_told_until_the_group_is_over(tmp_path: Path) -> None:
    file = tmp_path / "live.sqlite3"
    url = f"sqlite:///{file}"
    migrated(url)
    toy, writer = Toy(), Writer(url)
    toy.pod("a0", "a", 2)
    writer.feed(toy.messages)
    said = tmp_path / "said"
    with said.open("wb") as out:
        child = subprocess.Popen(
            [GATELOG, "history", "ns/a", "--follow", "--db", str(file), "--cluster", "test"],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
        )

    def until(words: str) -> str:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            text = " ".join(said.read_text().split())
            if words in text:
                return text
            time.sleep(0.05)
        raise AssertionError(f"never said: {words}\n{said.read_text()}")

    try:
        first = until("created a0")
        assert "admit:" not in first
        for act in (
            lambda: toy.pod("a1", "a", 2),
            lambda: toy.run("a0", "a1"),
            lambda: toy.end("a0", "a1"),
        ):
            before = len(toy.messages)
            act()
            writer.feed(toy.messages[before:])
        text = until("finished: Succeeded")
        assert text.count("created a0") == 1 and "admit: fits the quota" in text
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.wait()
        writer.store.close()


def test_earlier_lives_are_named(gatelog: Callable[..., Ran], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/live.sqlite3"
    migrated(url)
    toy, writer = busy_toy(), Writer(url)
    toy.pod("single")
    writer.feed(toy.messages)
    writer.store.close()
    code, out, _ = gatelog("history", "ns/single", "--db", url, "--cluster", "test")
    assert code == 0
    _, _, below = out.partition("1 earlier life of this name: add --all")
    assert "2026-01-01 00:00:00 UTC  Succeeded" in below and "1 pod, gone after" in below


def test_follow_goes_with_a_story_only(gatelog: Callable[..., Ran]) -> None:
    for other in ("--all", "--json", "--sql"):
        code, _, err = gatelog("history", "ns/a", "--follow", other)
        assert code == 2 and "--follow" in err
