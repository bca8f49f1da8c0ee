"""Where a replay asks rules: to decide again. Everything else applies what was concluded then.

Invariant: no other module of a replay imports a rule.
"""

from podgroup.engine import step

__all__ = ["step"]
