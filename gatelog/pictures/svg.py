"""Writes SVG: a sheet that grows downwards, with the few shapes that charts are made of.

Theory. A picture stands for itself: a title and a description for readers who cannot see it,
letters as letters, colours as variables that follow the reader's light or dark, nothing fetched
from anywhere. What differs by colour differs by place or pattern too.

Invariant: the same calls write the same bytes; text is escaped.
"""

import os
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from gatelog.shell.errors import CommandFailed, UsageFailed

WIDTH = 960
MARGIN = 24
SUFFIX = ".svg"

_STYLE = """
svg { --paper:#fff; --ink:#1f2328; --quiet:#59636e; --grid:#d1d9e0; --then:#b3bcc6; --now:#0a62c4;
  --good:#1a7f37; --held:#bf8700; --bad:#cf222e; font:13px system-ui,sans-serif; }
@media (prefers-color-scheme: dark) {
  svg { --paper:#0d1117; --ink:#f0f6fc; --quiet:#9198a1; --grid:#3d444d; --then:#59636e;
    --now:#4aa3ff; --good:#3fb950; --held:#d29922; --bad:#f85149; } }
.paper { fill:var(--paper) } text { fill:var(--ink) } .quiet { fill:var(--quiet); font-size:12px }
.head { font-size:15px; font-weight:600 } .title { font-size:19px; font-weight:600 }
.end { text-anchor:end } .mid { text-anchor:middle }
.grid { stroke:var(--grid); fill:none }
.limit { stroke:var(--ink); stroke-dasharray:5 4; fill:none } .other { stroke:var(--now) }
.mark { stroke:var(--ink); stroke-width:2 }
.then { fill:var(--then) } .now { fill:var(--now) } .good { fill:var(--good) }
.held { fill:var(--held) } .bad { fill:var(--bad) } .ink { fill:var(--ink) }
.empty { fill:none; stroke:var(--quiet); stroke-dasharray:3 2 }
.line { stroke:var(--now); stroke-width:2; fill:none }
"""


class Sheet:
    """A picture under way; `y` is how far down it is filled."""

    def __init__(self, title: str, about: str) -> None:
        self.y = 40.0
        self._title, self._about = title, about
        self._parts: list[str] = []
        self.text(MARGIN, self.y, title, "title")

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write a line of text; `kind` are classes of the style."""
        self._parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}"{_class(kind)}>{escape(_printable(text))}</text>'
        )

    def box(self, x: float, y: float, wide: float, high: float, kind: str, about: str = "") -> None:
        """Draw a rectangle; `about` is what a pointer over it shows."""
        title = f"<title>{escape(_printable(about))}</title>" if about else ""
        self._parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(max(0.0, wide))}" height="{_n(high)}"'
            f"{_class(kind)}>{title}</rect>"
        )

    def line(self, x: float, y: float, to_x: float, to_y: float, kind: str) -> None:
        """Draw a straight line."""
        self._parts.append(
            f'<line x1="{_n(x)}" y1="{_n(y)}" x2="{_n(to_x)}" y2="{_n(to_y)}"{_class(kind)}/>'
        )

    def path(self, points: list[tuple[float, float]], kind: str) -> None:
        """Draw a line through points."""
        path = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self._parts.append(f'<path d="M{path}"{_class(kind)}/>')

    def legend(self, entries: list[tuple[str, str]]) -> None:
        """Say what colours mean: kind and words; one line."""
        self.y += 26
        x = float(MARGIN)
        for kind, words in entries:
            if kind.split()[0] in ("line", "limit", "mark"):
                self.line(x, self.y - 4, x + 18, self.y - 4, kind)
            else:
                self.box(x, self.y - 10, 18, 11, kind)
            self.text(x + 24, self.y, words, "quiet")
            x += 44 + 6.6 * len(words)

    def render(self) -> str:
        """Return the picture."""
        high = _n(self.y + MARGIN)
        title, about = (escape(_printable(text)) for text in (self._title, self._about))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" '
            f'width="{WIDTH}" height="{high}" role="img" aria-labelledby="title about">\n'
            f'<title id="title">{title}</title>\n<desc id="about">{about}</desc>\n'
            f"<style>{_STYLE}</style>\n"
            f'<rect width="{WIDTH}" height="{high}" class="paper"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )


def check(path: Path | None) -> None:
    """Refuse a file that a picture cannot be, before anything is worked out.

    Raises:
        UsageFailed: it has another suffix, or its folder is not there.
    """
    if path is None:
        return
    if path.suffix != SUFFIX:
        raise UsageFailed(f"--picture {path}: the picture is SVG, give a file that ends in .svg")
    if not path.absolute().parent.is_dir():
        raise UsageFailed(f"--picture {path}: there is no folder {path.parent}")


def write(path: Path, sheet: Sheet) -> None:
    """Write the picture; what was there of that name is there until the new one is complete.

    Raises:
        CommandFailed: it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(sheet.render(), encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise CommandFailed(f"--picture {path}: {error.strerror}") from None


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _class(kind: str) -> str:
    return f" class={quoteattr(kind)}" if kind else ""


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)
