"""The position of the read model, its clusters, its replicas, and the begin of its history.

Invariant: one row for each cluster.
"""

from datetime import datetime

import msgspec

from projector.schema.clock import clock
from projector.schema.dialect import by_home

CHECKPOINT = """
SELECT seq, base, epoch, mode, at, written_at, published, folded
  FROM checkpoints
 WHERE cluster = :cluster AND shard = 0
"""

CLOCK = by_home(lambda d: clock(d, "cluster = :cluster"))
"""View v_clock for one cluster, by database."""

CLUSTERS = "SELECT DISTINCT cluster FROM checkpoints ORDER BY cluster"

PRUNED = "SELECT before FROM pruned WHERE cluster = :cluster AND name = 'history'"

REPLICAS = """
SELECT part, instance, problem, leads, since, heard_at
  FROM replicas
 WHERE cluster = :cluster
 ORDER BY part, instance LIMIT :limit
"""

POSITION = """
SELECT seq, written_at
  FROM checkpoints
 WHERE cluster = :cluster AND shard = 0
"""

STORY = """
SELECT coalesce(min(e.at), (SELECT min(g.created_at) FROM groups g WHERE g.cluster = :cluster))
       AS first, (SELECT max(c.at) FROM checkpoints c WHERE c.cluster = :cluster) AS last
  FROM epochs e
 WHERE e.cluster = :cluster LIMIT :limit
"""

CHECKPOINTS = """
SELECT seq, epoch, mode, at, written_at
  FROM checkpoints
 WHERE cluster = :cluster
 LIMIT :limit
"""


class StoryRow(msgspec.Struct, frozen=True):
    """When the log began, and when its newest event happened."""

    first: datetime | None
    last: datetime | None


class CheckpointSummary(msgspec.Struct, frozen=True):
    """How far a projector is."""

    seq: int
    epoch: int
    mode: str
    at: datetime | None
    written_at: datetime
