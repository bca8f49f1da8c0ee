"""`gatelog what-if`: play arrivals through today's rules on other queues.

Invariant: reads only; nothing is written but an empty database that was named for it.
"""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gatelog import options
from gatelog.errors import UsageFailed

HELP = (
    "What other quotas, cohorts, flavors, priorities or queues would do: play the jobs of a trace "
    "through the rules that decide live, in simulated time. Shows waits, quota used and idle, and "
    "preemptions; with --change or --set, side by side without and with the change."
)
EPILOG = """[bold]Examples[/]

gatelog what-if --trace jobs.csv --objects queues.yaml

gatelog what-if --trace jobs.csv --objects queues.yaml --set clusterqueue/research:cpu=60

gatelog what-if --trace jobs.csv --objects queues.yaml --change smaller.yaml --json

gatelog what-if --trace jobs.csv --objects queues.yaml --db played.sqlite3"""


def what_if(
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Jobs to play: CSV, or JSON lines."),
    ] = None,
    objects: Annotated[
        list[Path] | None,
        typer.Option(
            "--objects", metavar="FILE", help="Queues to play them on (YAML). May be repeated."
        ),
    ] = None,
    change: Annotated[
        list[Path] | None,
        typer.Option(
            "--change",
            metavar="FILE",
            help="Objects that are other than they are, or new (YAML). May be repeated.",
        ),
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KIND/NAME:FIELD=VALUE",
            help="A small change, e.g. clusterqueue/research:cpu=60. May be repeated.",
        ),
    ] = None,
    runtime: Annotated[
        float,
        typer.Option("--runtime", metavar="FACTOR", help="Everything runs so many times as long."),
    ] = 1.0,
    label: Annotated[
        str, typer.Option("--label", metavar="KEY", help="Label of pods that names their team.")
    ] = "team",
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="URL|FILE",
            help="Empty database for the read model of what was played (of the change).",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> int | None:
    """Run `gatelog what-if`; see HELP."""
    if trace is None:
        raise UsageFailed("--trace is missing: a file of jobs to play (docs/looking-forward.md)")
    if not objects:
        raise UsageFailed("--objects is missing: the queues to play the trace on, as YAML")
    if not 0 < runtime <= 1000:
        raise UsageFailed(f"--runtime {runtime:g}: give a factor above 0 and up to 1000")
    from gatelog.replay.running import make_empty
    from gatelog.whatif import running
    from gatelog.whatif.objects import changed, merged, read_objects, with_namespaces
    from gatelog.whatif.progress import Shown
    from gatelog.whatif.trace import Trace
    from projector.replay.fold import Sink

    base = read_objects(objects)
    other = changed(merged(base, read_objects(change or ())), assign or ())
    console = Console(stderr=True)
    jobs = Trace(trace, runtime)
    base += jobs.classes(base)
    other += jobs.classes(other)
    target = options.database_option(db)
    sink = None
    if target is not None:
        make_empty(target)
        sink = Sink(target, running.CLUSTER, 0, "builtin")
    plays = [(base, None if change or assign else sink)]
    if change or assign:
        plays.append((other, sink))
    tallies = []
    for number, (there, written) in enumerate(plays, 1):
        what = "playing" if len(plays) == 1 else f"playing {('as it is', 'changed')[number - 1]}"
        with Shown(console, what, jobs.begin, jobs.last) as shown:
            tally, _ = running.play(
                jobs,
                with_namespaces(there, jobs.namespaces),
                jobs.begin,
                label=label,
                keep_starts=len(plays) > 1,
                sink=written,
                progress=shown,
            )
        tallies.append(tally)
    _show(jobs, tallies, as_json=as_json)
    return None


def _show(jobs: Any, tallies: list[Any], *, as_json: bool) -> None:
    from gatelog.printing import document
    from gatelog.whatif import comparing, reporting

    then, other = tallies[0], tallies[1] if len(tallies) > 1 else None
    if as_json:
        found: dict[str, Any] = {
            "trace": str(jobs.path),
            "jobs": jobs.jobs,
            "pods": jobs.pods,
            "then": reporting.as_values(then),
        }
        if other is not None:
            found["what_if"] = reporting.as_values(other)
            found["moved"] = comparing.as_values(then, other)
        sys.stdout.write(document(found, "json"))
        return
    out = sys.stdout
    out.write(
        f"{jobs.path}: {jobs.jobs:,} jobs, {jobs.pods:,} pods, {_span(then.begin, then.end)}\n"
    )
    if other is not None:
        out.write("a → b: as it is → with the change\n")
    reporting.show(then, other, out)
    if other is not None:
        comparing.show(then, other, out)


def _span(begin: datetime | None, end: datetime | None) -> str:
    from gatelog.timeline import duration

    if begin is None or end is None:
        return "nothing played"
    return f"{duration((end - begin).total_seconds())} played"
