"""Going through steps by keys, in a terminal.

    n, space, right   next        p, left   back        g SEQ   to a position
    home, <           first       end, >    last        q       out

Invariant: the terminal is as it was when the walk ends, however it ends.
"""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from gatelog.replay.steps import Step, screen
from gatelog.shell.visible import raw
from gatelog.terminal.console import QUIET, console

_ARROWS = {"\x1b[C": "n", "\x1b[D": "p", "\x1b[H": "<", "\x1b[F": ">"}
_HELP = "[n]ext  [p]revious  [g]o to seq  [<] first  [>] last  [q]uit"


def walk(steps: list[Step]) -> None:
    """Show one step at a time until `q`."""
    index, out = 0, console()
    with _by_key():
        while index >= 0:
            raw(sys.stdout).write("\x1b[2J\x1b[H")
            sys.stdout.flush()
            before = steps[index - 1] if index else None
            out.print(screen(steps[index], index + 1, len(steps), before))
            out.print(f"\n{_HELP}", style=QUIET, markup=False)
            for key in _keys():
                index = _move(key, index, steps)
                if index < 0:
                    break


def _move(key: str, index: int, steps: list[Step]) -> int:
    match key:
        case "n" | " ":
            return min(index + 1, len(steps) - 1)
        case "p":
            return max(index - 1, 0)
        case "<":
            return 0
        case ">":
            return len(steps) - 1
        case "g":
            return _asked(index, steps)
        case "q" | "\x03" | "\x04":
            return -1
        case _:
            return index


def _asked(index: int, steps: list[Step]) -> int:
    with _by_line():
        sys.stdout.write("seq: ")
        sys.stdout.flush()
        answer = sys.stdin.readline().strip()
    if not answer.isdecimal():
        return index
    later = (i for i, step in enumerate(steps) if step.position >= int(answer))
    return next(later, len(steps) - 1)


def _keys() -> Iterator[str]:
    """Wait for keys and give out those that came; keys typed ahead are not lost."""
    typed = os.read(sys.stdin.fileno(), 64).decode(errors="replace") or "\x04"
    while typed:
        key = typed[:3] if typed[:3] in _ARROWS else typed[0]
        typed = typed[len(key) :]
        yield _ARROWS.get(key, key)


@contextmanager
def _by_key() -> Iterator[None]:
    """Single keys, not echoed; what was typed meanwhile stays."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _by_line() -> Iterator[None]:
    """Whole lines with echo, for a question; single keys again afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    lines = termios.tcgetattr(descriptor)
    lines[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, lines)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
