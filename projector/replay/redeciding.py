"""Where a replay asks rules: to decide again, and to explain what a watch recording shows.

Invariant: no other module of a replay imports a rule.
"""

from podgroup.engine import Then, observe, step

__all__ = ["Then", "observe", "step"]
