"""`gatelog what-if`: play arrivals through today's rules on other queues.

Invariant: reads only; nothing is written but an empty database that was named for it.
"""

import dataclasses
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from msgspec.structs import replace

from gatelog.shell import options
from gatelog.shell.errors import FAILED, UsageFailed
from gatelog.terminal.progress import ProgressReport

SECTION = "queueing."
"""Settings of this section take part in decisions, so a change of them can be played."""
_QUEUES = """
SELECT name FROM objects WHERE cluster = :cluster AND kind = 'ClusterQueue'
UNION SELECT cluster_queue FROM quotas WHERE cluster = :cluster ORDER BY 1 LIMIT :limit
"""

if TYPE_CHECKING:
    from gatelog.terminal.printing import Form
    from gatelog.whatif.sweeping import Sweep
    from gatelog.whatif.tallying import Tally
    from podgroup.model.policy import Policy
    from projector.replay.sink import Sink
    from runtime.settings import Settings

EXAMPLES = """
gatelog what-if --since 7d --set clusterqueue/research:cpu=60
gatelog what-if --since 7d --change queues.yaml --db other.sqlite3
gatelog what-if export.jsonl.gz --set clusterqueue/research:cpu=60
gatelog what-if --trace jobs.csv --objects queues.yaml
gatelog what-if --trace jobs.csv --objects queues.yaml --set clusterqueue/research:cpu=60
gatelog what-if --trace jobs.csv --objects queues.yaml --change smaller.yaml --json
gatelog what-if --trace archive.swf --queue hpc/batch --objects queues.yaml
gatelog what-if --trace jobs.csv --objects queues.yaml --db played.sqlite3
gatelog what-if --since 7d --sweep queueing.least_run_s=0,300,600,1800
gatelog what-if --trace jobs.csv --objects queues.yaml --sweep clusterqueue/research:cpu=40,60,80
"""


@dataclass(frozen=True)
class TraceOptions:
    """Jobs to play that are not of the log, and the queues for them."""

    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Jobs to play: CSV, JSON lines, or the Standard Workload Format (.swf).",
        ),
    ] = None
    queue: Annotated[
        str,
        typer.Option(
            metavar="NS/NAME",
            help="LocalQueue of jobs of a trace that names none; {queue} is their number of it "
            "(.swf).",
        ),
    ] = ""
    objects: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Queues to play a trace on, or those that FILE lacks (YAML). May be repeated.",
        ),
    ] = None


@dataclass(frozen=True)
class PeriodOptions:
    """The part of the log that counts, and the part that is played for calibration."""

    since: Annotated[
        str | None, typer.Option(metavar="7d|TIME", help="Count from then on. Default: 7d.")
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="1d|TIME", help="Default: the log's end.")
    ] = None
    calibrate: Annotated[
        int,
        typer.Option(
            metavar="EVENTS",
            min=0,
            help="Beside a change to a log of Kueue's decisions, play so many of its events that "
            "count with nothing changed as well, to say how far to trust it; 0: all of them.",
        ),
    ] = 200_000


@dataclass(frozen=True)
class ChangeOptions:
    """The changes of a play."""

    change: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Objects that are other than they are, or new (YAML); one with `$patch: delete` "
            "is to go. May be repeated.",
        ),
    ] = None
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KIND/NAME:FIELD=VALUE",
            help="A small change, e.g. clusterqueue/research:cpu=60; one of how is decided, e.g. "
            "queueing.fair_sharing=LessThanInitialShare; or a setting, as elsewhere, e.g. "
            "nats.url=... May be repeated.",
        ),
    ] = None
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLAVOR=N",
            help="So many more nodes, like most of a flavor's, in a rack of their own. "
            "May be repeated.",
        ),
    ] = None
    runtime: Annotated[
        float, typer.Option(metavar="FACTOR", help="Everything runs so many times as long.")
    ] = 1.0
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,VALUE…",
            help="Play several values of what --set takes, and show a table of what each costs.",
        ),
    ] = None

    def small(self) -> list[str]:
        """Return the values of `--set` that change an object."""
        small = [text for text in self.assign or () if {"/", ":"} & set(text.partition("=")[0])]
        more = [text.partition("=") for text in self.nodes or ()]
        return small + [f"resourceflavor/{flavor}:nodes={count}" for flavor, _, count in more]

    def settings(self) -> list[str]:
        """Return the values of `--set` that are settings."""
        small = self.small()
        return [text for text in self.assign or () if text not in small]


@dataclass(frozen=True)
class PlayedOptions(options.OutputOptions):
    """The output of a play: label of teams, read model, form."""

    label: Annotated[
        str, typer.Option(metavar="KEY", help="Label of pods that names their team.")
    ] = "team"
    db: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE", help="Empty database for the read model of the alternative."
        ),
    ] = None


