"""Tables of what happened: history, waits, admissions, decisions and their outcomes.

Theory. `history` is append-only and ordered by (seq, ord). Waits, admissions and decisions open and
later close, each row by its key. A decision is stored before an actuator may act on it, so its
table is the outbox as well: `checkpoints.published` is the number up to which decisions were sent.

Append-only tables (`history`, `outcomes`) are partitioned by week on PostgreSQL, so that old weeks
are dropped whole (`schema.partitions`, `upkeep.pruning`); their keys contain `at` for that reason
alone, since the position is unique.

`conclusions` is the outbox of records beside decisions: rows that were sent are in the log, and
older rows are deleted.

Invariant: (cluster, shard, number) of decisions and conclusions together has no gap above what was
pruned.
"""

from sqlalchemy import Index, Table, UniqueConstraint

from projector.tables.base import (
    BY_TIME,
    HOT,
    blob,
    cluster,
    count,
    document,
    flag,
    metadata,
    number,
    rows,
    shard,
    text,
    time,
)

history = Table(
    "history",
    metadata,
    cluster(),
    shard(key=True),
    number("seq", "Position of the message in the log", key=True),
    count("ord", "Order within the position, from 0", key=True),
    time("at", "Timestamp of the log", null=False, key=True),
    text("group_id", "Group concerned; empty: none"),
    text("pod_uid", "Pod concerned; empty: none"),
    text("kind", "What happened, one word"),
    text("reason", "Why, one word"),
    text("message", "What happened, in words"),
    number("cause_seq", "Position of what caused it, when that is another message", null=True),
    text("decision_id", "Decision it belongs to; empty: none"),
    comment="One row per thing that happened; append-only",
    info=rows("append", compared=True, kept="{t}.seq <= :floor"),
    postgresql_partition_by=BY_TIME,
)

_h = history.c
Index("ix_history_group", _h.cluster, _h.group_id, _h.seq)
Index("ix_history_at", _h.at, postgresql_using="brin")

waits = Table(
    "waits",
    metadata,
    cluster(),
    text("group_id", "Group", key=True),
    number("from_seq", "Position at which the wait began", key=True),
    text("reason", "What it waited for, one word"),
    text("message", "What it waited for, in words"),
    time("from_at", "Begin", null=False),
    time("to_at", "End; null: it still waits"),
    number("to_seq", "Position at which the wait ended", null=True),
    comment="One row per interval in which a group waited for one reason",
    info=rows("replace", compared=True, owner=("group_id", "groups", "id")),
)

admissions = Table(
    "admissions",
    metadata,
    cluster(),
    text("group_id", "Group", key=True),
    count("number", "Counts the admissions of the group from 1", key=True),
    text("cluster_queue", "ClusterQueue whose quota it held"),
    document("flavors", "Podset -> resource -> flavor"),
    document(
        "resources", "Flavor -> resource -> amount held: cpu in thousandths, else whole units"
    ),
    time("queued_at", "Since when it had queued"),
    time("admitted_at", "When it was admitted", null=False),
    number("admitted_seq", "Position at which it was admitted"),
    time("released_at", "When the quota was given back; null: it is still held"),
    text("release_reason", "Why it was given back"),
    text("decided_by", "Decision that admitted it, or kueue"),
    comment="One row per admission of a group",
    info=rows("replace", compared=True, owner=("group_id", "groups", "id")),
)

reserved_starts = Table(
    "reserved_starts",
    metadata,
    cluster(),
    text("group_id", "Group that has waited too long", key=True),
    number("from_seq", "Position from which this start was reserved", key=True),
    text("cluster_queue", "ClusterQueue that it waits in"),
    document(
        "resources", "Flavor -> resource -> amount to be had: cpu in thousandths, else whole units"
    ),
    time("queued_at", "Since when it has queued"),
    time("from_at", "When it was reserved", null=False),
    time("start_by", "When it starts at the latest; null: once what ran then has ended"),
    time("to_at", "End; null: it is reserved still"),
    number("to_seq", "Position at which it ended", null=True),
    text(
        "ended",
        "Admitted; WorkedOutAnew: others came in by right, or ran for longer than they may; "
        "Withdrawn: the group does not fit any more, or queues elsewhere; Left: it is over; "
        "empty: it is reserved still",
    ),
    comment="One row per start that was reserved for a group that had waited for "
    "queueing.longest_wait_s (builtin mode)",
    info=rows("replace", compared=True, owner=("group_id", "groups", "id")),
)

