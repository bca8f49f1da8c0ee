"""Commands of ours as child processes that are forked from one that has imported everything.

Theory. A Python that starts and imports gatelog costs most of a second of processor time, and
tests start hundreds. `multiprocessing` has a server that imports once and forks: a child has its
own pid, environment, directory, files and signals, and runs the entry point that its command line
names, as if that had been started by exec. What must be exec'd (another interpreter, a measurement
of memory or of start) starts as ever, by `subprocess`.

Invariant: what is started here ends with the process that started it.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PYTHON = sys.executable
GATELOG = str(Path(PYTHON).parent / "gatelog")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.preloaded"])


class Forked:
    """A child process, with those methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        out: Path,
        err: Path | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start `argv`; what it prints is appended to `out`, and to `err` if that is another file.

        `argv` begins with `GATELOG`, or with `PYTHON`, `-m` and a module.
        """
        self.args = list(argv)
        where = str(cwd or Path.cwd())
        files = (str(out), str(err or out))
        self._process: ForkServerProcess = _context.Process(
            target=_run, args=(self.args, dict(env), where, files), daemon=True
        )
        with _no_main_module():
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def ran(
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    *,
    cwd: Path | None = None,
    timeout_s: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, as `subprocess.run` would; files of its output go to `folder`.

    Raises:
        subprocess.TimeoutExpired: it was still running, and was killed.
    """
    name = f".ran-{time.monotonic_ns()}"
    out, err = folder / f"{name}.out", folder / f"{name}.err"
    child = Forked(argv, env, out, err, cwd)
    try:
        code = child.wait(timeout_s)
    finally:
        child.kill()
    said = [file.read_text(errors="replace") for file in (out, err)]
    out.unlink()
    err.unlink()
    return subprocess.CompletedProcess(list(argv), code, *said)


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep children from importing what the tests were started by."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _run(argv: list[str], env: dict[str, str], cwd: str, files: tuple[str, str]) -> None:
    """Become what exec would have made of the command line."""
    _redirect(*files)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    # A part may start processes of its own.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    gc.enable()
    try:
        if argv[0] == GATELOG:
            from gatelog.cli import main

            sys.argv = argv
            main()
        else:
            assert argv[:2] == [PYTHON, "-m"], argv
            sys.argv = argv[2:]
            runpy.run_module(argv[2], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()


def _redirect(out: str, err: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    opened = [os.open(os.devnull, os.O_RDONLY), os.open(out, flags, 0o600)]
    opened.append(opened[1] if err == out else os.open(err, flags, 0o600))
    for number, file in enumerate(opened):
        os.dup2(file, number)
    for file in set(opened) - {0, 1, 2}:
        os.close(file)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