@dataclass(frozen=True)
class PlaceOptions:
    """Where the log and the settings are."""

    config: options.Config = None
    state_dir: options.StateDirOption = None
    cluster: options.Cluster = None

    def settings(self, assign: list[str]) -> "Settings":
        """Return the settings, some of them as `assign` says."""
        return options.settings(self.config, assign, state_dir=self.state_dir, cluster=self.cluster)


def what_if(
    jobs: TraceOptions,
    period: PeriodOptions,
    changed: ChangeOptions,
    played: PlayedOptions,
    place: PlaceOptions,
    file: Annotated[
        str | None,
        typer.Argument(help="An export, or an archive. Default: the log."),
    ] = None,
) -> int | None:
    """What other quotas, cohorts, flavors, priorities or queues would do: play what came, as the
    log has it (or an export, or an archive: FILE), or the jobs of a trace, through the rules that
    decide live, in simulated time. Shows waits, quota used and idle, preemptions, and who gains and
    loses, side by side; touches nothing live.
    """
    if not 0 < changed.runtime <= 1000:
        raise UsageFailed(f"--runtime {changed.runtime:g}: give a factor above 0 and up to 1000")
    named = changed.settings()
    where = place.settings(named)
    wanted = _wanted(changed, played, place)
    if changed.sweep is not None:
        from gatelog.whatif import sweeping

        sweep = sweeping.read(changed.sweep)
        if wanted.db is not None:
            raise UsageFailed("--db is for one play: leave it out, or --sweep")
        given = changed.assign or []
        each = [
            dataclasses.replace(changed, assign=[*given, sweep.assigned(value)])
            for value in sweep.values
        ]
        variants = [_wanted(one, played, place) for one in each]
        wanted = wanted._replace(sweep=sweep, variants=variants)
        named = each[0].settings()
    objects = jobs.objects or []
    if jobs.trace is not None:
        if file or period.since or period.until:
            raise UsageFailed("--trace is played as a whole: leave FILE, --since and --until out")
        if not objects:
            raise UsageFailed("--objects is missing: the queues to play the trace on, as YAML")
        if odd := [text for text in named if not text.startswith(SECTION)]:
            raise UsageFailed(
                f"--set {odd[0]}: write KIND/NAME:FIELD=VALUE, or {SECTION}SETTING=VALUE"
            )
        from projector.storage.opening import policy_of

        before = policy_of(place.settings([]).queueing)
        _of_trace(jobs.trace, objects, jobs.queue, before, wanted)
        return None
    if jobs.queue:
        raise UsageFailed("--queue goes with --trace: pods of the log name their queue")
    if objects and file is None:
        raise UsageFailed("--objects goes with --trace or FILE; what queues become is --change")
    return _of_log(file, where, period, wanted, objects)


class Wanted(NamedTuple):
    """The request for a play, whatever the arrivals come from."""

    change: list[Path]
    small: list[str]
    policy: dict[str, Any]
    """Changed fields of Policy."""
    runtime: float
    label: str
    db: str | None
    output: "Form | None"
    sweep: "Sweep | None" = None
    variants: "list[Wanted] | None" = None
    """The request with each value of the sweep."""


def _wanted(changed: ChangeOptions, played: PlayedOptions, place: PlaceOptions) -> Wanted:
    named = changed.settings()
    return Wanted(
        changed.change or [],
        changed.small(),
        _policy(place.settings(named), named),
        changed.runtime,
        played.label,
        options.database_option(played.db),
        played.form,
    )


def _policy(settings: "Settings", texts: list[str]) -> dict[str, Any]:
    """Return those fields of Policy that `texts` set."""
    from podgroup.model.policy import Policy
    from projector.storage.opening import policy_of

    named = {text.partition("=")[0].strip() for text in texts}
    given = policy_of(settings.queueing)
    fields = Policy.__struct_fields__
    return {name: getattr(given, name) for name in fields if f"{SECTION}{name}" in named}


def _of_trace(
    trace: Path, objects: list[Path], queue: str, policy: "Policy", wanted: Wanted
) -> None:
    from gatelog.whatif import scenarios
    from gatelog.whatif.arrivals import Scenario
    from gatelog.whatif.objects import changed, merged, read_objects, with_namespaces
    from gatelog.whatif.trace import Trace

    base = read_objects(objects)
    jobs = Trace(trace, wanted.runtime, queue)
    jobs.check_queues(base)

    def played(
        name: str, one: Wanted | None, counted: scenarios.Counted, sink: "Sink | None" = None
    ) -> "Tally":
        """Play the jobs as they are, or with changes, and return the tally."""
        there = base if one is None else changed(merged(base, one.change), one.small)
        with ProgressReport(f"playing {name}".rstrip()) as shown:
            progress = shown.until(jobs.begin, jobs.last)
            scenario = Scenario(
                source=jobs,
                objects=with_namespaces(there + jobs.classes(there), jobs.namespaces),
                begin=jobs.begin,
                policy=policy if one is None else replace(policy, **one.policy),
            )
            return scenarios.play(scenario, counted, sink=sink, progress=progress)[0]

    if wanted.sweep is not None:
        counted = scenarios.Counted(label=wanted.label)
        pairs = zip(wanted.sweep.values, wanted.variants or (), strict=True)
        _show_sweep(wanted, [played(value, one, counted) for value, one in pairs])
        return
    two = bool(wanted.change or wanted.small or wanted.policy)
    counted = scenarios.Counted(label=wanted.label, starts=two)
    with scenarios.written_to(wanted.db) as sink:
        if two:
            tallies = [played("as it is", None, counted), played("changed", wanted, counted, sink)]
        else:
            tallies = [played("", None, counted, sink)]
    _show(jobs, tallies, wanted.output)


