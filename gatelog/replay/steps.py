"""A group step by step: events, changes, decisions and their reasons.

Theory. While a log is folded, every message whose journal names the group becomes a step. A group's
life has few of them, so all are kept and a person can go forward and back.

Invariant: a step shows only the lines of its message's journal that are about the group.
"""

from datetime import datetime

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from gatelog.readmodel.timeline import duration
from gatelog.replay.causes import Message, Nominal
from gatelog.terminal.console import GOOD, OVER, QUIET, state_text
from podgroup.log.events import (
    OutcomeRecorded,
    PodApplied,
    PodDeleted,
    TimerFired,
    Undecodable,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.log.journal import Journal
from podgroup.model.ids import GroupID
from podgroup.model.names import group_name
from podgroup.state.world import World
from projector.replay.log import Entry


class Step(Struct, frozen=True):
    """The effects of one message on the group."""

    position: int
    at: datetime
    came: tuple[str, ...]
    changed: tuple[str, ...]
    decided: tuple[str, ...]
    state: str
    let_in: tuple[str, ...] = ()
    """The causes of the admission, if the group got its quota in this message."""


class Stepper:
    """Collects the steps of the group (or single pod) `namespace/name`."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace = namespace
        self._name = name
        self._ids: set[str] = set()
        self._nominal: Nominal = {}
        self.steps: list[Step] = []

    def observe(self, entry: Entry, world: World, journal: Journal) -> None:
        """Take in one folded message."""
        for group in {*map(GroupID, journal.groups), *world.gone_groups}:
            found = world.groups.get(group) or world.gone_groups.get(group)
            if found is not None and (found.namespace, found.name) == (self._namespace, self._name):
                self._ids.add(group)
        changed = tuple(
            f"{note.kind}{f' ({note.reason})' if note.reason else ''}"
            f"{f': {note.message}' if note.message else ''}"
            for note in journal.notes
            if note.group in self._ids
        )
        decided = tuple(
            f"{d.rule}: {d.command.action} {d.command.target.name} — {d.message}"
            for d in journal.decisions
            if d.group in self._ids
        )
        let_in = self._let_in(entry, world, journal)
        came = tuple(
            text
            for event in entry.batch.events
            if not isinstance(event, Undecodable) and (text := self._came(event))
        )
        if changed or decided or came:
            states = [g.explained.state for i, g in world.groups.items() if i in self._ids]
            over = any(i in self._ids for i in world.gone_groups)
            self.steps.append(
                Step(
                    entry.position,
                    entry.at,
                    came,
                    changed,
                    decided,
                    states[-1] if states else "Gone" if over else "",
                    let_in,
                )
            )

    def _let_in(self, entry: Entry, world: World, journal: Journal) -> tuple[str, ...]:
        """Return the causes where the group got its quota, or its checks agreed."""
        message = Message(entry.batch, world, journal, self._nominal)
        now = {
            GroupID(note.group)
            for note in journal.notes
            if note.group in self._ids
            and note.kind in ("GroupAdmitted", "QuotaReserved")
            and note.decision
        }
        found = tuple(
            text
            for one in sorted(now & world.groups.keys())
            if (holding := world.groups[one].quota.holding) is not None
            for text in message.causes(world.groups[one], holding, entry.position)
        )
        self._nominal |= {row.cluster_queue: row.nominal for row in journal.quotas.values()}
        return found

    def _came(self, event: object) -> str:
        match event:
            case PodApplied(pod=pod) | PodDeleted(pod=pod):
                name = group_name(pod.labels, pod.annotations) or pod.name
                if (pod.namespace, name) != (self._namespace, self._name):
                    return ""
                what = "gone" if isinstance(event, PodDeleted) else (pod.phase or "applied")
                gates = f", gates {', '.join(pod.gates)}" if pod.gates else ""
                return f"pod {pod.name} {what} at version {pod.resource_version}{gates}"
            case WorkloadApplied(workload=found) | WorkloadDeleted(workload=found):
                owners = set(found.owner_uids)
                mine = any(group.partition("-")[2] in owners for group in self._ids)
                if found.namespace != self._namespace or not (found.name == self._name or mine):
                    return ""
                true = [c.type for c in found.conditions if c.status == "True"]
                what = (
                    "gone" if isinstance(event, WorkloadDeleted) else ", ".join(true) or "applied"
                )
                return f"Workload {found.name} {what} at version {found.resource_version}"
            case OutcomeRecorded():
                if event.group not in self._ids:
                    return ""
                return f"outcome of {event.decision}: {event.status} {event.message}".rstrip()
            case TimerFired():
                return f"timer {event.timer}" if any(i in event.timer for i in self._ids) else ""
            case _:
                return ""


def screen(step: Step, number: int, count: int, before: Step | None) -> Table:
    """Return a step for a terminal: in colour, long lines hanging, and the time since `before`."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style=QUIET, no_wrap=True, width=9, justify="right")
    table.add_column(overflow="fold")
    head = Text(f"seq {step.position}", style="bold")
    head.append(f"  {step.at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC", style="not bold")
    if before is not None:
        since = duration((step.at - before.at).total_seconds())
        head.append(f"  +{since}", style=f"not bold {QUIET}")
    head.append("  ")
    if before is not None and before.state != step.state:
        head.append_text(state_text(before.state))
        head.append(" → ", style="not bold")
    head.append_text(state_text(step.state))
    table.add_row(Text(f"{number}/{count}"), head)
    for mark, parts, style in (
        ("came", step.came, ""),
        ("changed", step.changed, OVER),
        ("let in", step.let_in, GOOD),
        ("decided", step.decided, GOOD),
    ):
        for place, part in enumerate(parts):
            rule, colon, rest = part.partition(": ") if mark == "decided" else ("", "", part)
            line = Text(rule + colon, style=f"bold {style}")
            line.append(rest, style=f"not bold {style}")
            table.add_row("" if place else mark, line)
    return table


def text(step: Step, number: int, count: int) -> str:
    """Return a step as plain text."""
    lines = [
        f"[{number}/{count}] seq {step.position}  {step.at:%Y-%m-%d %H:%M:%S.%f}Z  {step.state}"
    ]
    for mark, parts in (
        ("came   ", step.came),
        ("changed", step.changed),
        ("let in ", step.let_in),
        ("decided", step.decided),
    ):
        lines += [f"  {mark}  {part}" for part in parts]
    return "\n".join(lines)
