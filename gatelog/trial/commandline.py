"""What both command lines do with a trial: read the manifest, print the answer.

Invariant: text that comes from the cluster or the manifest is never read as markup.
"""

import sys
from pathlib import Path

from rich.text import Text

from gatelog.shell.errors import UsageFailed
from gatelog.terminal import console
from gatelog.trial.answers import Answer
from gatelog.trial.manifests import MOST_BYTES
from gatelog.trial.telling import parts_of

_STYLES = {"starts": console.GOOD, "waits": console.WAIT, "refused": f"bold {console.BAD}"}


def read_text(name: str) -> str:
    """Return the text of a file, of stdin for `-`.

    Raises:
        UsageFailed: the file cannot be read.
    """
    if not name:
        raise UsageFailed("-f FILE: name the manifest to try; - is stdin")
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(name).expanduser().open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageFailed(f"-f {name}: {error.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise UsageFailed(f"-f {name}: is larger than {MOST_BYTES} bytes: leave objects out")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageFailed(f"-f {name}, line {line}: is not UTF-8") from None


def print_answer(answer: Answer) -> None:
    """Print an answer for people."""
    out = console.console()
    for part in parts_of(answer):
        if part.title:
            text = Text(part.title, style="bold")
            text.append("  ")
            text.append(part.words, style=_STYLES.get(part.verdict, ""))
            out.print(text)
        out.print(console.explained(part.lines))
