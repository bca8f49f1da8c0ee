"""Control characters in texts of a cluster never reach a terminal.

Theory. Labels, messages and reasons are texts of users: an escape sequence in them could rename the
window of an operator, hide lines or press keys. The output of commands goes through `Visible`,
which shows each control character as its picture (␛) or as �; rich's own sequences (colours,
cursor) go past it, and `screen` makes the text given to rich visible.

Invariant: of control characters only line feeds and tabs come through, and no change of direction.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TextIO, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_LOST = "\ufffd"
NO_PICTURE = (*range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Controls without a picture, ends of lines and paragraphs, changes of direction."""
_SHOWN: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys(NO_PICTURE, _LOST),
}


def visible(text: str) -> str:
    """Return a text without control characters, with pictures in their place."""
    # Nothing that is printable is in the table, and few lines have anything else: a line of the log
    # (430 characters) takes 2 us in this way, 18 by the table.
    if text.isprintable() or (text[-1] == "\n" and text[:-1].isprintable()):
        return text
    return text.translate(_SHOWN)


class Visible:
    """A stream of text on which control characters are pictures; `raw` is the stream below."""

    def __init__(self, out: TextIO) -> None:
        self.raw = out

    def write(self, text: str) -> int:
        """Write the visible form of a text; return the text's length."""
        self.raw.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        self.raw.writelines(map(visible, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw(out: TextIO) -> TextIO:
    """Return the stream itself, for writers of control sequences of our own."""
    return out.raw if isinstance(out, Visible) else out


@contextlib.contextmanager
def only_visible() -> Iterator[None]:
    """Have standard output and errors show control characters as pictures meanwhile."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, Visible(raw(out))) for out in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def shown(command: Callable[P, R]) -> Callable[P, R]:
    """Return a command whose output has no foreign control characters."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with only_visible():
            return command(*args, **kwargs)

    return run
