"""The read model: every table of the SQL contract.

Revision 0001. Nothing was released yet: until the first tag a change of the tables is a change of
this script, and a read model of before is made anew from the log (`gatelog replay --rebuild` into
an empty database). Comments and views come after it (`env.py`).
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
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
    "objects",
    "outcomes",
    "parked",
    "pods",
    "preemptions",
    "pruned",
    "quotas",
    "replicas",
    "roles",
    "shortages",
    "standings",
    "usage",
    "waits",
)
TIME = sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def column(name: str, kind: Any, null: bool, default: str | None) -> sa.Column:
    value = None if default is None else sa.text(default)
    return sa.Column(name, kind, nullable=null, server_default=value, autoincrement=False)


def text(name: str, *, null: bool = False, default: str | None = None) -> sa.Column:
    return column(name, sa.Text(), null, default)


def count(name: str, *, null: bool = False, default: str | None = None) -> sa.Column:
    return column(name, sa.Integer(), null, default)


def number(name: str, *, null: bool = False, default: str | None = None) -> sa.Column:
    return column(name, sa.BigInteger(), null, default)


def time(name: str, *, null: bool = False) -> sa.Column:
    return column(name, TIME, null, None)


def document(name: str, *, null: bool = False, default: str | None = None) -> sa.Column:
    return column(name, DOCUMENT, null, default)


def flag(name: str) -> sa.Column:
    return column(name, sa.Boolean(), False, None)


def real(name: str, *, null: bool = False) -> sa.Column:
    return column(name, sa.Float(), null, None)


def body(name: str, *, null: bool = False) -> sa.Column:
    return column(name, sa.LargeBinary(), null, None)


def partial(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, postgresql_where=condition, sqlite_where=condition)


def upgrade() -> None:
    op.create_table(
        "admissions",
        text("cluster"),
        text("group_id"),
        count("number"),
        text("cluster_queue"),
        document("flavors"),
        document("resources"),
        time("queued_at", null=True),
        time("admitted_at"),
        number("admitted_seq"),
        time("released_at", null=True),
        text("release_reason"),
        text("decided_by"),
        sa.PrimaryKeyConstraint("cluster", "group_id", "number", name="pk_admissions"),
    )
    op.create_index("ix_admissions_at", "admissions", ["admitted_at"])
    partial("ix_admissions_held", "admissions", ["cluster", "cluster_queue"], "released_at IS NULL")
    op.create_index(
        "ix_admissions_queue", "admissions", ["cluster", "cluster_queue", "admitted_at"]
    )
    op.create_table(
        "checkpoints",
        text("cluster"),
        count("shard"),
        number("seq"),
        number("writes"),
        text("writer"),
        text("mode"),
        count("epoch"),
        number("base"),
        time("stream_created_at", null=True),
        time("at", null=True),
        number("published"),
        time("decisions_created_at", null=True),
        number("decisions_seq"),
        number("parked_seq"),
        time("written_at"),
        body("folded", null=True),
        sa.PrimaryKeyConstraint("cluster", "shard", name="pk_checkpoints"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "conclusions",
        text("cluster"),
        count("shard"),
        number("number"),
        number("as_of_seq"),
        body("body", null=True),
        sa.PrimaryKeyConstraint("cluster", "shard", "number", name="pk_conclusions"),
    )
    op.create_table(
        "decisions",
        text("cluster"),
        text("id"),
        count("shard"),
        number("number"),
        number("as_of_seq"),
        text("group_id"),
        text("namespace"),
        text("name"),
        text("rule"),
        text("action"),
        text("target"),
        text("reason"),
        text("message"),
        time("issued_at"),
        document("command"),
        text("status", null=True),
        time("resolved_at", null=True),
        sa.PrimaryKeyConstraint("cluster", "id", name="pk_decisions"),
        sa.UniqueConstraint(
            *("cluster", "shard", "number"), name="uq_decisions_cluster_shard_number"
        ),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_decisions_at", "decisions", ["issued_at"])
    op.create_index("ix_decisions_group", "decisions", ["cluster", "group_id"])
    partial(
        "ix_decisions_unresolved", "decisions", ["cluster", "shard", "number"], "status IS NULL"
    )
    op.create_table(
        "epochs",
        text("cluster"),
        count("shard"),
        count("number"),
        number("base"),
        time("at", null=True),
        text("reason"),
        time("stream_created_at", null=True),
        number("lost_from", null=True),
        number("lost_to", null=True),
        sa.PrimaryKeyConstraint("cluster", "shard", "number", name="pk_epochs"),
    )
    op.create_table(
        "estimates",
        text("cluster"),
        text("group_id"),
        time("given_at"),
        count("shard"),
        number("as_of_seq"),
        text("namespace"),
        text("name"),
        text("queue"),
        text("cluster_queue"),
        number("priority"),
        count("position"),
        time("queued_at", null=True),
        time("expected_at", null=True),
        time("earliest_at", null=True),
        time("latest_at", null=True),
        time("plain_at", null=True),
        text("never"),
        time("replaced_at", null=True),
        text("came"),
        time("came_at", null=True),
        sa.PrimaryKeyConstraint("cluster", "group_id", "given_at", name="pk_estimates"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_estimates_came", "estimates", ["came_at"])
    partial("ix_estimates_open", "estimates", ["cluster", "shard"], "came = ''")
    op.create_table(
        "failures",
        text("cluster"),
        count("shard"),
        text("pod_uid"),
        text("container"),
        number("seq"),
        time("at"),
        text("group_id"),
        text("reason"),
        text("message"),
        count("exit_code"),
        count("restarts"),
        time("finished_at", null=True),
        text("node"),
        document("requests"),
        sa.PrimaryKeyConstraint("cluster", "pod_uid", "container", "seq", name="pk_failures"),
    )
    op.create_index("ix_failures_at", "failures", ["at"])
    op.create_table(
        "forecasts",
        text("cluster"),
        count("shard"),
        time("at"),
        number("as_of_seq"),
        count("plays"),
        number("took_ms"),
        count("groups"),
        document("drawn_from"),
        sa.PrimaryKeyConstraint("cluster", "shard", name="pk_forecasts"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "gates",
        text("cluster"),
        text("pod_uid"),
        text("gate"),
        time("added_at"),
        time("removed_at", null=True),
        text("removed_by"),
        sa.PrimaryKeyConstraint("cluster", "pod_uid", "gate", name="pk_gates"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "groups",
        text("cluster"),
        text("id"),
        count("shard"),
        text("namespace"),
        text("name"),
        text("kind"),
        text("queue"),
        text("cluster_queue"),
        number("priority"),
        text("priority_class"),
        number("total_count"),
        text("state"),
        text("reason"),
        text("message"),
        text("workload_name"),
        count("pods_seen"),
        count("pods_gated"),
        count("pods_ungated"),
        count("pods_running"),
        count("pods_succeeded"),
        count("pods_failed"),
        count("pods_excess"),
        count("pods_replaced"),
        text("wait_reason"),
        text("wait_message"),
        time("wait_since", null=True),
        text("parked"),
        time("created_at"),
        number("created_seq"),
        time("complete_at", null=True),
        time("queued_at", null=True),
        count("precedence", default="0"),
        time("admitted_at", null=True),
        time("finished_at", null=True),
        time("gone_at", null=True),
        number("as_of_seq"),
        body("folded", null=True),
        sa.PrimaryKeyConstraint("cluster", "id", name="pk_groups"),
        postgresql_with={"fillfactor": 80},
    )
    partial("ix_groups_live", "groups", ["cluster", "shard"], "gone_at IS NULL")
    op.create_index("ix_groups_name", "groups", ["namespace", "name", "cluster", "created_at"])
    op.create_table(
        "history",
        text("cluster"),
        count("shard"),
        number("seq"),
        count("ord"),
        time("at"),
        text("group_id"),
        text("pod_uid"),
        text("kind"),
        text("reason"),
        text("message"),
        number("cause_seq", null=True),
        text("decision_id"),
        sa.PrimaryKeyConstraint("cluster", "shard", "seq", "ord", "at", name="pk_history"),
        postgresql_partition_by="RANGE (at)",
    )
    op.create_index("ix_history_at", "history", ["at"], postgresql_using="brin")
    op.create_index("ix_history_group", "history", ["cluster", "group_id", "seq"])
    op.create_table(
        "objects",
        text("cluster"),
        count("shard"),
        text("kind"),
        text("namespace"),
        text("name"),
        text("uid"),
        text("cohort", default="''"),
        sa.Column("used", sa.Double(), nullable=True),
        body("folded", null=True),
        sa.PrimaryKeyConstraint("cluster", "shard", "kind", "namespace", "name", name="pk_objects"),
    )
    op.create_table(
        "outcomes",
        text("cluster"),
        text("decision_id"),
        number("seq"),
        count("delivery"),
        count("attempt"),
        text("status"),
        count("http_status"),
        text("message"),
        time("at"),
        sa.PrimaryKeyConstraint(
            "cluster", "decision_id", "seq", "delivery", "attempt", "at", name="pk_outcomes"
        ),
        postgresql_partition_by="RANGE (at)",
    )
    op.create_table(
        "parked",
        text("cluster"),
        count("shard"),
        number("seq"),
        count("ord"),
        time("at"),
        text("reason"),
        text("message"),
        text("group_id"),
        text("object"),
        body("raw", null=True),
        time("resolved_at", null=True),
        text("resolution"),
        text("resolved_by"),
        sa.PrimaryKeyConstraint("cluster", "shard", "seq", "ord", name="pk_parked"),
    )
    op.create_table(
        "pods",
        text("cluster"),
        text("uid"),
        count("shard"),
        text("group_id"),
        text("namespace"),
        text("name"),
        text("role"),
        text("phase"),
        flag("gated"),
        flag("finalizer"),
        text("node"),
        document("labels"),
        document("requests"),
        text("fate"),
        text("exit_reason"),
        time("created_at"),
        time("ungated_at", null=True),
        time("scheduled_at", null=True),
        time("started_at", null=True),
        time("ended_at", null=True),
        time("failed_at", null=True),
        time("deleted_at", null=True),
        time("gone_at", null=True),
        text("qos", default="''"),
        text("owner", default="''"),
        count("restarts", default="0"),
        document("used_mean", default="'{}'"),
        document("used_peak", default="'{}'"),
        count("used_samples", default="0"),
        time("used_from", null=True),
        time("used_to", null=True),
        number("seen_seq"),
        number("as_of_seq"),
        body("folded", null=True),
        sa.PrimaryKeyConstraint("cluster", "uid", name="pk_pods"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_pods_created", "pods", ["created_at"])
    partial("ix_pods_excess", "pods", ["created_at"], "fate = 'excess'")
    partial("ix_pods_failed", "pods", ["ended_at"], "exit_reason <> ''")
    op.create_index("ix_pods_group", "pods", ["cluster", "group_id"])
    partial("ix_pods_live", "pods", ["cluster", "shard"], "gone_at IS NULL")
    op.create_index("ix_pods_name", "pods", ["namespace", "name", "cluster"])
    op.create_table(
        "preemptions",
        text("cluster"),
        text("victim_id"),
        number("seq"),
        count("shard"),
        time("at"),
        text("policy"),
        text("cohort"),
        text("victim_namespace"),
        text("victim_name"),
        number("victim_priority"),
        text("victim_queue"),
        number("victim_share"),
        document("victim_borrowed"),
        document("resources"),
        text("preemptor_id"),
        text("preemptor_namespace"),
        text("preemptor_name"),
        number("preemptor_priority"),
        text("preemptor_queue"),
        number("preemptor_share"),
        document("preemptor_borrowed"),
        text("decision_id"),
        sa.PrimaryKeyConstraint("cluster", "victim_id", "seq", name="pk_preemptions"),
    )
    op.create_index("ix_preemptions_at", "preemptions", ["cluster", "at"])
    op.create_table(
        "pruned",
        text("cluster"),
        text("name"),
        time("before"),
        time("at"),
        number("rows"),
        sa.PrimaryKeyConstraint("cluster", "name", name="pk_pruned"),
    )
    op.create_table(
        "quotas",
        text("cluster"),
        count("shard"),
        text("cluster_queue"),
        number("seq"),
        time("at"),
        document("nominal"),
        sa.PrimaryKeyConstraint("cluster", "shard", "cluster_queue", "seq", name="pk_quotas"),
    )
    op.create_table(
        "replicas",
        text("cluster"),
        text("part"),
        text("instance"),
        text("problem"),
        flag("leads"),
        time("since"),
        time("heard_at"),
        sa.PrimaryKeyConstraint("cluster", "part", "instance", name="pk_replicas"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "roles",
        text("cluster"),
        text("group_id"),
        text("name"),
        count("count"),
        document("requests"),
        count("pods_seen"),
        count("pods_gated"),
        count("pods_ungated"),
        count("pods_running"),
        count("pods_succeeded"),
        count("pods_failed"),
        count("pods_excess"),
        count("pods_replaced"),
        sa.PrimaryKeyConstraint("cluster", "group_id", "name", name="pk_roles"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "shortages",
        text("cluster"),
        text("group_id"),
        number("from_seq"),
        text("flavor"),
        text("resource"),
        text("cluster_queue"),
        text("kind"),
        text("name"),
        number("requested"),
        number("available"),
        text("limited_by"),
        number("without_limit"),
        text("lender"),
        flag("ever"),
        time("from_at"),
        time("to_at", null=True),
        number("to_seq", null=True),
        sa.PrimaryKeyConstraint(
            "cluster", "group_id", "from_seq", "flavor", "resource", name="pk_shortages"
        ),
    )
    op.create_index("ix_shortages_at", "shortages", ["cluster", "from_at"])
    op.create_table(
        "standings",
        text("cluster"),
        count("shard"),
        text("kind"),
        text("namespace"),
        text("name"),
        text("cohort"),
        text("root"),
        count("pending"),
        count("reserving"),
        count("admitted"),
        number("share"),
        time("at", null=True),
        time("gone_at", null=True),
        number("as_of_seq"),
        body("folded", null=True),
        sa.PrimaryKeyConstraint(
            "cluster", "shard", "kind", "namespace", "name", name="pk_standings"
        ),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "usage",
        text("cluster"),
        text("kind"),
        text("namespace"),
        text("name"),
        text("flavor"),
        text("resource"),
        number("from_seq"),
        count("shard"),
        text("cohort"),
        text("root"),
        number("nominal"),
        number("quota"),
        number("reserved"),
        number("used"),
        number("borrowed"),
        number("spare", default="0"),
        number("unadmitted", default="0"),
        number("share"),
        time("from_at"),
        time("to_at", null=True),
        number("to_seq", null=True),
        sa.PrimaryKeyConstraint(
            "cluster",
            "kind",
            "namespace",
            "name",
            "flavor",
            "resource",
            "from_seq",
            name="pk_usage",
        ),
    )
    op.create_index("ix_usage_at", "usage", ["cluster", "kind", "from_at"])
    partial("ix_usage_open", "usage", ["cluster", "root"], "to_at IS NULL")
    op.create_table(
        "waits",
        text("cluster"),
        text("group_id"),
        number("from_seq"),
        text("reason"),
        text("message"),
        time("from_at"),
        time("to_at", null=True),
        number("to_seq", null=True),
        sa.PrimaryKeyConstraint("cluster", "group_id", "from_seq", name="pk_waits"),
    )


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
