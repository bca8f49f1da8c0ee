"""Gaps in a group's story, and its stops: lost parts of the log, and parked events.

Theory. A gap is known by its positions and by the time it was noticed; whether something of this
group was in it is unknown, so it is named for every group that lived then. Parked events name their
group.

Invariant: read-only; a story without gaps has no sentences here.
"""

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from gatelog.readmodel.rows import GroupRow

if TYPE_CHECKING:
    from gatelog.readmodel.model import ReadModel

MOST = 5

LOST = """
SELECT number, at, reason, lost_from, lost_to
  FROM epochs
 WHERE cluster = :cluster AND lost_from IS NOT NULL AND at >= :since
 ORDER BY number DESC LIMIT :limit
"""

ASIDE = """
SELECT seq, ord, at, reason, message, object, resolution, resolved_by
  FROM parked
 WHERE cluster = :cluster AND group_id = :group_id
   AND NOT (reason = 'DeltaRefused' AND EXISTS (
       SELECT 1 FROM pods p
        WHERE p.cluster = parked.cluster AND p.group_id = parked.group_id
          AND p.as_of_seq > parked.seq
          AND parked.object = 'Pod ' || CAST(:namespace AS TEXT) || '/' || p.name))
 ORDER BY seq DESC, ord DESC LIMIT :limit
"""
"""A pod that could not be read and was read since is mended: nothing is missing."""


class LostRow(msgspec.Struct, frozen=True):
    """An epoch that began with a loss."""

    number: int
    at: datetime
    reason: str
    lost_from: int
    lost_to: int


class AsideRow(msgspec.Struct, frozen=True):
    """A parked event of a group; `resolution` is empty while it is parked."""

    seq: int
    ord: int
    at: datetime
    reason: str
    message: str
    object: str
    resolution: str
    resolved_by: str


def missing(model: "ReadModel", group: GroupRow) -> list[str]:
    """Return sentences about what may be missing from the story of a group, newest first."""
    lost = model.rows(LostRow, LOST, {"since": group.created_at, "limit": MOST})
    of_group = {"group_id": group.id, "namespace": group.namespace, "limit": MOST}
    aside = model.rows(AsideRow, ASIDE, of_group)
    end = group.gone_at
    return [
        *(_lost(row) for row in lost if end is None or row.at <= end),
        *map(_aside, aside),
    ]


def _lost(row: LostRow) -> str:
    return (
        f"something may be missing: positions {row.lost_from} to {row.lost_to} of the log are lost "
        f"(noticed {row.at:%Y-%m-%d %H:%M:%S} UTC, epoch {row.number}: {row.reason})"
    )


def _aside(row: AsideRow) -> str:
    key, what = f"{row.seq}/{row.ord}", row.object or "an event"
    if row.resolution:
        done = "released" if row.resolution == "release" else "discarded"
        return f"{what} was parked at {row.at:%H:%M:%S} UTC ({row.message}); {done} by " + (
            row.resolved_by or "an operator"
        )
    return (
        f"{what} is parked and not in this story: {row.message}. Look: gatelog parked show "
        f"{key}; when the cause is mended: gatelog parked release {key}"
    )
