"""Figures: the results of benchmarks: their form, their file, their table.

Theory. One figure is one JSON line, so that runs can be compared with a line of jq; the table is
for people. `ratio` is always value over limit as a rate of the best possible: 1 means that gatelog
costs nothing, 0.5 that it takes twice as long as the limit. The code that makes a figure sets its
`target`. Results keep, of each name, the figures of the last `HISTORY` commits: a slowdown is seen
beside the commit that brought it.

Invariant: percentiles are of all samples, by the nearest-rank method.
"""

import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

RATES = frozenset({"events/s", "deltas/s", "decisions/s", "creates/s"})
"""Units in which more is better; in all others less is."""
HISTORY = 6
"""Commits for which a figure is kept."""


class Figure(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One measured value. `limit` is the bound measured in the same run, in the same unit.

    `target` is the wanted value, None without a target. `commit` is the measured commit, with a `+`
    if files had changed since; "" of old figures.

    `load` is the machine's load average over a minute when the run began: the work of others.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    limit_name: str = ""
    ratio: float | None = None
    target: float | None = None
    samples: int = 1
    note: str = ""
    at: str = ""
    machine: str = ""
    load: float = 0.0
    commit: str = ""

    @property
    def missed(self) -> float:
        """How much more or longer than wanted it is, as a share; 0 or less if it is met."""
        if self.target is None or not self.value:
            return 0.0
        return (self.target / self.value if self.unit in RATES else self.value / self.target) - 1

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


def kept(known: Iterable[Figure], measured: Iterable[Figure]) -> list[Figure]:
    """Return what results keep, by name and time: of each name the last `HISTORY` commits.

    New figures replace those of the same commit, also of the commit with changed files.
    """
    found: dict[str, list[Figure]] = {}
    for one in (*known, *measured):
        before = found.setdefault(one.name, [])
        same = one.commit.rstrip("+")
        before[:] = [old for old in before if old.commit.rstrip("+") != same] + [one]
    return [one for name in sorted(found) for one in found[name][-HISTORY:]]


def commit_of(repository: Path) -> str:
    """Return the commit of a tree, with a `+` if anything but results differs from it."""
    git = ["git", "-C", str(repository)]
    done = subprocess.run(
        [*git, "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True, check=False
    )
    same = subprocess.run(
        [*git, "diff", "--quiet", "HEAD", "--", ".", ":!bench/*.json*"], check=False
    )
    return done.stdout.strip() + "+" * (same.returncode == 1)


async def printed(figures: AsyncIterator[Figure], machine: str, commit: str = "") -> list[Figure]:
    """Print each figure as a JSON line when it comes, with when and beside what load it was."""
    found = []
    load = round(os.getloadavg()[0], 2)
    async for figure in figures:
        figure.machine, figure.load, figure.commit = machine, load, commit
        figure.at = datetime.now(UTC).isoformat(timespec="seconds")
        found.append(figure)
        sys.stdout.write(msgspec.json.encode(figure).decode() + "\n")
        sys.stdout.flush()
    return found


def show(figures: Sequence[Figure], known: Iterable[Figure] = ()) -> None:
    """Print a table, beside what each figure was at another commit; under it wanted and had."""
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print()
    earlier = {one.name: one for one in known}
    table = _table("figure", "value", "unit", "limit", "ratio", "before", "limit is / note")
    for one in figures:
        table.add_row(
            one.name,
            _number(one.value),
            one.unit,
            "" if one.limit is None else f"{one.limit:,.6g}",
            "" if one.ratio is None else f"{one.ratio:.2f}",
            _before(earlier.get(one.name)),
            "; ".join(text for text in (one.limit_name, one.note) if text),
        )
    console.print(table)
    wanted = _table("figure", "wanted", "had", "unit", "")
    for one in figures:
        if one.target is not None:
            verdict = f"missed by {one.missed:.0%}" if one.missed > 0 else "met"
            wanted.add_row(one.name, _number(one.target), _number(one.value), one.unit, verdict)
    if wanted.row_count:
        console.print()
        console.print(wanted)


def _table(name: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(name, no_wrap=True)
    for other in others[:-1]:
        left = other in ("unit", "before")
        table.add_column(other, justify="left" if left else "right", no_wrap=True)
    table.add_column(others[-1], overflow="fold")
    return table


def _number(value: float) -> str:
    return f"{value:,g}" if value < 1000 else f"{value:,.0f}"


def _before(one: Figure | None) -> str:
    return "" if one is None else f"{_number(one.value)} ({one.commit or one.at[:10]})"
