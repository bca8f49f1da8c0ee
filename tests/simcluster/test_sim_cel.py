"""Operands of `&&` and `||`, one after the other: https://github.com/google/cel-spec, Logical."""

import pytest

from tests.support.standin.cel import CelError, Expression, bindings

NAMES = bindings({"operation": "CREATE"}, {"a": 1}, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false && object.missing == 1", False),
        ("object.missing == 1 && false", False),
        ("object.missing == 1 || true", True),
        ("(true) || (false) && false", True),
        ("((false || true) && (object.a == 1 || object.missing == 1))", True),
        ("'a || b' == \"a || b\" && !('&&' in ['a'])", True),
        ("true ? false : true || true", False),
        ("[1, 2].exists(n, n == 3 || n == 2)", True),
    ],
)
def test_the_operand_that_settles_it_counts(text: str, value: bool) -> None:
    assert bool(Expression(text).value(NAMES)) is value


@pytest.mark.parametrize("text", ["object.missing == 1 && true", "false || object.missing == 1"])
def test_an_operand_without_value_is_an_error_of_the_whole(text: str) -> None:
    with pytest.raises(CelError, match="no such member") as failed:
        Expression(text).value(NAMES)
    assert f"'{text}'" in str(failed.value)
