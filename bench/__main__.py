"""`python -m bench`: measure, print JSON lines and a table, keep the results of this run.

What was measured goes to the results of its name, so that parts can be measured one at a time; each
figure says of what commit it is, when it was taken, and beside what load.

Invariant: bounded: every part but those of `LONG` waits at most a minute for anything, all together
a few minutes.
"""

import argparse
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from bench import (
    consoling,
    core,
    forecasting,
    ingesting,
    latency,
    load,
    pending,
    projecting,
    questions,
    rebuilding,
    resident,
    sizes,
    trying,
)
from bench.figures import Figure, commit_of, kept, printed, read, show, write
from bench.processes import machine
from runtime import eventloop

RESULTS = Path(__file__).parent / "results.jsonl"
LONG = (
    "rebuild",
    "listing",
    "console",
    "behind",
    "kueue-load",
    "kueue-load-groups",
)
"""Parts that take many minutes: run when they are asked for."""


async def _core() -> AsyncIterator[Figure]:
    for figure in core.run():
        yield figure


PARTS: dict[str, Callable[[], AsyncIterator[Figure]]] = {
    "core": _core,
    "resident": resident.run,
    "projector": projecting.run,
    "rebuild": rebuilding.run,
    "ingest": ingesting.run,
    "listing": ingesting.listing,
    "behind": latency.behind,
    "latency": latency.run,
    "sizes": sizes.run,
    "queries": questions.run,
    "forecast": forecasting.run,
    "pending": pending.run,
    "trial": trying.run,
    "console": consoling.run,
    "kueue-load": load.run,
    "kueue-load-groups": partial(load.run, "groups"),
}


async def _run(names: list[str]) -> list[Figure]:
    found = []
    commit = commit_of(RESULTS.parent)
    for name in names:
        begin = time.monotonic()
        found += await printed(PARTS[name](), machine(), commit)
        sys.stderr.write(f"bench: {name} took {time.monotonic() - begin:.0f} s\n")
    return found


def main() -> int:
    """Run the chosen parts, and keep the results."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], help=f"default: all but {', '.join(LONG)}"
    )
    usual = [part for part in PARTS if part not in LONG]
    asked = parser.parse_args().parts or usual
    figures = eventloop.run(_run(asked))
    known = read(RESULTS)
    results = kept(known, figures)
    show(figures, [one for one in results if one not in figures])
    write(RESULTS, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
