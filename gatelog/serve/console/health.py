"""The page for operators: the projector's position, parked events, missing outcomes.

Invariant: read only.
"""

from gatelog.readmodel import statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.statements.position import CheckpointSummary
from gatelog.readmodel.statements.settings import GapRow
from gatelog.readmodel.statements.stuck import ParkedRow, UnresolvedRow
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import ROWS, PageView


def health(asked: Asked, seen: PageView) -> Page:
    """Return the page for operators: the projector's position, parked events, missing outcomes."""
    given = {"limit": ROWS}
    unresolved = asked.rows(
        "decisions without outcome", UnresolvedRow, statements.stuck.UNRESOLVED, given
    )
    data = {
        "checkpoints": asked.rows(
            "checkpoints", CheckpointSummary, statements.position.CHECKPOINTS, given
        ),
        "parked": asked.rows("parked", ParkedRow, statements.stuck.PARKED, given),
        "unresolved": unresolved,
        "epochs": asked.rows("beginnings of the log", GapRow, statements.settings.GAPS, given),
    }
    return page("Health", data, seen, "health", **data)
