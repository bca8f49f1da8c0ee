"""Ingest, projector and actuator as child processes, one or two of each: to kill, freeze, replace.

    environment            their settings, at a log server without accounts
    shipped_environment    those of one part, or of a person who asks, at the log as it is shipped
    migrate                streams and tables
    Parts                  the processes

Faults are done to them with `tests.support.faults`; `tests.support.stack` has `gatelog up`, all
three in one process.

Invariant: `stop` and `kill` end every process that was added, whatever was done to it.
"""

import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from runtime.settings import NatsSettings
from tests.deploy.compose import free_port
from tests.support.forking import GATELOG
from tests.support.processes import Child
from tests.support.shippednats import ShippedNats

PARTS = {"ingest": "ingest", "projector": "project", "actuator": "actuate"}
"""Each part, and the command that runs it."""
READY_S = 60.0


def environment(
    nats: NatsSettings, cluster: str, database: str, kubeconfig: Path | None = None
) -> dict[str, str]:
    """The settings of gatelog's processes as environment variables; `database` is a URL."""
    found = {
        "GATELOG_CLUSTER": cluster,
        "GATELOG_DATABASE_URL": database,
        "GATELOG_NATS_URL": nats.url,
        "GATELOG_NATS_USER": nats.user,
        "GATELOG_NATS_PASSWORD_FILE": nats.password_file,
        "GATELOG_LOG_FORMAT": "json",
    }
    return found if kubeconfig is None else {**found, "KUBECONFIG": str(kubeconfig)}


def shipped_environment(
    log: ShippedNats, user: str, cluster: str, database: str, kubeconfig: Path
) -> dict[str, str]:
    """The same for a user of the shipped log: streams are made for it, decisions are signed, and
    Leases say who leads."""
    return {
        **environment(log.settings(user), cluster, database, kubeconfig),
        "GATELOG_STREAMS_CREATE": "false",
        "GATELOG_PROJECTOR_SIGNING_KEY_FILE": str(log.secrets / "decision-key.pem"),
        "GATELOG_ACTUATOR_DECISION_KEYS_FILE": str(log.secrets / "decision-keys.pem"),
        "GATELOG_LEASE_ENABLED": "true",
        "GATELOG_STATE_DIR": str(log.secrets.parent / "state"),
    }


def migrate(env: dict[str, str], folder: Path) -> None:
    """Run `gatelog migrate` to its end: the database gets its tables, NATS its streams."""
    child = Child("migrate", [GATELOG, "migrate"], env, folder)
    child.start()
    assert child.process is not None
    try:
        assert child.process.wait(120) == 0, child.tail()
    finally:
        child.stop()


class Piped(Child):
    """A child whose output goes through a pipe: a limit on its files is none on what it says."""

    def start(self) -> None:
        self.starts += 1
        self.process = subprocess.Popen(
            self.argv,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        threading.Thread(target=self._copy, args=(self.process.stdout,), daemon=True).start()

    def _copy(self, source: IO[bytes]) -> None:
        with source, self.output.open("ab", buffering=0) as kept:
            while said := os.read(source.fileno(), 65536):
                kept.write(said)


class Parts:
    """`replicas` processes of each part, not started; `env` gives the settings of a part.

    They are named as the part, or `ingest-1` and `ingest-2` where there are two. With `probed` each
    has a port for /readyz and /metrics in `health`.
    """

    def __init__(
        self,
        env: Callable[[str], dict[str, str]],
        folder: Path,
        *,
        replicas: int = 1,
        probed: bool = False,
        child: type[Child] = Child,
    ) -> None:
        self._env = env
        self._folder = folder
        self._probed = probed
        self._child = child
        self._all: dict[str, Child] = {}
        self.health: dict[str, int] = {}
        for part in PARTS:
            for n in range(1, replicas + 1):
                self.add(part if replicas == 1 else f"{part}-{n}", part)

    def add(self, name: str, part: str, own: dict[str, str] | None = None) -> Child:
        """Another process of a part (or of another command), with settings of its own."""
        env = self._env(part) | (own or {})
        if self._probed:
            self.health[name] = free_port()
            env["GATELOG_HEALTH_PORT"] = str(self.health[name])
        self._all[name] = self.beside(name, part, env)
        return self._all[name]

    def beside(self, name: str, part: str, env: dict[str, str] | None = None) -> Child:
        """A process that is not among these: its starter ends it."""
        argv = [GATELOG, PARTS.get(part, part)]
        return self._child(name, argv, self._env(part) if env is None else env, self._folder)

    def __getitem__(self, name: str) -> Child:
        return self._all[name]

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def __iter__(self) -> Iterator[Child]:
        return iter(self._all.values())

    def of(self, part: str) -> list[Child]:
        """The replicas of a part."""
        return [child for child in self if child.name.startswith(part)]

    def start(self) -> None:
        """Start all; where they are probed, wait until each says that it is ready."""
        for child in self:
            child.start()
        for name in self.health:
            self._until_ready(name)

    def stop(self) -> None:
        """End all in good order."""
        self._end(Child.stop)

    def kill(self) -> None:
        self._end(Child.kill)

    def wake(self) -> None:
        """Let those go on that were stopped (SIGSTOP)."""
        for child in self:
            if child.running:
                child.send(signal.SIGCONT)

    def _end(self, how: Callable[[Child], None]) -> None:
        self.wake()
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(how, self))

    @property
    def env(self) -> dict[str, str]:
        """The environment of the first."""
        return next(iter(self)).env

    @property
    def output(self) -> Path:
        """What the first printed, beside that of the others."""
        return next(iter(self)).output

    def text(self) -> str:
        return "".join(child.text() for child in self)

    def tail(self, count: int = 30) -> str:
        return "\n".join(child.tail(count) for child in self)

    def _until_ready(self, name: str) -> None:
        end, said, child = time.monotonic() + READY_S, "", self[name]
        url = f"http://127.0.0.1:{self.health[name]}/readyz"
        while time.monotonic() < end:
            assert child.running, child.tail()
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except urllib.error.HTTPError as error:
                said = error.read().decode(errors="replace")
            except OSError as error:
                said = str(error)
            time.sleep(0.1)
        raise AssertionError(f"{name} is not ready: {said}\n{child.tail()}")
