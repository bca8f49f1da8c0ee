"""Rows as kubectl prints them: a table, wide, JSON, YAML or names.

Theory. Output on a terminal may fold; piped output is read by line and by column, so there each row
is one line with whole values, padded as kubectl pads. Programs are given JSON or YAML of the rows
themselves, whatever columns a person would see.

Invariant: in a pipe a row is one line, and no value is cut or is a formula to a spreadsheet.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TextIO, TypeVar

import msgspec

from gatelog.shell.visible import NO_PICTURE

Row = TypeVar("Row")
Output = Literal["wide", "json", "yaml", "name"]
Form = Literal["json", "yaml"]

GAP = "   "
_APART = 2
"""Columns between two of a table on a terminal, and behind the last."""
NARROW = 80
"""Columns of a terminal below which a row is a block of lines."""


class Column(NamedTuple, Generic[Row]):
    """A column: its heading, its text for a row, and whether only `-o wide` shows it."""

    name: str
    text: Callable[[Row], str]
    wide: bool = False


def show(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    output: Output | None,
    *,
    names: Callable[[Row], str],
    headers: bool = True,
    stream: TextIO | None = None,
) -> None:
    """Print rows in the form that was asked for; None is the table of the narrow columns."""
    out = stream if stream is not None else sys.stdout
    if output in ("json", "yaml"):
        out.write(document(rows, output))
    elif output == "name":
        out.writelines(f"{names(row)}\n" for row in rows)
    else:
        shown = [column for column in columns if output == "wide" or not column.wide]
        cells = [[column.text(row) for column in shown] for row in rows]
        table([column.name for column in shown], cells, headers=headers, out=out)


def say_where(instance: str, cluster: str, as_of: datetime | None, form: str | None) -> None:
    """Print the source of the following answer on a terminal: nothing in a pipe or to a program."""
    if form in (None, "", "wide") and sys.stdout.isatty():
        when = f"as of {as_of:%Y-%m-%d %H:%M:%S} UTC" if as_of else "nothing was written yet"
        from gatelog.terminal import console

        said = f"{instance} · cluster {cluster} · {when}"
        console.console().print(said, style=console.QUIET, markup=False, highlight=False)


_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode
"""PostgreSQL gives means and hours as decimals: these are numbers for programs, too."""


def document(found: Any, output: Form) -> str:
    """Return anything msgspec can encode as a document that ends with a newline."""
    encoded = _encode(found)
    if output == "json":
        return escaped(msgspec.json.format(encoded, indent=2).decode()) + "\n"
    import yaml

    text: str = yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True)
    return text


_ESCAPES = {code: f"\\u{code:04x}" for code in (0x7F, *NO_PICTURE)}


def escaped(text: str) -> str:
    """Return JSON with the control characters escaped that JSON itself leaves as they are."""
    return text.translate(_ESCAPES)


def table(
    headings: Sequence[str], cells: Sequence[Sequence[str]], *, headers: bool, out: TextIO
) -> None:
    """Print a table: one line per row in a pipe, fitted to the width of a terminal."""
    if out.isatty():
        _fitted(headings, cells, headers=headers, out=out)
        return
    lines = [[_one_line(cell) for cell in row] for row in cells]
    if headers:
        lines.insert(0, list(headings))
    out.writelines(f"{line}\n" for line in _padded(lines))


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def separated(rows: Iterable[Iterable[Any]], out: TextIO) -> None:
    """Print rows as CSV; texts that a spreadsheet would calculate have an apostrophe in front."""
    csv.writer(out, lineterminator="\n").writerows(map(_separate, row) for row in rows)


def _separate(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    return _one_line(f"'{cell}" if cell.startswith(_FORMULA) else cell)


def result(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    output: Form | Literal["csv"] | None,
    *,
    headers: bool,
) -> None:
    """Print the rows of a query: as a table, as CSV, or as an object per row for programs."""
    if output == "csv":
        separated([names, *rows] if headers else rows, sys.stdout)
        return
    if output is None:
        cells = [["" if value is None else str(value) for value in row] for row in rows]
        table(names, cells, headers=headers, out=sys.stdout)
        return
    from gatelog.readmodel.questions import typed

    found = [dict(zip(names, map(typed, row), strict=True)) for row in rows]
    if output == "yaml":
        sys.stdout.write(document(found, output))
    else:
        text = _encode(found).decode()
        sys.stdout.write(escaped(text) + "\n")


def _padded(lines: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield GAP.join(padded).rstrip()


def _one_line(cell: str) -> str:
    """Return a value without line ends, which are written as in JSON."""
    return cell.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")


def _widths(lines: Sequence[Sequence[str]], whole: int) -> list[int] | None:
    """Return widths of columns in which no word is broken, None if they do not fit in `whole`.

    The rest is given to columns that would fold, by how much they lack.
    """
    columns = [list(column) for column in zip(*lines, strict=True)]
    words = [[word for cell in column for word in cell.split()] for column in columns]
    least = [max(map(len, some), default=1) for some in words]
    most = [max((len(cell) for cell in column), default=1) for column in columns]
    left = whole - sum(least) - _APART * (len(columns) - 1)
    if left < 0:
        return None
    lack = sum(most) - sum(least)
    if lack <= left:
        return [max(1, width) for width in most]
    return [max(1, a + (b - a) * left // lack) for a, b in zip(least, most, strict=True)]


def _fitted(
    headings: Sequence[str], cells: Sequence[Sequence[str]], *, headers: bool, out: TextIO
) -> None:
    """Print a table that folds its cells between words; where that does not fit, and below `NARROW`
    columns, a block of lines per row.
    """
    from rich.table import Table
    from rich.text import Text

    from gatelog.terminal import console

    screen = console.console(out)
    grid = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=headers, header_style="bold"
    )
    widths = _widths([*([headings] if headers else []), *cells], screen.width - _APART)
    if screen.width >= NARROW and widths is not None:
        for heading, width in zip(headings, widths, strict=True):
            grid.add_column(heading, overflow="fold", width=width)
        for row in cells:
            grid.add_row(*map(Text, row))
    else:
        grid.show_header = False
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for number, row in enumerate(cells):
            if number:
                grid.add_row()
            for heading, cell in zip(headings, row, strict=True):
                if cell:
                    grid.add_row(heading, Text(cell))
    screen.print(grid)
