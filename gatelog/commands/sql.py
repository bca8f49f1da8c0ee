"""`gatelog sql "SELECT ..."`: a query on the read model, for machines without sqlite3 or psql.

Invariant: the connection is read-only, and no more than `--limit` rows are fetched; in a pipe a row
is one line, and no value is cut.
"""

import sys
from typing import Annotated, Any

import msgspec
import typer

from gatelog.shell import options

HELP = (
    "Run one SQL query on the read model (read-only) and print the rows. Tables and views are in "
    "docs/sql.md; v_group_timeline and v_why_pending are good beginnings."
)
EPILOG = """[bold]Examples[/]

gatelog sql "SELECT name, state, reason FROM groups"

gatelog sql "SELECT * FROM v_why_pending" --json

gatelog sql "SELECT namespace, count(*) FROM groups GROUP BY 1" --no-headers | sort"""


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SQL statement.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000_000, help="Rows printed at most.")
    ] = 1000,
    output: options.Form = None,
    as_json: options.AsJson = False,
    no_headers: options.NoHeaders = False,
    config: options.Config = None,
    state_dir: options.StateDirOption = None,
    db: options.Database = None,
    assign: options.Assign = None,
) -> None:
    """Run `gatelog sql`; see HELP."""
    from gatelog.readmodel import freehand
    from gatelog.terminal import lookup, printing
    from projector.storage.database import database_url

    output = options.form(output, as_json=as_json)
    settings = lookup.read_settings(config, assign, state_dir, db, None, search=True)
    names, rows = freehand.run(database_url(settings), query, limit + 1)
    more = len(rows) > limit
    found = [dict(zip(names, row, strict=True)) for row in rows[:limit]]
    if output == "yaml":
        sys.stdout.write(printing.document(found, output))
    elif output == "json":
        sys.stdout.write(printing.escaped(msgspec.json.encode(found, enc_hook=str).decode()) + "\n")
    else:
        cells = [[_cell(value) for value in row] for row in rows[:limit]]
        printing.table(names, cells, headers=not no_headers, out=sys.stdout)
    if more:
        sys.stderr.write(f"gatelog: more than {limit} rows; see --limit\n")


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
