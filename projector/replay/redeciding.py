"""Where a replay asks rules: to decide again.

Invariant: no other module of a replay imports a rule.
"""

from podgroup.engine import Then, step

__all__ = ["Then", "step"]
