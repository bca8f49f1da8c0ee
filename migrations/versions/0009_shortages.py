"""What groups fell short of, who gave way to whom, and what cohorts had left.

Revision 0009, after 0008.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def time(name: str, *, null: bool = False) -> sa.Column:
    kind = sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    return sa.Column(name, kind, nullable=null)


def text(name: str) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False)


def number(name: str, *, null: bool = False) -> sa.Column:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=null)


def document(name: str) -> sa.Column:
    kind = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
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
        sa.Column("ever", sa.Boolean(), nullable=False),
        time("from_at"),
        time("to_at", null=True),
        number("to_seq", null=True),
        sa.PrimaryKeyConstraint(
            *("cluster", "group_id", "from_seq", "flavor", "resource"),
            name=op.f("pk_shortages"),
        ),
    )
    op.create_index("ix_shortages_at", "shortages", ["cluster", "from_at"])
    op.create_table(
        "preemptions",
        text("cluster"),
        text("victim_id"),
        number("seq"),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
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
        sa.PrimaryKeyConstraint("cluster", "victim_id", "seq", name=op.f("pk_preemptions")),
    )
    op.create_index("ix_preemptions_at", "preemptions", ["cluster", "at"])
    op.add_column(
        "usage",
        sa.Column("spare", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
    )
    op.add_column(
        "groups",
        sa.Column("precedence", sa.Integer(), nullable=False, server_default=sa.text("0")),
    )
    op.add_column("objects", sa.Column("used", sa.Double(), nullable=True))
    still = sa.text("to_at IS NULL")
    op.create_index(
        *("ix_usage_open", "usage", ["cluster", "root"]),
        postgresql_where=still,
        sqlite_where=still,
    )


def downgrade() -> None:
    op.drop_index("ix_usage_open", "usage")
    op.drop_column("objects", "used")
    op.drop_column("groups", "precedence")
    op.drop_column("usage", "spare")
    op.drop_table("preemptions")
    op.drop_table("shortages")