placements = Table(
    "placements",
    metadata,
    cluster(),
    text("group_id", "Group", key=True),
    number("from_seq", "Position from which its pods had these places", key=True),
    text("pod_set", "Podset", key=True),
    text("domain", "Values of its levels, joined by commas; of hosts the host alone", key=True),
    text("level", "Label key of the domain's level"),
    text("flavor", "ResourceFlavor whose nodes they are"),
    number("pods", "How many pods have their place there"),
    document("requests", "What each takes: cpu in thousandths, else whole units"),
    time("from_at", "Begin", null=False),
    time("to_at", "End; null: they have it still"),
    number("to_seq", "Position at which it ended", null=True),
    comment="One row per domain in which pods of a group have places, and interval (builtin mode)",
    info=rows("replace", compared=True, owner=("group_id", "groups", "id")),
)

_pl = placements.c
Index("ix_placements_domain", _pl.cluster, _pl.domain)

usage = Table(
    "usage",
    metadata,
    cluster(),
    text("kind", "ClusterQueue, Cohort or LocalQueue", key=True),
    text("namespace", "Namespace; empty: cluster-scoped", key=True),
    text("name", "Name", key=True),
    text("flavor", "ResourceFlavor", key=True),
    text("resource", "Resource", key=True),
    number("from_seq", "Position from which it was so", key=True),
    shard(),
    text("cohort", "Cohort it belonged to; empty: none"),
    text("root", "Cohort at the top of its tree; empty: none"),
    number("nominal", "Its own quota: cpu in thousandths, else whole units, as all amounts here"),
    number("quota", "That, and what members of a cohort lend up"),
    number("reserved", "What was held, by its members and theirs"),
    number("used", "What of it was admitted"),
    number("borrowed", "What of it was taken from the cohort above"),
    number("spare", "What a Cohort had left for its members; 0 of others", default=0),
    number("unadmitted", "What ran and was never admitted: in no other amount", default=0),
    number("share", "Its weighted share then, of all resources; see standings"),
    time("from_at", "Begin", null=False),
    time("to_at", "End; null: it is so still"),
    number("to_seq", "Position at which it ended", null=True),
    comment="One row per queue or cohort, flavor, resource and interval in which it stood so",
    info=rows("replace", compared=True, kept="{t}.from_seq <= :floor"),
)

_u = usage.c
Index("ix_usage_at", _u.cluster, _u.kind, _u.from_at)
Index(
    "ix_usage_standing",
    *(_u.cluster, _u.kind, _u.namespace, _u.name, _u.flavor, _u.resource),
    postgresql_where=_u.to_at.is_(None),
    sqlite_where=_u.to_at.is_(None),
)
Index(
    "ix_usage_open",
    *(_u.cluster, _u.root, _u.flavor, _u.resource),
    postgresql_where=_u.to_at.is_(None),
    sqlite_where=_u.to_at.is_(None),
)

_a = admissions.c
Index("ix_admissions_at", _a.admitted_at)
Index("ix_admissions_queue", _a.cluster, _a.cluster_queue, _a.admitted_at)
Index(
    "ix_admissions_held",
    _a.cluster,
    _a.cluster_queue,
    postgresql_where=_a.released_at.is_(None),
    sqlite_where=_a.released_at.is_(None),
)

_r = reserved_starts.c
Index("ix_reserved_starts_at", _r.cluster, _r.from_at)
Index(
    "ix_reserved_starts_held",
    _r.cluster,
    postgresql_where=_r.to_at.is_(None),
    sqlite_where=_r.to_at.is_(None),
)