def _show_sweep(wanted: Wanted, tallies: "list[Tally]") -> None:
    from gatelog.terminal.printing import document
    from gatelog.whatif import sweeping

    assert wanted.sweep is not None, "a sweep was asked for"
    pairs = zip(wanted.sweep.values, tallies, strict=True)
    rows = [sweeping.row(value, tally) for value, tally in pairs]
    if wanted.output is not None:
        sys.stdout.write(document(sweeping.as_values(wanted.sweep, rows), wanted.output))
    else:
        sweeping.show(wanted.sweep, rows, sys.stdout)


def _of_log(
    file: str | None,
    settings: "Settings",
    period: PeriodOptions,
    wanted: Wanted,
    objects: list[Path],
) -> int | None:
    import asyncio

    from gatelog.whatif import reading, replaying

    since, until = period.since or "7d", period.until or ""
    asked = reading.Asked(since, until, wanted.label, period.calibrate)
    now = datetime.now(UTC)
    every = wanted.variants or [wanted]
    if file is None:
        _check_names(settings, [text for one in every for text in one.small])
    with ProgressReport("reading the log") as shown:
        progress = shown.until(None, now)
        if file is not None:
            past = asyncio.run(reading.read_file(file, settings, asked, progress))
        else:
            past = asyncio.run(reading.read_log(settings, asked, progress))
    for text in past.unread:
        sys.stderr.write(f"gatelog: {file}: {text}\n")
    plays = [
        replaying.alternatives(
            past,
            replaying.Change(
                given=objects,
                objects=one.change,
                small=one.small,
                policy=one.policy,
                factor=one.runtime,
            ),
            db=one.db,
        )
        for one in every
    ]
    if wanted.sweep is not None:
        _show_sweep(wanted, [found.other or found.same for found in plays])
        return FAILED if past.unread else None
    (found,) = plays
    if wanted.output is not None:
        from gatelog.terminal.printing import document

        sys.stdout.write(document(replaying.as_values(past, found), wanted.output))
    else:
        replaying.show(past, found, sys.stdout)
    return FAILED if past.unread else None


def _check_names(settings: "Settings", texts: list[str]) -> None:
    """Refuse a ClusterQueue that there never was, before the whole log is read to say the same.

    Raises:
        UsageFailed: none is called so.
    """
    from difflib import get_close_matches

    from gatelog.terminal import lookup

    names = [text.partition("/")[2].partition(":")[0] for text in texts]
    asked = [n for n, text in zip(names, texts, strict=True) if text.startswith("clusterqueue/")]
    if not asked:
        return
    with lookup.open_model(settings) as model:
        known = [str(row["name"]) for row in model.dicts(_QUEUES, {"limit": 10_000})]
    for name in asked:
        if known and name not in known:
            near = get_close_matches(name, known, n=3, cutoff=0.5)
            meant = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise UsageFailed(f"--set clusterqueue/{name}: no such ClusterQueue: {meant}")


def _show(jobs: Any, tallies: list[Any], output: "Form | None") -> None:
    from gatelog.terminal.printing import document
    from gatelog.whatif import comparing, reporting

    then, other = tallies[0], tallies[1] if len(tallies) > 1 else None
    if output is not None:
        found: dict[str, Any] = {
            "trace": str(jobs.path),
            "jobs": jobs.jobs,
            "pods": jobs.pods,
            "never_ran": jobs.never_ran,
            "then": reporting.as_values(then),
        }
        if other is not None:
            found["what_if"] = reporting.as_values(other)
            found["moved"] = comparing.as_values(then, other)
        sys.stdout.write(document(found, output))
        return
    out = sys.stdout
    out.write(
        f"{jobs.path}: {jobs.jobs:,} jobs, {jobs.pods:,} pods, {_span(then.begin, then.end)}\n"
    )
    if jobs.never_ran:
        out.write(f"{jobs.never_ran:,} jobs of the trace never ran and are left out\n")
    if other is not None:
        out.write("a → b: as it is → with the change\n")
    reporting.show(then, other, out)
    if other is not None:
        comparing.show(then, other, out)


def _span(begin: datetime | None, end: datetime | None) -> str:
    from gatelog.readmodel.timeline import duration

    if begin is None or end is None:
        return "nothing played"
    return f"{duration((end - begin).total_seconds())} played"
