"""The page operators look at: how far the projector is, what is parked, what is missing.

Invariant: read only.
"""

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.timeline import anonymous
from gatelog.serve.console.html import h, table
from gatelog.serve.console.parts import ROWS, Page, Seen, when


def health(asked: Asked, seen: Seen) -> Page:
    """Return what operators look at: how far the projector is, what is parked, what is missing."""
    given = {"limit": ROWS}
    shards = asked.rows("checkpoints", moments.ShardRow, moments.SHARDS, given)
    parked = asked.rows("parked", moments.ParkedRow, moments.PARKED, given)
    gaps = asked.rows("beginnings of the log", moments.GapRow, moments.GAPS, given)
    unresolved = asked.rows(
        "decisions without outcome", moments.UnresolvedRow, moments.UNRESOLVED, given
    )
    body = [
        h("h1", "Health"),
        h("h2", "Projector"),
        table(
            ["shard", "position", "mode", "newest event", "last written"],
            [
                [str(s.shard), f"{s.seq:,}", s.mode, when(s.at, seen), when(s.written_at, seen)]
                for s in shards
            ],
            "Checkpoints",
            "No projector has written to this database yet.",
        ),
        h("h2", "Parked"),
        table(
            ["position", "when", "reason", "object", "why"],
            [
                [
                    f"{p.seq}/{p.ord}",
                    when(p.at, seen),
                    p.reason,
                    p.object or "–",
                    anonymous(p.message),
                ]
                for p in parked
            ],
            "Parked until a person releases it (gatelog parked)",
            "nothing is parked",
        ),
        h("h2", "Decisions without outcome"),
        table(
            ["action", "how many", "oldest"],
            [[u.action, str(u.decisions), when(u.oldest, seen)] for u in unresolved],
            "Under way, or no actuator carries them out",
            "none",
        ),
        h("h2", "Beginnings of the log"),
        table(
            ["shard", "number", "when", "why", "may be missing"],
            [[str(g.shard), str(g.number), when(g.at, seen), g.reason, _missing(g)] for g in gaps],
            "Newest first",
            "one, without gaps",
        ),
    ]
    data = {"shards": shards, "parked": parked, "unresolved": unresolved, "epochs": gaps}
    return Page(title="Health", data=data, body=h("div", body))


def _missing(gap: moments.GapRow) -> str:
    if gap.lost_from is None:
        return "nothing"
    return f"positions {gap.lost_from} to {gap.lost_to if gap.lost_to is not None else '?'}"
