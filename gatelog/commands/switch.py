"""`gatelog switch`: from gatelog's own queues to Kueue's scheduler and back, checked.

Invariant: exit code 0 without --dry-run means that the new mode is in place and checked.
"""

import asyncio
from typing import Annotated, Literal

import typer

from gatelog.shell import options

EXAMPLES = """
gatelog switch kueue --dry-run
gatelog switch kueue --drain
gatelog switch builtin
"""


def switch(
    where: options.ClusterOptions,
    to: Annotated[Literal["builtin", "kueue"], typer.Argument(help="Who admits from now on.")],
    drain: Annotated[
        bool, typer.Option("--drain", help="Evict what is admitted instead of waiting for its end.")
    ] = False,
    installed: Annotated[
        str, typer.Option("--installed", "-N", metavar="NS", help="Where gatelog is installed.")
    ] = "gatelog-system",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")
    ] = False,
) -> None:
    """Change who admits on a cluster that goes on working: builtin (gatelog's own queues) or kueue
    (Kueue's scheduler). Holds all ClusterQueues until it is done: what runs runs on, nothing more
    is admitted. It checks what the new mode needs, says what to apply, and, run again afterwards,
    checks that it works and lets the queues go. --dry-run only looks.
    """
    from gatelog.switching.queueing import Queueing
    from runtime.kube import connect

    settings = where.settings()

    async def run() -> None:
        kube = await connect(settings.kubernetes, part="switch")
        try:
            switching = Queueing(kube, to, installed, drain=drain)
            await switching.switch(lambda line: print(line, flush=True), dry=dry_run)
        finally:
            await kube.close()

    asyncio.run(run())
