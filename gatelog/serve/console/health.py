"""The page operators look at: how far the projector is, what is parked, what is missing.

Invariant: read only.
"""

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.timeline import anonymous
from gatelog.serve.console.html import h, listing
from gatelog.serve.console.parts import ROWS, Page, PageView, page, whens


def health(asked: Asked, seen: PageView) -> Page:
    """Return what operators look at: how far the projector is, what is parked, what is missing."""
    given = {"limit": ROWS}
    checkpoints = asked.rows("checkpoints", moments.CheckpointSummary, moments.CHECKPOINTS, given)
    parked = asked.rows("parked", moments.ParkedRow, moments.PARKED, given)
    gaps = asked.rows("beginnings of the log", moments.GapRow, moments.GAPS, given)
    unresolved = asked.rows(
        "decisions without outcome", moments.UnresolvedRow, moments.UNRESOLVED, given
    )
    body = [
        h("h2", "Projector"),
        listing(
            {
                "position": lambda one: f"{one.seq:,}",
                "mode": "mode",
                "newest event": whens(seen, "at"),
                "last written": whens(seen, "written_at"),
            },
            checkpoints,
            "Checkpoints",
            "No projector has written to this database yet.",
        ),
        h("h2", "Parked"),
        listing(
            {
                "position": lambda one: f"{one.seq}/{one.ord}",
                "when": whens(seen, "at"),
                "reason": "reason",
                "object": "object",
                "why": lambda one: anonymous(one.message),
            },
            parked,
            "Parked until a person releases it (gatelog parked)",
            "nothing is parked",
        ),
        h("h2", "Decisions without outcome"),
        listing(
            {"action": "action", "how many": "decisions", "oldest": whens(seen, "oldest")},
            unresolved,
            "Under way, or no actuator carries them out",
        ),
        h("h2", "Beginnings of the log"),
        listing(
            {
                "number": "number",
                "when": whens(seen, "at"),
                "why": "reason",
                "may be missing": _missing,
            },
            gaps,
            "Newest first",
            "one, without gaps",
        ),
    ]
    data = {"checkpoints": checkpoints, "parked": parked, "unresolved": unresolved, "epochs": gaps}
    return page("Health", data, body)


def _missing(gap: moments.GapRow) -> str:
    if gap.lost_from is None:
        return "nothing"
    return f"positions {gap.lost_from} to {gap.lost_to if gap.lost_to is not None else '?'}"
