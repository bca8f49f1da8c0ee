"""Where a replay asks rules: to decide again, and for what a log from before records lacks.

Everything else that replays a log applies what was concluded then (`podgroup.folding`).

Invariant: no other module of a replay imports a rule.
"""

from podgroup.engine import derive, step

__all__ = ["derive", "step"]
