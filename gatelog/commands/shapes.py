"""`gatelog usage --used`, `--failures` and `--idle`: rows by owner and shape, in every form.

Invariant: CSV, JSON and the table have the same rows in the same order.
"""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from gatelog.readmodel.shapes import Row
from gatelog.terminal.printing import Column, document, separated, table

USED: Sequence[Column[Row]] = (
    Column("NAMESPACE", lambda row: str(row["namespace"])),
    Column("OWNER", lambda row: row["owner"] or "(none)"),
    Column("LIKE", lambda row: str(row["pod"])),
    Column("RESOURCE", lambda row: str(row["resource"])),
    Column("PODS", lambda row: str(row["pods"])),
    Column("ASKED", lambda row: f"{row['asked']:.3f}"),
    Column("USED", lambda row: f"{row['used']:.3f}"),
    Column("PEAK", lambda row: f"{row['peak']:.3f}"),
    Column("ASKED/USED", lambda row: "-" if row["times"] is None else f"{row['times']:.1f}"),
)

FAILURES: Sequence[Column[Row]] = (
    Column("NAMESPACE", lambda row: str(row["namespace"])),
    Column("OWNER", lambda row: row["owner"] or "(none)"),
    Column("LIKE", lambda row: str(row["pod"])),
    Column("WHAT", lambda row: str(row["what"])),
    Column("TIMES", lambda row: str(row["times"])),
    Column("PODS", lambda row: str(row["pods"])),
    Column("ASKED", lambda row: _amounts(row["asked"]) or "nothing"),
    Column("LAST", lambda row: f"{row['last_at']:%Y-%m-%d %H:%M:%SZ}" if row["last_at"] else "-"),
)


HOLDERS: Sequence[Column[Row]] = (
    Column("NAMESPACE", lambda row: str(row["namespace"])),
    Column("NAME", lambda row: str(row["name"])),
    Column("CLUSTERQUEUE", lambda row: str(row["cluster_queue"])),
    Column("SINCE", lambda row: f"{row['since']:%Y-%m-%d %H:%M:%SZ}"),
    Column("FLAVOR", lambda row: str(row["flavor"])),
    Column("RESOURCE", lambda row: str(row["resource"])),
    Column("HOLDS", lambda row: f"{row['holds']:g}"),
    Column("UNIT", lambda row: str(row["unit"])),
    Column("HOURS", lambda row: f"{row['hours']:.2f}"),
    Column("COST", lambda row: f"{row['cost']:.2f}" if "cost" in row else "-"),
)


def show(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    output: Literal["wide", "csv", "json", "yaml"] | None,
    period: tuple[datetime, datetime],
    notes: Sequence[str],
    *,
    headers: bool,
) -> None:
    """Print rows; `notes` are what the answer lacks."""
    if output in ("json", "yaml"):
        found = {"since": period[0], "until": period[1], "rows": rows, "notes": notes}
        sys.stdout.write(document(found, output))
        return
    for note in notes:
        sys.stderr.write(f"gatelog: {note}\n")
    if output == "csv":
        heads = [list(rows[0])] if rows and headers else []
        separated([*heads, *(map(_cell, row.values()) for row in rows)], sys.stdout)
        return
    cells = [[column.text(row) for column in columns] for row in rows]
    table([column.name for column in columns], cells, headers=headers, out=sys.stdout)


def _amounts(asked: dict[str, str]) -> str:
    return ",".join(f"{name}={amount}" for name, amount in asked.items())


def _cell(value: Any) -> Any:
    match value:
        case dict():
            return _amounts(value)
        case datetime():
            return value.isoformat()
        case None:
            return ""
        case float():
            return f"{value:.6f}"
        case _:
            return value
