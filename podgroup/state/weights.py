"""Weights: the memory that the larger pods of one namespace take.

Theory. What pods of a role have in common is one object, and counts once; the rest counts for each.
A table of its own holds the common parts and lets go of them with the last pod that has them.

Invariant: `total` is the sum over `own` and `parts`; whatever is in either belongs to a pod in
`own`.
"""

from typing import Any

from msgspec import Struct, field


class Part(Struct, gc=False):
    """What some pods have in common: how many, its bytes, and the values themselves."""

    pods: int
    size: int
    values: dict[str, Any]


class Weights(Struct):
    """The larger pods of a namespace: bytes by uid, common parts by digest."""

    total: int = 0
    own: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Uid -> bytes of what it has alone, and the digest of what it has in common."""
    parts: dict[bytes, Part] = field(default_factory=dict)
    crowded: dict[str, None] = field(default_factory=dict)
    """Pods for which there was no room, those that came first before others."""
