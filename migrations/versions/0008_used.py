"""What pods really used: mean and peak of the samples of the metrics API.

Revision 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

COLUMNS = ("used_mean", "used_peak", "used_samples", "used_from", "used_to")


def upgrade() -> None:
    time = sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    none, zero = sa.text("'{}'"), sa.text("0")
    for column in (
        sa.Column("used_mean", document, server_default=none, nullable=False),
        sa.Column("used_peak", document, server_default=none, nullable=False),
        sa.Column("used_samples", sa.Integer(), server_default=zero, nullable=False),
        sa.Column("used_from", time, nullable=True),
        sa.Column("used_to", time, nullable=True),
    ):
        op.add_column("pods", column)


def downgrade() -> None:
    for name in reversed(COLUMNS):
        op.drop_column("pods", name)
