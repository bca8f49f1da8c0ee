"""Why a group is where it is: all facts about it, and the lines that state them.

Theory. Every view of a group's reason (command line, aggregated API, plugin, console) calls
`explain` once and prints `lines`. A user of one namespace learns how much groups of others hold;
their names and the cohort's quota stay hidden.

Invariant: reads only; `lines` is pure.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from gatelog.readmodel import heldup, overtaking, repeats, reserving, running, starts
from gatelog.readmodel.advice import pods_exist, remedy, replacements
from gatelog.readmodel.gaps import missing
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.overtaking import Record
from gatelog.readmodel.past import Past
from gatelog.readmodel.reserving import ReservedRow
from gatelog.readmodel.rows import (
    CauseRow,
    EndingRow,
    ExpectedRow,
    GivingWayRow,
    GroupRow,
    HeldUpRow,
    HolderRow,
    KeptRow,
    ParkedOfRow,
    RepeatedRow,
    UnreplacedRow,
    UnstartedRow,
    WaitRow,
)
from gatelog.readmodel.running import NotRunningRow
from gatelog.readmodel.shared import Shared, freed, sentences, short_of
from gatelog.readmodel.starts import rough, sentence
from gatelog.readmodel.statements.preempted import PreemptorRow
from gatelog.readmodel.timeline import NO_WAIT, anonymous, duration, plain
from gatelog.shell.remedies import UNKNOWN, Installation
from podgroup.model.lifecycle import ADMITTED, OVER, PENDING
from podgroup.model.reasons import (
    WRITE_REFUSED,
    effect_of,
    held_back,
    lacks_quota,
    over_topology,
    reason_of,
)
from podgroup.model.wording import first, kueues, shown

_NAMED = 5
"""Holders of quota that are named singly."""
_MOST_HOLDERS = 100
"""Holders that are added up."""
_SPARED = (
    "single pods do without (queueing.workloads=groups): kubectl get podgroups lists it, "
    "kubectl get workloads does not"
)
_GONE_NODE = (
    "that the node answers, or kubectl delete node if it is gone for good: until then, or until "
    "queueing.unreachable_timeout_s is over, what may run keeps its quota"
)
_OPERATORS = "an operator of gatelog, whom gatelog doctor tells what to do"
_ANOTHER_LIFE = (
    "to create it again when the pods of this group are deleted, all of them, or under another "
    "group name: pods that come to a group that is over belong to it and are not started"
)


class ExplanationLine(Struct, frozen=True):
    """A label and its text; without a label, the text continues the line before."""

    label: str
    text: str


class Explanation(Struct, frozen=True, kw_only=True):
    """All facts about why a group is where it is."""

    group: GroupRow
    takes: str
    position: int | None
    reserved: ReservedRow | None
    """The start that is reserved for it, as it has waited too long."""
    expected: ExpectedRow | None
    record: Record | None
    """For an overtaken group that waits for quota: its overtakers, and waits of similar groups."""
    holders: list[HolderRow]
    shared: Shared
    waits: list[WaitRow]
    set_aside: list[ParkedOfRow]
    not_started: list[UnstartedRow]
    not_running: list[NotRunningRow]
    """Pods of an admitted group that were ungated and do not run, by what they wait for."""
    let_in_by: list[CauseRow]
    """Causes of the group's admission."""
    kept_at_gate: list[KeptRow]
    not_replaced: list[UnreplacedRow]
    ending: list[EndingRow]
    giving_way: list[GivingWayRow]
    preempted_for: PreemptorRow | None
    """The preemptor of a preempted group that is not admitted again."""
    repeated: list[RepeatedRow]
    held_up: HeldUpRow | None
    places: list[str]
    """Places of its pods."""
    best: list[tuple[str, str]]
    """For a group that waits for places: the domains with most free, and their holders."""
    missing: list[str]


