"""The read model: every table of the SQL contract, as `projector.tables` defines them.

Revision 0001. Nothing was released yet: until the first tag a change of the tables is a change of
this revision, and a read model of before is made anew from the log (`gatelog replay --rebuild` into
an empty database). A revision after it follows no code: the first tag writes down here what
`alembic revision --autogenerate` finds on an empty database. Comments and views come after it
(`env.py`).
"""

from alembic import op

from projector.tables import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
