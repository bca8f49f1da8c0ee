"""Starts that are reserved for groups that have waited too long, as sentences.

Theory. `reserved_starts` has the computed starts. Groups that may still pass are counted: groups
that wait in the same ClusterQueue and end before the start, by their bound.

Invariant: other groups are counted and never named.
"""

from datetime import datetime

import msgspec

from gatelog.readmodel.timeline import duration

RESERVED = """
SELECT r.from_at, r.start_by, r.cluster_queue FROM reserved_starts r
 WHERE r.cluster = :cluster AND r.group_id = :group_id AND r.to_at IS NULL
"""

PASSING = """
SELECT count(*) FROM groups g
 WHERE g.cluster = :cluster AND g.cluster_queue = :cluster_queue AND g.id <> :group_id
   AND g.state = 'Queued' AND g.gone_at IS NULL AND g.most_run_s <= :left_s
"""


class ReservedRow(msgspec.Struct, frozen=True):
    """A start that is reserved for a group: since when, by when, and how many may pass it still.

    `passing` None: that is not known, of the past or because the start has no bound.
    """

    from_at: datetime
    start_by: datetime | None
    cluster_queue: str
    passing: int | None = None


def sentence(row: ReservedRow, now: datetime) -> str:
    """Say by when a group starts that has waited too long, as seen at `now`."""
    if row.start_by is None:
        return (
            "starts once what ran then has ended, some of which has no bound "
            "(label kueue.x-k8s.io/max-exec-time-seconds)"
        )
    left_s = (row.start_by - now).total_seconds()
    if left_s < 0:
        return (
            f"was to start by {row.start_by:%H:%M:%S} UTC; something has not ended by its bound, "
            "and it starts with that"
        )
    said = f"starts by {row.start_by:%H:%M:%S} UTC at the latest (in {duration(left_s)})"
    if row.passing is None:
        return said
    if not row.passing:
        return f"{said}; no group in line may pass it any more"
    groups = "1 group" if row.passing == 1 else f"{row.passing} groups"
    return f"{said}; {groups} in line may still pass it, ending before"