shortages = Table(
    "shortages",
    metadata,
    cluster(),
    text("group_id", "Group that was tried, or an equal one in its place", key=True),
    number("from_seq", "Position from which it was so", key=True),
    text("flavor", "ResourceFlavor", key=True),
    text("resource", "Resource", key=True),
    text("cluster_queue", "ClusterQueue in which it was tried"),
    text("kind", "ClusterQueue or Cohort: the kind of what was short"),
    text("name", "ClusterQueue or Cohort that was short: where the search for room ended"),
    number("requested", "Asked for: cpu in thousandths, else whole units, as all amounts here"),
    number("available", "What could be had when this began"),
    text(
        "limited_by",
        "nominal: its own quota, in no cohort; borrowingLimit: it may not borrow more; "
        "lendingLimit: others keep what they do not use; cohort: what all of it has is taken",
    ),
    number("without_limit", "What could be had then without borrowing or lending limits"),
    text("lender", "ClusterQueue or Cohort that keeps most of it; empty: none does"),
    flag("ever", "It never fits: amounts are those of a tree in which nothing is taken"),
    time("from_at", "Begin", null=False),
    time("to_at", "End, by an admission or otherwise; null: it is so still"),
    number("to_seq", "Position at which it ended", null=True),
    comment="One row per group, flavor, resource and interval in which that was what it fell "
    "short of when it was tried (builtin mode); amounts are those of the begin",
    info=rows("replace", compared=True, owner=("group_id", "groups", "id")),
)

Index("ix_shortages_at", shortages.c.cluster, shortages.c.from_at)

nodes = Table(
    "nodes",
    metadata,
    cluster(),
    text("name", "Name", key=True),
    number("from_seq", "Position from which it was so", key=True),
    shard(),
    flag("ready", "Its condition Ready was True"),
    flag("unschedulable", "It was cordoned"),
    document("labels", "Labels; those over the bound are left out"),
    document("taints", "Taints: key, value and effect of each"),
    document("allocatable", "What pods could take of it: cpu in thousandths, else whole units"),
    document("taken", "What pods took of it at the end that were not placed by topology"),
    time("from_at", "Begin", null=False),
    time("to_at", "End, by a change or with the node; null: it is so still"),
    number("to_seq", "Position at which it ended", null=True),
    comment="One row per node and interval in which it was so, while a ResourceFlavor named a "
    "Topology (builtin mode)",
    info=rows("replace", compared=True, kept="{t}.from_seq <= :floor"),
)

Index("ix_nodes_at", nodes.c.cluster, nodes.c.from_at)

topologies = Table(
    "topologies",
    metadata,
    cluster(),
    text("name", "Name", key=True),
    number("from_seq", "Position from which it was so", key=True),
    shard(),
    document("levels", "Node labels of its levels, outermost first"),
    time("from_at", "Begin", null=False),
    time("to_at", "End, by a change or with the Topology; null: it is so still"),
    number("to_seq", "Position at which it ended", null=True),
    comment="One row per Topology and interval in which it was so",
    info=rows("replace", compared=True, kept="{t}.from_seq <= :floor"),
)

preemptions = Table(
    "preemptions",
    metadata,
    cluster(),
    text("victim_id", "Group that had to give way", key=True),
    number("seq", "Position at which that was decided", key=True),
    shard(),
    time("at", "Timestamp of the log", null=False),
    text(
        "policy",
        "InClusterQueue, InCohortReclamation, InCohortFairSharing or InCohortReclaimWhileBorrowing",
    ),
    text("cohort", "Lowest Cohort that has both; empty: they are in one ClusterQueue"),
    text("victim_namespace", "Its namespace"),
    text("victim_name", "Its name"),
    number("victim_priority", "Its priority then"),
    text("victim_queue", "ClusterQueue whose quota it held"),
    number("victim_share", "Weighted share of that ClusterQueue then, as in standings"),
    document("victim_borrowed", "What that ClusterQueue borrowed then: flavor -> resource"),
    document("resources", "What it held: flavor -> resource -> amount"),
    text("preemptor_id", "Group for which it had to"),
    text("preemptor_namespace", "Namespace of that"),
    text("preemptor_name", "Name of that"),
    number("preemptor_priority", "Priority of that then"),
    text("preemptor_queue", "ClusterQueue in which that is admitted"),
    number("preemptor_share", "Weighted share of that ClusterQueue then"),
    document("preemptor_borrowed", "What that ClusterQueue borrowed then: flavor -> resource"),
    text("decision_id", "Decision"),
    comment="One row per preemption (builtin mode): who gave way to whom, by which policy",
    info=rows("replace", compared=True, kept="{t}.seq <= :floor"),
)

Index("ix_preemptions_at", preemptions.c.cluster, preemptions.c.at)

