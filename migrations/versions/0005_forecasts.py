"""When waiting groups are expected to start, and what came true.

Revision 0005, after 0004.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def time(name: str, *, null: bool = True) -> sa.Column:
    kind = sa.Text().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    return sa.Column(name, kind, nullable=null)


def text(name: str) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False)


def number(name: str, kind: type = sa.BigInteger) -> sa.Column:
    return sa.Column(name, kind(), autoincrement=False, nullable=False)


def upgrade() -> None:
    document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.create_table(
        "forecasts",
        text("cluster"),
        number("shard", sa.Integer),
        time("at", null=False),
        number("as_of_seq"),
        number("plays", sa.Integer),
        number("took_ms"),
        number("groups", sa.Integer),
        sa.Column("drawn_from", document, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "shard", name=op.f("pk_forecasts")),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "estimates",
        text("cluster"),
        text("group_id"),
        time("given_at", null=False),
        number("shard", sa.Integer),
        number("as_of_seq"),
        text("namespace"),
        text("name"),
        text("queue"),
        text("cluster_queue"),
        number("priority"),
        number("position", sa.Integer),
        time("queued_at"),
        time("expected_at"),
        time("earliest_at"),
        time("latest_at"),
        time("plain_at"),
        text("never"),
        time("replaced_at"),
        text("came"),
        time("came_at"),
        sa.PrimaryKeyConstraint("cluster", "group_id", "given_at", name=op.f("pk_estimates")),
        postgresql_with={"fillfactor": 80},
    )
    still = sa.text("came = ''")
    op.create_index(
        "ix_estimates_open",
        "estimates",
        ["cluster", "shard"],
        postgresql_where=still,
        sqlite_where=still,
    )
    op.create_index("ix_estimates_came", "estimates", ["came_at"])


def downgrade() -> None:
    op.drop_table("estimates")
    op.drop_table("forecasts")
