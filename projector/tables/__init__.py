"""The SQL contract: the tables people and tools may rely on (docs/sql.md).

Theory. The read model is a projection: all of it can be made again from the log, except rows of
messages that the log has dropped. `cluster` leads every key, so several clusters share a database.
A group is known by the id of its life, never by its name, because names repeat.

There are no foreign keys: rows of one transaction come from one fold, which keeps them consistent,
and history outlives the rows that it refers to (partitions are dropped, not followed).

Invariant: only `storage.store` writes these tables, in one transaction with the checkpoint, but for
the tables of `gatelog forecast` and table `replicas`; `upkeep.pruning` deletes old rows that are
over, and records that in `pruned`.
"""

from projector.tables.base import UtcTime, divide, metadata
from projector.tables.forecasts import estimates, forecasts
from projector.tables.groups import gates, groups, pod_waits, pods, roles
from projector.tables.position import (
    checkpoints,
    epochs,
    objects,
    parked,
    pruned,
    replicas,
    standings,
)
from projector.tables.record import (
    admissions,
    conclusions,
    decisions,
    failures,
    history,
    nodes,
    outcomes,
    placements,
    preemptions,
    quotas,
    reserved_starts,
    shortages,
    topologies,
    usage,
    waits,
)

divide(metadata.tables.values())

__all__ = [
    "UtcTime",
    "admissions",
    "checkpoints",
    "conclusions",
    "decisions",
    "epochs",
    "estimates",
    "failures",
    "forecasts",
    "gates",
    "groups",
    "history",
    "metadata",
    "nodes",
    "objects",
    "outcomes",
    "parked",
    "placements",
    "pod_waits",
    "pods",
    "preemptions",
    "pruned",
    "quotas",
    "replicas",
    "reserved_starts",
    "roles",
    "shortages",
    "standings",
    "topologies",
    "usage",
    "waits",
]
