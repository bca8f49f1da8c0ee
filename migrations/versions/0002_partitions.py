"""History and outcomes in weekly partitions (PostgreSQL), what was pruned, and indexes for questions.

Revision 0002, after 0001.

Rows are copied into the new tables, so the database needs room for history and outcomes once more
while this runs. `pods.qos` is empty in the rows of before: it was not written down, and comes with
the next change of a pod or with `gatelog replay --rebuild`.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEYS = {
    "history": ["cluster", "shard", "seq", "ord"],
    "outcomes": ["cluster", "decision_id", "seq", "delivery", "attempt"],
}


def time_type() -> sa.types.TypeEngine:
    return sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def upgrade() -> None:
    for table, keys in KEYS.items():
        _rebuilt(table, [*keys, "at"], partitioned=True)
    _history_indexes()
    op.create_table(
        "pruned",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("before", time_type(), nullable=False),
        sa.Column("at", time_type(), nullable=False),
        sa.Column("rows", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_pruned")),
    )
    op.add_column("pods", sa.Column("qos", sa.Text(), server_default=sa.text("''"), nullable=False))

    op.drop_index("ix_waits_open", table_name="waits")
    op.drop_index("ix_groups_queue", table_name="groups")
    op.drop_index("ix_groups_name", table_name="groups")
    op.create_index("ix_groups_name", "groups", ["namespace", "name", "cluster", "created_at"])
    op.drop_index("ix_admissions_at", table_name="admissions")
    op.create_index("ix_admissions_at", "admissions", ["admitted_at"])
    op.create_index(
        "ix_admissions_queue", "admissions", ["cluster", "cluster_queue", "admitted_at"]
    )
    _partial(
        "ix_admissions_held", "admissions", ["cluster", "cluster_queue"], "released_at IS NULL"
    )
    op.create_index("ix_decisions_at", "decisions", ["issued_at"])
    op.create_index("ix_pods_name", "pods", ["namespace", "name", "cluster"])
    op.create_index("ix_pods_created", "pods", ["created_at"])
    _partial("ix_pods_excess", "pods", ["created_at"], "fate = 'excess'")
    _partial("ix_pods_failed", "pods", ["ended_at"], "exit_reason <> ''")
    if postgres():
        op.execute("ANALYZE history, outcomes")


def downgrade() -> None:
    for name in ("ix_pods_failed", "ix_pods_excess", "ix_pods_created", "ix_pods_name"):
        op.drop_index(name, table_name="pods")
    op.drop_index("ix_decisions_at", table_name="decisions")
    for name in ("ix_admissions_held", "ix_admissions_queue", "ix_admissions_at"):
        op.drop_index(name, table_name="admissions")
    op.create_index("ix_admissions_at", "admissions", ["cluster", "admitted_at"])
    op.drop_index("ix_groups_name", table_name="groups")
    op.create_index("ix_groups_name", "groups", ["cluster", "namespace", "name", "created_at"])
    op.create_index("ix_groups_queue", "groups", ["cluster", "namespace", "queue", "state"])
    _partial("ix_waits_open", "waits", ["cluster", "from_at"], "to_at IS NULL")
    op.drop_column("pods", "qos")
    op.drop_table("pruned")
    for table, keys in KEYS.items():
        _rebuilt(table, keys, partitioned=False)
    _history_indexes()


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(
        name, table, columns, postgresql_where=sa.text(where), sqlite_where=sa.text(where)
    )


def _history_indexes() -> None:
    op.create_index("ix_history_at", "history", ["at"], postgresql_using="brin")
    op.create_index("ix_history_group", "history", ["cluster", "group_id", "seq"])


def _rebuilt(table: str, keys: list[str], *, partitioned: bool) -> None:
    """Copy a table into one with another key, partitioned by week or not."""
    new = f"{table}_new"
    if postgres():
        by = "PARTITION BY RANGE (at)" if partitioned else ""
        op.execute(
            f"CREATE TABLE {new} (LIKE {table} INCLUDING DEFAULTS INCLUDING COMMENTS) {by}".strip()
        )
        if partitioned:
            _weeks(table, new)
        op.execute(f"INSERT INTO {new} SELECT * FROM {table}")
    else:
        _sqlite_table(table, new, keys)
        op.execute(f"INSERT INTO {new} SELECT * FROM {table}")
    op.drop_table(table)
    op.rename_table(new, table)
    if postgres():
        op.create_primary_key(op.f(f"pk_{table}"), table, keys)


def _weeks(table: str, new: str) -> None:
    op.execute(
        f"""
DO $$
DECLARE week timestamptz;
BEGIN
    FOR week IN SELECT DISTINCT date_trunc('week', at, 'UTC') FROM {table} LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF {new} FOR VALUES FROM (%L) TO (%L)',
                       '{table}_' || to_char(week AT TIME ZONE 'UTC', 'YYYYMMDD'),
                       week, week + interval '168 hours');
    END LOOP;
END $$"""
    )


def _sqlite_table(table: str, new: str, keys: list[str]) -> None:
    bind = op.get_bind()
    old = sa.Table(table, sa.MetaData(), autoload_with=bind)
    columns = [sa.Column(c.name, c.type, nullable=c.nullable) for c in old.columns]
    op.create_table(new, *columns, sa.PrimaryKeyConstraint(*keys, name=op.f(f"pk_{table}")))
