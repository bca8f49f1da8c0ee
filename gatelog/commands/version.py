"""`gatelog version`: which version this is, and which forms of log and database go with it.

Invariant: needs nothing but this package; asks no database and no cluster.
"""

import sys
from typing import Annotated, Literal

import typer

EXAMPLES = """
gatelog version
gatelog version -o json
"""


def version(
    output: Annotated[
        Literal["json", "yaml"] | None, typer.Option("--output", "-o", help="Default: words.")
    ] = None,
) -> None:
    """Which version this is, and which database schema it works with: what a report of a defect
    should say.
    """
    from gatelog.shell.versions import facts
    from gatelog.terminal import printing

    found = facts()
    if output is not None:
        sys.stdout.write(printing.document(found, output))
        return
    for name, value in found.items():
        sys.stdout.write(f"{name}: {value}\n")
