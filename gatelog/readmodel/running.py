"""Pods after their admission: how many run, and why the others do not.

Theory. View `v_not_running` has the present pods; for a past moment there is a statement. Pods of a
group that wait for the same are one row, and one part of a sentence.

Invariant: pure; parts are in the order of their number of pods, then of the words.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from gatelog.readmodel.rows import PendingRow
from gatelog.readmodel.statements.groups import NOT_FOR_LISTS
from podgroup.model import podwaits
from projector.schema.running_views import not_running

_MOST = 4
"""Reasons that are named singly."""
_SUMMED = """
SELECT n.group_id, n.reason, n.subject, n.message, count(*) AS pods, sum(n.runs) AS runs,
       min(n.pod) AS pod, min(n.since) AS since
  FROM {pods} n
 WHERE n.cluster = :cluster AND n.group_id = :group_id
 GROUP BY n.group_id, n.reason, n.subject, n.message
 ORDER BY count(*) DESC, n.reason, n.subject, n.message LIMIT :limit
"""
NOW = _SUMMED.format(pods="v_not_running")
AT = _SUMMED.format(pods=f"({not_running(':at')})")
LISTED = f"""
SELECT n.namespace, n.name, n.kind, n.state, n.queue, n.cluster_queue, n.priority, n.group_id,
       n.pods_running, n.reason, n.subject, n.message, count(*) AS pods, sum(n.runs) AS runs,
       min(n.pod) AS pod, min(n.since) AS since
  FROM v_not_running n
 WHERE n.cluster = :cluster AND (n.namespace = :namespace OR :namespace = '')
   AND n.reason NOT IN ({NOT_FOR_LISTS}) AND n.since <= :before
 GROUP BY n.namespace, n.name, n.kind, n.state, n.queue, n.cluster_queue, n.priority, n.group_id,
          n.pods_running, n.reason, n.subject, n.message
 ORDER BY n.namespace, n.name, n.group_id, count(*) DESC, n.reason, n.subject, n.message
 LIMIT :limit
"""


class NotRunningRow(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of a group that were ungated and wait for the same; `pod` is the first by name.

    `runs` of the `pods` are counted among those that run: a container of theirs is down for now.
    """

    group_id: str
    reason: str
    subject: str
    message: str
    pods: int
    runs: int
    pod: str
    since: datetime


class StillRow(NotRunningRow, frozen=True, kw_only=True):
    """The same, with what lists show of the group."""

    namespace: str
    name: str
    kind: str
    state: str
    queue: str
    cluster_queue: str
    priority: int
    pods_running: int


def pending(rows: Iterable[StillRow]) -> list[PendingRow]:
    """Return groups whose pods do not run as rows of the list of waiting groups, in their order."""
    found = []
    for _, some in groupby(rows, key=lambda row: row.group_id):
        of_group = list(some)
        first = of_group[0]
        single = first.kind == "single"
        found.append(
            PendingRow(
                namespace=first.namespace,
                name=first.name,
                kind=first.kind,
                state=first.state,
                queue=first.queue,
                cluster_queue=first.cluster_queue,
                priority=first.priority,
                reason=first.reason,
                message=summed(of_group, first.pods_running, single=single),
                since=min(row.since for row in of_group),
                stage="",
                position=None,
            )
        )
    return found


def summed(rows: Iterable[NotRunningRow], running: int, *, single: bool = False) -> str:
    """Say how many pods of a group run and why the others do not: `31 run, 2 cannot pull image X`.

    Args:
        rows: why pods do not run, as `NOW` and `AT` order them.
        running: pods in phase Running.
        single: the group is a single pod, so there is nothing to count.
    """
    parts: list[str] = []
    more = 0
    for row in rows:
        running -= row.runs
        said = podwaits.words(row.reason, row.subject, row.message, row.pods)
        if len(parts) < _MOST:
            parts.append(said if single else f"{row.pods} {said}")
        else:
            more += row.pods
    if running > 0 and not single:
        parts.insert(0, f"{running} {'runs' if running == 1 else 'run'}")
    return ", ".join(parts) + (f", and {more} wait for other things" if more else "")


def advice(rows: Sequence[NotRunningRow]) -> str:
    """Say what would end what most pods wait for."""
    return podwaits.takes(rows[0].reason)
