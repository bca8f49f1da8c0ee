"""Kubernetes quantities: reading them as exact numbers and writing them the canonical way.

Theory: the server keeps a quantity's family (binary ``Ki``, decimal ``k``, exponent ``e3``) and
rewrites it with the largest suffix that leaves an integer, so ``1000m`` comes back as ``1`` and
``1024Mi`` as ``1Gi``.

Invariant: ``canonical(canonical(x)) == canonical(x)`` and both parse to the same number.
"""

import re
from fractions import Fraction
from functools import lru_cache

_FORM = re.compile(r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?$")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_DOWN = sorted(_DECIMAL.items(), key=lambda item: -item[1])


class QuantityError(ValueError):
    """The text is no quantity."""


def _split(text: str) -> tuple[Fraction, str]:
    match = _FORM.match(text)
    if match is None:
        raise QuantityError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    return Fraction(match[1]), match[2] or ""


def _power(base: int, exponent: int) -> Fraction:
    size: int = base ** abs(exponent)
    return Fraction(size) if exponent >= 0 else Fraction(1, size)


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The exact value. Raises ``QuantityError``."""
    number, suffix = _split(text)
    if suffix in _BINARY:
        return number * _power(1024, _BINARY[suffix])
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return number * _power(10, int(suffix[1:]))
    return number * _power(1000, _DECIMAL[suffix])


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The text as the server would return it. Raises ``QuantityError``."""
    _, suffix = _split(text)
    value = parse(text)
    if value == 0:
        return "0"
    if suffix in _BINARY and value.denominator == 1:
        for name, power in sorted(_BINARY.items(), key=lambda item: -item[1]):
            if value % 1024**power == 0:
                return f"{int(value / 1024**power)}{name}"
        return str(int(value))
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return text
    for name, power in _DOWN:
        scaled = value / _power(1000, power)
        if scaled.denominator == 1:
            return f"{int(scaled)}{name}"
    nano = value * 10**9  # finer than the API can hold: rounded up, as the server does
    return f"{-(-nano.numerator // nano.denominator)}n"
