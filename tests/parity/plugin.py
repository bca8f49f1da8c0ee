"""Which test covers which row: read from markers and from ids in parametrised names.

A test says what it covers with `@pytest.mark.parity("C-01", ...)`, or by carrying the id in the id
of its parameter (`W-02-queue`). Collecting is enough: that the tests pass is the business of the
run they are part of. `pytest --collect-only -n0 -p tests.parity.plugin --parity FILE` writes what
was found as JSON: row id -> node ids.

Invariant: the same tests give the same bytes.
"""

import json
import re
from pathlib import Path

import pytest

from tests.parity.rows import ROWS

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All that a run collected, of which `-m` and `-k` choose."""

ID = re.compile(r"(?<![A-Za-z0-9])(?:(?:C|W|H|U|M|S|I|IW|IM|IF|IT|E)-\d{2,3}|B\d{1,2})(?!\d)")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--parity", default="", help="file for the rows that tests cover (JSON)")


def covered(items: list[pytest.Item]) -> dict[str, list[str]]:
    """Row id -> node ids of the tests that cover it, both sorted."""
    found: dict[str, set[str]] = {}
    for item in items:
        for row in ids_of(item):
            found.setdefault(row, set()).add(item.nodeid)
    return {row: sorted(found[row]) for row in sorted(found)}


def ids_of(item: pytest.Item) -> set[str]:
    """The rows one test covers."""
    _, _, parameters = item.nodeid.partition("[")
    rows = {row for row in ID.findall(parameters) if row in ROWS}
    for mark in item.iter_markers("parity"):
        rows |= {str(row) for row in mark.args}
    return rows


def pytest_collection_finish(session: pytest.Session) -> None:
    target = session.config.getoption("--parity")
    if target:
        Path(target).write_text(json.dumps(covered(session.items), indent=1))