def explain(
    model: ReadModel,
    group: GroupRow,
    now: datetime,
    *,
    past: bool = False,
    causes: list[CauseRow] | None = None,
) -> Explanation:
    """Return why a group is where it is; `past`: where it was at `now`, a moment that is over.

    `causes`: what let it in, where the caller has asked already.
    """
    known = Past(model, now) if past else model
    if isinstance(known, Past):
        group = known.as_it_was(group)
    pending, admitted = group.state in PENDING, group.state in ADMITTED
    for_quota = group.state == "Queued" or effect_of(group.wait_reason).inactive
    in_queue = for_quota and bool(group.cluster_queue) and group.queued_at is not None
    position = known.position(group.id) if in_queue else None
    holders_matter = in_queue and not held_back(group.wait_reason)
    shared = known.shared(group.id)
    overtaken = in_queue and bool(shared.short)
    if causes is None:
        causes = model.causes(group.id) if admitted else []
    return Explanation(
        group=group,
        takes=remedy(group) if pending else "",
        position=position,
        reserved=known.reserved(group.id, now) if in_queue else None,
        expected=_expected(known, group, now, position) if pending else None,
        record=_record(known, group, shared, now) if overtaken else None,
        holders=known.holders(group.cluster_queue, _MOST_HOLDERS) if holders_matter else [],
        shared=shared,
        waits=known.waits(group.id),
        set_aside=known.parked_of(group.namespace, group.name, group.id),
        not_started=known.unstarted(group.id) if group.state in OVER else [],
        not_running=known.not_running(group.id) if admitted else [],
        let_in_by=_latest(causes, now) if admitted else [],
        kept_at_gate=known.kept_at_gate(group.id) if group.state not in OVER else [],
        not_replaced=known.unreplaced(group.id) if admitted else [],
        ending=known.ending(group.id),
        giving_way=known.giving_way(group.id) if pending else [],
        preempted_for=model.preempted_for(group.id, now) if pending else None,
        repeated=known.repeated(now, group.id),
        held_up=next(iter(known.held_up(now, group_id=group.id)), None) if admitted else None,
        places=_places(model, group.id, now) if admitted else [],
        best=_best(model, group.id, now) if over_topology(group.wait_message) else [],
        missing=missing(model, group),
    )


def _expected(
    known: ReadModel | Past, group: GroupRow, now: datetime, position: int | None
) -> ExpectedRow | None:
    """Return when a group is expected to start; for a group in a queue now, also why that is not
    known.
    """
    found = known.expected(group.id)
    if found is not None or position is None or isinstance(known, Past):
        return found
    made = known.forecast()
    at, runs = (None, None) if made is None else (made.at, made.runs)
    why = starts.unknown(at, runs, group.queued_at, now)
    return ExpectedRow(None, None, None, never="", position=None, as_of=at or now, unknown=why)


def _record(
    known: ReadModel | Past, group: GroupRow, shared: Shared, now: datetime
) -> Record | None:
    return overtaking.record(group, shared.short, known.admitted(group, now))


def _places(model: ReadModel, group_id: str, at: datetime) -> list[str]:
    """Say where its pods have places; without any, what works places out is not imported."""
    if not model.placed(group_id):
        return []
    from gatelog.readmodel.places import places_of

    return places_of(model, group_id, at)


def _best(model: ReadModel, group_id: str, at: datetime) -> list[tuple[str, str]]:
    from gatelog.readmodel.places import best_of

    return best_of(model, group_id, at)


def lines(
    found: Explanation, now: datetime, at: Installation = UNKNOWN, *, own_only: bool = False
) -> list[ExplanationLine]:
    """Return the lines; `own_only`: for a user who may see the group's own namespace alone.

    `at` is the installation that remedies are for.
    """
    return [
        *_now(found, now, at, own_only),
        *_let_in(found, own_only),
        *_pods(found, now),
        *_writes(found, now),
        *_before(found.waits),
    ]


