"""Owners and shapes: owners that request more than they use, and owners whose pods fail or restart.

Theory. Pods of a controller and role hash have equal requests and do the same work, so a fault of
one pod is a fault of all, and their owner can mend it in one place. The usage of a pod is the mean
of its samples; the mean of several pods is weighted by their samples, which all have the same
distance.

Pods that gatelog itself stopped (preempted, evicted, in excess) have not failed and are left out.

Invariant: reads only; the requests in `failures` were in force at the time of the failure.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from gatelog.readmodel.rates import unit
from podgroup.model.wording import quantity
from projector.schema.dialect import Dialect

Row = dict[str, Any]

RESTARTED = "Restarted"
"""The word for pods whose containers were restarted, however they had ended."""

_USED = """
SELECT v.namespace, v.owner, v.role, min(p.name) AS pod, v.resource, count(*) AS pods,
       sum(v.samples) AS samples, sum(v.asked * 1.0 * v.samples) / sum(v.samples) AS asked,
       sum(v.used * 1.0 * v.samples) / sum(v.samples) AS used, max(v.peak) AS peak
  FROM v_pod_used v JOIN pods p ON p.cluster = v.cluster AND p.uid = v.pod_uid
 WHERE v.cluster = :cluster AND v.to_at >= {since} AND v.from_at < {until}
 GROUP BY v.namespace, v.owner, v.role, v.resource
 ORDER BY v.resource, sum((v.asked - v.used) * 1.0 * v.samples) DESC, v.namespace, v.owner, v.role
 LIMIT :limit
"""

_FAILURES = """
SELECT p.namespace, p.owner, p.role, min(p.name) AS pod, f.reason AS what, f.requests,
       count(*) AS times,
       count(DISTINCT f.pod_uid) AS pods, max(f.at) AS last_at
  FROM failures f
  JOIN pods p ON p.cluster = f.cluster AND p.uid = f.pod_uid
 WHERE f.cluster = :cluster AND f.at >= {since} AND f.at < {until}
   AND NOT EXISTS (
       SELECT 1 FROM decisions d
        WHERE d.cluster = f.cluster AND d.group_id = f.group_id AND d.issued_at <= f.at
          AND d.action IN ('StopPod', 'DeletePod')
          AND d.target = 'Pod ' || p.namespace || '/' || p.name || ' ' || p.uid)
 GROUP BY p.namespace, p.owner, p.role, f.reason, f.requests
UNION ALL
SELECT p.namespace, p.owner, p.role, min(p.name), '{restarted}', p.requests, sum(p.restarts),
       count(*), NULL
  FROM pods p
 WHERE p.cluster = :cluster AND p.restarts > 0 AND p.created_at < {until}
   AND coalesce(p.ended_at, p.gone_at, {until}) >= {since}
 GROUP BY p.namespace, p.owner, p.role, p.requests
 ORDER BY times DESC, namespace, owner, role, what LIMIT :limit
"""


def used_query(d: Dialect) -> str:
    """Return the statement; parameters `cluster`, `since`, `until` and `limit`."""
    return _USED.format(since=d.time.format(name="since"), until=d.time.format(name="until"))


def failures_query(d: Dialect) -> str:
    """Return the statement; parameters as `used_query`."""
    times = {name: d.time.format(name=name) for name in ("since", "until")}
    return _FAILURES.format(restarted=RESTARTED, **times)


def used(row: Mapping[str, Any]) -> Row:
    """Return a row of `used_query` in people's units; `times` is asked by used, None of nothing."""
    one = unit(row["resource"])
    asked, used = float(row["asked"]) / one, float(row["used"]) / one
    return {
        **{name: row[name] for name in ("namespace", "owner", "role", "pod", "resource")},
        "pods": int(row["pods"]),
        "samples": int(row["samples"]),
        "asked": asked,
        "used": used,
        "peak": float(row["peak"] or 0) / one,
        "times": asked / used if used else None,
    }


def failure(row: Mapping[str, Any]) -> Row:
    """Return a row of `failures_query`, with requests as quantities."""
    requests, last = row["requests"], row["last_at"]
    if isinstance(requests, str):
        requests = msgspec.json.decode(requests)
    if isinstance(last, str):
        last = datetime.fromisoformat(last)
    return {
        **{name: row[name] for name in ("namespace", "owner", "role", "pod", "what")},
        "times": int(row["times"]),
        "pods": int(row["pods"]),
        "last_at": None if last is None else last.astimezone(UTC),
        "asked": {name: quantity(name, int(v)) for name, v in sorted(requests.items())},
    }
