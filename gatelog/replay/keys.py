"""Going through steps by keys, in a terminal.

    n, space, right   next        p, left   back        g SEQ   to a position
    home, <           first       end, >    last        q       out

Invariant: the terminal is as it was when the walk ends, however it ends.
"""

import sys
import termios
import tty

from gatelog.replay.steps import Step, text

_ARROWS = {"\x1b[C": "n", "\x1b[D": "p", "\x1b[H": "<", "\x1b[F": ">"}


def walk(steps: list[Step]) -> None:
    """Show one step at a time until `q`."""
    index = 0
    while True:
        sys.stdout.write("\x1b[2J\x1b[H" + text(steps[index], index + 1, len(steps)))
        sys.stdout.write("\n\n[n]ext  [p]revious  [g]o to seq  [<] first  [>] last  [q]uit\n")
        sys.stdout.flush()
        index = _move(_key(), index, steps)
        if index < 0:
            return


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
            answer = input("seq: ").strip()
            if answer.isdecimal():
                wanted = int(answer)
                later = (i for i, step in enumerate(steps) if step.position >= wanted)
                return next(later, len(steps) - 1)
            return index
        case "q" | "\x03" | "\x04":
            return -1
        case _:
            return index


def _key() -> str:
    """Read one key press."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        key = sys.stdin.read(1)
        if key == "\x1b":
            key += sys.stdin.read(2)
        return _ARROWS.get(key, key)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
