"""Published settings, and where the log began anew.

Invariant: in the order of the log.
"""

from datetime import datetime

import msgspec

SETTINGS = """
SELECT seq, at, kind, reason, message
  FROM history
 WHERE cluster = :cluster AND shard = 0 AND group_id = ''
   AND kind IN ('SettingsRecorded', 'EpochStarted')
 ORDER BY seq DESC, ord DESC LIMIT :limit
"""

RESTORES = """
SELECT seq, at, message
  FROM history
 WHERE cluster = :cluster AND group_id = '' AND kind = 'ClusterRestored'
 ORDER BY seq LIMIT :limit
"""

EPOCHS = """
SELECT number, base, at, reason, lost_from, lost_to
  FROM epochs
 WHERE cluster = :cluster
 ORDER BY number LIMIT :limit
"""

GAPS = """
SELECT number, at, reason, lost_from, lost_to
  FROM epochs
 WHERE cluster = :cluster
 ORDER BY number DESC LIMIT :limit
"""


class GapRow(msgspec.Struct, frozen=True):
    """A beginning of the log, and what may be missing before it."""

    number: int
    at: datetime | None
    reason: str
    lost_from: int | None
    lost_to: int | None
