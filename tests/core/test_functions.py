"""No function of the product is longer than 60 lines, or takes more than 6 parameters."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("podgroup", "runtime", "ingest", "projector", "actuator", "gatelog"),
    *("simcluster", "bench", "migrations"),
)
MOST_LINES, MOST_PARAMETERS = 60, 6
WIDE = {"podgroup/fold/common.py: note"}
"""A line of history, written for every pod: a value around its columns costs as much again."""


def functions(page: Path) -> Iterator[tuple[str, int, int]]:
    """Name, lines and parameters, without `self`, of each function of a file."""
    for node in ast.walk(ast.parse(page.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            yield f"{page.relative_to(ROOT)}: {node.name}", lines, count


def test_functions_are_short_and_take_few_parameters() -> None:
    pages = [page for package in PACKAGES for page in (ROOT / package).rglob("*.py")]
    found = [one for page in pages for one in functions(page)]
    assert len(found) > 5_000
    long = {name for name, lines, _ in found if lines > MOST_LINES}
    wide = {name for name, _, count in found if count > MOST_PARAMETERS}
    assert (long, wide) == (set(), WIDE)
