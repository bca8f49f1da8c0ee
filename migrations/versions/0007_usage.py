"""How queues and cohorts stand, and what was taken through them over time.

Revision 0007, after 0006.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def time_type() -> sa.types.TypeEngine:
    return sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def text(name: str) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False)


def number(name: str, *, null: bool = False) -> sa.Column:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=null)


def count(name: str) -> sa.Column:
    return sa.Column(name, sa.Integer(), autoincrement=False, nullable=False)


def upgrade() -> None:
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
        sa.Column("at", time_type(), nullable=True),
        sa.Column("gone_at", time_type(), nullable=True),
        number("as_of_seq"),
        sa.Column("folded", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint(
            "cluster", "shard", "kind", "namespace", "name", name=op.f("pk_standings")
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
        number("share"),
        sa.Column("from_at", time_type(), nullable=False),
        sa.Column("to_at", time_type(), nullable=True),
        number("to_seq", null=True),
        sa.PrimaryKeyConstraint(
            *("cluster", "kind", "namespace", "name", "flavor", "resource", "from_seq"),
            name=op.f("pk_usage"),
        ),
    )
    op.create_index("ix_usage_at", "usage", ["cluster", "kind", "from_at"])


def downgrade() -> None:
    op.drop_table("usage")
    op.drop_table("standings")
