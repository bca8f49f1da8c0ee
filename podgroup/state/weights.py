"""Weights: the memory that the larger pods of one namespace take.

Theory. Fields that pods of a role have in common are one object, and count once; the rest counts
for each pod. A table holds the common parts, and drops a part with the last pod that has it.

Invariant: `total` is the sum over `own` and `parts`; every entry of either belongs to a pod in
`own`.
"""

from typing import Any

from msgspec import Struct, field


class Part(Struct, gc=False):
    """Values that some pods have in common: how many pods, their bytes, and the values."""

    pods: int
    size: int
    values: dict[str, Any]


class Weights(Struct):
    """The larger pods of a namespace: bytes by uid, common parts by digest."""

    total: int = 0
    own: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Uid -> bytes of the pod's own values, and the digest of its common part."""
    parts: dict[bytes, Part] = field(default_factory=dict)
    crowded: dict[str, None] = field(default_factory=dict)
    """Pods for which there was no room, in the order in which they came."""
