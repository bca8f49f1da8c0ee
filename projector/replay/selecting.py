"""A selection from a log: some groups with their whole lives, and all that folding them needs.

Theory. A group's story is not in one place: its pods, its Workload, outcomes and timers are in
messages of many. So the log is folded once to learn the pods and Workloads of the wanted groups
(`learn`), and read once more to select their events (`select`). Queues, flavors and classes are
kept for every choice, and so are the frames of lists, since decisions need them.

A group that is wanted because of a time is kept from its beginning on, or it could not be folded.

A parked event belongs to the group that it stopped, else to the group that it names. An event that
names no group is left out and counted (`unknown`).

Invariant: selected events are unchanged but for their place within the message, which a release of
a parked event follows; a message without selected events is left out.
"""

from datetime import datetime
from itertools import islice

import msgspec
from msgspec import Struct

from podgroup.log.codec import Concerned, concerned
from podgroup.log.events import (
    DeltaRefused,
    Event,
    ObjectApplied,
    ObjectDeleted,
    OperatorActed,
    OutcomeRecorded,
    PodApplied,
    PodDeleted,
    PodMeasured,
    TimerFired,
    Undecodable,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.log.journal import Journal
from podgroup.log.records import AnyRecord, AsOf, Concluded, PodRefused
from podgroup.model.ids import GroupID
from podgroup.model.names import group_name
from podgroup.state.world import World
from projector.replay.log import Entry


class Wanted(Struct, frozen=True, kw_only=True):
    """The selection; an empty field selects everything."""

    namespace: str = ""
    name: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def everything(self) -> bool:
        """Whether only messages after `until` are left out."""
        return not self.namespace and self.since is None

    def words(self) -> str:
        """The selection in words; "" for everything."""
        parts = []
        if self.name:
            parts.append(f"group {self.namespace}/{self.name}")
        elif self.namespace:
            parts.append(f"namespace {self.namespace}")
        if self.since is not None:
            parts.append(f"groups to which something happened since {self.since.isoformat()}")
        if self.until is not None:
            parts.append(f"until {self.until.isoformat()}")
        return ", ".join(parts)


class Selection:
    """The pods, Workloads and so on of the wanted groups."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.groups: set[str] = set()
        self._members: dict[str, set[str]] = {}
        self._workloads: dict[str, set[tuple[str, str]]] = {}
        self._aside: dict[str, str] = {}
        self._moved: dict[str, str] = {}
        self.unknown = 0
        """Events that could not be decoded and name no group; they are left out."""

    def learn(self, entry: Entry, world: World, journal: Journal) -> None:
        """Take in one folded message (`each` of `fold`)."""
        wanted = self.wanted
        recent = wanted.since is None or entry.at >= wanted.since
        noted = {note.group for note in journal.notes if note.group} if recent else set()
        for identity in {*journal.groups, *world.gone_groups, *noted}:
            group = world.groups.get(GroupID(identity)) or world.gone_groups.get(GroupID(identity))
            if group is None or not self._named(group.namespace, group.name):
                continue
            self._workloads.setdefault(identity, set()).add((group.namespace, group.mirror.name))
            if recent:
                self.groups.add(identity)
        for row in journal.parked:
            self._aside[f"{row.seq}/{row.ord}"] = row.group
            event = entry.batch.events[row.ord] if row.ord < len(entry.batch.events) else None
            if isinstance(event, Undecodable) and not row.group:
                self.unknown += concerned(event.raw) is None
        for uid in journal.pods:
            pod = world.pods.get(uid)
            if pod is not None:
                self._members.setdefault(pod.group, set()).add(uid)
        for uid, pod in world.gone_pods.items():
            self._members.setdefault(pod.group, set()).add(uid)

    def _named(self, namespace: str, name: str) -> bool:
        wanted = self.wanted
        if wanted.namespace and namespace != wanted.namespace:
            return False
        return not wanted.name or name == wanted.name

    def close(self) -> None:
        """Nothing more is learnt."""
        self._pods = {uid for group in self.groups for uid in self._members.get(group, ())}
        self._names = {key for group in self.groups for key in self._workloads.get(group, ())}
        self._spaces = {namespace for namespace, _ in self._names}

    def select(self, entry: Entry) -> Entry | None:
        """Return the selected part of a message, None for nothing."""
        events: list[Event | Undecodable] = []
        for ordinal, event in enumerate(entry.batch.events):
            place = f"{entry.position}/{ordinal}"
            if self._aside.get(place) in self.groups or self._kept(event):
                if place in self._aside:
                    self._moved[place] = f"{entry.position}/{len(events)}"
                events.append(self._followed(event))
        recorded = {i: d for i, d in entry.recorded.items() if d.group in self.groups}
        said = self._said(entry)
        if not events and not recorded and said is None:
            return None
        batch = msgspec.structs.replace(entry.batch, events=tuple(events))
        return Entry(entry.position, entry.at, batch, recorded, said)

    def _said(self, entry: Entry) -> Concluded | None:
        """Return the records of wanted groups, and how many of their decisions come between."""
        if entry.concluded is None:
            return None
        made = iter(sorted(entry.recorded.values(), key=lambda decision: decision.number))
        kept: list[AnyRecord | int] = []
        for item in entry.concluded.records:
            if isinstance(item, int):
                mine = sum(decision.group in self.groups for decision in islice(made, item))
                if mine and kept and isinstance(kept[-1], int):
                    kept[-1] += mine
                elif mine:
                    kept.append(mine)
            elif (
                item.group in self.groups
                or isinstance(item, AsOf)
                or (isinstance(item, PodRefused) and item.uid in self._pods)
            ):
                kept.append(item)
        if all(isinstance(item, int | AsOf) for item in kept):
            return None
        return msgspec.structs.replace(entry.concluded, records=tuple(kept))

    def _followed(self, event: Event | Undecodable) -> Event | Undecodable:
        """Let a release name the new place of its parked event."""
        if isinstance(event, OperatorActed) and event.target in self._moved:
            return msgspec.structs.replace(event, target=self._moved[event.target])
        return event

    def _mine(self, namespace: str, group: str) -> bool:
        """Return whether an object with these names is wanted, even if no group has it."""
        wanted = self.wanted
        if wanted.name:
            return (namespace, group) == (wanted.namespace, wanted.name)
        return namespace == wanted.namespace or namespace in self._spaces

    def _kept(self, event: Event | Undecodable) -> bool:
        match event:
            case PodApplied(pod=pod) | PodDeleted(pod=pod):
                return pod.uid in self._pods
            case PodMeasured():
                return event.uid in self._pods
            case WorkloadApplied(workload=found) | WorkloadDeleted(workload=found):
                mine = (found.namespace, found.name) in self._names
                return mine or any(uid in self._pods for uid in found.owner_uids)
            case ObjectApplied(object=view):
                space = view.name if type(view).__name__ == "NamespaceView" else view.namespace
                return not space or space in self._spaces
            case ObjectDeleted():
                space = event.name if event.kind == "Namespace" else event.namespace
                return not space or space in self._spaces
            case OutcomeRecorded():
                return event.group in self.groups
            case TimerFired():
                return any(part in self.groups for part in event.timer.split("/"))
            case DeltaRefused():
                return event.uid in self._pods or self._mine(event.namespace, event.group)
            case OperatorActed(target=target):
                known = target in self.groups or target in self._moved
                return known or event.action not in ("release", "discard")
            case Undecodable():
                about = concerned(event.raw)
                return about is not None and (
                    about.uid in self._pods or self._mine(about.namespace, _group_of(about))
                )
            case _:
                return True


def _group_of(about: Concerned) -> str:
    labels, annotations = (
        found if isinstance(found, dict) else {} for found in (about.labels, about.annotations)
    )
    return str(group_name(labels, annotations)) or about.name
