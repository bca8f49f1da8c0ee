"""The end of our programs: exit codes, and readers of their output that have gone.

Invariant: a pipe whose reader went away (head, less) is no failure.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from gatelog.shell.errors import USAGE, explain
from gatelog.shell.visible import only_visible


def end(run: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command line on the arguments of this process, and end with its exit code."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader of our output has gone, which is its right; rich says so by SystemExit.
        # Nothing may be flushed into the pipe any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def failed(error: BaseException, name: str, help_of: str, *, debug: bool = False) -> int:
    """Write to stderr in one sentence why a command line failed; return its exit code.

    `name` begins the sentence; `help_of` is the command line of the help for a mistyped line.
    """
    usage = getattr(error, "format_message", None)
    if usage is not None:
        # A usage error of typer's own; its class differs between typer's releases.
        text = str(usage()).strip()
        if text:  # without: a bare command, whose help was printed already
            sys.stderr.write(f"{name}: {text.rstrip('.')} (see {help_of})\n")
        return USAGE
    if type(error).__name__ == "Abort":
        error = KeyboardInterrupt()
    with only_visible():
        if debug:
            traceback.print_exception(error)
        said = explain(error)
        sys.stderr.write(f"{name}: {said.sentence}\n")
    return said.exit_code
