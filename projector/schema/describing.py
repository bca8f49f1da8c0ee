r"""Descriptions of tables and columns, in the database itself.

Theory. PostgreSQL has comments, which psql (`\d+`) and every tool show. SQLite has none. So the
same texts are also a view, `v_columns`, on both: the database explains itself. Comments hold no
data, so they are not migrated: after every upgrade they are written anew, from the tables in code
and from `views`.

Invariant: docs/sql.md has the same texts, because they have one source.
"""

from sqlalchemy import Connection

from projector.tables import metadata


def text_of(value: str) -> str:
    """Return a text as an SQL literal, for statements that take no parameters."""
    return "'" + value.replace("'", "''") + "'"


def columns_view() -> str:
    """Return the query of the view: one row per table (column empty) and per column."""
    rows = [
        f"({text_of(table.name)}, {number}, {text_of(name)}, {text_of(comment)})"
        for table in metadata.sorted_tables
        for number, (name, comment) in enumerate(
            [("", str(table.comment)), *((c.name, str(c.comment)) for c in table.columns)]
        )
    ]
    return (
        "WITH described(table_name, position, column_name, comment) AS (VALUES\n"
        + ",\n".join(rows)
        + ")\nSELECT table_name, position, column_name, comment FROM described"
    )


def comment(connection: Connection) -> None:
    """Write comments of all tables and columns (PostgreSQL); the tables must be there."""
    if connection.dialect.name != "postgresql":
        return
    for table in metadata.sorted_tables:
        statements = [f"COMMENT ON TABLE {table.name} IS {text_of(str(table.comment))}"]
        statements += [
            f"COMMENT ON COLUMN {table.name}.{column.name} IS {text_of(str(column.comment))}"
            for column in table.columns
        ]
        connection.exec_driver_sql("; ".join(statements), execution_options={"no_parameters": True})
