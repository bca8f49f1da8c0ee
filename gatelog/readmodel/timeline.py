"""A group's story: from rows of SQL to the lines a person reads.

Theory. The read model keeps every detail: notes of history, waits, decisions, attempts. A story
leaves out repetitions (writes that mirror, notes that repeat a decision), and has one line for the
same change of many pods. The reason of a change is the rule that decided it and its sentence.

`story_lines` keeps order: entries are taken by (seq, rank, ord) and become lines in that order;
pods are listed as they came. Entries share a line when they report the same of different pods,
follow each other closely, and only changes of other pods lie between them.

Invariant: pure; the same entries give the same lines.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from msgspec import Struct, field

from gatelog.readmodel import phrases
from podgroup.model.reasons import succeeded
from podgroup.model.wording import first

EACH = "each pod"
_NEVER = datetime.min.replace(tzinfo=UTC)
_TOGETHER = timedelta(seconds=0.3)
NO_WAIT = timedelta(seconds=0.05)
"""Shorter waits are not reported: pods of a group are never created in the same instant."""
_IDENTITY = re.compile(
    r" \((?:(?:group )?(?:group|single)-[0-9a-f-]{36}|group (?:group|single)-[^\s)]+)\)"
)
_PREEMPTED = re.compile(r"(preempted by \S+ \([^)]*\)) in \S*(?=: )")
_PREEMPTED_FOR = re.compile(
    r"Preempted to accommodate a workload \(UID: [^)]*\) due to ([^;]+)"
    r"(?:; preemptor path: \S*; preemptee path: \S*)?"
)
COUNTED = 4
"""Names that count on are joined from so many on."""
_NUMBERED = re.compile(r"(.*?)([0-9]+)")
_RANK = {"failure": 0, "history": 1, "cause": 2, "decision": 3, "wait": 4, "outcome": 5}


class TimelineEntry(Struct, frozen=True, kw_only=True):
    """One row about a group. `source` is history, decision, wait, outcome, failure or cause.

    `kind` is the kind of a note, the action of a decision or of the decision an outcome belongs to;
    `pod` the name of the pod concerned or ""; `until` the end of a wait, None while it lasts.
    """

    seq: int
    ord: int
    at: datetime
    source: str
    kind: str
    reason: str = ""
    message: str = ""
    pod: str = ""
    rule: str = ""
    status: str = ""
    decision: str = ""
    until: datetime | None = None


class StoryLine(Struct, kw_only=True):
    """One line: when, what, and why. `state` is the group's new state, "" if it did not change.

    `last` is the time of the last entry that shares the line.
    """

    at: datetime
    what: str
    why: str = ""
    rule: str = ""
    state: str = ""
    pods: list[str] = field(default_factory=list)
    tone: str = ""
    last: datetime = _NEVER

    def __post_init__(self) -> None:
        """A line begins with an entry."""
        self.last = self.at

    def text(self) -> str:
        """Return what happened, with the pods it happened to."""
        return self.what.format(pods=listed(self.pods)) if self.pods else self.what

    def because(self) -> str:
        """Return why in words; one pod is named, several are `each pod`."""
        why = anonymous(self.why)
        return why.replace(EACH, f"pod {self.pods[0]}") if len(self.pods) == 1 else why


def story_lines(entries: Iterable[TimelineEntry]) -> list[StoryLine]:
    """Return the story of a group, oldest first."""
    rows = sorted(entries, key=lambda e: (e.seq, _RANK.get(e.source, 9), e.ord))
    decided = {(e.seq, e.kind) for e in rows if e.source == "decision"}
    lines: list[StoryLine] = []
    for _, message in groupby(rows, key=lambda e: e.seq):
        state: TimelineEntry | None = None
        latest: StoryLine | None = None
        for entry in message:
            if entry.source == "history" and entry.kind == "StateChanged":
                state = entry
                continue
            line = _line(entry, decided)
            if line is not None:
                latest = _add(lines, line)
        if state is not None:
            if latest is None or latest.state:
                latest = StoryLine(at=state.at, what="")
                lines.append(latest)
            latest.state = state.reason
    return lines


def raw(entries: Iterable[TimelineEntry]) -> list[StoryLine]:
    """Return one line for every entry, in the order of the log."""
    rows = sorted(entries, key=lambda e: (e.seq, _RANK.get(e.source, 9), e.ord))
    return [_raw(entry) for entry in rows]


def _raw(entry: TimelineEntry) -> StoryLine:
    if entry.source == "wait":
        return _waiting(entry)
    if entry.source == "cause":
        return _cause(entry)
    why = ": ".join(part for part in (entry.reason, _message(entry)) if part)
    if entry.source not in ("history", "failure"):
        why += f" [{entry.source} {entry.decision}: {entry.status}]"
    elif entry.kind == "StateChanged":
        return StoryLine(at=entry.at, what=entry.kind, why=entry.message, state=entry.reason)
    pods = [entry.pod] if entry.pod else []
    what = entry.kind + (" {pods}" if pods else "")
    return StoryLine(at=entry.at, what=what, why=why, rule=entry.rule, pods=pods)


def _cause(entry: TimelineEntry) -> StoryLine:
    return StoryLine(at=entry.at, what="room made", why=entry.message)


def _add(lines: list[StoryLine], line: StoryLine) -> StoryLine:
    """Append a line, or add its pods to a recent line with the same text."""
    for earlier in reversed(lines):
        if not (earlier.pods and line.pods) or line.at - earlier.last > _TOGETHER:
            break
        if (earlier.what, earlier.why, earlier.rule) == (line.what, line.why, line.rule):
            earlier.pods += [pod for pod in line.pods if pod not in earlier.pods]
            earlier.last = line.at
            return earlier
        if earlier.state or set(earlier.pods) & set(line.pods):
            break
    lines.append(line)
    return line


def _line(entry: TimelineEntry, decided: set[tuple[int, str]]) -> StoryLine | None:
    match entry.source:
        case "history" | "failure":
            return _note(entry, decided)
        case "decision":
            return _decision(entry, decided)
        case "wait":
            return _wait(entry)
        case "outcome":
            return _outcome(entry)
        case "cause" if entry.kind != "Created":  # its coming has lines of its own
            return _cause(entry)
        case _:
            return None


def _note(entry: TimelineEntry, decided: set[tuple[int, str]]) -> StoryLine | None:
    repeats = {(entry.seq, action) for action in phrases.REPEATED.get(entry.kind, ())}
    if entry.kind in phrases.QUIET_NOTES or repeats & decided:
        return None
    if entry.kind == "QuotaReleased" and decided & {
        (entry.seq, "ReleaseQuota"),
        (entry.seq, "FinishGroup"),
    }:
        return None
    what, tone = phrases.NOTES.get(entry.kind, (entry.kind, ""))
    why = _message(entry)
    if entry.kind == "PodSeen":
        why = entry.reason
    elif entry.kind in phrases.REASONED:
        why = ": ".join(part for part in (entry.reason, why) if part)
    return _with_pod(entry, StoryLine(at=entry.at, what=what, why=why, tone=tone))


def _decision(entry: TimelineEntry, decided: set[tuple[int, str]]) -> StoryLine | None:
    repeats = (entry.seq, phrases.REPEATED_BY.get(entry.kind, "")) in decided
    if (repeats or entry.kind in phrases.QUIET_ACTIONS) and entry.status != "rejected":
        return None
    known = phrases.DECISIONS.get((entry.rule, entry.kind)) or phrases.ACTIONS.get(entry.kind)
    what, tone = known or (entry.kind, "")
    if entry.kind == "FinishGroup":
        what, tone = f"finished: {entry.reason}", "good" if succeeded(entry.reason) else "bad"
    if entry.status == "rejected":
        what, tone = f"{what} (refused by the API server)", "bad"
    line = StoryLine(at=entry.at, what=what, why=_message(entry), rule=entry.rule, tone=tone)
    return _with_pod(entry, line)


def _wait(entry: TimelineEntry) -> StoryLine | None:
    if entry.until is not None and entry.until - entry.at < NO_WAIT:
        return None
    return _waiting(entry)


def _waiting(entry: TimelineEntry) -> StoryLine:
    if entry.pod:
        still = " still" if entry.until is None else ""
        what, why = f"{{pods}}{still} waits", f"{entry.reason}: {EACH} {entry.message}"
        return StoryLine(at=entry.at, what=what, why=why, tone="bad", pods=[entry.pod])
    span = "still" if entry.until is None else duration((entry.until - entry.at).total_seconds())
    return StoryLine(
        at=entry.at,
        what=f"waits ({span})",
        why=f"{entry.reason}: {_message(entry)}",
        tone="wait",
    )


def _outcome(entry: TimelineEntry) -> StoryLine | None:
    if entry.status not in ("rejected", "retrying"):
        return None
    word = "refused" if entry.status == "rejected" else "trying again"
    what, tone = f"{entry.kind} {word}", "bad"
    return _with_pod(entry, StoryLine(at=entry.at, what=what, why=entry.message, tone=tone))


def _message(entry: TimelineEntry) -> str:
    """Return an entry's message: without Kueue's words after ours, foreign messages whole."""
    ours = entry.source in ("decision", "wait") or entry.kind in phrases.OURS
    return first(entry.message) if ours else entry.message


def _with_pod(entry: TimelineEntry, line: StoryLine) -> StoryLine:
    if entry.pod:
        line.pods.append(entry.pod)
        line.why = line.why.replace(f"pod {entry.pod}", EACH)
        if "{pods}" not in line.what:
            line.what += " {pods}"
    else:
        line.what = line.what.replace(" {pods}", "")
    return line


def plain(message: str) -> str:
    """Return the message of a reason of ours without what says nothing to people: Kueue's words
    where ours come first, ids of groups, paths in the tree.
    """
    return anonymous(first(message))


def anonymous(message: str) -> str:
    """Return any message without ids of groups and paths in the tree."""
    said = _PREEMPTED.sub(r"\1", _IDENTITY.sub("", message))
    return _PREEMPTED_FOR.sub(r"preempted for another group: \1", said)


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names in a line: all of a few, else the first and how many more.

    Names with consecutive numbers are shown by the first and the last number: `train-0…3`.
    """
    runs = _runs(names)
    if len(names) >= COUNTED and len(runs) < len(names):
        return ", ".join(runs[:most]) + (f" and {len(runs) - most} more" if runs[most:] else "")
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def _runs(names: Sequence[str]) -> list[str]:
    """Return names, with `COUNTED` or more consecutive ones joined: `train-0…3`."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [
        text
        for run in runs
        for text in ([f"{run[0]}…{_number(run[-1])}"] if len(run) >= COUNTED else run)
    ]


def _number(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    return found[2] if found is not None else name


def _follows(one: str, other: str) -> bool:
    a, b = _NUMBERED.fullmatch(one), _NUMBERED.fullmatch(other)
    if a is None or b is None or a[1] != b[1] or len(a[2]) > 18 or len(b[2]) > 18:
        return False
    return int(a[2]) + 1 == int(b[2])


def duration(seconds: float) -> str:
    """Return a duration for people: `0.42 s`, `12.3 s`, `4 m 10 s`, `2 h 5 m`, `3 d 4 h`."""
    seconds = max(0.0, seconds)
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, lower, lower_size in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size} {unit}" + (f" {rest} {lower}" if rest else "")
    return f"{whole} s"
