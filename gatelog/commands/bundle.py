"""`gatelog bundle`: the data that a report of a defect needs, in one file, without secrets.

Invariant: reads only, but for the file that it writes; data that cannot be had is named in the
file.
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import UsageFailed

EXAMPLES = """
gatelog bundle
gatelog bundle case-7.tar.gz --group team-a/train --log-lines 2000
gatelog bundle --log-file up.log                  (gatelog up 2> up.log keeps its lines)
"""


@dataclass(frozen=True)
class ContentOptions:
    """The content of the bundle."""

    group: Annotated[
        str | None,
        typer.Option(metavar="NS/NAME", help="Default: the one that has waited longest."),
    ] = None
    log_lines: Annotated[int, typer.Option(min=0, max=100_000, help="Of each log.")] = 1000
    log_file: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A log of yours. May be repeated.")
    ] = None
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Where gatelog is installed.")
    ] = "gatelog-system"


def bundle(
    where: options.InstallationOptions,
    content: ContentOptions,
    file: Annotated[
        Path | None,
        typer.Argument(help="File to write. Default: gatelog-bundle-DATE.tar.gz, here."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it is there.")
    ] = False,
) -> None:
    """Put what helpers from outside need into one archive: versions, settings, doctor's findings,
    metrics, the last log lines of gatelog's pods, and the log of one group under pseudonyms.
    Passwords, tokens and keys are taken out; what could not be had is named in README.txt.
    """
    from gatelog.bundle.scrubbing import scrubber
    from gatelog.bundle.writing import Content, write
    from gatelog.terminal import lookup
    from runtime.log import configure
    from runtime.settings import LogSettings

    path = file or Path(f"gatelog-bundle-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    if path.exists() and not force:
        raise UsageFailed(f"{path}: is there already; --force replaces it")
    wanted = Content(
        group=lookup.parse_title(content.group) if content.group else None,
        namespace=content.namespace,
        log_lines=content.log_lines,
        logs=tuple(content.log_file or ()),
    )
    settings = where.settings()
    configure(LogSettings(level="error"))

    def tell(step: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"gatelog: {step} ...\n")

    made = asyncio.run(write(settings, path, scrubber(settings), wanted, tell))
    print(f"{path}: {len(made.content)} files, {path.stat().st_size} bytes")
    for what, why in made.missing:
        print(f"  without {what}: {why}")
