"""`python -m bench`: measure, print JSON lines and a table, keep the results of this run.

Invariant: bounded: every part but `LONG` waits at most a minute for anything, all together a few
minutes.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console

from bench import asking, core, ingesting, latency, projecting, rebuilding, resident, sizes
from bench.figures import Figure, show, write
from bench.processes import machine

RESULTS = Path(__file__).parent / "results.jsonl"
LONG = "rebuild"
"""A part that takes many minutes: run when it is asked for, its results kept in its own file."""


async def _core() -> AsyncIterator[Figure]:
    for figure in core.run():
        yield figure


async def _resident() -> AsyncIterator[Figure]:
    for figure in resident.run():
        yield figure


PARTS: dict[str, Callable[[], AsyncIterator[Figure]]] = {
    "core": _core,
    "resident": _resident,
    "projector": projecting.run,
    "rebuild": rebuilding.run,
    "ingest": ingesting.run,
    "latency": latency.run,
    "sizes": sizes.run,
    "queries": asking.run,
}


async def _run(names: list[str]) -> list[Figure]:
    found = []
    here, now = machine(), datetime.now(UTC).isoformat(timespec="seconds")
    load = round(os.getloadavg()[0], 2)
    for name in names:
        begin = time.monotonic()
        async for figure in PARTS[name]():
            figure.machine, figure.at, figure.load = here, now, load
            found.append(figure)
            sys.stdout.write(msgspec.json.encode(figure).decode() + "\n")
            sys.stdout.flush()
        sys.stderr.write(f"bench: {name} took {time.monotonic() - begin:.0f} s\n")
    return found


def main() -> int:
    """Run what is asked for; results are kept only when everything was measured."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"default: all but {LONG}")
    usual = [part for part in PARTS if part != LONG]
    asked = parser.parse_args().parts or usual
    figures = asyncio.run(_run(asked))
    Console(width=None if sys.stdout.isatty() else 200).print()
    show(figures, Console(width=None if sys.stdout.isatty() else 200, highlight=False))
    if asked == usual:
        write(RESULTS, figures)
    elif asked == [LONG]:
        write(RESULTS.with_name(f"{LONG}.jsonl"), figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
