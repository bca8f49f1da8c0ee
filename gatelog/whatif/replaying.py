"""What the log says came, played twice: as it was, which must come to what happened, and changed.

Theory. The play as it was is the measure of the other one: how far it is from what happened is how
far to trust a difference. Both begin with the log, on the queues as they changed in it; the change
takes the place of what is named from the beginning, and what is before `since` is not counted.
Beside a change the measure is taken on the first events that count, as many as are asked for: each
play of a long log takes minutes.

Invariant: the calibration is said before any result.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from gatelog.readmodel.timeline import duration
from gatelog.terminal.printing import table
from gatelog.terminal.progress import ProgressReport
from gatelog.whatif import comparing, reporting, scenarios
from gatelog.whatif.arrivals import Later, Scenario, Write
from gatelog.whatif.history import History
from gatelog.whatif.objects import changed, key_of, merged, read_objects, with_namespaces
from gatelog.whatif.reading import Past
from gatelog.whatif.scenarios import Counted
from gatelog.whatif.tallying import Tally
from podgroup.model.objects import QueueObject


class Found(Struct):
    """What came of the plays. `other` is None where nothing is changed."""

    same: Tally
    other: Tally | None
    calibration: comparing.Calibration
    cannot_know: list[str]
    events: int


class Change(Struct, frozen=True, kw_only=True):
    """What is other: `given` are objects that the log may lack, `policy` the fields of it."""

    given: list[Path]
    objects: list[Path]
    small: list[str]
    policy: Mapping[str, Any]
    factor: float


def alternatives(past: Past, change: Change, *, db: str | None) -> Found:
    """Play the past as it was, and changed; as it was to the end only if nothing is.

    Raises:
        CommandFailed, UsageFailed: a change cannot be used, or `db` is not empty.
    """
    begin = past.gathered.begin or past.end
    base, later = _objects(past, read_objects(change.given))
    latest = _latest(base, later)
    wanted = changed(merged(latest, change.objects), change.small)
    was, now = ({key_of(view): view for view in each} for each in (latest, wanted))
    differ = {key for key in was | now if was.get(key) != now.get(key)}
    other_policy = replace(past.policy, **change.policy)
    two = bool(differ) or change.factor != 1.0 or other_policy != past.policy
    sink = scenarios.sink_of(db)
    source = History(past.gathered, follows_kueue=past.mode == "kueue" and not two)
    counted = Counted(since=past.since, label=past.then.label, starts=True)
    with ProgressReport("playing as it was") as shown:
        kept = None if two else sink
        measured = past.measured if two else past.end
        was_so = Scenario(
            source=source,
            objects=base,
            later=[*later, *_writes(past, decides=two)],
            begin=begin,
            until=measured,
            policy=past.policy,
            mode="builtin" if two else past.mode,
        )
        same, events = scenarios.play(
            was_so, counted, sink=kept, progress=shown.until(begin, past.end)
        )
    other = None
    if two:
        swapped = [v for v in base if key_of(v) not in differ]
        swapped += [v for v in wanted if key_of(v) in differ]
        others = [one for one in later if one.key not in differ]
        with ProgressReport("playing the change") as shown:
            changed_so = Scenario(
                source=History(past.gathered, change.factor),
                objects=swapped,
                later=[*others, *_writes(past, decides=True)],
                begin=begin,
                until=past.end,
                policy=other_policy,
            )
            other, more = scenarios.play(
                changed_so, counted, sink=sink, progress=shown.until(begin, past.end)
            )
        events += more
    found = comparing.calibration(past.part if two else past.then, same, measured)
    return Found(same, other, found, _cannot_know(past, source, changed=two), events)


def _part(past: Past, found: comparing.Calibration) -> str:
    if found.until is None or found.until >= past.end:
        return ""
    return f", up to {found.until:%Y-%m-%d %H:%M} (--calibrate 0: to the end)"


def _writes(past: Past, *, decides: bool) -> list[Later | Write]:
    """Return what others did to Workloads; where the play decides, only what users did."""
    writes = past.gathered.workloads.writes
    if not decides:
        return [*writes]
    return [
        one if one.fields is None else replace(one, fields={"active": one.fields["active"]})
        for one in writes
        if (one.made is None and one.fields is None)
        or (one.made is not None and not one.made.owner_uids)
        or (one.fields is not None and "active" in one.fields)
    ]


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


def _cannot_know(past: Past, source: History, *, changed: bool) -> list[str]:
    """Say what this log makes uncertain."""
    found = [
        text
        for count, text in (
            (
                source.victims,
                f"{source.victims:,} pods were stopped by gatelog: pods preempted only in the "
                f"simulation return after {duration(source.back_s)} (median seen)",
            ),
            (
                source.guessed,
                f"{source.guessed:,} pods have a shape of which none ended: they run for a minute, "
                "or as long as they did",
            ),
            (
                source.never_ran,
                f"{source.never_ran:,} pods were not let in while the log lasts: they run as long "
                "as the middle one of their shape",
            ),
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
                past.policy.pods_ready_timeout_s,
                "time-outs of pods that did not run then: they are ready once they run",
            ),
            (
                len(past.gathered.workloads.rounds),
                "admission checks that were not asked then: they agree after the median time seen",
            ),
            (
                past.mode == "kueue" and changed,
                "it was Kueue that decided: what is played is gatelog's own admission on the same "
                "queues",
            ),
            (
                past.mode == "kueue" and not changed,
                "it was Kueue that decided, and its admissions are played as they were: how far "
                "gatelog's own are from them is said beside a change",
            ),
        )
        if count > 0
    ]
    return [*found, "nodes: a pod starts as long after its gate as it did, whatever else runs"]


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
    """Return all of it as JSON values."""
    whole: dict[str, Any] = {
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


def show(past: Past, found: Found, out: TextIO) -> None:
    """Print how far to trust it, then what came of it."""
    c = found.calibration
    out.write(
        f"{past.cluster}: {past.since:%Y-%m-%d %H:%M} to {past.end:%Y-%m-%d %H:%M} UTC, "
        f"{past.events:,} events, {len(past.gathered.pods):,} pods\n"
        f"calibration, with nothing changed{_part(past, c)}: "
        f"{c.both:,} of {c.both + c.only_then:,} groups "
        f"admitted then are admitted again, {c.in_order:,} of them in the same order; start "
        f"differs by {duration(c.p50_s)} (p50), {duration(c.p99_s)} (p99); {c.only_now:,} others "
        "are admitted\n"
    )
    _show_queues(c, out)
    out.write(f"  {c.trust}\n")
    for text in found.cannot_know:
        out.write(f"  not known: {text}\n")
    if found.other is None:
        out.write("a → b: then → played with nothing changed\n")
    else:
        out.write("a → b: then → what-if\n")
    reporting.show(past.then, found.other or found.same, out)
    if found.other is not None:
        comparing.show(past.then, found.other, out)
