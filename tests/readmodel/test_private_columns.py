"""What is private to the projector is in no SQL that people read, and in few statements of ours."""

import re

from gatelog.readmodel import places, statements
from gatelog.readmodel.questions import questions
from projector import tables
from projector.schema import dialect, views

PRIVATE = {
    column.name
    for table in tables.metadata.tables.values()
    for column in table.columns
    if "private" in (column.comment or "")
}
UNPACKED = {statements.objects.OBJECTS, statements.position.CHECKPOINT, places._GROUP}
"""Statements whose rows unpack it (`ObjectRow`, `CheckpointRow`, `RolesRow`)."""


def named(text: str) -> set[str]:
    """Private columns that a statement names."""
    return PRIVATE & {*re.findall(r"\w+", text)}


def test_no_view_and_no_question_reads_a_private_column() -> None:
    assert {"folded"} == PRIVATE
    for home in (dialect.SQLITE, dialect.POSTGRES):
        texts = {name: body(home) for name, body in views.VIEWS.items() if name != "v_columns"}
        texts |= {f"question {one.name}": one.sql for one in questions().values()}
        assert {name for name, text in texts.items() if named(text)} == set()


def test_few_statements_read_one() -> None:
    modules = [getattr(statements, name) for name in statements.__all__]
    found = {
        text
        for module in modules
        for text in vars(module).values()
        if isinstance(text, str) and text.lstrip().startswith("SELECT") and named(text)
    }
    assert found == UNPACKED - {places._GROUP} and named(places._GROUP)
