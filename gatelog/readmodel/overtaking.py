"""Groups that overtook a waiting group, and how long groups of its size waited.

Theory. A large group waits until much is free at once, and in a queue that does not wait for it
(BestEffortFIFO) smaller groups that come later start meanwhile. How long that goes on can hardly be
calculated; the waits of groups of its kind are known. A group is of its kind if it was admitted in
its ClusterQueue with half to twice of its request for the resource that it is short of.

Invariant: reads only; the newest `MOST` admissions of a ClusterQueue are read, and no group is
named.
"""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

import msgspec

from gatelog.readmodel.rows import GroupRow, ShortRow
from gatelog.readmodel.timeline import duration

MOST = 500
ADMITTED = """
SELECT a.queued_at, a.admitted_at, CAST(a.resources AS TEXT) AS amounts
  FROM admissions a
 WHERE a.cluster = :cluster AND a.cluster_queue = :cluster_queue AND a.admitted_at <= :at
   AND a.queued_at IS NOT NULL AND a.group_id <> :group_id
 ORDER BY a.admitted_at DESC, a.group_id LIMIT :limit
"""


def of_its_size(wanted: int, taken: int) -> bool:
    """Return whether a group that took so much is of the size of a group that asks for so much."""
    return wanted <= 2 * taken <= 4 * wanted


class AdmittedRow(msgspec.Struct, frozen=True):
    """An admission of a ClusterQueue; `amounts`: flavor -> resource -> amount, a document."""

    queued_at: datetime
    admitted_at: datetime
    amounts: str

    def of(self, short: ShortRow) -> int:
        """Return what it took of the resource that another group is short of."""
        held: Mapping[str, Mapping[str, Any]] = msgspec.json.decode(self.amounts)
        return int(held.get(short.flavor, {}).get(short.resource, 0))


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """How many overtook a group, and how `alike` of its kind have fared; times in seconds."""

    overtakers: int
    smaller: int
    """How many of the overtakers took less."""
    alike: int = 0
    median_s: float = 0.0
    longest_s: float = 0.0
    overtaken: int = 0
    """How many of the alike were overtaken themselves."""
    most: int = 0
    """By how many at most."""


def record(
    group: GroupRow, short: Sequence[ShortRow], rows: Sequence[AdmittedRow]
) -> Record | None:
    """Return the record of a waiting group, from the newest admissions of its ClusterQueue.

    None if no group overtook it, or its shortage is not known.
    """
    since = group.queued_at
    if since is None or not short:
        return None
    wanted = short[0]
    past = [row for row in rows if row.queued_at > since and row.admitted_at > since]
    if not past:
        return None
    kind = [row for row in rows if of_its_size(wanted.requested, row.of(wanted))]
    waits = [(row.admitted_at - row.queued_at).total_seconds() for row in kind]
    times = _overtakers(kind, rows)
    return Record(
        overtakers=len(past),
        smaller=sum(row.of(wanted) < wanted.requested for row in past),
        alike=len(kind),
        median_s=max(0.0, median(waits)) if waits else 0.0,
        longest_s=max((0.0, *waits)),
        overtaken=sum(map(bool, times)),
        most=max(times, default=0),
    )


def _overtakers(kind: Sequence[AdmittedRow], rows: Sequence[AdmittedRow]) -> list[int]:
    """Return by how many each was overtaken, in the order of their admissions.

    When those came that were admitted before is kept sorted on the way.
    """
    came: list[datetime] = []
    times = []
    others = iter(sorted(rows, key=lambda row: row.admitted_at))
    other = next(others, None)
    for row in sorted(kind, key=lambda row: row.admitted_at):
        while other is not None and other.admitted_at < row.admitted_at:
            insort(came, other.queued_at)
            other = next(others, None)
        times.append(len(came) - bisect_right(came, row.queued_at))
    return times


def sentences(found: Record) -> list[tuple[str, str]]:
    """Return label and sentence of each."""
    least = "at least " if found.overtakers >= MOST else ""
    groups = "1 group" if found.overtakers == 1 else f"{least}{found.overtakers:,} groups"
    than = "it" if found.smaller == found.overtakers else f"it, {found.smaller:,} of them smaller"
    smaller = "smaller " if found.smaller == found.overtakers else ""
    who = groups.replace("group", f"{smaller}group", 1)
    said = [("overtaken", f"by {who} that came after {than}")]
    if found.alike:
        count = "1 group" if found.alike == 1 else f"{found.alike:,} groups"
        told = f"{count} of its size waited {duration(found.median_s)} in the middle, "
        told += f"{duration(found.longest_s)} at most"
        told += f"; {found.overtaken:,} overtaken, by up to {found.most:,}" if found.most else ""
        said.append(("record", told))
    else:
        said.append(("record", "no group of its size was admitted here yet"))
    return said
