"""Tables of what exists or existed: lives of groups, their roles, pods and gates.

Theory. One row per life, kept after the life is over. While it lasts, `folded` holds the fold's
own record of it (msgpack of `state.world`), from which a projector starts; afterwards it is
null. People read the other columns, which are derived from it on every write.

Invariant: a row is live (`gone_at` null, `folded` not null) exactly while the fold's state has it.
"""

from sqlalchemy import Index, Table

from projector.tables.base import (
    HOT,
    blob,
    cluster,
    count,
    counters,
    document,
    flag,
    metadata,
    number,
    rows,
    shard,
    text,
    time,
)

AS_OF = "Position of the last message of the batch that wrote the row"
FOLDED = "msgpack of the fold's record while live, null after; private to the projector"

groups = Table(
    "groups",
    metadata,
    cluster(),
    text("id", "Identity of this life; names repeat, ids do not", key=True),
    shard(),
    text("namespace", "Namespace"),
    text("name", "Group name, or the pod's name for a single pod"),
    text("kind", "group or single"),
    text("queue", "LocalQueue named by the pods"),
    text("cluster_queue", "ClusterQueue that admitted it, or else the one behind its LocalQueue"),
    number("priority", "Priority used for queueing"),
    text("priority_class", "Priority class it came from"),
    number("total_count", "Declared number of pods"),
    text(
        "state",
        "Composing, Queued, Blocked, Admitted, Running, Finishing, Finished, Evicted or Gone",
    ),
    text("reason", "Why it is in this state, one word"),
    text("message", "Why it is in this state, in words"),
    text(
        "workload_name",
        "Name of its Workload; empty for a single pod that does without one",
    ),
    *counters(),
    text("wait_reason", "What it waits for now, one word; empty: it does not wait"),
    text("wait_message", "What it waits for now, in words"),
    time("wait_since", "Since when it has waited for that"),
    text("parked", "Why nothing more is decided for it until a person releases it; empty: not so"),
    time("created_at", "When gatelog saw it first", null=False),
    number("created_seq", "Position at which it was first seen"),
    time("complete_at", "When its pods were all there"),
    time("queued_at", "Since when it has queued, for its present or latest place in the queue"),
    count(
        "precedence",
        "2: quota is kept for it until others have stopped for it; 3: a start is reserved for it; "
        "1: others stopped for it and it goes first for what they free; 4: a start is reserved for "
        "it, and it goes before those of its priority; 0: none of these. That is the order in the "
        "queue",
        default=0,
    ),
    number(
        "most_run_s",
        "Seconds for which it holds quota at most from an admission on: what is left of its "
        "max-exec-time-seconds, and what its pods have to end; null: any, or no start is reserved",
        null=True,
    ),
    time("admitted_at", "Latest admission"),
    time("finished_at", "When it was over"),
    time("gone_at", "When its last pod and its Workload were gone"),
    number("as_of_seq", AS_OF),
    blob("folded", FOLDED),
    comment="One row per life of a pod group or of a single pod",
    info=rows("replace", compared=True, kept="{t}.gone_at IS NOT NULL AND {t}.as_of_seq <= :floor"),
    postgresql_with=HOT,
)

_g = groups.c
Index(
    "ix_groups_live",
    _g.cluster,
    _g.shard,
    postgresql_where=_g.gone_at.is_(None),
    sqlite_where=_g.gone_at.is_(None),
)
Index("ix_groups_name", _g.namespace, _g.name, _g.cluster, _g.created_at)

roles = Table(
    "roles",
    metadata,
    cluster(),
    text("group_id", "Group", key=True),
    text("name", "Role hash: the shape its pods share", key=True),
    count("count", "Pods of this role the group was composed with; 0 before"),
    document("requests", "Resources one pod asks for: cpu in thousandths, others in whole units"),
    *counters(),
    comment="One row per role of a group",
    info=rows("replace", compared=True, owner=("group_id", "groups", "id")),
    postgresql_with=HOT,
)

