"""Columns that are the projector's own are unpacked in one place of the read side."""

import ast
from pathlib import Path

import gatelog

ROOT = Path(gatelog.__file__).parent
WHERE = {"readmodel/rows.py", "replay/rebuilding.py"}
"""Rows answer for them; a rebuild writes one."""


def test_private_columns_are_unpacked_by_rows() -> None:
    found = set()
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "projector.writing.packing":
                found.add(file.relative_to(ROOT).as_posix())
    assert found == WHERE, "ask a row of gatelog.readmodel.rows for it by name"
