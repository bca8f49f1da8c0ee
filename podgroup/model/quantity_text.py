"""Kubernetes quantities as text: what a text means, and how the API server prints it back.

A quantity is an exact number with a suffix that also chooses its output form: ``Ki`` to
``Ei`` are powers of 1024, ``n`` to ``E`` powers of 1000, ``e3`` is an exponent. Numbers are
exact down to one nano and rounded away from zero below it; the binary form stops at 2^63-1
(Kubernetes: apimachinery ``api/resource``, Quantity). The API server stores numbers of any size;
here they stop at 10^96: ``1e999999999`` is an amount that no cluster has, and no error where
the rest of the pod must be read, nor a number of a gigabyte.

Printing matters because role hashes are taken over printed quantities. The API server
recomputes the canonical form (smallest mantissa without a fraction) except for texts it
takes for canonical already, which come back verbatim: ``+5`` and ``1.500`` among them.

Invariant: ``parse(canonical(t)) == parse(t)`` and ``canonical`` is idempotent, for every
text that ``parse`` accepts.
"""

import re
from enum import Enum
from fractions import Fraction
from typing import Final, NamedTuple

MAX_DIGITS: Final[int] = 400
"""Digits that are looked at on either side of the point, and the largest exponent."""

MAX_VALUE: Final[int] = 10**96
"""Largest amount there is."""

MAX_INT64: Final[int] = 2**63 - 1

_SYNTAX: Final[re.Pattern[str]] = re.compile(
    r"(?P<sign>[+-]?)(?P<int>[0-9]*)(?:\.(?P<frac>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)
_BINARY: Final[dict[str, int]] = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_PRINT: Final[tuple[str, ...]] = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final[dict[str, int]] = {
    **{"n": -9, "u": -6, "m": -3, "": 0},
    **{"k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18},
}
_DECIMAL_PRINT: Final[dict[int, str]] = {exponent: name for name, exponent in _DECIMAL.items()}
_FAST_DIGITS: Final[int] = 18  # digits that surely fit an int64, the server's quick path
_NANO: Final[int] = 10**9


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message shows the text and the rule."""


class Form(Enum):
    """Which family of suffixes a quantity is printed with."""

    BINARY = "binary"
    DECIMAL = "decimal"
    EXPONENT = "exponent"


class Parts(NamedTuple):
    """A quantity text taken apart; ``exponent`` is of 2 for the binary form, else of 10."""

    negative: bool
    int_digits: str
    frac_digits: str
    form: Form
    exponent: int

    def value(self) -> Fraction:
        """Exact value, rounded away from zero to one nano and capped in the binary form."""
        digits = int((self.int_digits + self.frac_digits) or "0")
        if self.form is Form.BINARY:
            number = Fraction(digits << self.exponent, 10 ** len(self.frac_digits))
        else:
            number = digits * Fraction(10) ** (self.exponent - len(self.frac_digits))
        if (number * _NANO).denominator != 1:
            number = Fraction(_ceil(number * _NANO), _NANO)
        number = min(number, Fraction(MAX_INT64 if self.form is Form.BINARY else MAX_VALUE))
        return -number if self.negative else number


def parse(text: str) -> Fraction:
    """Exact value of a quantity such as ``500m``, ``1.5Gi``, ``2e3``.

    Raises:
        QuantityError: the text is empty or malformed.
    """
    return split(text).value()


def canonical(text: str) -> str:
    """``text`` as the API server prints it: ``1000m`` -> ``1``, ``0.5Gi`` -> ``512Mi``.

    Raises:
        QuantityError: see `parse`.
    """
    parts = split(text)
    return text if _kept_verbatim(parts) else render(parts.value(), parts.form)


def render(value: Fraction, form: Form) -> str:
    """Canonical text of ``value`` in one form; ``value`` must be a whole number of nanos.

    Binary is given up for decimal where it would lose digits or where the number is below
    1024, as the API server does.
    """
    if value == 0:
        return "0"
    if form is Form.BINARY and (value.denominator != 1 or abs(value) < 1024):
        form = Form.DECIMAL
    if form is Form.BINARY:
        return _render_binary(value.numerator)
    nanos = value * _NANO
    if nanos.denominator != 1:
        raise QuantityError(f"{value} is not a whole number of nanos (10^-9)")
    mantissa, exponent = nanos.numerator, -9
    # Beyond exa there is no suffix left, so the mantissa keeps the zeros.
    last = 18 if form is Form.DECIMAL else exponent + 3 * len(str(abs(mantissa)))
    while exponent < last and mantissa % 1000 == 0:
        mantissa, exponent = mantissa // 1000, exponent + 3
    if form is Form.DECIMAL:
        return f"{mantissa}{_DECIMAL_PRINT[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)


def split(text: str) -> Parts:
    """Takes a quantity text apart.

    Raises:
        QuantityError: see `parse`.
    """
    match = _SYNTAX.fullmatch(text)
    if match is None or not (match["int"] or match["frac"]):
        raise QuantityError(
            f"{text[:40]!r} is not a Kubernetes quantity: write a number with one of the "
            "suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
        )
    suffix = match["suffix"] or ""
    form, exponent = _suffix(suffix)
    whole, fraction = match["int"], match["frac"] or ""
    if len(whole) > MAX_DIGITS:
        whole = whole.lstrip("0")
        whole = whole if len(whole) <= MAX_DIGITS else "9" * MAX_DIGITS
    if len(fraction) > MAX_DIGITS:
        fraction = fraction[: MAX_DIGITS - 1] + "1"  # what is beyond rounds away from zero
    exponent = max(-MAX_DIGITS, min(MAX_DIGITS, exponent))
    return Parts(match["sign"] == "-", whole, fraction, form, exponent)


def _suffix(suffix: str) -> tuple[Form, int]:
    if suffix in _BINARY:
        return Form.BINARY, _BINARY[suffix]
    if suffix in _DECIMAL:
        return Form.DECIMAL, _DECIMAL[suffix]
    # Nine digits decide that an exponent is too large; more need not be read.
    return Form.EXPONENT, int(suffix[1:][:9])


def _kept_verbatim(parts: Parts) -> bool:
    """Whether the server takes the text for canonical already and gives it back untouched."""
    num, denom = parts.int_digits.lstrip("0") or "0", parts.frac_digits
    shifted = num + denom
    if parts.form is Form.BINARY:
        room = 15 - len(num) - int(parts.exponent * 0.3) - 1
        value = int(num)
        return not denom and room >= 0 and value << parts.exponent <= MAX_INT64 and value % 8 != 0
    scale = parts.exponent - len(denom)
    return (
        len(shifted) <= _FAST_DIGITS
        and scale >= -9
        and scale % 3 == 0
        and not shifted.endswith("000")
        and shifted[0] != "0"
    )


def _render_binary(value: int) -> str:
    power = 0
    while power < len(_BINARY_PRINT) - 1 and value % 1024 == 0:
        value, power = value // 1024, power + 1
    return f"{value}{_BINARY_PRINT[power]}"


def _ceil(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)
