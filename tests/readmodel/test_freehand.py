"""`gatelog sql` with a name that is not there: the nearest that are."""

import pytest

from gatelog.readmodel import freehand
from gatelog.shell.errors import CommandFailed


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("SELECT wait_reson FROM groups", "wait_reason"),
        ("SELECT g.prioritty FROM groups g", "priority"),
        ("SELECT name FROM v_why_pendin", "v_why_pending"),
    ],
)
def test_a_wrong_name_gets_the_nearest(url: str, query: str, meant: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        freehand.run(url, query, 1)
    assert f"did you mean {meant}" in str(refused.value)


def test_a_query_that_is_right_gives_names_and_rows(url: str) -> None:
    names, rows = freehand.run(url, "SELECT 1 AS one, '12:30' AS at", 5)
    assert (names, rows) == (["one", "at"], [(1, "12:30")])
