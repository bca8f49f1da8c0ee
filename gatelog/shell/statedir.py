"""The state directory of `gatelog up`: its files, and the lock by which only one process uses it.

    nats/                   the embedded log (its own lock guards it as well)
    read-model.sqlite3      the read model, unless database.url names another
    webhook/                our certificate authority and serving certificate
    up.lock                 held while `gatelog up` runs
    cluster                 which cluster the kubeconfig of that process named

Commands that only read find it from elsewhere: `near` looks here, in the directories above, and
then where the last `gatelog up` of this user ran, which leaves a note of its place.

The lock is an flock, so it goes with its process however that ends; the text in the file only names
the holder. A `.gitignore` keeps the directory out of repositories it may be started in.

Invariant: within `hold` no other process that uses this module uses the directory, and files that
this process makes are for its user alone.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gatelog.shell.errors import CommandFailed
from runtime.settings import READ_MODEL_FILE, Settings


class StateDirInUse(CommandFailed):
    """Another process holds the state directory."""


class StateDir:
    """Paths in a state directory; nothing is made before `hold`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.nats = self.path / "nats"
        self.webhook = self.path / "webhook"
        self.lock = self.path / "up.lock"

    @contextlib.contextmanager
    def hold(self, cluster: str = "") -> Iterator[None]:
        """Make the directory if need be and lock it; `cluster` is the cluster it belongs to.

        Raises:
            StateDirInUse: another process holds it.
            CommandFailed: the directory cannot be made or written.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CommandFailed(
                f"cannot use the state directory {self.path}: {error.strerror}; choose another "
                "with --state-dir"
            ) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateDirInUse(self._in_use()) from None
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            _leave_note(self.path)
            if cluster:
                self.remember(cluster)
            before = os.umask(0o077)
            try:
                yield
            finally:
                os.umask(before)
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)

    @property
    def model(self) -> Path:
        """Where the read model is, unless database.url names another."""
        return self.path / READ_MODEL_FILE

    def remember(self, identity: str) -> None:
        """Write down the cluster of the directory (`named.Named.identity`)."""
        note = self.path / "cluster"
        note.touch(mode=0o600)
        note.write_text(f"{identity}\n", encoding="utf-8")

    def cluster(self) -> str:
        """Return the cluster of the directory, "" if it was never written down."""
        try:
            return (self.path / "cluster").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def held(self) -> bool:
        """Return whether a process holds the directory; nothing is made."""
        try:
            handle = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def _in_use(self) -> str:
        holder = self.holder()
        who = f" (process {holder})" if holder else ""
        return (
            f"another gatelog runs on the state directory {self.path}{who}: stop that one, or "
            "choose another directory with --state-dir"
        )

    def in_use(self) -> str:
        """Return a sentence on the process that runs on it; "" if it is free. Makes nothing."""
        return self._in_use() if self.held() else ""

    def holder(self) -> int | None:
        """Return the process id in the lock file; None when there is none to be read."""
        try:
            text = self.lock.read_text(encoding="utf-8").strip()
        except OSError:
            return None
        return int(text) if text.isdigit() else None


def of(settings: Settings) -> StateDir:
    """Return the state directory that the settings name."""
    return StateDir(settings.state_dir)


def near(name: str) -> list[StateDir]:
    """Return the state directories of that name with a read model in them, the nearest first.

    Places are this directory, the directories above, and that of this user's last `gatelog up`.
    """
    here = Path.cwd()
    places = [parent / name for parent in (here, *here.parents)]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        places.append(Path(_note().read_text(encoding="utf-8").strip()))
    found = {state.path: state for state in map(StateDir, places) if state.model.exists()}
    return list(found.values())


def _note() -> Path:
    """Return the file with the path of the state directory that was used last."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "gatelog" / "last-state-dir"


def _leave_note(path: Path) -> None:
    # A convenience: a home that cannot be written to is no reason not to start.
    with contextlib.suppress(OSError, RuntimeError):
        note = _note()
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(f"{path}\n", encoding="utf-8")
