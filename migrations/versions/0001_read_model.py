"""The read model: every table of the SQL contract.

Revision 0001, the first.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def time_type() -> sa.types.TypeEngine:
    return sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def document_type() -> sa.types.TypeEngine:
    return sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "admissions",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column("group_id", sa.Text(), nullable=False, comment="Group"),
        sa.Column(
            "number",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Counts the admissions of the group from 1",
        ),
        sa.Column(
            "cluster_queue", sa.Text(), nullable=False, comment="ClusterQueue whose quota it held"
        ),
        sa.Column(
            "flavors", document_type(), nullable=False, comment="Podset -> resource -> flavor"
        ),
        sa.Column(
            "resources",
            document_type(),
            nullable=False,
            comment="Flavor -> resource -> amount held: cpu in thousandths, else whole units",
        ),
        sa.Column("queued_at", time_type(), nullable=True, comment="Since when it had queued"),
        sa.Column("admitted_at", time_type(), nullable=False, comment="When it was admitted"),
        sa.Column(
            "admitted_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position at which it was admitted",
        ),
        sa.Column(
            "released_at",
            time_type(),
            nullable=True,
            comment="When the quota was given back; null: it is still held",
        ),
        sa.Column("release_reason", sa.Text(), nullable=False, comment="Why it was given back"),
        sa.Column(
            "decided_by", sa.Text(), nullable=False, comment="Decision that admitted it, or kueue"
        ),
        sa.PrimaryKeyConstraint("cluster", "group_id", "number", name=op.f("pk_admissions")),
        comment="One row per admission of a group",
    )
    op.create_index("ix_admissions_at", "admissions", ["cluster", "admitted_at"], unique=False)
    op.create_table(
        "checkpoints",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column(
            "seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position up to which the log is folded into these tables",
        ),
        sa.Column(
            "writes",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Counts the transactions of this shard; guards the next one",
        ),
        sa.Column(
            "writer",
            sa.Text(),
            nullable=False,
            comment="Random name of the process that wrote last",
        ),
        sa.Column(
            "mode",
            sa.Text(),
            nullable=False,
            comment="builtin or kueue: by which rules the shard was decided",
        ),
        sa.Column(
            "epoch",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Number of the present epoch",
        ),
        sa.Column(
            "base",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position = stream sequence + base in the present epoch",
        ),
        sa.Column(
            "stream_created_at",
            time_type(),
            nullable=True,
            comment="Creation of the stream EVENTS it stands in",
        ),
        sa.Column("at", time_type(), nullable=True, comment="Timestamp of the last message folded"),
        sa.Column(
            "published",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Number of the last decision known to be in the stream DECISIONS",
        ),
        sa.Column(
            "decisions_created_at",
            time_type(),
            nullable=True,
            comment="Creation of the stream DECISIONS when that was noted",
        ),
        sa.Column(
            "decisions_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Stream sequence of the last decision published",
        ),
        sa.Column(
            "parked_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position of the last parked event known to be in the stream PARKED",
        ),
        sa.Column(
            "written_at", time_type(), nullable=False, comment="Wall clock of the last transaction"
        ),
        sa.Column(
            "folded",
            sa.LargeBinary(),
            nullable=True,
            comment="msgpack of podgroup.state.Meta; private to the projector",
        ),
        sa.PrimaryKeyConstraint("cluster", "shard", name=op.f("pk_checkpoints")),
        comment="One row per shard: the checkpoint",
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "decisions",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column(
            "id",
            sa.Text(),
            nullable=False,
            comment="Deterministic id: cause, group, rule and target",
        ),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column(
            "number",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Counts the decisions of the shard from 1",
        ),
        sa.Column(
            "as_of_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position after which it was decided",
        ),
        sa.Column("group_id", sa.Text(), nullable=False, comment="Group it is about"),
        sa.Column("namespace", sa.Text(), nullable=False, comment="Namespace of the group"),
        sa.Column("name", sa.Text(), nullable=False, comment="Name of the group"),
        sa.Column("rule", sa.Text(), nullable=False, comment="Rule that made it"),
        sa.Column(
            "action", sa.Text(), nullable=False, comment="Command: UngatePod, AdmitGroup, ..."
        ),
        sa.Column(
            "target", sa.Text(), nullable=False, comment="What is written: kind namespace/name uid"
        ),
        sa.Column("reason", sa.Text(), nullable=False, comment="Why, one word"),
        sa.Column("message", sa.Text(), nullable=False, comment="Why, in words"),
        sa.Column(
            "issued_at",
            time_type(),
            nullable=False,
            comment="When it was decided, by the clock of the log",
        ),
        sa.Column("command", document_type(), nullable=False, comment="The command in full"),
        sa.Column(
            "status",
            sa.Text(),
            nullable=True,
            comment="applied, obsolete or rejected; null: not known yet",
        ),
        sa.Column(
            "resolved_at", time_type(), nullable=True, comment="When the status became known"
        ),
        sa.PrimaryKeyConstraint("cluster", "id", name=op.f("pk_decisions")),
        sa.UniqueConstraint(
            "cluster", "shard", "number", name=op.f("uq_decisions_cluster_shard_number")
        ),
        comment="One row per decision, written before anyone acts on it",
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_decisions_group", "decisions", ["cluster", "group_id"], unique=False)
    op.create_index(
        "ix_decisions_unresolved",
        "decisions",
        ["cluster", "shard", "number"],
        unique=False,
        postgresql_where=sa.text("status IS NULL"),
        sqlite_where=sa.text("status IS NULL"),
    )
    op.create_table(
        "epochs",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column(
            "number",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Counts the beginnings of the log from 1",
        ),
        sa.Column(
            "base",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position = stream sequence + base",
        ),
        sa.Column("at", time_type(), nullable=True, comment="When it was noticed"),
        sa.Column("reason", sa.Text(), nullable=False, comment="Why a new epoch began, in words"),
        sa.Column(
            "stream_created_at", time_type(), nullable=True, comment="Creation of the stream"
        ),
        sa.Column(
            "lost_from",
            sa.BigInteger(),
            autoincrement=False,
            nullable=True,
            comment="First position that may be missing from the log; null: none",
        ),
        sa.Column(
            "lost_to",
            sa.BigInteger(),
            autoincrement=False,
            nullable=True,
            comment="Last position that may be missing from the log; null: none",
        ),
        sa.PrimaryKeyConstraint("cluster", "shard", "number", name=op.f("pk_epochs")),
        comment="One row per beginning of the log: its gaps, and how positions are counted",
    )
    op.create_table(
        "gates",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column("pod_uid", sa.Text(), nullable=False, comment="Pod"),
        sa.Column(
            "gate",
            sa.Text(),
            nullable=False,
            comment="Name of the scheduling gate, ours or another's",
        ),
        sa.Column("added_at", time_type(), nullable=False, comment="When it was first seen"),
        sa.Column(
            "removed_at",
            time_type(),
            nullable=True,
            comment="When it was seen gone; null: still there",
        ),
        sa.Column(
            "removed_by",
            sa.Text(),
            nullable=False,
            comment="Field manager that removed it; empty: not known",
        ),
        sa.PrimaryKeyConstraint("cluster", "pod_uid", "gate", name=op.f("pk_gates")),
        comment="One row per scheduling gate of a pod",
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "groups",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column(
            "id",
            sa.Text(),
            nullable=False,
            comment="Identity of this life; names repeat, ids do not",
        ),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column("namespace", sa.Text(), nullable=False, comment="Namespace"),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="Group name, or the pod's name for a single pod",
        ),
        sa.Column("kind", sa.Text(), nullable=False, comment="group or single"),
        sa.Column("queue", sa.Text(), nullable=False, comment="LocalQueue named by the pods"),
        sa.Column(
            "cluster_queue",
            sa.Text(),
            nullable=False,
            comment="ClusterQueue that admitted it, or else the one behind its LocalQueue",
        ),
        sa.Column(
            "priority",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Priority used for queueing",
        ),
        sa.Column(
            "priority_class", sa.Text(), nullable=False, comment="Priority class it came from"
        ),
        sa.Column(
            "total_count",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Declared number of pods",
        ),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="Composing, Queued, Blocked, Admitted, Running, Finishing, Finished, Evicted or Gone",
        ),
        sa.Column("reason", sa.Text(), nullable=False, comment="Why it is in this state, one word"),
        sa.Column(
            "message", sa.Text(), nullable=False, comment="Why it is in this state, in words"
        ),
        sa.Column("workload_name", sa.Text(), nullable=False, comment="Name of its Workload"),
        sa.Column(
            "pods_seen",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that ever belonged",
        ),
        sa.Column(
            "pods_gated",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that carry our scheduling gate now",
        ),
        sa.Column(
            "pods_ungated",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods whose gate was ever seen to go",
        ),
        sa.Column(
            "pods_running",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods in phase Running now",
        ),
        sa.Column(
            "pods_succeeded",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that ever succeeded",
        ),
        sa.Column(
            "pods_failed",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that ever failed",
        ),
        sa.Column(
            "pods_excess",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods beyond the declared count that were given up",
        ),
        sa.Column(
            "pods_replaced",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Failed or lost pods whose place another pod took",
        ),
        sa.Column(
            "wait_reason",
            sa.Text(),
            nullable=False,
            comment="What it waits for now, one word; empty: it does not wait",
        ),
        sa.Column(
            "wait_message", sa.Text(), nullable=False, comment="What it waits for now, in words"
        ),
        sa.Column(
            "wait_since", time_type(), nullable=True, comment="Since when it has waited for that"
        ),
        sa.Column(
            "parked",
            sa.Text(),
            nullable=False,
            comment="Why nothing more is decided for it until a person releases it; empty: not so",
        ),
        sa.Column("created_at", time_type(), nullable=False, comment="Creation of its first pod"),
        sa.Column(
            "created_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position at which it was first seen",
        ),
        sa.Column(
            "complete_at", time_type(), nullable=True, comment="When its pods were all there"
        ),
        sa.Column(
            "queued_at",
            time_type(),
            nullable=True,
            comment="Since when it has queued, for its present or latest place in the queue",
        ),
        sa.Column("admitted_at", time_type(), nullable=True, comment="Latest admission"),
        sa.Column("finished_at", time_type(), nullable=True, comment="When it was over"),
        sa.Column(
            "gone_at",
            time_type(),
            nullable=True,
            comment="When its last pod and its Workload were gone",
        ),
        sa.Column(
            "as_of_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position of the last message of the batch that wrote the row",
        ),
        sa.Column(
            "folded",
            sa.LargeBinary(),
            nullable=True,
            comment="msgpack of the fold's record while live, null after; private to the projector",
        ),
        sa.PrimaryKeyConstraint("cluster", "id", name=op.f("pk_groups")),
        comment="One row per life of a pod group or of a single pod",
        postgresql_with={"fillfactor": 80},
    )
    op.create_index(
        "ix_groups_live",
        "groups",
        ["cluster", "shard"],
        unique=False,
        postgresql_where=sa.text("gone_at IS NULL"),
        sqlite_where=sa.text("gone_at IS NULL"),
    )
    op.create_index(
        "ix_groups_name", "groups", ["cluster", "namespace", "name", "created_at"], unique=False
    )
    op.create_index(
        "ix_groups_queue", "groups", ["cluster", "namespace", "queue", "state"], unique=False
    )
    op.create_table(
        "history",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column(
            "seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position of the message in the log",
        ),
        sa.Column(
            "ord",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Order within the position, from 0",
        ),
        sa.Column("at", time_type(), nullable=False, comment="Timestamp of the log"),
        sa.Column("group_id", sa.Text(), nullable=False, comment="Group concerned; empty: none"),
        sa.Column("pod_uid", sa.Text(), nullable=False, comment="Pod concerned; empty: none"),
        sa.Column("kind", sa.Text(), nullable=False, comment="What happened, one word"),
        sa.Column("reason", sa.Text(), nullable=False, comment="Why, one word"),
        sa.Column("message", sa.Text(), nullable=False, comment="What happened, in words"),
        sa.Column(
            "cause_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=True,
            comment="Position of what caused it, when that is another message",
        ),
        sa.Column(
            "decision_id", sa.Text(), nullable=False, comment="Decision it belongs to; empty: none"
        ),
        sa.PrimaryKeyConstraint("cluster", "shard", "seq", "ord", name=op.f("pk_history")),
        comment="One row per thing that happened; append-only",
    )
    op.create_index("ix_history_at", "history", ["at"], unique=False, postgresql_using="brin")
    op.create_index("ix_history_group", "history", ["cluster", "group_id", "seq"], unique=False)
    op.create_table(
        "objects",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column("kind", sa.Text(), nullable=False, comment="Kind"),
        sa.Column(
            "namespace", sa.Text(), nullable=False, comment="Namespace; empty: cluster-scoped"
        ),
        sa.Column("name", sa.Text(), nullable=False, comment="Name"),
        sa.Column("uid", sa.Text(), nullable=False, comment="Uid"),
        sa.Column(
            "folded",
            sa.LargeBinary(),
            nullable=True,
            comment="msgpack of the view; private to the projector",
        ),
        sa.PrimaryKeyConstraint(
            "cluster", "shard", "kind", "namespace", "name", name=op.f("pk_objects")
        ),
        comment="Queues, flavors, priority classes, namespaces, and Workloads of no known group",
    )
    op.create_table(
        "outcomes",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column("decision_id", sa.Text(), nullable=False, comment="Decision"),
        sa.Column(
            "seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position of the outcome in the log",
        ),
        sa.Column(
            "delivery",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Which delivery of the decision it was, from 1",
        ),
        sa.Column(
            "attempt",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Which try of that delivery, from 1",
        ),
        sa.Column(
            "status", sa.Text(), nullable=False, comment="applied, obsolete, rejected or retrying"
        ),
        sa.Column(
            "http_status",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Answer of the API server; 0: none",
        ),
        sa.Column("message", sa.Text(), nullable=False, comment="What it said"),
        sa.Column("at", time_type(), nullable=False, comment="Timestamp of the log"),
        sa.PrimaryKeyConstraint(
            "cluster", "decision_id", "seq", "delivery", "attempt", name=op.f("pk_outcomes")
        ),
        comment="One row per attempt at a decision",
    )
    op.create_table(
        "parked",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column(
            "seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position of the message",
        ),
        sa.Column(
            "ord",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Ordinal of the event in it",
        ),
        sa.Column("at", time_type(), nullable=False, comment="Timestamp of the log"),
        sa.Column("reason", sa.Text(), nullable=False, comment="Why it was set aside, one word"),
        sa.Column("message", sa.Text(), nullable=False, comment="Why, in words"),
        sa.Column(
            "group_id",
            sa.Text(),
            nullable=False,
            comment="Group that stands still because of it; empty: none",
        ),
        sa.Column(
            "object", sa.Text(), nullable=False, comment="Object it was about, as far as known"
        ),
        sa.Column(
            "raw", sa.LargeBinary(), nullable=True, comment="The event as it was; null: not kept"
        ),
        sa.Column(
            "resolved_at",
            time_type(),
            nullable=True,
            comment="When a person released or discarded it",
        ),
        sa.Column(
            "resolution",
            sa.Text(),
            nullable=False,
            comment="release or discard; empty: still parked",
        ),
        sa.Column("resolved_by", sa.Text(), nullable=False, comment="Who did"),
        sa.PrimaryKeyConstraint("cluster", "shard", "seq", "ord", name=op.f("pk_parked")),
        comment="One row per event that was set aside",
    )
    op.create_table(
        "pods",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column("uid", sa.Text(), nullable=False, comment="Pod uid"),
        sa.Column(
            "shard",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Shard of the log the row comes from",
        ),
        sa.Column("group_id", sa.Text(), nullable=False, comment="Group it belongs to"),
        sa.Column("namespace", sa.Text(), nullable=False, comment="Namespace"),
        sa.Column("name", sa.Text(), nullable=False, comment="Pod name"),
        sa.Column("role", sa.Text(), nullable=False, comment="Role hash, as first seen"),
        sa.Column("phase", sa.Text(), nullable=False, comment="Phase as last seen"),
        sa.Column("gated", sa.Boolean(), nullable=False, comment="Our scheduling gate is on it"),
        sa.Column("finalizer", sa.Boolean(), nullable=False, comment="Our finalizer is on it"),
        sa.Column("node", sa.Text(), nullable=False, comment="Node it was bound to; empty: none"),
        sa.Column(
            "labels",
            document_type(),
            nullable=False,
            comment="All its labels: owner, team and the like for accounting",
        ),
        sa.Column(
            "requests",
            document_type(),
            nullable=False,
            comment="Resources it asks for: cpu in thousandths, others in whole units",
        ),
        sa.Column(
            "fate",
            sa.Text(),
            nullable=False,
            comment="kept, excess, replaced or lost; empty: not decided",
        ),
        sa.Column(
            "exit_reason",
            sa.Text(),
            nullable=False,
            comment="How it ended, e.g. OOMKilled; empty: it did not, or well",
        ),
        sa.Column("created_at", time_type(), nullable=False, comment="Creation"),
        sa.Column("ungated_at", time_type(), nullable=True, comment="When our gate was seen gone"),
        sa.Column(
            "scheduled_at", time_type(), nullable=True, comment="When it was bound to a node"
        ),
        sa.Column("started_at", time_type(), nullable=True, comment="When the kubelet took it up"),
        sa.Column(
            "ended_at", time_type(), nullable=True, comment="When it was seen Succeeded or Failed"
        ),
        sa.Column(
            "failed_at",
            time_type(),
            nullable=True,
            comment="Earliest sign of its failure, by which replacement is ordered",
        ),
        sa.Column(
            "deleted_at",
            time_type(),
            nullable=True,
            comment="When its deletion takes or took effect (metadata.deletionTimestamp)",
        ),
        sa.Column("gone_at", time_type(), nullable=True, comment="When it left the API server"),
        sa.Column(
            "seen_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position at which it was first seen",
        ),
        sa.Column(
            "as_of_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position of the last message of the batch that wrote the row",
        ),
        sa.Column(
            "folded",
            sa.LargeBinary(),
            nullable=True,
            comment="msgpack of the fold's record while live, null after; private to the projector",
        ),
        sa.PrimaryKeyConstraint("cluster", "uid", name=op.f("pk_pods")),
        comment="One row per pod uid",
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_pods_group", "pods", ["cluster", "group_id"], unique=False)
    op.create_index(
        "ix_pods_live",
        "pods",
        ["cluster", "shard"],
        unique=False,
        postgresql_where=sa.text("gone_at IS NULL"),
        sqlite_where=sa.text("gone_at IS NULL"),
    )
    op.create_table(
        "roles",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column("group_id", sa.Text(), nullable=False, comment="Group"),
        sa.Column("name", sa.Text(), nullable=False, comment="Role hash: the shape its pods share"),
        sa.Column(
            "count",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods of this role the group was composed with; 0 before",
        ),
        sa.Column(
            "requests",
            document_type(),
            nullable=False,
            comment="Resources one pod asks for: cpu in thousandths, others in whole units",
        ),
        sa.Column(
            "pods_seen",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that ever belonged",
        ),
        sa.Column(
            "pods_gated",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that carry our scheduling gate now",
        ),
        sa.Column(
            "pods_ungated",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods whose gate was ever seen to go",
        ),
        sa.Column(
            "pods_running",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods in phase Running now",
        ),
        sa.Column(
            "pods_succeeded",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that ever succeeded",
        ),
        sa.Column(
            "pods_failed",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods that ever failed",
        ),
        sa.Column(
            "pods_excess",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Pods beyond the declared count that were given up",
        ),
        sa.Column(
            "pods_replaced",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="Failed or lost pods whose place another pod took",
        ),
        sa.PrimaryKeyConstraint("cluster", "group_id", "name", name=op.f("pk_roles")),
        comment="One row per role of a group",
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "waits",
        sa.Column(
            "cluster",
            sa.Text(),
            nullable=False,
            comment="Name of the Kubernetes cluster (setting cluster)",
        ),
        sa.Column("group_id", sa.Text(), nullable=False, comment="Group"),
        sa.Column(
            "from_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Position at which the wait began",
        ),
        sa.Column("reason", sa.Text(), nullable=False, comment="What it waited for, one word"),
        sa.Column("message", sa.Text(), nullable=False, comment="What it waited for, in words"),
        sa.Column("from_at", time_type(), nullable=False, comment="Begin"),
        sa.Column("to_at", time_type(), nullable=True, comment="End; null: it still waits"),
        sa.Column(
            "to_seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=True,
            comment="Position at which the wait ended",
        ),
        sa.PrimaryKeyConstraint("cluster", "group_id", "from_seq", name=op.f("pk_waits")),
        comment="One row per interval in which a group waited for one reason",
    )
    op.create_index(
        "ix_waits_open",
        "waits",
        ["cluster", "from_at"],
        unique=False,
        postgresql_where=sa.text("to_at IS NULL"),
        sqlite_where=sa.text("to_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index(
        "ix_waits_open",
        table_name="waits",
        postgresql_where=sa.text("to_at IS NULL"),
        sqlite_where=sa.text("to_at IS NULL"),
    )
    op.drop_table("waits")
    op.drop_table("roles")
    op.drop_index(
        "ix_pods_live",
        table_name="pods",
        postgresql_where=sa.text("gone_at IS NULL"),
        sqlite_where=sa.text("gone_at IS NULL"),
    )
    op.drop_index("ix_pods_group", table_name="pods")
    op.drop_table("pods")
    op.drop_table("parked")
    op.drop_table("outcomes")
    op.drop_table("objects")
    op.drop_index("ix_history_group", table_name="history")
    op.drop_index("ix_history_at", table_name="history", postgresql_using="brin")
    op.drop_table("history")
    op.drop_index("ix_groups_queue", table_name="groups")
    op.drop_index("ix_groups_name", table_name="groups")
    op.drop_index(
        "ix_groups_live",
        table_name="groups",
        postgresql_where=sa.text("gone_at IS NULL"),
        sqlite_where=sa.text("gone_at IS NULL"),
    )
    op.drop_table("groups")
    op.drop_table("gates")
    op.drop_table("epochs")
    op.drop_index(
        "ix_decisions_unresolved",
        table_name="decisions",
        postgresql_where=sa.text("status IS NULL"),
        sqlite_where=sa.text("status IS NULL"),
    )
    op.drop_index("ix_decisions_group", table_name="decisions")
    op.drop_table("decisions")
    op.drop_table("checkpoints")
    op.drop_index("ix_admissions_at", table_name="admissions")
    op.drop_table("admissions")