def _now(
    found: Explanation, now: datetime, at: Installation, own_only: bool
) -> Iterator[ExplanationLine]:
    group = found.group
    if group.wait_since is not None and group.wait_reason:
        yield ExplanationLine(
            "waits for", f"{group.wait_reason}, since {_when(group.wait_since, now)}"
        )
        short = short_of(group.wait_reason, found.shared.short)
        effect = effect_of(group.wait_reason)
        exist, message = pods_exist(group), plain(group.wait_message)
        otherwise = [exist, message] if exist and effect.short else [exist or message]
        for said in [message, *short] if effect.postponed else short or otherwise:
            yield ExplanationLine("", said)
        # Kueue's sentence has the amounts at its try: it is left out once they have changed.
        tried = all(one.free == one.available for one in found.shared.short)
        if tried and (short or first(group.wait_message) != group.wait_message):
            yield ExplanationLine("Kueue", plain(kueues(group.wait_message)))
        for number, (room, held) in enumerate(found.best):
            yield ExplanationLine("" if number else "room", room)
            if held and not own_only:
                yield ExplanationLine("", held)
        # In the message a preemptor of another namespace has no name: users see it, too.
        by = found.preempted_for
        if by is not None and by.namespace != group.namespace and not own_only:
            whom = f"{by.namespace}/{by.name} (priority {by.priority}), {_when(by.at, now)}"
            yield ExplanationLine("preempted", f"for {whom}")
        yield ExplanationLine("it takes", _takes(found, own_only))
        yield from _queue(found, now, own_only)
    elif found.held_up is not None:
        yield ExplanationLine("held up", heldup.sentence(found.held_up, now))
        yield ExplanationLine(
            "it takes", _OPERATORS if own_only else heldup.advice(found.held_up, at)
        )
    elif effect_of(group.reason).refused:
        yield ExplanationLine("refused", plain(group.message))
        yield ExplanationLine("it takes", reason_of(WRITE_REFUSED).advice)
    elif found.not_running:
        yield ExplanationLine("now", _after_admission(found, now))
        yield ExplanationLine("it takes", running.advice(found.not_running))
    else:
        yield ExplanationLine("now", _settled(group, now))
    for number, text in enumerate(found.places):
        yield ExplanationLine("" if number else "places", text)
    if group.without_workload and group.state not in ("Finished", "Gone"):
        yield ExplanationLine("no Workload", _SPARED)


def _latest(causes: list[CauseRow], now: datetime) -> list[CauseRow]:
    """Return the causes of the latest admission up to a moment."""
    known = [one for one in causes if one.at <= now]
    return [one for one in known if one.number == known[-1].number]


def _let_in(found: Explanation, own_only: bool) -> Iterator[ExplanationLine]:
    """Say what made room for a group that is admitted."""
    said = [one.says_to_own if own_only else one.says for one in found.let_in_by]
    for number, text in enumerate(dict.fromkeys(said)):
        yield ExplanationLine("" if number else "let in", plain(text))


def _takes(found: Explanation, own_only: bool) -> str:
    """Say what would end a wait; of quota, the amounts of the moment."""
    quota = lacks_quota(found.group.wait_reason)
    must = freed(found.shared, own_only=own_only) if quota else ""
    return f"{must}; or {found.takes.removeprefix('that ')}" if must else found.takes


def _queue(found: Explanation, now: datetime, own_only: bool) -> Iterator[ExplanationLine]:
    group, expected = found.group, found.expected
    if found.position is not None:
        yield ExplanationLine("position", f"{found.position} in ClusterQueue {group.cluster_queue}")
    if (reserved := found.reserved) is not None:
        since = _when(reserved.from_at, now)
        yield ExplanationLine("reserved", f"since {since}: {reserving.sentence(reserved, now)}")
    for number, one in enumerate(found.giving_way):
        yield ExplanationLine("" if number else "makes room", making_room(one, now, own_only))
    last = ""
    for label, text in sentences(found.shared, group.priority):
        if not own_only:
            yield ExplanationLine("" if label == last else label, text)
            last = label
    if expected is not None and expected.unknown:
        yield ExplanationLine("expected", expected.unknown)
    elif expected is not None:
        when = (expected.expected_at, expected.latest_at, expected.never, now)
        who = "others"
        if found.record is not None and 2 * found.record.smaller >= found.record.overtakers:
            who = "smaller jobs"
        yield ExplanationLine("expected", sentence(*when, who) + _as_of(expected, now))
    if found.record is not None:
        for label, text in overtaking.sentences(found.record):
            yield ExplanationLine(label, text)
    mine = [one for one in found.holders if not own_only or one.namespace == group.namespace]
    held = [_holding(one, now) for one in mine[:_NAMED]]
    least = "at least " if len(found.holders) >= _MOST_HOLDERS else ""
    if more := mine[_NAMED:]:
        held.append(f"and {least}{len(more)} more: {_together(more)}")
    if others := [one for one in found.holders if one not in mine]:
        groups = "a group" if len(others) == 1 else f"{least}{len(others)} groups"
        held.append(f"{groups} of other namespaces: {_together(others)}")
    for number, text in enumerate(held):
        yield ExplanationLine("" if number else "held by", text)


