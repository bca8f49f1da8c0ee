"""The role for people on PostgreSQL: may read everything, write nothing.

Theory. Queries go through the tables and views, whose owner is the role that migrated; so SELECT on
them is all that a reader needs, and later partitions need no grant of their own. Every upgrade
makes views anew, and grants on them are granted again (`saved`, `restore`).

Invariant: the role gets no privilege beyond CONNECT, USAGE of the schema and SELECT.
"""

from sqlalchemy import Connection, text

from projector.schema.views import VIEWS
from projector.storage.database import DatabaseError
from projector.tables import metadata


def grant(connection: Connection, role: str) -> None:
    """Let an existing role read all tables and views; the caller commits.

    Raises:
        DatabaseError: not PostgreSQL, or there is no such role.
    """
    if connection.dialect.name != "postgresql":
        raise DatabaseError(
            "a reader role is PostgreSQL's: who may read an SQLite file may read all of it"
        )
    known = connection.execute(
        text("SELECT rolcanlogin FROM pg_roles WHERE rolname = :role"), {"role": role}
    ).scalar()
    if known is None:
        raise DatabaseError(
            f"there is no role {role!r}: CREATE ROLE it first (LOGIN, with a password or by "
            "certificate), then run `gatelog migrate` again"
        )
    quote = connection.dialect.identifier_preparer.quote
    name = quote(role)
    database, schema = connection.execute(text("SELECT current_database(), current_schema()")).one()
    readable = ", ".join(quote(one) for one in (*metadata.tables, *VIEWS, "alembic_version"))
    for what in (
        f"CONNECT ON DATABASE {quote(database)}",
        f"USAGE ON SCHEMA {quote(schema)}",
        f"SELECT ON {readable}",
    ):
        connection.exec_driver_sql(f"GRANT {what} TO {name}")


def saved(connection: Connection) -> list[tuple[str, str]]:
    """Return (view, role) for every role with SELECT on a view."""
    if connection.dialect.name != "postgresql":
        return []
    rows = connection.execute(
        text(
            "SELECT c.relname, coalesce(r.rolname, '') FROM pg_class c "
            "CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee "
            "WHERE c.relkind = 'v' AND c.relnamespace = to_regnamespace(current_schema()) "
            "AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner"
        )
    )
    return [(name, role) for name, role in rows if name in VIEWS]


def restore(connection: Connection, grants: list[tuple[str, str]]) -> None:
    """Grant again what `saved` returned; a role of "" is PUBLIC."""
    quote = connection.dialect.identifier_preparer.quote
    for view, role in grants:
        connection.exec_driver_sql(f"GRANT SELECT ON {view} TO {quote(role) if role else 'PUBLIC'}")
