"""The page operators look at: how far the projector is, what is parked, what is missing.

Invariant: read only.
"""

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import ROWS, PageView


def health(asked: Asked, seen: PageView) -> Page:
    """Return what operators look at: how far the projector is, what is parked, what is missing."""
    given = {"limit": ROWS}
    unresolved = asked.rows(
        "decisions without outcome", moments.UnresolvedRow, moments.UNRESOLVED, given
    )
    data = {
        "checkpoints": asked.rows(
            "checkpoints", moments.CheckpointSummary, moments.CHECKPOINTS, given
        ),
        "parked": asked.rows("parked", moments.ParkedRow, moments.PARKED, given),
        "unresolved": unresolved,
        "epochs": asked.rows("beginnings of the log", moments.GapRow, moments.GAPS, given),
    }
    return page("Health", data, seen, "health", **data)
