"""The questions of `gatelog ask` on a history of a million events, in PostgreSQL.

Each is asked as `--sql` prints it, on the shipped indexes, after ANALYZE. The value is the median
of `REPEAT` times from sending the query until all its rows are there; the limit is what a person
does not notice. A plan that reads history from end to end is an error, however fast it is today.
"""

import time
from collections.abc import AsyncIterator, Iterator
from statistics import median
from typing import Any

import sqlalchemy as sa

from bench import processes
from bench.figures import Figure
from bench.generated import fill
from projector.schema import partitions
from projector.storage.database import reader
from tests.replay.questions import asked

EVENTS = 1_000_000
REPEAT = 5
LIMIT_MS = 200.0
FEW_PAGES = 8
"""Any plan reads a week's partition of so few pages whole: a new or an empty partition."""


async def run() -> AsyncIterator[Figure]:
    """Fill a database, then ask every question."""
    with processes.postgres() as url:
        begin = time.perf_counter()
        made = fill(url, EVENTS)
        yield Figure(
            name="queries.fill",
            value=time.perf_counter() - begin,
            unit="s",
            note=f"{made.events:,} events, {made.rows['history']:,} rows of history, "
            f"{made.rows['decisions']:,} decisions, {made.rows['pods']:,} pods",
        )
        engine = reader(url)
        sizes = pages(engine)
        for name, query in asked("postgresql"):
            scans = list(history_scans(plan(engine, query), sizes))
            if scans:
                raise RuntimeError(f"question {name} reads all of {scans}:\n{query}")
            times, count = [], 0
            for _ in range(REPEAT):
                took, count = ask(engine, query)
                times.append(took)
            yield Figure(
                name=f"queries.{name}",
                value=median(times),
                unit="ms",
                target=LIMIT_MS,
                samples=REPEAT,
                note=f"{count} rows",
            )
        engine.dispose()


def ask(engine: sa.Engine, query: str) -> tuple[float, int]:
    """Return milliseconds and rows."""
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        begin = time.perf_counter()
        rows = connection.execute(sa.text(query)).all()
        return (time.perf_counter() - begin) * 1000, len(rows)


def plan(engine: sa.Engine, query: str) -> dict[str, Any]:
    """Return the plan that PostgreSQL would take."""
    with engine.connect() as connection:
        found = connection.execute(sa.text(f"EXPLAIN (FORMAT JSON) {query}")).scalar_one()
    return dict(found[0]["Plan"])


def pages(engine: sa.Engine) -> dict[str, int]:
    """Return how many pages of 8 KiB every table has."""
    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT relname, pg_relation_size(oid) / 8192 FROM pg_class WHERE relkind = 'r'"
        )
        return {name: int(size) for name, size in found}


def history_scans(node: dict[str, Any], sizes: dict[str, int]) -> Iterator[str]:
    """Yield what a plan reads from end to end of history: partitions of more than `FEW_PAGES`."""
    name = str(node.get("Relation Name", ""))
    ours = name == "history" or (partitions.is_name(name) and name.startswith("history_"))
    if node["Node Type"] == "Seq Scan" and ours and sizes.get(name, 0) > FEW_PAGES:
        yield name
    for child in node.get("Plans", ()):
        yield from history_scans(child, sizes)
