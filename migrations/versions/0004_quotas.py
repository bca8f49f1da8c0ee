"""What quota there was when, so that what was idle can be told.

Revision 0004, after 0003.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    time = sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.create_table(
        "quotas",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cluster_queue", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", time, nullable=False),
        sa.Column("nominal", document, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "shard", "cluster_queue", "seq", name=op.f("pk_quotas")),
    )


def downgrade() -> None:
    op.drop_table("quotas")
