"""Memory does not follow the length of the log, when as many groups live at a time.

What a child holds at most is asked of the kernel. Between the two lengths lie 30,000 events; kept
as they are folded they take 50 MB more. What does grow until it is full are SQLite's page caches,
the pieces it sorts in and what is on its way from NATS, so that much is allowed.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from bench.recorded import Log, Shape, record, stand
from bench.story import CLUSTER
from projector.storage.database import writer
from runtime.embedded import EmbeddedNats
from runtime.settings import NatsSettings

SIZES = (20_000, 50_000)
CACHES_MB = 25
"""What SQLite's may grow by between the two lengths."""
MOST_GROWTH_MB = 45
# A busy machine may take long, and that is not what is tested.
pytestmark = pytest.mark.timeout(400)
SLOW = pytest.mark.slow("the same log again; test_a_rebuild_in_sqlite has the short form")
_CHILD = """
import sys
from gatelog import cli
code = cli.run(sys.argv[1:])
said = open("/proc/self/status").read()
print(code, int(said.partition("VmHWM:")[2].split()[0]) // 1024)
"""


class Recorded(Struct):
    """A log in a server, and where its read model would stand."""

    nats: NatsSettings
    log: Log


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Recorded]]:
    if not Path("/proc/self/status").exists():
        pytest.skip("the kernel does not say what a process held at most")
    servers, found = [], []
    with asyncio.Runner() as runner:
        for events in SIZES:
            place = tmp_path_factory.mktemp("log")
            server = EmbeddedNats(place / "nats", sync_always=False)
            runner.run(server.start())
            servers.append(server)
            log = runner.run(record(server, place, Shape("", events, 65, 1_000_000, "")))
            found.append(Recorded(server.settings(), log))
        yield found
        for server in servers:
            runner.run(server.stop())


def peak_mb(one: Recorded, url: str, *words: str) -> int:
    """Run `gatelog replay` in a child; returns what it held at most."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GATELOG_")}
    options = ["--db", url, "--cluster", CLUSTER]
    # What was recorded does not tell how queues stand, and deciding again is not to tell it either.
    options += ["--set", "queueing.status_interval_s=0"]
    for name in ("url", "user", "password_file"):
        options += ["--set", f"nats.{name}={getattr(one.nats, name)}"]
    command = [sys.executable, "-c", _CHILD, "replay", *words, *options]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    code, peak = ran.stdout.splitlines()[-1].split()
    assert code == "0", ran.stdout + ran.stderr
    return int(peak)


def check(peaks: list[tuple[int, ...]], caches_mb: tuple[int, ...]) -> None:
    short, long = peaks
    for a, b, more in zip(short, long, caches_mb, strict=True):
        assert b - a <= MOST_GROWTH_MB + more, f"{short} MB became {long}"


def test_a_rebuild_in_sqlite(logs: list[Recorded], tmp_path: Path) -> None:
    peaks: list[tuple[int, ...]] = []
    for number, one in enumerate(logs):
        url = f"sqlite:///{tmp_path}/{number}.sqlite3"
        stand(url, one.log)
        peaks.append((peak_mb(one, url, "--rebuild"),))
    check(peaks, (CACHES_MB,))


@SLOW
def test_other_questions_to_sqlite(logs: list[Recorded], tmp_path: Path) -> None:
    peaks = []
    for number, one in enumerate(logs):
        url = f"sqlite:///{tmp_path}/{number}.sqlite3"
        stand(url, one.log)
        peak_mb(one, url, "--rebuild")
        past = ("--at", str(one.log.messages), "--to", f"{tmp_path}/past{number}.sqlite3")
        commands = (("--verify",), ("--redecide",), past)
        peaks.append(tuple(peak_mb(one, url, *words) for words in commands))
    check(peaks, (CACHES_MB, 0, CACHES_MB))


@SLOW
def test_postgresql(logs: list[Recorded], postgres_database: str) -> None:
    peaks: list[tuple[int, ...]] = []
    engine = writer(postgres_database)
    for one in logs:
        stand(postgres_database, one.log)
        peaks.append((peak_mb(one, postgres_database, "--rebuild"),))
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()
    check(peaks, (0,))
