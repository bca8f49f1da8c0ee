"""Outcomes: what became of an attempt to carry out a command.

Theory. Every answer of the API server has one name here, so that the fold can rely on it:

    applied    the API server accepted the write (or had it already); `resource_version` is the
               version that contains it
    obsolete   there is nothing left to do: the object is gone (404, or another uid under the name)
    rejected   the API server refuses the write while the object is as it is (403, 422, a permanent
               conflict); trying the same again is pointless until the object changes
    retrying   a passing failure (409 on a version, 410, 429, 5xx, connection); the actuator tries
               again by itself, this outcome only informs the log

Invariant: applied, obsolete and rejected are final; a final outcome follows retrying.
"""

from typing import Literal

Status = Literal["applied", "obsolete", "rejected", "retrying"]
TOO_LARGE = 413
"""HTTP status of a write too large for the API server or etcd, which no further try changes."""
FINAL: frozenset[str] = frozenset({"applied", "obsolete", "rejected"})
