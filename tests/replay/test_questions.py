"""Every question of `gatelog ask` gives the kept answer, on both databases."""

import re
from pathlib import Path

import pytest
from msgspec import structs

from gatelog.readmodel.questions import PARAMETERS, Scope, for_grafana, questions, statement
from tests.replay.questions import SCOPE, answer, answers, asked, filled

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
MOST = 27
"""So many questions can be looked through."""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_answers_are_as_kept(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/model.sqlite3"
    if database == "postgresql":
        url = str(request.getfixturevalue("postgres_database"))
    engine = filled(url)
    kept = answers()
    for name, query in asked(database):
        found = answer(engine, query)
        assert found == kept[name], f"{query}\nrun: python -m tests.replay.questions"
        shown = found.count("\n") > 1
        assert shown or name == "idle", f"{name} shows nothing, so it explains nothing"
    etl = structs.replace(SCOPE, namespace="ns", group="etl")
    assert " failure " in answer(engine, statement(questions()["history"], etl, database))
    engine.dispose()
    assert list(kept) == list(questions())


def test_questions_are_few_and_each_is_asked_of_what_it_says() -> None:
    assert len(questions()) <= MOST
    values = SCOPE.values("sqlite")
    for one in questions().values():
        names = set(re.findall(r"(?<!:):([a-z_]+)", one.sql))
        assert names <= set(values) and "cluster" in names, one.name
        assert set(one.parameters) <= set(PARAMETERS)
        assert one.asks.endswith("?") and not one.sql.endswith(";")


def test_a_dashboard_with_these_variables_gets_the_same_answers(postgres_database: str) -> None:
    """U11. Each parameter is a variable that the page names, and nothing else is."""
    page = re.sub(r"\s+", " ", PAGE.read_text())
    (said,) = re.findall(
        r"range of time is the dashboard's, and (.+?) are its text variables", page
    )
    named = set(re.findall(r"\$\{(\w+)\}", said))
    of_group = structs.replace(SCOPE, namespace="ns", group="training")
    engine, used = filled(postgres_database), set()
    for name, query in asked("postgresql"):
        one = questions()[name]
        values = (of_group if "group" in one.parameters else SCOPE).values("postgresql")

        def variable(found: re.Match[str], values: dict[str, str] = values) -> str:
            used.add(found[1])
            return "'" + values[found[1]].replace("'", "''") + "'"

        shown = for_grafana(one)
        for word, end in (("$__timeFrom()", "since"), ("$__timeTo()", "until")):
            shown = shown.replace(word, f"'{values[end]}'")
        shown = re.sub(r"\$\{(\w+):sqlstring\}", variable, shown)
        assert "$" not in shown, name
        assert answer(engine, shown) == answer(engine, query), name
    engine.dispose()
    assert used == named == {*PARAMETERS, "cluster", "team_label"} - {"since", "until"}


def test_a_dashboard_has_its_own_range_and_variables() -> None:
    text = for_grafana(questions()["latency"])
    assert "l.admitted_at >= $__timeFrom() AND l.admitted_at < $__timeTo()" in text
    assert "l.cluster = ${cluster:sqlstring}" in text and "${queue:sqlstring}" in text
    assert not re.search(r"(?<![:\w{]):[a-z]", text)


def test_words_of_a_person_stay_words() -> None:
    scope = Scope(cluster="a", since=SCOPE.since, until=SCOPE.until, team="it's; DROP TABLE pods")
    assert "'it''s; DROP TABLE pods'" in statement(questions()["waiting"], scope, "sqlite")
