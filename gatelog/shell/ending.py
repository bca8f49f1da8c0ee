"""How a program of ours ends: its exit code, and a reader of its output that has gone.

Invariant: a pipe whose reader went away (head, less) is no failure.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn


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
