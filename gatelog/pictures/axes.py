"""Scales and ticks: round amounts, round times.

Invariant: every tick is within its range; ticks are few.
"""

import math
from datetime import UTC, datetime

MOST = 8
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600),
    *(12 * 3600, 86_400, 2 * 86_400, 7 * 86_400, 28 * 86_400, 91 * 86_400, 365 * 86_400),
)


def amounts(top: float) -> list[float]:
    """Return round amounts from 0 up to `top`, about four."""
    if top <= 0:
        return [0.0]
    step = 10 ** math.floor(math.log10(top / 3))
    for times in (5, 2):
        if top / (step * times) >= 2:
            step *= times
            break
    return [step * n for n in range(int(top / step + 1e-9) + 1)][: MOST + 1]


def spans(most_s: float) -> list[float]:
    """Return round spans from 0 up to `most_s` seconds."""
    step = _step(most_s)
    count = min(MOST, int(most_s / step + 1e-9) + 1)
    return [float(step * n) for n in range(count)]


def times(begin: datetime, end: datetime) -> list[tuple[float, str]]:
    """Return round times between two, as seconds after the first, and how they are written."""
    first = begin.timestamp()
    most = max(1.0, (end - begin).total_seconds())
    step = _step(most)
    form = "%b %d" if step >= 86_400 else "%b %d %H:%M" if most > 86_400 else "%H:%M"
    form = "%H:%M:%S" if step < 60 else form
    found: list[tuple[float, str]] = []
    at = math.ceil(first / step) * step
    while at <= first + most and len(found) < MOST:
        found.append((at - first, f"{datetime.fromtimestamp(at, UTC):{form}}"))
        at += step
    return found


def short(amount: float) -> str:
    """Write an amount on an axis."""
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(amount) >= power:
            return f"{amount / (1e3 if letter == 'k' else power):g}{letter}"
    return f"{amount:g}"


def _step(most_s: float) -> int:
    """Return the shortest round step of which so many seconds have few."""
    return next((s for s in _STEPS_S if most_s / s <= MOST - 1), _STEPS_S[-1])
