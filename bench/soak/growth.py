"""What must not grow: samples of processes, streams and tables, and the verdict on them.

Theory. Under a steady load everything that is bounded is as large in the last sixth of a run as it
was between its first and second third; what grows for ever is not. Medians of the two windows are
compared, so that a collection that is due does not count. Rows of history do grow, with what
happened: rows per pod are to be the same in the second third of a run and in the last.

Invariant: each measure is judged by a rule of its own, and the rule is printed beside it.
"""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct

from bench.processes import resident_kib

TABLES = ("groups", "roles", "pods", "gates", "history", "waits", "decisions", "outcomes")


class Sample(Struct, frozen=True):
    """Values by name at a time, in seconds since the start."""

    at_s: float
    values: dict[str, float]


class Judged(Struct, frozen=True):
    """A measure in the early and in the late window, and whether that is in order."""

    name: str
    early: float
    late: float
    allowed: float
    unit: str
    good: bool


def of_process(name: str, pid: int) -> dict[str, float]:
    """Resident memory in MB and open files of a process."""
    resident = resident_kib(pid) / 1024
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return {f"{name} memory": round(resident, 1), f"{name} files": float(files)}


def rows(database: Path) -> dict[str, int]:
    """Rows by table."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)
    try:
        counts = {}
        for table in TABLES:
            (counts[table],) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return counts
    finally:
        connection.close()


def judge(samples: Sequence[Sample]) -> list[Judged]:
    """Compare the two windows of every measure."""
    if not samples:
        return []
    end = samples[-1].at_s
    early = [s for s in samples if end / 3 <= s.at_s <= end * 2 / 3] or list(samples)
    late = [s for s in samples if s.at_s >= end * 5 / 6] or list(samples)
    found = []
    for name in sorted(samples[-1].values):
        before = median(s.values[name] for s in early if name in s.values)
        after = median(s.values[name] for s in late if name in s.values)
        allowed, unit = _allowed(name, before)
        found.append(Judged(name, before, after, round(allowed, 1), unit, after <= allowed))
    return found


def _allowed(name: str, before: float) -> tuple[float, str]:
    if name == "nats-server memory":
        # Go's collector lets the heap double before it acts, and blocks of streams are cached.
        return before * 1.5 + 64, "MB"
    if name.endswith(" memory"):
        return before * 1.1 + 10, "MB"
    if name.endswith(" files"):
        return before + 10, "files"
    return before * 2 + 200, "count"


Counted = tuple[dict[str, int], int]
"""Rows by table, and how many pods had been made."""


def per_pod(first: Counted, second: Counted, third: Counted) -> list[Judged]:
    """Compare rows per pod between the first two counts with those between the last two."""
    found = []
    for table in first[0]:
        early, late = (
            (after[0][table] - before[0][table]) / max(1, after[1] - before[1])
            for before, after in ((first, second), (second, third))
        )
        allowed = early * 1.05 + 0.05
        found.append(
            Judged(
                f"{table} per pod",
                round(early, 3),
                round(late, 3),
                round(allowed, 3),
                "rows",
                late <= allowed,
            )
        )
    return found
