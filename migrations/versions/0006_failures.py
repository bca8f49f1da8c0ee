"""How pods failed, what they asked for then, whose they are and how often they were restarted.

Revision 0006, after 0005.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    time = sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    none, zero = sa.text("''"), sa.text("0")
    op.add_column("pods", sa.Column("owner", sa.Text(), server_default=none, nullable=False))
    op.add_column("pods", sa.Column("restarts", sa.Integer(), server_default=zero, nullable=False))
    op.create_table(
        "failures",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("container", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", time, nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("restarts", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("finished_at", time, nullable=True),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("requests", document, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "pod_uid", "container", "seq", name=op.f("pk_failures")),
    )
    op.create_index("ix_failures_at", "failures", ["at"])


def downgrade() -> None:
    op.drop_index("ix_failures_at", table_name="failures")
    op.drop_table("failures")
    op.drop_column("pods", "restarts")
    op.drop_column("pods", "owner")
