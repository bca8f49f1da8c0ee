"""`gatelog prune`: take away history that is older than it needs to be.

Invariant: nothing that lives is touched, and what went is recorded in table `pruned`.
"""

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import UsageFailed
from gatelog.terminal.printing import document

if TYPE_CHECKING:
    from projector.upkeep.pruning import Gone

EXAMPLES = """
gatelog prune --older-than 90d --dry-run
gatelog prune --older-than 12w
gatelog prune --older-than 30d --compact     (SQLite: gives the space back to the disk)
"""

_AGE = re.compile(r"(?P<count>[1-9]\d{0,4})(?P<unit>[dw])")


def prune(
    answer: options.OutputOptions,
    where: options.DatabaseOptions,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="90d|12w", help="Days or weeks to keep. Default: database.retention_days."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; change nothing.")
    ] = False,
    compact: Annotated[
        bool,
        typer.Option(
            "--compact",
            help="SQLite: write the file anew without its free pages. Takes its size once more on "
            "disk, and the projector waits meanwhile.",
        ),
    ] = False,
) -> None:
    """Take away what was over before a time: whole weeks of history (on PostgreSQL dropped as
    partitions), and groups, pods, waits, admissions and decisions that ended before. What lives
    stays, however old. The limit is a Monday, 00:00 UTC, so up to a week more is kept.
    """
    from projector.storage.urls import database_url
    from projector.upkeep import migrate, pruning

    output = answer.form
    settings = where.settings()
    keep = _age(older_than, settings.database.retention_days)
    url = database_url(settings)
    migrate.check(url)
    before = pruning.limit(datetime.now(UTC), keep)
    if output is None:
        will = "would go" if dry_run else "goes"
        print(f"what was over before {before:%Y-%m-%d} 00:00 UTC {will}:")
    found = pruning.prune(
        url, before, dry_run=dry_run, tell=_tell if output is None else (lambda _: None)
    )
    if output is not None:
        whole = {"before": before, "dry_run": dry_run, "gone": found}
        sys.stdout.write(document(whole, output))
    elif not found:
        print("nothing")
    if compact and not dry_run:
        pruning.compact(url)


def _age(text: str | None, default_days: int) -> timedelta:
    if text is None:
        if default_days <= 0:
            raise UsageFailed(
                "--older-than is not given and database.retention_days is not set: say how much "
                "to keep, e.g. --older-than 90d"
            )
        return timedelta(days=default_days)
    match = _AGE.fullmatch(text)
    if match is None:
        raise UsageFailed(f"--older-than {text}: write days or weeks, e.g. 90d or 12w")
    days = int(match["count"]) * (7 if match["unit"] == "w" else 1)
    if days > 36_500:
        raise UsageFailed(f"--older-than {text}: 36500d at most")
    return timedelta(days=days)


def _tell(gone: "Gone") -> None:
    span = f"{gone.first:%Y-%m-%d} to {gone.last:%Y-%m-%d}" if gone.first and gone.last else ""
    size = f"{gone.bytes / 2**20:,.1f} MiB" if gone.bytes is not None else ""
    what = f"{gone.table} ({gone.partition})" if gone.partition else gone.table
    print(f"  {what:<32} {gone.rows:>12,} rows  {size:>12}  {span}".rstrip())
