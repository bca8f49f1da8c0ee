"""Fixtures of the replay tests: a read model with the log it was made from, on both databases."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatelog import cli
from podgroup.model.names import PRIORITY_CLASS
from tests.core.test_nodes import with_nodes
from tests.projector.support import busy_toy
from tests.replay.support import COUNTED, Played, played_in
from tests.support.toy import Toy

Ran = tuple[int, str, str]


@pytest.fixture
def gatelog(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Run a command line in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str) -> Ran:
        capsys.readouterr()
        code = cli.run(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database, of each kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_database"))
    return f"sqlite:///{tmp_path}/live.sqlite3"


def contended() -> Toy:
    """The same with a group that others give way to, nodes, and a pod that fits none of them."""
    toy = with_nodes(busy_toy(COUNTED))
    toy.unfit("w1")
    toy.pod("urgent", cpu=3, labels={PRIORITY_CLASS: "high"})
    return toy


@pytest.fixture
def played(database: str, tmp_path: Path) -> Iterator[Played]:
    """A bit of everything, on each database."""
    server, found = played_in(tmp_path, database, contended())
    yield found
    asyncio.run(server.stop())


@pytest.fixture
def simple(tmp_path: Path) -> Iterator[Played]:
    """The same on SQLite only."""
    server, found = played_in(tmp_path, f"sqlite:///{tmp_path}/live.sqlite3", busy_toy(COUNTED))
    yield found
    asyncio.run(server.stop())
