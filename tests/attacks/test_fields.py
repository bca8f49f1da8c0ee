"""A drawn part of `tests.attacks.fields`: fields at their extremes, at stages, by each way in."""

from pathlib import Path

import pytest

from tests.attacks import fields
from tests.support.stack import running_stack

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")
SLOW = pytest.mark.slow("the same cases by another way: a stack of their own")


@pytest.mark.parametrize(
    "way", ["webhook", pytest.param("policy", marks=SLOW), pytest.param("past", marks=SLOW)]
)
async def test_a_drawn_part_breaks_no_law(way: str, tmp_path: Path) -> None:
    install = "policy" if way == "policy" else "webhook"
    with running_stack(tmp_path, install=install) as stack:
        counts, wrong = await fields.through_door(stack, way, fields.drawn(fields.AT_ONCE))
    assert wrong == []
    assert counts.total() == fields.AT_ONCE


def test_each_way_has_thousands_of_cases() -> None:
    """The list is made from what code reads; it cannot become empty unseen."""
    every = [*fields.cases()]
    assert len(every) > 10_000
    assert {case.field.kind for case in every} == {"Pod", "DeleteOptions", *fields.QUEUES}
