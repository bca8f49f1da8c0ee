"""Every question of docs/sql.md gives the printed answer, on both databases."""

from pathlib import Path

import pytest

from tests.replay.questions import PAGE, answer, asked, filled

EMPTY = 0
"""Questions whose answer has no rows: a question that shows nothing explains nothing."""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_answers_are_as_printed(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    if database == "postgresql":
        url = str(request.getfixturevalue("postgres_database"))
    engine = filled(url)
    found = list(asked(PAGE.read_text()))
    for query, printed in found:
        assert answer(engine, query) == printed, f"{query}\nrun: python -m tests.replay.questions"
    engine.dispose()
    assert len(found) >= 20


def test_every_query_is_asked_and_answered() -> None:
    text = PAGE.read_text().split("## Questions")[1].split("## Views")[0]
    found = list(asked(PAGE.read_text()))
    assert text.count("```sql") == len(found)
    assert sum(printed.count("\n") < 2 for _, printed in found) == EMPTY
