"""`gatelog demo`: the whole thing on a simulated cluster, ending by itself.

Invariant: exit code 0 exactly when every story came out as it should.
"""

from typing import Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import FAILED
from gatelog.shell.narrator import Narrator

EXAMPLES = """
gatelog demo
gatelog demo --keep
gatelog demo --all
gatelog demo --state-dir /tmp/demo && gatelog history team-a/training --state-dir /tmp/demo
"""

DEFAULT_DIR = ".gatelog/demo"


def demo(
    state_dir: Annotated[
        str, typer.Option(metavar="DIR", help="Where log and read model are left; made anew.")
    ] = DEFAULT_DIR,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Go on when the stories are over, with the console, until ^C."),
    ] = False,
    more: Annotated[
        bool,
        typer.Option(
            "--all", help="More stories, which take longer: a reserved start, a least run time."
        ),
    ] = False,
    db: options.Database = None,
    verbose: options.Verbose = False,
) -> int | None:
    """Show it without a cluster: starts a simulated one, runs all of gatelog against it over real
    HTTP, NATS and SQLite, plays the stories of KEP-976 and some mishaps, and prints what the read
    model has to tell about them. Takes less than a minute.
    """
    from gatelog.demo.play import play
    from runtime.settings import LogSettings

    narrator = Narrator(LogSettings(), "demo", verbose=verbose, plain=True)
    return None if play(state_dir, narrator, keep=keep, more=more, database=db or "") else FAILED
