"""Every row of Kueue's behaviour has a test or a reason, and the rows are consistent."""

import re

import pytest

from tests.parity.document import PAGE, ParityError, check, collect, render
from tests.parity.plugin import ID, covered
from tests.parity.rows import BY_SECTION, NOT_COVERED, ROWS


def whole(config: pytest.Config) -> bool:
    """Tell whether this run has collected every test there is."""
    asked = {config.rootpath / name for name in config.args}
    return asked == {config.rootpath / "tests"} and not config.getoption("lf", False)


@pytest.mark.timeout(150)
def test_every_row_has_a_test_or_a_reason(request: pytest.FixtureRequest) -> None:
    # In a run of everything the tests are known; collecting them again takes long.
    found = covered(request.session.items) if whole(request.config) else collect()
    check(found)
    assert render(found).count("\n| ") == len(ROWS) + len(BY_SECTION)


def test_rows_are_unique_and_their_ids_are_found_in_names() -> None:
    assert sum(len(rows) for rows in BY_SECTION.values()) == len(ROWS)
    for row in ROWS.values():
        assert ID.findall(f"x-{row.id}-y") == [row.id]
        assert row.need in "Yok" and row.text


def test_what_is_different_on_purpose_is_a_row_here_and_there() -> None:
    text = PAGE.read_text()
    there = re.findall(r"^\| (B\d+) \|", text, re.MULTILINE)
    assert there == [row for row in ROWS if row.startswith("B")]
    for reason in NOT_COVERED.values():
        assert set(ID.findall(reason)) <= ROWS.keys()


def test_a_row_without_test_and_reason_is_noticed() -> None:
    covered = {row: ["t"] for row in ROWS if row not in NOT_COVERED}
    check(covered)
    with pytest.raises(ParityError, match="C-01 has neither"):
        check({row: tests for row, tests in covered.items() if row != "C-01"})
    with pytest.raises(ParityError, match="C-999 is named"):
        check(covered | {"C-999": ["t"]})
    some = next(iter(NOT_COVERED))
    with pytest.raises(ParityError, match=f"{some} has a reason"):
        check(covered | {some: ["t"]})
