"""Tables of the projector's position: checkpoint, epochs, parked events, pruning, queue objects.

Theory. The checkpoint is written in the same transaction as the rows it covers, guarded by
compare-and-set on (`seq`, `writes`); `writer` shows a projector that lost its connection during a
commit whether the commit was its own. Epochs map positions to stream sequences.

Invariant: `seq` of a checkpoint never falls.
"""

from sqlalchemy import Table

from projector.tables.base import (
    HOT,
    blob,
    cluster,
    count,
    flag,
    metadata,
    number,
    real,
    rows,
    shard,
    text,
    time,
)

checkpoints = Table(
    "checkpoints",
    metadata,
    cluster(),
    shard(key=True),
    number("seq", "Position up to which the log is folded into these tables"),
    number("writes", "Counts the transactions of this cluster; guards the next one"),
    text("writer", "Random name of the process that wrote last"),
    text("mode", "builtin or kueue: by which rules the cluster was decided"),
    count("epoch", "Number of the present epoch"),
    number("base", "Position = stream sequence + base in the present epoch"),
    time("stream_created_at", "Creation of the stream EVENTS it is in"),
    time("at", "Timestamp of the last message folded"),
    number("published", "Number of the last decision known to be in the stream DECISIONS"),
    time("decisions_created_at", "Creation of the stream DECISIONS when that was noted"),
    number("decisions_seq", "Stream sequence of the last decision published"),
    number("parked_seq", "Position of the last parked event known to be in the stream PARKED"),
    time("written_at", "Wall clock of the last transaction", null=False),
    blob("folded", "msgpack of podgroup.state.world.Meta; private to the projector"),
    comment="One row per cluster: the checkpoint",
    postgresql_with=HOT,
)

epochs = Table(
    "epochs",
    metadata,
    cluster(),
    shard(key=True),
    count("number", "Counts the beginnings of the log from 1", key=True),
    number("base", "Position = stream sequence + base"),
    time("at", "When it was noticed"),
    text("reason", "Why a new epoch began, in words"),
    time("stream_created_at", "Creation of the stream"),
    number("lost_from", "First position that may be missing from the log; null: none", null=True),
    number("lost_to", "Last position that may be missing from the log; null: none", null=True),
    comment="One row per beginning of the log: its gaps, and how positions are counted",
    info=rows("replace", merged=False),
)

parked = Table(
    "parked",
    metadata,
    cluster(),
    shard(key=True),
    number("seq", "Position of the message", key=True),
    count("ord", "Ordinal of the event in it", key=True),
    time("at", "Timestamp of the log", null=False),
    text("reason", "Why it was parked, one word"),
    text("message", "Why, in words"),
    text("group_id", "Group that is stuck because of it; empty: none"),
    text("object", "Object it was about, as far as known"),
    blob("raw", "The event as it was; null: not kept"),
    time("resolved_at", "When a person released or discarded it"),
    text("resolution", "release or discard; empty: still parked"),
    text("resolved_by", "Who did"),
    comment="One row per event that was parked",
    info=rows("keep", kept="{t}.seq <= :floor"),
)

objects = Table(
    "objects",
    metadata,
    cluster(),
    shard(key=True),
    text("kind", "Kind", key=True),
    text("namespace", "Namespace; empty: cluster-scoped", key=True),
    text("name", "Name", key=True),
    text("uid", "Uid"),
    text("cohort", "Cohort that a ClusterQueue or Cohort is in; empty: none", default=""),
    real(
        "used",
        "What a LocalQueue used lately, weighted; of a ClusterQueue 0. The LocalQueue with the "
        "least comes first where both are set; null: use does not decide (builtin mode)",
    ),
    blob("folded", "msgpack of the view; private to the projector"),
    comment="Queues, flavors, priority classes, namespaces, and Workloads of no known group",
    info=rows("replace"),
)

standings = Table(
    "standings",
    metadata,
    cluster(),
    shard(key=True),
    text("kind", "ClusterQueue, Cohort or LocalQueue", key=True),
    text("namespace", "Namespace; empty: cluster-scoped", key=True),
    text("name", "Name", key=True),
    text("cohort", "Cohort it belongs to; empty: none"),
    text("root", "Cohort at the top of its tree; empty: none"),
    count("pending", "Groups that wait"),
    count("reserving", "Groups that hold quota"),
    count("admitted", "Groups that are admitted and not over"),
    number("share", "Weighted dominant resource share in thousandths; 2^63-1: without limit"),
    time("at", "When it was reported"),
    time("gone_at", "When there was none of its name any more"),
    number("as_of_seq", "Position at which it was reported"),
    blob("folded", "msgpack of podgroup.model.standing.StandingReport; private to the projector"),
    comment="Last reported status of each queue and cohort (builtin mode)",
    info=rows("replace"),
    postgresql_with=HOT,
)

replicas = Table(
    "replicas",
    metadata,
    cluster(),
    text("part", "ingest, projector, actuator, or another that says how it is", key=True),
    text("instance", "Host and a random name of the process", key=True),
    text("problem", "Why it cannot do its work, as /readyz says it; empty: it can"),
    flag("leads", "It holds the Lease of its part: it is the one that works"),
    time("since", "Since when it can, or cannot", null=False),
    time("heard_at", "When it was heard last, by the projector's clock", null=False),
    comment="One row per running replica of a part: how it says that it is",
    postgresql_with=HOT,
)

pruned = Table(
    "pruned",
    metadata,
    cluster(),
    text("name", "Table", key=True),
    time("before", "What was over before this time is gone from the table", null=False),
    time("at", "When it was pruned last", null=False),
    number("rows", "Rows that went, all times together"),
    comment="One row per table that was pruned: what is missing because its time was over",
)
