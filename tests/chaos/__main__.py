"""`python -m tests.chaos`: faults one after the other, in a seeded order, for so many minutes.

    python -m tests.chaos                         all faults, ten minutes, SQLite and PostgreSQL
    python -m tests.chaos --seed 7 "kill nats"    one fault
    python -m tests.chaos --list                  what there is

There is a lab for each database, side by side. Faults follow each other in one lab, so that each
meets what the ones before have left; after one that found something wrong, or that damaged the log,
the next begins in a new lab. Each finding is a line of JSON in bench/chaos.jsonl. Exit code 1 if
anything was wrong.

Invariant: bounded: no fault is begun that is not likely to end in time, and one that does not is
cut short and listed as not done.
"""

import argparse
import asyncio
import random
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.processes import machine
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.lab import lab
from tests.chaos.running import Finding, suffer, watched

RESULTS = Path(__file__).parents[2] / "bench" / "chaos.jsonl"
LIKELY_S = 25.0
"""Seconds that a fault takes on a machine that is not busy; none is begun with less left."""
GRACE_S = 20.0
"""Seconds that one may go on when the time is up."""


def planned(names: list[str], seed: int) -> dict[str, list[Fault]]:
    """Faults by database, in a seeded order; each once, on the database that it is about."""
    pick = random.Random(seed)
    chosen = [FAULTS[name] for name in names or FAULTS]
    pick.shuffle(chosen)
    plan: dict[str, list[Fault]] = {"sqlite": [], "postgres": []}
    for fault in chosen:
        plan[pick.choice(fault.databases)].append(fault)
    return plan


async def work(plan: dict[str, list[Fault]], seed: int, until: float, keep: Path) -> list[Finding]:
    """Do the plan until the time is up, both databases side by side.

    A lab that does not come up ends its own part only; what was found stays found.
    """
    found: list[Finding] = []
    labs = [
        on_one(database, faults, seed, until, keep, found)
        for database, faults in plan.items()
        if faults
    ]
    for broken in await asyncio.gather(*labs, return_exceptions=True):
        if broken is not None:
            sys.stderr.write("".join(traceback.format_exception(broken)))
    return found


async def on_one(
    database: str,
    faults: list[Fault],
    seed: int,
    until: float,
    keep: Path,
    found: list[Finding],
) -> None:
    """Do the faults of one database, in as many labs as it takes; add to `found`."""
    left = list(faults)
    while left and until - time.monotonic() > LIKELY_S:
        async with lab(database) as one, watched(one):
            good = True
            while left and good and until - time.monotonic() > LIKELY_S:
                fault = left.pop(0)
                try:
                    async with asyncio.timeout(until + GRACE_S - time.monotonic()) as limit:
                        finding = await suffer(one, fault, seed)
                except Exception as error:
                    if limit.expired():
                        sys.stderr.write(f"chaos: {fault.name} ({database}): the time was up\n")
                        return
                    sys.stderr.write("".join(traceback.format_exception(error)))
                    finding = broke_down(fault, database, seed, error)
                found.append(finding)
                write(finding, keep)
                good = not finding.wrong and finding.verify == "clean"
                if finding.wrong:
                    for child in one.parts:
                        sys.stderr.write(child.tail(12) + "\n")


def broke_down(fault: Fault, database: str, seed: int, error: Exception) -> Finding:
    """What is kept of a fault that could not be done to its end."""
    wrong = [f"the fault itself broke down: {error!r}"]
    return Finding(fault.name, database, seed, 0, 0, 0, 0.0, 0.0, {}, 0, {}, wrong, "not asked")


def write(finding: Finding, keep: Path) -> None:
    """Keep a finding, and tell of it at once."""
    verdict = "; ".join(finding.wrong) or "nothing wrong"
    sys.stderr.write(
        f"chaos: {finding.fault} ({finding.database}): recovered in {finding.recovery_s} s, "
        f"{finding.seconds} s in all; {verdict}\n"
    )
    sys.stderr.flush()
    when = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    with keep.open("ab") as lines:
        lines.write(msgspec.json.encode({**when, **msgspec.to_builtins(finding)}) + b"\n")


def show(found: list[Finding], left: list[str], console: Console) -> None:
    """Print the table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("fault", "database", "seed", "times", "pods", "events", "recovery s"):
        table.add_column(name, justify="left" if name in ("fault", "database") else "right")
    for name in ("ended by itself", "invariants", "verify"):
        table.add_column(name)
    for one in found:
        wrong = [text for text in one.wrong if not text.startswith("verify")]
        table.add_row(
            one.fault,
            one.database,
            str(one.seed),
            str(one.injected),
            str(one.pods),
            str(one.events),
            f"{one.recovery_s:.1f}",
            ", ".join(f"{name} {n}x" for name, n in one.ended.items()) or "-",
            f"[red]{len(wrong)} broken[/]" if wrong else "[green]hold[/]",
            one.verify,
        )
    console.print(table)
    for one in found:
        for text in one.wrong:
            console.print(f"{one.fault}, {one.database}, seed {one.seed}: {text}", markup=False)
    if left:
        console.print(f"not done, the time was up: {', '.join(left)}", markup=False)


def main() -> int:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="fault", help="default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="default: both")
    parser.add_argument("--list", action="store_true", help="name the faults and end")
    parser.add_argument("--keep", type=Path, default=RESULTS, help="where findings are appended")
    asked = parser.parse_args()
    if asked.list:
        sys.stdout.write("".join(f"{name}\n" for name in FAULTS))
        return 0
    if unknown := [name for name in asked.faults if name not in FAULTS]:
        sys.stderr.write(f"no such fault: {', '.join(unknown)}; --list names them\n")
        return 2
    plan = planned(asked.faults, asked.seed)
    if asked.database:
        every = [fault for faults in plan.values() for fault in faults]
        plan = {asked.database: [f for f in every if asked.database in f.databases]}
    until = time.monotonic() + asked.minutes * 60
    found = asyncio.run(work(plan, asked.seed, until, asked.keep))
    done = {one.fault for one in found}
    left = [fault.name for faults in plan.values() for fault in faults if fault.name not in done]
    show(found, left, Console(width=None if sys.stdout.isatty() else 150))
    return 1 if any(one.wrong for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