failures = Table(
    "failures",
    metadata,
    cluster(),
    shard(),
    text("pod_uid", "Pod", key=True),
    text("container", "Container that ended badly; empty: the pod was put an end to", key=True),
    number("seq", "Position at which that was seen", key=True),
    time("at", "Timestamp of the log", null=False),
    text("group_id", "Group"),
    text("reason", "OOMKilled, Error, Evicted, DeletionByTaintManager, ..."),
    text("message", "Why, in words; empty: nothing was said"),
    count("exit_code", "Exit code of the container; 0: none"),
    count("restarts", "How often the container had been started again by then"),
    time("finished_at", "When it ended, as the kubelet says"),
    text("node", "Node it was on; empty: none"),
    document(
        "requests",
        "Resources the pod asked for then: cpu in thousandths, others in whole units",
    ),
    comment="One row per container that ended badly, eviction by a node and disruption",
    info=rows("replace", kept="{t}.seq <= :floor"),
)

Index("ix_failures_at", failures.c.at)

quotas = Table(
    "quotas",
    metadata,
    cluster(),
    shard(key=True),
    text("cluster_queue", "ClusterQueue", key=True),
    number("seq", "Position from which on it is so", key=True),
    time("at", "Timestamp of the log", null=False),
    document(
        "nominal",
        "Flavor -> resource -> nominal quota: cpu in thousandths, else whole units; "
        "empty: the queue is gone",
    ),
    comment="One row per change of a ClusterQueue's nominal quota",
    info=rows("replace", kept="{t}.seq <= :floor"),
)

decisions = Table(
    "decisions",
    metadata,
    cluster(),
    text("id", "Deterministic id: cause, group, rule and target", key=True),
    shard(),
    number("number", "Counts the conclusions of the cluster from 1, decisions among them"),
    number("as_of_seq", "Position after which it was decided"),
    text("group_id", "Group it is about"),
    text("namespace", "Namespace of the group"),
    text("name", "Name of the group"),
    text("rule", "Rule that made it"),
    text("action", "Command: UngatePod, AdmitGroup, ..."),
    text("target", "What is written: kind namespace/name uid"),
    text("reason", "Why, one word"),
    text("message", "Why, in words"),
    time("issued_at", "When it was decided, by the clock of the log", null=False),
    document("command", "The command in full"),
    text("status", "applied, obsolete or rejected; null: not known yet", null=True),
    time("resolved_at", "When the status became known"),
    comment="One row per decision, written before anyone acts on it",
    info=rows("keep", compared=True, kept="{t}.as_of_seq <= :floor"),
    postgresql_with=HOT,
)

_d = decisions.c
decisions.append_constraint(UniqueConstraint(_d.cluster, _d.shard, _d.number))
Index("ix_decisions_group", _d.cluster, _d.group_id)
Index("ix_decisions_at", _d.issued_at)
Index(
    "ix_decisions_preempt",
    _d.cluster,
    _d.issued_at,
    postgresql_where=_d.rule == "preempt",
    sqlite_where=_d.rule == "preempt",
)
Index(
    "ix_decisions_unresolved",
    _d.cluster,
    _d.shard,
    _d.number,
    postgresql_where=_d.status.is_(None),
    sqlite_where=_d.status.is_(None),
)

conclusions = Table(
    "conclusions",
    metadata,
    cluster(),
    shard(key=True),
    number("number", "Number, counted along with those of decisions", key=True),
    number("as_of_seq", "Position after which it was concluded"),
    blob("body", "The records as they go into the stream DECISIONS"),
    comment="What rules concluded besides decisions and may still have to be sent; private",
    info=rows("keep", merged=False),
)

outcomes = Table(
    "outcomes",
    metadata,
    cluster(),
    text("decision_id", "Decision", key=True),
    number("seq", "Position of the outcome in the log", key=True),
    count("delivery", "Which delivery of the decision it was, from 1", key=True),
    count("attempt", "Which try of that delivery, from 1", key=True),
    text("status", "applied, obsolete, rejected or retrying"),
    count("http_status", "Answer of the API server; 0: none"),
    text("message", "What it said"),
    time("at", "Timestamp of the log", null=False, key=True),
    comment="One row per attempt at a decision",
    info=rows("keep", compared=True, owner=("decision_id", "decisions", "id")),
    postgresql_partition_by=BY_TIME,
)