def making_room(one: GivingWayRow, now: datetime, own_only: bool = False) -> str:
    """Say of a preempted group by when its pods must have ended."""
    name = "a group of another namespace" if own_only else f"{one.namespace}/{one.name}"
    pods = "1 pod" if one.pods == 1 else f"{one.pods} pods"
    if one.ending_at < now:
        ago = duration((now - one.ending_at).total_seconds())
        return f"{name}: {pods} should have ended {ago} ago, and no kubelet has said so"
    return f"{name}: {pods} must end by {_at(one.ending_at, now)}; its quota is taken until then"


def _at(at: datetime, now: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC (in {duration((at - now).total_seconds())})"


def _together(holders: list[HolderRow]) -> str:
    """Say what groups hold together, and name none of them."""
    held: dict[tuple[str, str], int] = defaultdict(int)
    for one in holders:
        for flavor, resources in one.resources.items():
            for resource, number in resources.items():
                held[flavor, resource] += number
    return ", ".join(
        f"{shown(resource, number)} {resource} of {flavor or 'no flavor'}"
        for (flavor, resource), number in sorted(held.items())
    )


def _pods(found: Explanation, now: datetime) -> Iterator[ExplanationLine]:
    for number, pod in enumerate(found.not_started):
        yield ExplanationLine("" if number else "not started", _late(pod, found.group))
    if found.not_started:
        yield ExplanationLine("it takes", _ANOTHER_LIFE)
    if found.group.state in ADMITTED and found.group.pods_gated and found.ending:
        yield ExplanationLine("successor", _successors(found.group, found.ending[0]))
    for number, kept in enumerate(found.kept_at_gate):
        yield ExplanationLine("" if number else "at its gate", plain(kept.message))
    for advice in dict.fromkeys(reason_of(kept.reason).advice for kept in found.kept_at_gate):
        yield ExplanationLine("it takes", advice)
    late = [one for one in found.ending if one.deleted_at < now]
    for number, one in enumerate(late):
        ago = duration((now - one.deleted_at).total_seconds())
        text = f"pod {one.name} should have ended {ago} ago; node {one.node} has not said so"
        yield ExplanationLine("" if number else "unknown", text)
    if late:
        yield ExplanationLine("it takes", _GONE_NODE)
    coming = [one for one in found.ending if one.deleted_at >= now]
    for number, one in enumerate(coming):
        text = f"pod {one.name} has until {_at(one.deleted_at, now)} to end"
        yield ExplanationLine("" if number else "stops", text)
    for number, lost in enumerate(found.not_replaced):
        yield ExplanationLine("" if number else "failed", _failure(lost, now))
    if found.not_replaced:
        ends = 'or retriable-in-group: "false" on a pod, which ends the group when nothing runs'
        yield ExplanationLine("it takes", f"{replacements(found.group)}; {ends} any more")


def _writes(found: Explanation, now: datetime) -> Iterator[ExplanationLine]:
    repeated = found.repeated[: repeats.MOST]
    for number, write in enumerate(repeated):
        yield ExplanationLine("" if number else "failing", repeats.sentence(write, now))
    for text in dict.fromkeys(repeats.advice(write) for write in repeated):
        yield ExplanationLine("it takes", text)
    for number, one in enumerate(found.set_aside):
        yield ExplanationLine("" if number else "parked", f"{one.object}: {anonymous(one.message)}")


def _before(waits: list[WaitRow]) -> Iterator[ExplanationLine]:
    for number, (took, wait) in enumerate(_past(waits)):
        text = f"{took} {wait.reason}: {plain(wait.message)}"
        yield ExplanationLine("" if number else "before that", text)


def _as_of(expected: ExpectedRow, now: datetime) -> str:
    return f" (forecast of {rough((now - expected.as_of).total_seconds())} ago)"


def _past(waits: list[WaitRow]) -> list[tuple[str, WaitRow]]:
    """Return the waits that are over and lasted, with how long, newest first; eight at most."""
    over = [(wait.to_at - wait.from_at, wait) for wait in waits if wait.to_at is not None]
    return [(duration(took.total_seconds()), wait) for took, wait in over if took >= NO_WAIT][:8]


def _after_admission(found: Explanation, now: datetime) -> str:
    """Say how many pods run of a group that is admitted, why others do not, and since when."""
    group, rows = found.group, found.not_running
    said = running.summed(rows, group.pods_running, single=group.kind == "single")
    since = duration((now - min(row.since for row in rows)).total_seconds())
    granted = (
        "" if group.admitted_at is None else f"; quota granted {_when(group.admitted_at, now)}"
    )
    return f"{said}, for {since}{granted}"


def _settled(group: GroupRow, now: datetime) -> str:
    """Say why a group that waits for nothing is where it is."""
    message = plain(group.message or group.reason).rstrip(".")
    match group.state:
        case "Admitted" if effect_of(group.reason).short:
            return message
        case "Admitted" | "Running" if group.admitted_at is not None:
            if effect_of(group.reason).grows:
                return f"{message}; admitted {_when(group.admitted_at, now)}"
            if not group.pods_running:
                return f"nothing of it runs: {message}, {_when(group.admitted_at, now)}"
            return f"it waits for nothing: {message}, {_when(group.admitted_at, now)}"
        case "Finished" | "Finishing" | "Gone" if group.finished_at is not None:
            return f"it is over: {message}, {_when(group.finished_at, now)}"
        case "Gone":
            return "it is over: its pods are gone"
        case _:
            return message or f"it is {group.state}"


def _late(pod: UnstartedRow, group: GroupRow) -> str:
    over = group.finished_at
    if over is None or pod.created_at < over:
        return f"pod {pod.name} was still at its gate when the group ended"
    after = duration((pod.created_at - over).total_seconds())
    return f"pod {pod.name} came {after} after the group had ended"


def _successors(group: GroupRow, first: EndingRow) -> str:
    pods = (
        "1 pod at its gate" if group.pods_gated == 1 else f"{group.pods_gated} pods at their gate"
    )
    return (
        f"{pods}: for each that terminates one starts once that has ended; "
        f"pod {first.name} on node {first.node} is to end by {first.deleted_at:%H:%M:%S} UTC"
    )


def _failure(pod: UnreplacedRow, now: datetime) -> str:
    how = f" ({pod.exit_reason})" if pod.exit_reason else ""
    ago = duration((now - pod.ended_at).total_seconds())
    return f"pod {pod.name}{how}, {ago} ago, and no pod has its place"


def _holding(holder: HolderRow, now: datetime) -> str:
    unadmitted = holder.state == "Blocked"
    amounts = ", ".join(
        f"{shown(resource, number)} {resource}"
        + ("" if unadmitted else f" of {flavor or 'no flavor'}")
        for flavor, resources in holder.resources.items()
        for resource, number in resources.items()
    )
    since = duration((now - holder.admitted_at).total_seconds())
    if unadmitted:
        return f"{holder.namespace}/{holder.name} runs without admission, {amounts} for {since}"
    _, _, beyond = holder.beyond.partition("; ")
    ending = ""
    if holder.ending_at is not None and holder.ending_at < now:
        ago = duration((now - holder.ending_at).total_seconds())
        ending = f"should have ended {ago} ago, and its node has not said so"
    more = "".join(f"; {text}" for text in (beyond, ending) if text)
    return (
        f"{holder.namespace}/{holder.name} {amounts} for {since} "
        f"({holder.state}, priority {holder.priority}{more})"
    )


def _when(at: datetime, now: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC ({duration((now - at).total_seconds())} ago)"
