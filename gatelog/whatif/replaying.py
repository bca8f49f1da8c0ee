"""The past with a change: groups that follow the record are as they were, others are simulated.

Theory. Without a change there is nothing to play: the result is the past. A changed object replaces
the object of its name from the beginning on, and events before `since` are not counted. The groups
that leave the record, and why first, explain a change before its figures.

Kueue's decisions are not followed in a change: gatelog's own rules decide all of it, once
unchanged, as the measure, and once changed. The measure is taken on the first counted events, as
many as are requested: each play of a long log takes minutes.

Invariant: departures, or the measure, are printed before any result.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from gatelog.readmodel.timeline import duration
from gatelog.shell.errors import UsageFailed
from gatelog.terminal.printing import table
from gatelog.terminal.progress import ProgressReport
from gatelog.whatif import comparing, reading, reporting, scenarios
from gatelog.whatif.alternative import Alternative, Changed, Departure, Recorded
from gatelog.whatif.arrivals import Later, Scenario, Write
from gatelog.whatif.history import History
from gatelog.whatif.objects import Key, changed, key_of, merged, read_objects, with_namespaces
from gatelog.whatif.reading import Past
from gatelog.whatif.scenarios import Counted
from gatelog.whatif.tallying import Tally
from gatelog.whatif.workloads import of_user
from podgroup.model.objects import QueueObject
from podgroup.rules import VERSION
from projector.replay.fold import fold
from projector.replay.sink import Sink

MOST_SHOWN = 10
"""Groups that leave the record and are named to people."""


class Found(Struct):
    """The results of the plays. `other` is None without a change."""

    same: Tally
    other: Tally | None
    calibration: comparing.Calibration
    cannot_know: list[str]
    events: int
    departures: list[Departure] | None
    """The departures from the record, in order; None: the record is not followed."""


class Change(Struct, frozen=True, kw_only=True):
    """The change: `given` are objects that the log may lack, `policy` the changed fields."""

    given: list[Path]
    objects: list[Path]
    small: list[str]
    policy: Mapping[str, Any]
    factor: float


def alternatives(past: Past, change: Change, *, db: str | None) -> Found:
    """Return the results of the past with a change.

    Raises:
        CommandFailed, UsageFailed: a change cannot be used, or `db` is not empty.
    """
    base, later = _objects(past, read_objects(change.given))
    latest = _latest(base, later)
    named = merged(latest, change.objects)
    wanted = changed(named, change.small)
    differ = _differing(latest, wanted)
    other_policy = replace(past.policy, **change.policy)
    if not differ and change.factor == 1.0 and other_policy == past.policy:
        return _nothing(past, db)
    if past.mode == "kueue":
        with scenarios.written_to(db) as sink:
            return _by_gatelog(past, change, (base, later, wanted, differ), sink)
    fixed: dict[Key, QueueObject | None] = dict.fromkeys(_differing(latest, named))
    fixed |= {key_of(view): view for view in wanted if key_of(view) in fixed}
    there = {key_of(view) for view in latest}
    fixed |= {key_of(view): view for view in wanted if key_of(view) not in there}
    if change.given:
        given = {key_of(view) for view in base}
        fixed |= {key_of(view): view for view in wanted if key_of(view) in given}
    small = _Small({key for key in differ if key not in fixed}, change.small)
    source = History(past.gathered, change.factor)
    recorded = Recorded(
        end=past.end,
        first=past.gathered.begin or past.end,
        source=source,
        workloads=past.gathered.workloads,
        differing=None,
    )
    other = Changed(fixed=fixed, alter=small.alter, policy=change.policy, factor=change.factor)
    counted = Counted(since=past.since, label=past.then.label, starts=True)
    with scenarios.written_to(db) as sink:
        tally, play = asyncio.run(_follow(past, recorded, other, counted))
        if play.unasked is not None:
            asked = asyncio.run(reading.baseline(past, play.unasked))
            recorded = replace(recorded, differing=asked.differing)
        if play.unasked is not None or sink is not None:
            tally, play = asyncio.run(_follow(past, recorded, other, counted, sink))
    return Found(
        past.then,
        tally,
        comparing.calibration(past.then, past.then, past.end),
        _cannot_know(past, source, changed=True),
        play.events,
        play.departures,
    )


async def _follow(
    past: Past, recorded: Recorded, other: Changed, counted: Counted, sink: Sink | None = None
) -> tuple[Tally, Alternative]:
    with ProgressReport("playing the change") as shown:
        progress = shown.until(recorded.first, past.end)
        async with past.opens() as opened:
            return await scenarios.follow(
                opened, recorded, other, counted, sink=sink, progress=progress
            )


def _nothing(past: Past, db: str | None) -> Found:
    """Return that with nothing changed it comes to what happened, which `db` gets."""
    with scenarios.written_to(db) as sink:
        if sink is not None:
            asyncio.run(_written(past, sink))
    found = comparing.calibration(past.then, past.then, past.end)
    cannot = _cannot_know(past, None, changed=False)
    return Found(past.then, None, found, cannot, past.events, [])


async def _written(past: Past, sink: Sink) -> None:
    async with past.opens() as opened:
        begin = replace(opened.begin, cluster=scenarios.CLUSTER)
        await fold(opened.log.entries(), begin, sink=sink, until=past.end)


class _Small:
    """Small changes to objects, as each comes or changes."""

    def __init__(self, keys: set[Key], texts: list[str]) -> None:
        self._keys = keys
        self._texts = {
            key: [text for text in texts if text.startswith(f"{key[0].lower()}/{key[2]}:")]
            for key in keys
        }

    def alter(self, view: QueueObject) -> QueueObject:
        """Return an object with its changes; an object without the changed fields stays."""
        key = key_of(view)
        if key not in self._keys:
            return view
        try:
            (other,) = changed([view], self._texts[key])
        except UsageFailed:
            return view
        return other


def _differing(was: list[QueueObject], now: list[QueueObject]) -> set[Key]:
    """Return the keys of objects that differ, or that only one of both has."""
    mine, others = ({key_of(view): _plain(view) for view in each} for each in (was, now))
    return {key for key in mine | others if mine.get(key) != others.get(key)}


def _plain(view: QueueObject) -> QueueObject:
    """Return an object without the fields that a file cannot have."""
    plain: QueueObject = replace(view, uid="", resource_version="")
    return plain


def _by_gatelog(
    past: Past,
    change: Change,
    objects: tuple[list[QueueObject], list[Later], list[QueueObject], set[Key]],
    sink: Sink | None,
) -> Found:
    """Play a log of Kueue's decisions with gatelog's own admission: unchanged, and changed.

    The two plays are compared with each other: the same rules decide both.
    """
    base, later, wanted, differ = objects
    begin = past.gathered.begin or past.end
    source = History(past.gathered)
    policy = replace(past.policy, longest_wait_s=0)  # Kueue reserves no starts
    counted = Counted(since=past.since, label=past.then.label, starts=True)
    with ProgressReport("playing as it was") as shown:
        was_so = Scenario(
            source=source,
            objects=base,
            later=[*later, *_writes(past)],
            begin=begin,
            until=past.measured,
            policy=policy,
        )
        same, events = scenarios.play(was_so, counted, progress=shown.until(begin, past.end))
    swapped = [v for v in base if key_of(v) not in differ]
    swapped += [v for v in wanted if key_of(v) in differ]
    others = [one for one in later if one.key not in differ]
    with ProgressReport("playing the change") as shown:
        changed_so = Scenario(
            source=History(past.gathered, change.factor),
            objects=swapped,
            later=[*others, *_writes(past)],
            begin=begin,
            until=past.end,
            policy=replace(policy, **change.policy),
        )
        progress = shown.until(begin, past.end)
        other, more = scenarios.play(changed_so, counted, sink=sink, progress=progress)
    found = comparing.calibration(past.part, same, past.measured)
    cannot = _cannot_know(past, source, changed=True)
    return Found(same, other, found, cannot, events + more, None)


def _part(past: Past, found: comparing.Calibration) -> str:
    if found.until is None or found.until >= past.end:
        return ""
    return f", up to {found.until:%Y-%m-%d %H:%M} (--calibrate 0: to the end)"


def _writes(past: Past) -> list[Write]:
    """Return what users did to Workloads."""
    found = (of_user(one) for one in past.gathered.workloads.writes)
    return [one for one in found if one is not None]


def _objects(past: Past, given: list[QueueObject]) -> tuple[list[QueueObject], list[Later]]:
    """Return the queues that the log begins with, before its first pod, and what changed after."""
    first = min((seen.at for seen in past.gathered.pods.values()), default=past.end)
    if given:
        given = with_namespaces(given, {one.born.namespace for one in past.gathered.pods.values()})
    base: dict[tuple[str, str, str], QueueObject] = {key_of(view): view for view in given}
    later: list[Later] = []
    for one in past.gathered.objects:
        if one.at > first:
            later.append(one)
        elif one.view is None:
            base.pop(one.key, None)
        else:
            base[one.key] = one.view
    return list(base.values()), later


def _latest(base: list[QueueObject], later: list[Later]) -> list[QueueObject]:
    found = {key_of(view): view for view in base}
    for one in later:
        if one.view is None:
            found.pop(one.key, None)
        else:
            found[one.key] = one.view
    return list(found.values())


def _cannot_know(past: Past, source: History | None, *, changed: bool) -> list[str]:
    """List the uncertainties of this log; without a `source` nothing is simulated."""
    of_past = [
        (
            past.gathered.lists - 1,
            f"pods were listed anew {past.gathered.lists - 1} times: what came and went "
            "between is not in the log",
        ),
        (
            past.epoch - 1,
            f"the log begins with epoch {past.epoch}, {past.since:%Y-%m-%d %H:%M} UTC: what "
            "was before, and what was missed then, is not in it (gatelog epochs)",
        ),
        (
            past.earlier is not None and past.mode != "kueue",
            f"rules of version {past.earlier or 'before 1'} decided in it: what follows the record "
            f"does as they had it, what leaves it as version {VERSION} has it (gatelog epochs)",
        ),
        (
            past.mode == "kueue" and not changed,
            "it was Kueue that decided, and its admissions are as they were: how far gatelog's "
            "own are from them is said beside a change",
        ),
    ]
    found = [text for count, text in of_past if count > 0]
    if source is None:
        return found
    return [*found, *_simulated(past, source)]


def _simulated(past: Past, source: History) -> list[str]:
    """List the uncertainties of the simulation."""
    found = [
        text
        for count, text in (
            (
                source.victims,
                f"{source.victims:,} pods were stopped by gatelog: pods preempted only in the "
                f"simulation return as late as one of them did ({duration(source.back_s)} median)",
            ),
            (
                source.guessed,
                f"{source.guessed:,} pods have a shape of which none ended: they run for a minute, "
                "or as long as they did",
            ),
            (
                source.never_ran,
                f"{source.never_ran:,} pods were not let in while the log lasts: they run as long "
                "as another of their shape",
            ),
            (
                past.policy.pods_ready_timeout_s,
                "time-outs of pods that did not run then: they are ready once they run",
            ),
            (
                len(past.gathered.workloads.rounds),
                "admission checks that were not asked then: they agree after the median time seen",
            ),
            (
                past.mode == "kueue",
                "it was Kueue that decided: what is played is gatelog's own admission on the same "
                "queues",
            ),
        )
        if count > 0
    ]
    return [*found, "nodes: a pod starts as long after its gate as it did, whatever else runs"]


def _show_calibration(past: Past, c: comparing.Calibration, out: TextIO) -> None:
    out.write(
        f"calibration, with nothing changed{_part(past, c)}: "
        f"{c.both:,} of {c.both + c.only_then:,} groups "
        f"admitted then are admitted again, {c.in_order:,} of them in the same order; start "
        f"differs by {duration(c.p50_s)} (p50), {duration(c.p99_s)} (p99); {c.only_now:,} others "
        "are admitted\n"
    )
    _show_queues(c, out)
    out.write(f"  {c.trust}\n")


def _show_queues(found: comparing.Calibration, out: TextIO) -> None:
    cells = [
        [
            one.queue,
            f"{one.both} of {one.both + one.only_then}",
            f"{100 * one.in_order / one.both:.1f} %" if one.both else "-",
            f"{duration(one.wait_then_s)} → {duration(one.wait_s)} ({100 * one.wait_off:.1f} %)",
            f"{100 * one.used_off:.1f} %",
        ]
        for one in found.queues
    ]
    heads = ["queue", "admitted again", "in order", "total wait", "quota used, off"]
    table(heads, cells, headers=True, out=out)


def as_values(past: Past, found: Found) -> dict[str, Any]:
    """Return past and results as JSON values."""
    whole: dict[str, Any] = {
        "record": _record(past, found.departures),
        "calibration": to_builtins(found.calibration) | {"trust": found.calibration.trust},
        "cannot_know": found.cannot_know,
        "since": past.since,
        "until": past.end,
        "events": past.events,
        "then": reporting.as_values(past.then),
        "same": reporting.as_values(found.same),
    }
    if found.other is not None:
        whole["what_if"] = reporting.as_values(found.other)
        whole["moved"] = comparing.as_values(past.then, found.other)
    return whole


def _record(past: Past, left: list[Departure] | None) -> dict[str, Any]:
    """Return the departures from the record; `follows` is false where it is not followed."""
    return {
        "follows": left is not None,
        "groups": past.groups,
        "rules": past.earlier if past.earlier is not None else VERSION,
        "left": len(left or ()),
        "departures": left or [],
    }


def _show_record(past: Past, left: list[Departure], out: TextIO) -> None:
    if not left:
        out.write(f"nothing differs: all {past.groups:,} groups follow the record\n")
        return
    out.write(
        f"{len(left):,} of {past.groups:,} groups leave the record, the first at "
        f"{left[0].at:%Y-%m-%d %H:%M:%S}; the others are as they were\n"
    )
    for one in left[:MOST_SHOWN]:
        out.write(f"  {one.at:%H:%M:%S} {one.name}: {one.because}\n")
    if len(left) > MOST_SHOWN:
        out.write(f"  ... and {len(left) - MOST_SHOWN:,} more (--json: all)\n")


def show(past: Past, found: Found, out: TextIO) -> None:
    """Print how far to trust the results, then the results."""
    out.write(
        f"{past.cluster}: {past.since:%Y-%m-%d %H:%M} to {past.end:%Y-%m-%d %H:%M} UTC, "
        f"{past.events:,} events, {len(past.gathered.pods):,} pods\n"
    )
    if found.departures is not None:
        _show_record(past, found.departures, out)
    else:
        _show_calibration(past, found.calibration, out)
    for text in found.cannot_know:
        out.write(f"  not known: {text}\n")
    if found.other is None:
        out.write("nothing is changed: this is what happened\n")
    else:
        out.write("a → b: then → what-if\n")
    reporting.show(past.then, found.other, out)
    if found.other is not None:
        comparing.show(past.then, found.other, out)
