"""Writes of other clients to Workloads in the log, and delays of decisions.

Theory. A write of gatelog's has an outcome that names its version; every other version is another
client's: a user's, Kueue's, an admission check controller's. A Workload that was decided on is
gatelog's, any other Workload is another client's. A round of checks begins when quota is reserved
and all listed checks are pending; the answers after that, with their delays, are the controllers'
verdicts.

Invariant: no write of gatelog's is played as another client's, so a play's different decisions
stay.
"""

from collections import defaultdict, deque
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct, field
from msgspec.structs import replace

from gatelog.whatif.arrivals import Attempt, Delays, Verdict, Write
from podgroup.log.events import OutcomeRecorded, TimerFired, WorkloadApplied, WorkloadDeleted
from podgroup.model.commands import (
    CreateWorkload,
    FinalizeWorkload,
    UngatePod,
)
from podgroup.model.ids import PodUID, newer
from podgroup.model.names import EVICTED
from podgroup.model.objects import CheckView, WorkloadView
from podgroup.state.facts import is_true
from podgroup.state.world import World
from projector.replay.log import Entry

Key = tuple[str, str]
LATE_S = 1.0
"""A timer that is heard of later than this was late: nothing was decided meanwhile."""
LEAST_S = 1.0
"""A controller takes so long at least where the log does not have its answer: by Kueue's ways two
groups may take quota from each other as often as they are answered."""


class _Round(Struct):
    at: datetime
    said: list[Verdict] = field(default_factory=list)


