"""docs/parity.md, made from the rows and the tests that were collected.

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
PAGE = ROOT / "docs" / "parity.md"
COMMAND = "python -m tests.parity"

HEAD = f"""# Parity with Kueue's pod integration

Every behaviour that Kueue's own tests hold its pod integration to, one row each, and the tests of
this repository that hold gatelog to it; B rows are where gatelog differs on purpose
([differences.md](differences.md)), with a test that Kueue's behaviour would fail. Made by
`{COMMAND}` from the tests as they are collected; a test fails when this page is out of
date.

Kueue's integration suite of pods (test/integration/singlecluster/controller/jobs/pod, main of
August 2026) was run as well, on a real API server of Kubernetes 1.36, with Kueue's core and with
`gatelog up --install webhook` in the place of its pod reconciler and pod webhook: 44 of 44 tests
pass. Settings were what each part of the suite configures Kueue to: `queueing.wait_for_pods_ready`,
the keys to copy, and `queueing.skip_reassignment = false` for the test that switches that gate off.
Its two expectations on a histogram of Kueue's own process were left out. With
`wait_for_pods_ready = "auto"` the one test fails that reads `PodsReady` before the admission; with
`--install policy` the one that makes a Job's pod by hand, because a policy cannot ask for the Job.

Need: Y behaviour of a pod controller, o an optional feature of Kueue, k plumbing inside Kueue.
"""


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
    """The page."""
    parts = [HEAD, _summary(found)]
    for section, rows in BY_SECTION.items():
        parts.append(f"## {section}\n\n| id | need | what | tests |\n|---|---|---|---|")
        parts[-1] += "".join(f"\n{_line(row, found)}" for row in rows) + "\n"
    return "\n".join(parts)


def _summary(found: dict[str, list[str]]) -> str:
    count = Counter((row.need, row.id in found) for row in ROWS.values())
    lines = ["| need | rows | with tests | left out |", "|---|---|---|---|"]
    for need in "Yok":
        yes, no = count[(need, True)], count[(need, False)]
        lines.append(f"| {need} | {yes + no} | {yes} | {no} |")
    return "\n".join(lines) + "\n"


def _line(row: Row, found: dict[str, list[str]]) -> str:
    if row.id in NOT_COVERED:
        tests = f"left out: {NOT_COVERED[row.id]}"
    else:
        names = dict.fromkeys(node.partition("[")[0] for node in found.get(row.id, ()))
        tests = "<br>".join(f"`{name}`" for name in names)
    return f"| {row.id} | {row.need} | {row.text} | {tests} |"


def page(found: dict[str, list[str]] | None = None) -> str:
    """The page as it should be; collects the tests unless they are given."""
    tests = collect() if found is None else found
    check(tests)
    return render(tests)
