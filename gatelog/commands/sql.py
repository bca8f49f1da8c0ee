"""`gatelog sql "SELECT ..."`: a query on the read model, for machines without sqlite3 or psql.

Invariant: the connection is read-only, and no more than `--limit` rows are fetched; in a pipe a row
is one line, and no value is cut.
"""

import sys
from typing import Annotated

import typer

from gatelog.shell import options

EXAMPLES = """
gatelog sql "SELECT name, state, reason FROM groups"
gatelog sql "SELECT * FROM v_why_pending" --json
gatelog sql "SELECT namespace, count(*) FROM groups GROUP BY 1" --no-headers | sort
gatelog sql "SELECT * FROM v_preemptions" -o csv > preemptions.csv
"""


def sql(
    answer: options.RowsOptions,
    where: options.DatabaseOptions,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SQL statement.")],
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows printed at most.")] = 1000,
    no_headers: options.NoHeaders = False,
) -> None:
    """Run one SQL query on the read model (read-only) and print the rows. Tables and views are in
    docs/sql.md; v_group_timeline and v_why_pending are good beginnings.
    """
    from gatelog.readmodel import freehand
    from gatelog.terminal import lookup, printing
    from projector.storage.urls import database_url

    output = answer.form
    settings = where.settings(search=True)
    lookup.say_where(settings, output)
    names, rows = freehand.run(database_url(settings), query, limit + 1)
    more = len(rows) > limit
    printing.result(names, rows[:limit], output, headers=not no_headers)
    if more:
        sys.stderr.write(f"gatelog: more than {limit} rows; see --limit\n")
