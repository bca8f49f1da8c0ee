"""A query that a person wrote, on the whole database: `gatelog sql`.

Invariant: reads only, by a connection that cannot write; as many rows as are asked for.
"""

import difflib
import re
from typing import Any

from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from gatelog.shell.errors import CommandFailed
from projector.storage.database import reader

_COLUMN = re.compile(r'no such column: "?([\w.]+)|column "?([\w.]+)"? does not exist')
_TABLE = re.compile(r'no such table: "?([\w.]+)|relation "([\w.]+)" does not exist')
_NEAREST = 3


def run(url: str, query: str, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return names of columns and at most `limit` rows.

    Raises:
        CommandFailed: the database refused it; of a wrong name with the nearest that there are.
    """
    engine = reader(url)
    try:
        # A colon in the query is SQL (a cast, a time), never a parameter of ours.
        with engine.connect() as connection:
            result = connection.execute(text(query.replace(":", "\\:")))
            return list(result.keys()), [tuple(row) for row in result.fetchmany(limit)]
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        hint = _hint(engine, query, said)
        raise CommandFailed(f"the database refused the query: {said}{hint}") from error
    finally:
        engine.dispose()


def _hint(engine: Engine, query: str, said: str) -> str:
    """Name similar columns or tables, if a column or table does not exist."""
    column, table = _COLUMN.search(said), _TABLE.search(said)
    found = column or table
    if found is None:
        return ""
    wrong = (found[1] or found[2]).rpartition(".")[2]
    try:
        there = inspect(engine)
        names = sorted({*there.get_table_names(), *there.get_view_names()})
        if column:
            asked = set(re.findall(r"\w+", query)).intersection(names)
            names = sorted({str(c["name"]) for one in asked for c in there.get_columns(one)})
    except SQLAlchemyError:
        return ""
    near = difflib.get_close_matches(wrong, names, n=_NEAREST, cutoff=0.5)
    return f"; did you mean {', '.join(near)}?" if near else " (docs/sql.md has all names)"
