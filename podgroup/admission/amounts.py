"""Amounts without limit, how amounts are written, and in which order resources are looked at.

Theory. A quota too large for 64 bits has no limit in Kueue. Here it is a number so large that no
sum of real amounts reaches it, so that plain integer arithmetic keeps its sense: without limit plus
or minus any real amount stays without limit, less itself it is zero.

Resources are walked in the order of the 64-bit FNV-1a hash of their names, then by name: which
resource a message names first, and which resource group is tried first, follows from it.

Invariant: `ordered` depends on the set of names alone.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final

from podgroup.model.quantities import MAX_INT64, format_amount

UNLIMITED: Final[int] = 1 << 100
_BEYOND: Final[int] = 1 << 90
_FNV_BASIS: Final[int] = 0xCBF29CE484222325
_FNV_PRIME: Final[int] = 0x100000001B3
_WORD: Final[int] = (1 << 64) - 1

PODS: Final[str] = "pods"
"""The resource of which every pod takes one, where a ClusterQueue covers it."""


def bounded(amount: int) -> int:
    """Return a quota as it is counted: a quota beyond 64 bits has no limit."""
    return UNLIMITED if amount >= MAX_INT64 else amount


def summed(quota: int) -> int:
    """Return a sum of quotas as Kueue counts it: a sum with limits is less than no limit.

    An amount that was cut to 64 bits (`quantities.capped`) may be any larger amount, so it fits
    only where there is no limit.
    """
    return quota if quota >= _BEYOND else min(quota, MAX_INT64 - 1)


def text(resource: str, amount: int) -> str:
    """Write an amount for a message."""
    return "<unlimited>" if amount >= _BEYOND else format_amount(resource, amount)


@cache
def _rank(resource: str) -> tuple[int, str]:
    value = _FNV_BASIS
    for byte in resource.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _WORD
    return value, resource


def ordered(resources: Iterable[str]) -> list[str]:
    """Return resources in the order in which they are looked at."""
    return sorted(resources, key=_rank)
