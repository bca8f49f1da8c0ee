"""Figures: what a benchmark gives back, how it is written down, and how it is shown.

Theory. One figure is one JSON line, so that runs can be compared with a line of jq; the table is
for people. `ratio` is always value over limit as a rate of the best possible: 1 means that gatelog
costs nothing, 0.5 that it takes twice as long as the limit.

Invariant: percentiles are of all samples, by the nearest-rank method; none is dropped.
"""

import math
import os
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

RATES = frozenset({"events/s", "deltas/s", "decisions/s", "creates/s"})
"""Units of which more is better; of all others less is."""


class Figure(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One measured value. `limit` is the bound measured in the same run, in the same unit.

    `load` is the machine's load average over a minute when the run began: what others did.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    limit_name: str = ""
    ratio: float | None = None
    samples: int = 1
    note: str = ""
    at: str = ""
    machine: str = ""
    load: float = 0.0

    def __post_init__(self) -> None:
        """Work out the ratio."""
        if self.limit and self.ratio is None:
            best, got = (self.limit, self.value) if self.unit in RATES else (self.value, self.limit)
            self.ratio = round(got / best, 4)
        self.value = _rounded(self.value)
        self.limit = None if self.limit is None else _rounded(self.limit)


def _rounded(value: float) -> float:
    return round(value, 3) if abs(value) < 1000 else round(value)


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return a percentile by nearest rank."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def write(path: Path, figures: Iterable[Figure]) -> None:
    """Write the figures of a run, one JSON object a line."""
    path.write_bytes(b"".join(msgspec.json.encode(figure) + b"\n" for figure in figures))


def read(path: Path) -> list[Figure]:
    """Return the figures in a file of results; none if there is no such file."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Figure) for line in path.read_bytes().splitlines()]


async def printed(figures: AsyncIterator[Figure], machine: str) -> list[Figure]:
    """Print each figure as a JSON line when it comes, with when and beside what load it was."""
    found = []
    load = round(os.getloadavg()[0], 2)
    async for figure in figures:
        figure.machine, figure.load = machine, load
        figure.at = datetime.now(UTC).isoformat(timespec="seconds")
        found.append(figure)
        sys.stdout.write(msgspec.json.encode(figure).decode() + "\n")
        sys.stdout.flush()
    return found


def show(figures: Iterable[Figure]) -> None:
    """Print a table, under an empty line."""
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("figure", no_wrap=True)
    for name in ("value", "unit", "limit", "ratio"):
        table.add_column(name, justify="left" if name == "unit" else "right", no_wrap=True)
    table.add_column("limit is / note", overflow="fold")
    for one in figures:
        table.add_row(
            one.name,
            f"{one.value:,g}" if one.value < 1000 else f"{one.value:,.0f}",
            one.unit,
            "" if one.limit is None else f"{one.limit:,.6g}",
            "" if one.ratio is None else f"{one.ratio:.2f}",
            "; ".join(text for text in (one.limit_name, one.note) if text),
        )
    console.print(table)
