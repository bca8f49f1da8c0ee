"""`gatelog export` and `gatelog import`: the log in a file, and a read model from one.

Invariant: export only reads the log; import writes to an empty database of its own only.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from gatelog.commands.replay import of_file
from gatelog.shell import options
from gatelog.shell.errors import UsageFailed
from gatelog.shell.since import instant
from gatelog.terminal.progress import ProgressReport
from runtime.settings import Settings

EXAMPLES = """
gatelog export yesterday.jsonl.gz
gatelog export train.jsonl.gz --group team-a/train --pseudonymise
gatelog export night.jsonl.gz --since 2026-11-21T00:00:00Z --until 2026-11-21T06:00:00Z
gatelog export s3://lake/gatelog --format parquet
"""
IMPORT_EXAMPLES = """
gatelog import yesterday.jsonl.gz --to yesterday.sqlite3
gatelog history team-a/train --db yesterday.sqlite3
"""

Moment = Annotated[
    str | None, typer.Option(metavar="TIME", help="UTC if it names no zone: 2026-11-21T03:00:00Z")
]


@dataclass(frozen=True)
class SelectionOptions:
    """Which part of the log is written."""

    group: Annotated[
        str | None, typer.Option(metavar="NS/NAME", help="All lives of one group.")
    ] = None
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="All groups of a namespace.")
    ] = None
    since: Moment = None
    until: Moment = None
    archive: options.Archive = None


@dataclass(frozen=True)
class PseudonymOptions:
    """Whether names are replaced, and by which key."""

    pseudonymise: Annotated[
        bool, typer.Option("--pseudonymise", help="Replace names, namespaces and label values.")
    ] = False
    key_file: Annotated[
        Path | None, typer.Option(help="Key of pseudonyms, to repeat them; default: random.")
    ] = None

    def key(self) -> bytes | None:
        """Return the key, None if names stay as they are.

        Raises:
            UsageFailed: a key that is empty, or for nothing.
        """
        from gatelog.replay.exporting import new_key

        if not self.pseudonymise:
            if self.key_file is not None:
                raise UsageFailed("--key-file is for --pseudonymise")
            return None
        key = self.key_file.read_bytes().strip() if self.key_file is not None else new_key()
        if not key:
            raise UsageFailed(f"{self.key_file}: is empty; a key is some random bytes")
        return key


def export(
    selection: SelectionOptions,
    pseudonyms: PseudonymOptions,
    where: options.ReadModelOptions,
    file: Annotated[
        str,
        typer.Argument(
            help="File to write, e.g. log.jsonl.gz; log.jsonl is not compressed. Of Parquet a "
            "directory, or the URL of a bucket."
        ),
    ],
    form: Annotated[
        Literal["log", "parquet"],
        typer.Option("--format", help="The log to replay, or tables to ask."),
    ] = "log",
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it is there.")
    ] = False,
) -> None:
    """Write the log with its decisions to a compact file that holds everything needed to replay it
    elsewhere: all of it, one group, a namespace, or what happened in a range of time. With --format
    parquet: write the tables of the read model to a directory or bucket, by day, for DuckDB and
    whatever else reads Parquet; again: what is new since (docs/usage.md).
    """
    if form == "parquet":
        if selection != SelectionOptions() or pseudonyms != PseudonymOptions():
            raise UsageFailed("--format parquet writes all that is new: give it no selection")
        _parquet(where.settings(), file)
        return
    from gatelog.replay import exporting
    from gatelog.terminal import lookup
    from projector.replay.selecting import Wanted

    group, namespace = selection.group, selection.namespace
    if group and namespace:
        raise UsageFailed("choose one of --group and --namespace")
    path = Path(file)
    if path.exists() and not force:
        raise UsageFailed(f"{path}: is there already; --force replaces it")
    space, name = lookup.parse_title(group) if group else (namespace or "", "")
    wanted = Wanted(
        namespace=space,
        name=name,
        since=None if selection.since is None else instant("--since", selection.since),
        until=None if selection.until is None else instant("--until", selection.until),
    )
    key = pseudonyms.key()
    settings = options.with_archive(where.settings(), selection.archive)
    with ProgressReport("writing") as shown:
        done = asyncio.run(exporting.export(settings, path, wanted, key, shown.position))
    size = path.stat().st_size
    print(f"{path}: {done.messages} messages, {done.decisions} decisions, {size} bytes")


def _parquet(settings: Settings, url: str) -> None:
    from projector.archive import parquet
    from projector.archive.archive_store import open_archive_store
    from projector.storage.database import reading
    from projector.storage.urls import database_url

    with (
        ProgressReport("writing") as shown,
        reading(database_url(settings), parquet.TIMEOUT_S) as connection,
    ):
        done = parquet.write(
            connection, settings.cluster, open_archive_store(url), progress=shown.position
        )
    print(f"{url}: {done.rows} rows in {done.files} files, {done.bytes} bytes; {done.days()}")


def import_(
    file: Annotated[
        str,
        typer.Argument(help="An export, or an archive (a directory or URL)."),
    ],
    to: Annotated[str, typer.Option(metavar="URL|FILE", help="Empty database to write to.")],
    config: options.Config = None,
    cluster: options.Cluster = None,
    assign: options.Assign = None,
) -> int | None:
    """Make a read model from an export or an archive, in an empty database."""
    settings = options.settings(config, assign, cluster=cluster)
    return of_file(settings, file, options.database_option(to))
