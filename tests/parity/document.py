"""Parity with Kueue, row by row, from the rows and the tests that were collected.

Tests are named by file and function; parameters are left out. A row that
neither has a test nor a reason is an error, and so is one with both.

Invariant: the page is a function of the rows and the collected tests alone.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.parity.rows import BY_SECTION, NOT_COVERED, ROWS, Row

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "differences.md"


class ParityError(Exception):
    """Rows, reasons and tests do not fit each other; the message lists what."""


def collect() -> dict[str, list[str]]:
    """Row id -> node ids, from a collection of the whole test tree in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        arguments = ["--collect-only", "-q", "-n0", "-p", "no:cacheprovider"]
        # A module that cannot be imported fails its own run; here only its rows are missing.
        arguments += ["--continue-on-collection-errors"]
        arguments += ["-p", "tests.parity.plugin", "--parity", str(out), "tests"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        if not out.exists():
            raise ParityError(f"collecting the tests failed:\n{done.stdout[-3000:]}{done.stderr}")
        found: dict[str, list[str]] = json.loads(out.read_text())
        return found


def check(found: dict[str, list[str]]) -> None:
    """Raise ParityError unless each row has tests or a reason, and tests name known rows."""
    unknown = [f"{row} is named by {tests[0]} but is no row" for row, tests in found.items()
               if row not in ROWS]  # fmt: skip
    unknown += [f"{row} has a reason but is no row" for row in NOT_COVERED if row not in ROWS]
    both = [
        f"{row} has a reason not to be covered, and {found[row][0]} covers it"
        for row in NOT_COVERED
        if row in found
    ]
    neither = [
        f"{row} has neither a test nor a reason"
        for row in ROWS
        if row not in found and row not in NOT_COVERED
    ]
    problems = [*unknown, *both, *neither]
    if problems:
        raise ParityError("\n".join(problems))


def render(found: dict[str, list[str]]) -> str:
    """The table of all rows, in Markdown."""
    parts = []
    for section, rows in BY_SECTION.items():
        parts.append(f"## {section}\n\n| id | need | what | tests |\n|---|---|---|---|")
        parts[-1] += "".join(f"\n{_line(row, found)}" for row in rows) + "\n"
    return "\n".join(parts)


def left_out() -> str:
    """A table of the reasons why rows have no test."""
    count = Counter(NOT_COVERED.values())
    lines = ["| rows | left out, because |", "|---:|---|"]
    return "\n".join([*lines, *(f"| {n} | {reason} |" for reason, n in count.most_common())])


def _line(row: Row, found: dict[str, list[str]]) -> str:
    if row.id in NOT_COVERED:
        tests = f"left out: {NOT_COVERED[row.id]}"
    else:
        names = dict.fromkeys(node.partition("[")[0] for node in found.get(row.id, ()))
        tests = "<br>".join(f"`{name}`" for name in names)
    return f"| {row.id} | {row.need} | {row.text} | {tests} |"