class Workloads:
    """Gathers `writes` of others, and what `RecordedDelays` needs."""

    def __init__(self) -> None:
        self.attempts: dict[Key, list[Attempt]] = defaultdict(list)
        """What became of each decision to make a Workload, and of those refused to let a pod in."""
        self.rounds: dict[Key, list[_Round]] = {}
        self.late: dict[str, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        """Timer -> when it was due and heard of; None: not while the log lasts."""
        self._views: dict[Key, WorkloadView] = {}
        self._uids: dict[str, str] = {}
        """Uid -> its latest seen version."""
        self._writes: dict[tuple[str, str], Write] = {}
        """(uid, version) -> the change, in the order of the log."""
        self._ours: set[tuple[str, str]] = set()
        """Versions that gatelog made and that were not seen yet."""
        self._deciding: dict[Key, datetime] = {}
        """Workloads that must be created, and since when."""
        self._open: dict[str, tuple[Key, datetime]] = {}
        """Such decisions, and decisions to ungate a pod, that have no outcome yet."""
        self._going: set[str] = set()
        """Workloads that go: deleted, or about to be by gatelog."""

    @property
    def writes(self) -> list[Write]:
        """Writes of other clients, in order of time."""
        return list(self._writes.values())

    def by_users(self, view: WorkloadView) -> list[Write]:
        """Return, once, the users' writes that made a version of a Workload, or deleted it."""
        found = [self._writes.pop((view.uid, view.resource_version), None)]
        if view.deleted_at is not None:
            found.append(self._writes.pop((view.uid, "deleted"), None))
        return [mine for one in found if one is not None and (mine := of_user(one)) is not None]

    def observe(self, entry: Entry, world: World) -> None:
        """Take in an entry, with the world after it."""
        for event in entry.batch.events:
            if isinstance(event, WorkloadApplied):
                self._applied(entry.at, event.workload, world)
            elif isinstance(event, WorkloadDeleted):
                self._gone(entry.at, event.workload, world)
                self._views.pop((event.workload.namespace, event.workload.name), None)
                self._uids.pop(event.workload.uid, None)
            elif isinstance(event, OutcomeRecorded):
                self._ended(entry.at, event)
            elif isinstance(event, TimerFired):
                if (entry.at - event.due_at).total_seconds() > LATE_S:
                    self.late[event.timer].append((event.due_at, entry.at))
        for decision in entry.recorded.values():
            command = decision.command
            key = command.target.namespace, command.target.name
            if isinstance(command, CreateWorkload):
                self._deciding.setdefault(key, entry.at)
                self._open[decision.id] = key, entry.at
            elif isinstance(command, UngatePod):
                self._open[decision.id] = ("", command.target.uid), entry.at
            elif isinstance(command, FinalizeWorkload) and command.delete:
                self._going.add(command.target.uid)

    def finish(self, world: World, end: datetime) -> None:
        """Keep open decisions and timers when the log ends."""
        for key, decided in self._deciding.items():
            self.attempts[key].append(Attempt(decided, None))
        for name, timer in world.meta.timers.items():
            if timer.due_at <= end:
                self.late[name].append((timer.due_at, None))

    def _ended(self, at: datetime, outcome: OutcomeRecorded) -> None:
        opened = self._open.pop(outcome.decision, None)
        if outcome.status == "applied":
            version = outcome.uid, outcome.resource_version
            seen = self._uids.get(outcome.uid)
            if self._writes.pop(version, None) is None and seen is not None:
                if newer(outcome.resource_version, seen):
                    self._ours.add(version)
        elif opened is not None and (outcome.status == "rejected" or opened[0] in self._deciding):
            on, decided = opened
            self._deciding.pop(on, None)
            after_s = (at - decided).total_seconds()
            self.attempts[on].append(Attempt(decided, after_s, outcome))

    def _applied(self, at: datetime, view: WorkloadView, world: World) -> None:
        key = view.namespace, view.name
        known = self._views.get(key)
        self._views[key] = view
        version = view.uid, view.resource_version
        self._uids[view.uid] = view.resource_version
        if known is None or known.uid != view.uid:
            decided = self._deciding.pop(key, None)
            if decided is not None:
                self.attempts[key].append(Attempt(decided, (at - decided).total_seconds()))
            else:
                self._writes[version] = Write(at, key, made=view)
            known = replace(view, checks=())
        elif version in self._ours:
            self._ours.discard(version)
        elif known.active != view.active:
            self._writes[version] = Write(at, key, {"active": view.active})
        self._asked(at, key, known, view)
        if view.deleted_at is not None:
            self._gone(at, view, world)

    def _gone(self, at: datetime, view: WorkloadView, world: World) -> None:
        if view.uid in self._going:
            return
        self._going.add(view.uid)
        owners = view.owner_uids
        if not owners or any(PodUID(uid) in world.pods for uid in owners):
            # Else its pods are gone, and it is a garbage collector that deletes it.
            self._writes[view.uid, "deleted"] = Write(at, (view.namespace, view.name))

    def _asked(self, at: datetime, key: Key, known: WorkloadView, view: WorkloadView) -> None:
        if awaits_verdicts(view):
            if not awaits_verdicts(known):
                self.rounds.setdefault(key, []).append(_Round(at))
            return
        if (rounds := self.rounds.get(key)) is None:
            return
        for check in view.checks:
            if check not in known.checks and check != pending(check.name):
                rounds[-1].said.append(Verdict((at - rounds[-1].at).total_seconds(), check))


def of_user(one: Write) -> Write | None:
    """Return what of a write a user did, where gatelog decides; None: nothing."""
    return None if one.made is not None and one.made.owner_uids else one


def awaits_verdicts(view: WorkloadView) -> bool:
    """Return whether checks are due: quota is reserved, no eviction, and no check has an answer."""
    reserved = bool(view.cluster_queue) and not is_true(view, EVICTED)
    return reserved and bool(view.checks) and all(c == pending(c.name) for c in view.checks)


def pending(name: str) -> CheckView:
    """Return a check without an answer."""
    return CheckView(name=name, state="Pending")


class RecordedDelays(Delays):
    """Recorded delays of timers, new Workloads, and controllers' answers to checks.

    A check that the log does not have is answered with Ready after the median time, but no earlier
    than `LEAST_S`; a check without an answer at the end of the log gets none before.
    """

    checks = True

    def __init__(self, seen: Workloads, end: datetime) -> None:
        self._seen = seen
        self._end = end
        self._attempts = {on: deque(found) for on, found in seen.attempts.items()}
        self._rounds = {key: deque(rounds) for key, rounds in seen.rounds.items()}
        ready: dict[str, list[float]] = defaultdict(list)
        for rounds in seen.rounds.values():
            for one in rounds:
                for verdict in one.said:
                    if verdict.said.state == "Ready":
                        ready[verdict.said.name].append(verdict.after_s)
        self._ready_s = {name: median(delays) for name, delays in ready.items()}

    def fires_at(self, timer: str, due_at: datetime) -> datetime | None:
        """Return when it fires: as late as the timer of this name that was due then."""
        for due, heard in self._seen.late.get(timer, ()):
            if (due - due_at).total_seconds() <= LATE_S and (heard is None or due_at < heard):
                return heard
        return due_at

    def attempt(self, on: Key) -> Attempt | None:
        """Return what became of the next one of this name."""
        found = self._attempts.get(on)
        if found:
            return found.popleft()
        return None

    def passed(self, on: Key, at: datetime) -> None:
        """Leave out attempts for `on` that were over by then."""
        found = self._attempts.get(on)
        while found and (after_s := found[0].after_s) is not None:
            if found[0].decided + timedelta(seconds=after_s) > at:
                break
            found.popleft()

    def under_way(self, key: Key, at: datetime) -> list[tuple[datetime, CheckView]]:
        """Leave out the rounds of a Workload that had begun by then; return their later answers."""
        rounds = self._rounds.get(key)
        found: list[tuple[datetime, CheckView]] = []
        while rounds and rounds[0].at <= at:
            one = rounds.popleft()
            said = [(one.at + timedelta(seconds=each.after_s), each.said) for each in one.said]
            found = [each for each in said if each[0] > at]
        return found

    def verdicts(self, key: Key, checks: tuple[str, ...]) -> list[Verdict]:
        """Return the answers of the next round of this Workload, and those still to come."""
        rounds = self._rounds.get(key)
        found: list[Verdict] = []
        least_s = LEAST_S
        if rounds:
            one = rounds.popleft()
            found = [verdict for verdict in one.said if verdict.said.name in checks]
            if not rounds:
                least_s = max(least_s, (self._end - one.at).total_seconds() + 1.0)
        ended = {verdict.said.name for verdict in found if verdict.said.state != "Pending"}
        found += [
            Verdict(max(least_s, self._ready_s.get(name, 0.0)), CheckView(name=name, state="Ready"))
            for name in checks
            if name not in ended
        ]
        return found