pods = Table(
    "pods",
    metadata,
    cluster(),
    text("uid", "Pod uid", key=True),
    shard(),
    text("group_id", "Group it belongs to"),
    text("namespace", "Namespace"),
    text("name", "Pod name"),
    text("role", "Role hash, as first seen"),
    text("phase", "Phase as last seen"),
    flag("gated", "Our scheduling gate is on it"),
    flag("finalizer", "Our finalizer is on it"),
    text("node", "Node it was bound to; empty: none"),
    document("labels", "All its labels: owner, team and the like for accounting"),
    document("requests", "Resources it asks for: cpu in thousandths, others in whole units"),
    text("fate", "kept, excess, replaced or lost; empty: not decided"),
    text("told_reason", "What its condition gatelog.io/admitted says it waits for", default=""),
    text("told_message", "The same in words", default=""),
    text("exit_reason", "How it ended, e.g. OOMKilled; empty: it did not, or well"),
    time("created_at", "Creation", null=False),
    time("ungated_at", "When our gate was seen gone"),
    time("scheduled_at", "When it was bound to a node"),
    time("started_at", "When the kubelet took it up"),
    time("ended_at", "When it was seen Succeeded or Failed"),
    time("failed_at", "Earliest sign of its failure, by which replacement is ordered"),
    time(
        "deleted_at",
        "When its deletion takes effect (metadata.deletionTimestamp, unless absurd)",
    ),
    time("gone_at", "When it left the API server"),
    text(
        "qos",
        "Guaranteed, Burstable or BestEffort; empty: not known",
        default="",
    ),
    text(
        "owner",
        "Its controller, e.g. Job/train; empty: none",
        default="",
    ),
    count(
        "restarts",
        "How often its containers were started again",
        default=0,
    ),
    document(
        "used_mean",
        "What it really used, mean of the samples, in the units of requests; {}: not measured",
        default="{}",
    ),
    document("used_peak", "The same, the largest sample", default="{}"),
    count("used_samples", "Samples of the metrics API so far; 0: not measured", default=0),
    time("used_from", "Time of the first of them"),
    time("used_to", "Time of the last of them that is counted"),
    number("seen_seq", "Position at which it was first seen"),
    number("as_of_seq", AS_OF),
    blob("folded", FOLDED),
    comment="One row per pod uid",
    info=rows("replace", compared=True, kept="{t}.gone_at IS NOT NULL AND {t}.as_of_seq <= :floor"),
    postgresql_with=HOT,
)

_p = pods.c
Index(
    "ix_pods_live",
    _p.cluster,
    _p.shard,
    postgresql_where=_p.gone_at.is_(None),
    sqlite_where=_p.gone_at.is_(None),
)
Index("ix_pods_group", _p.cluster, _p.group_id)
Index("ix_pods_name", _p.namespace, _p.name, _p.cluster)
Index("ix_pods_created", _p.created_at)
Index(
    "ix_pods_excess",
    _p.created_at,
    postgresql_where=_p.fate == "excess",
    sqlite_where=_p.fate == "excess",
)
Index(
    "ix_pods_failed",
    _p.ended_at,
    postgresql_where=_p.exit_reason != "",
    sqlite_where=_p.exit_reason != "",
)

gates = Table(
    "gates",
    metadata,
    cluster(),
    text("pod_uid", "Pod", key=True),
    text("gate", "Name of the scheduling gate, ours or another's", key=True),
    time("added_at", "When it was first seen", null=False),
    time("removed_at", "When it was seen gone; null: still there"),
    text("removed_by", "Field manager that removed it; empty: not known"),
    comment="One row per scheduling gate of a pod",
    info=rows("replace", compared=True, owner=("pod_uid", "pods", "uid")),
    postgresql_with=HOT,
)

pod_waits = Table(
    "pod_waits",
    metadata,
    cluster(),
    text("pod_uid", "Pod", key=True),
    number("from_seq", "Position from which it was so", key=True),
    text("reason", "Why it did not run though it was let go, in a word of Kubernetes"),
    text("subject", "What that is about: an image, a container, a gate, a node, a finalizer"),
    text("message", "What scheduler or kubelet said of it, last"),
    time("from_at", "Begin", null=False),
    time("to_at", "End; null: it is so still, or the pod is gone"),
    number("to_seq", "Position at which it ended", null=True),
    comment="One row per interval in which a pod that was let go did not run for one reason",
    info=rows("replace", compared=True, owner=("pod_uid", "pods", "uid")),
    postgresql_with=HOT,
)

_w = pod_waits.c
Index(
    "ix_pod_waits_open",
    _w.cluster,
    _w.pod_uid,
    postgresql_where=_w.to_at.is_(None),
    sqlite_where=_w.to_at.is_(None),
)
"""A crash loop leaves an interval for each restart: what a pod waits for now is found past them."""
