"""`gatelog archive`: keep what the streams will drop one day.

Invariant: segments that are there are never changed; the log and the read model are only read.
"""

import asyncio
import sys
from typing import Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import FAILED
from gatelog.terminal.printing import document
from gatelog.terminal.progress import ProgressReport

EXAMPLES = """
gatelog archive --to /srv/gatelog-archive
gatelog archive --to s3://backups/gatelog --cluster prod-1
gatelog replay --verify --archive s3://backups/gatelog
"""


def archive(
    answer: options.OutputOptions,
    where: options.ReadModelOptions,
    to: Annotated[
        str | None, typer.Option(metavar="DIR|URL", help="Where; default: the setting archive.url.")
    ] = None,
) -> int | None:
    """Write what came into the log since the last time to closed files in a directory or a bucket,
    so that replay reaches back beyond the streams' limits. For cron, or once before an upgrade;
    with archive.url set the projector does the same by itself. Can be killed and repeated at any
    time. Exit code 1 if something was dropped by the streams before it could be archived.
    """
    from gatelog.replay import archiving
    from gatelog.replay.online import open_bus
    from projector.archive.writing import Archived

    output = answer.form
    settings = options.with_archive(where.settings(), to)

    async def run(shown: ProgressReport) -> Archived:
        async with open_bus(settings) as bus:
            return await archiving.archive(settings, bus, shown.position)

    with ProgressReport("archiving") as shown:
        done = asyncio.run(run(shown))
    if output is not None:
        sys.stdout.write(document(done, output))
    else:
        for name in done.segments:
            print(name)
        what = f"{done.messages} messages in {len(done.segments)} segments, {done.bytes} bytes"
        print(f"{what if done.segments else 'nothing new'}; archived up to seq {done.last}")
    for span in done.lost:
        sys.stderr.write(
            f"gatelog: {span} were dropped by the streams before they were archived, and are gone: "
            "archive more often, or raise streams.max_age_s, max_bytes or decisions_max_bytes\n"
        )
    return FAILED if done.lost else None
