"""An alternative past: the log followed, event by event, except by groups that leave the record.

Theory. A group that follows the record lives on the log's events and conclusions; the simulated
cluster takes over a group that leaves, as it is, and its events of the log are left out. A group
leaves where the alternative's rules conclude otherwise about it than those of the past
(`following`), together with related groups and pods: its preemptor, replacements of its pods, the
next group of its name. It is simulated until it is gone; the next group of its name follows the
record again.

Simulated events of the moment of a message are folded with it, other simulated events are messages
between two messages of the log. To make room for both, positions and versions of the log are
stretched from the first departure on; up to then the play is the log to the last byte.

Invariant: while no group has left, state and conclusions are those of the log, whatever the log is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gatelog.whatif.arrivals import AT_ONCE, Arrival, Scenario
from gatelog.whatif.cluster import Asked
from gatelog.whatif.following import (
    Conclusion,
    Differing,
    Follower,
    Told,
    point,
    told,
)
from gatelog.whatif.history import History, Seen
from gatelog.whatif.objects import Key, key_of
from gatelog.whatif.playing import (
    END,
    GIVE_UP,
    OPEN,
    REMOVE,
    START,
    STOPPED,
    TURN,
    Heard,
    Play,
)
from gatelog.whatif.workloads import RecordedDelays, Workloads
from podgroup.engine import step_by
from podgroup.fold.outcomes import REPORT, RETRY
from podgroup.log import events as e
from podgroup.log.journal import At
from podgroup.log.outcomes import FINAL
from podgroup.log.records import Concluded, Timed
from podgroup.model import commands as c
from podgroup.model.ids import GroupID, PodUID, group_id
from podgroup.model.names import TERMINATION_TARGET, group_name
from podgroup.model.objects import NodeView, PodView, QueueObject, WorkloadView
from podgroup.model.policy import Policy
from podgroup.state.changes import EVERYTHING
from podgroup.state.group import GROUP, SINGLE, Group
from podgroup.state.pod import Pod
from podgroup.state.world import World
from projector.replay.log import Entry

STRETCH = 1 << 20
"""Positions that a message of the log takes once simulated messages come between."""
DIGITS = "0" * 9
"""Digits after a version of the log, for the same reason."""


class Departure(Struct, frozen=True, kw_only=True):
    """A group that left the record: when and why first.

    `concluded` is what the alternative's rules say, `recorded` what the log has in its place; where
    both are "" it left for another's sake, as `because` says.
    """

    group: str
    name: str
    queue: str
    at: datetime
    position: int
    because: str
    concluded: str = ""
    recorded: str = ""


class Changed(Struct, frozen=True, kw_only=True):
    """The changes: objects, fields of the policy, run times.

    `fixed` objects have these values from the beginning on, None: deleted. `alter` returns the
    changed object whenever an object comes or changes. `reports_s`: interval of reports of queues
    where the log has none.
    """

    fixed: Mapping[Key, QueueObject | None]
    alter: Callable[[QueueObject], QueueObject]
    policy: Mapping[str, Any]
    factor: float
    reports_s: int = 0

    def policy_of(self, policy: Policy) -> Policy:
        """Return what a policy of the log is here."""
        found = replace(policy, **self.policy)
        if not found.status_interval_s and self.reports_s:
            found = replace(found, status_interval_s=self.reports_s)
        return found


class Recorded(Struct, frozen=True, kw_only=True):
    """The input of an alternative besides the log's entries, which are read up to `end`."""

    end: datetime
    first: datetime
    source: History
    workloads: Workloads
    differing: Mapping[int, Differing] | None
    """By position, where today's rules differ from the log without a change; None: the rules did
    not run.
    """


class Alternative(Play):
    """A play that is given the log's entries, in order."""

    def __init__(self, world: World, past: Recorded, changed: Changed, heard: Heard) -> None:
        begin = past.first
        super().__init__(Scenario(source=past.source, objects=(), begin=begin), heard)
        self._cluster.now = begin
        self.world = world
        world.policy = changed.policy_of(world.policy)
        self.departures: list[Departure] = []
        self.apart = False
        self.unasked: int | None = None
        """The position from which on the result is of no use: the rules were not run there that
        would show who leaves.
        """
        self._past = past
        self._history = past.source
        self._changed = changed
        self._fixed = dict(changed.fixed)
        self._left: set[str] = set()
        """Groups that left, and groups that simulated pods open."""
        self._pods: set[str] = set()
        """Pods of these groups, also later ones."""
        self._owned: set[str] = set()
        """Uids of their Workloads in the log."""
        self._came: set[str] = set()
        self._waiting: dict[tuple[str, str], list[Arrival]] = {}
        """Arrivals that wait for a name to be free."""
        self._in_flight: dict[str, dict[str, e.Decision]] = {}
        """Group -> decisions of the record that have no outcome yet."""
        self._recorded = 0
        """The log's position."""
        self._between = 0
        self._shaken: set[str] = set()
        """Groups that left on this message and that rules must look at once more."""
        self._begun = False
        self._renamed: dict[str, str] = {}
        self._purposes = {RETRY, REPORT}
        """Of timers."""
        self._own: list[e.Decision] = []
        self._made: list[e.Decision] = []
        self._concluded: list[Concluded] = []

    # -- the log ---

    def take(self, entry: Entry) -> None:
        """Go on to an entry of the log, and fold the part that holds here."""
        while (now := self._next_at()) is not None and now < entry.at:
            self._moment(now)
        self._cluster.now = entry.at
        self._recorded, self._between = entry.position, 0
        said = [*self._opening(entry.at), *self._held(entry.batch.events)]
        self._happens(entry.at)
        simulated, self._cluster.said = self._cluster.said, []
        items = self._told(entry)
        if said or simulated or items.items:
            self.events += len(said)  # by which the journal is taken, too
            self._fold([*said, *simulated], items)
            self._stepped(simulated, self._made, self._concluded)
            self._follow_up()
        self._settle()

    def finish(self, until: datetime) -> None:
        """Go on to the end."""
        while (now := self._next_at()) is not None and now <= until:
            self._moment(now)
        self._heard.progress(until, self.events)

    def _told(self, entry: Entry) -> Told:
        recorded = {
            decision.id: decision
            for decision in entry.recorded.values()
            if not decision.group or self.follows(self._known(decision.group))
        }
        return told(At(self._place(), entry.at), self._renaming(recorded), entry.concluded)

    def _place(self) -> int:
        """Return the position of this message in the play."""
        return self._recorded * STRETCH + self._between if self.apart else self._recorded

    def _known(self, group: str) -> str:
        """Return the id that a group of the log has here: of a later life it names a position."""
        if not self.apart or group in self.world.groups or group in self._left:
            return group
        if (known := self._renamed.get(group)) is not None:
            return known
        opener, _, position = group.rpartition("-")
        if position.isdecimal():
            other = f"{opener}-{int(position) * STRETCH}"
            if other in self.world.groups:
                self._renamed[group] = other
                return other
        return group

    def _renaming(self, recorded: dict[str, e.Decision]) -> dict[str, e.Decision]:
        if not self._renamed:
            return recorded
        return {key: _with_names(one, self._renamed) for key, one in recorded.items()}

    def _step(self, said: list[e.Event]) -> list[e.Decision]:
        """Fold a message of simulated events between two of the log."""
        self._between += 1
        self._fold(said, Told())
        self._stepped(said, self._made, self._concluded)
        return self._own

    def _settle(self) -> None:
        super()._settle()
        while self._shaken:
            self._look_again()
            super()._settle()

    def _follow_up(self) -> None:
        for decision in self._own:
            self._carry_out(decision)

    def _look_again(self) -> None:
        """Let rules look at groups that left: some of their conclusions on the last message had no
        effect.
        """
        self._between += 1
        self._fold([], Told())
        self._stepped([], self._made, self._concluded)
        self._follow_up()

    def _fold(self, said: Sequence[e.Event | e.Undecodable], items: Told) -> None:
        world, journal = self.world, self.world.journal
        for identity in self._shaken & world.groups.keys():
            world.dirty_groups[GroupID(identity)] = EVERYTHING
        self._shaken.clear()
        decided, concluded = len(journal.decisions), len(journal.concluded)
        applier: Follower | None = None

        def applies(world: World, here: At) -> Follower:
            nonlocal applier
            applier = Follower(world, here, items, self)
            return applier

        self._purposes.update(one.purpose for one, _ in items.items if isinstance(one, Timed))
        batch = e.Batch(source="watch", events=tuple(said))
        step_by(world, self._place(), self._cluster.now, batch, applies, recorded=bool(items.items))
        assert applier is not None
        self._own = applier.own
        self._made = journal.decisions[decided:]
        self._concluded = journal.concluded[concluded:]
        own = {one.id for one in self._own}
        for decision in self._made:
            if decision.group and decision.id not in own:
                if decision.group in self._left:
                    self._own.append(decision)  # it left on this very message
                elif not isinstance(decision.command, c.INTERNAL):
                    flying = self._in_flight.setdefault(decision.group, {})
                    flying[decision.id] = decision

    # -- events of the log ---

    def _opening(self, at: datetime) -> Iterator[e.Event]:
        """Yield, before all else, the objects that are other from the beginning on."""
        if not self._begun:
            self._begun = True
            for key, found in self._fixed.items():
                if found is not None:
                    view = self._fixed[key] = replace(found, resource_version=self._cluster.bump())
                    yield e.ObjectApplied(object=view)
                    if isinstance(view, NodeView):
                        yield e.NodesTaken(at=at, taken={view.name: view.taken})

    def _held(self, events: Iterable[e.Event | e.Undecodable]) -> Iterator[e.Event | e.Undecodable]:
        """Yield what of a message holds here as well, as it holds here."""
        for event in events:
            found: e.Event | e.Undecodable | None = event
            match event:
                case e.PodApplied(pod=view) | e.PodDeleted(pod=view):
                    found = self._of_pod(event, view)
                case e.PodMeasured() if event.uid in self._pods:
                    found = None
                case e.DeltaRefused() if event.uid in self._pods:
                    found = None
                case e.WorkloadApplied(workload=view) | e.WorkloadDeleted(workload=view):
                    found = self._of_workload(event, view)
                case e.OutcomeRecorded():
                    found = self._of_outcome(event)
                case e.TimerFired():
                    timer = self.world.meta.timers.get(event.timer)
                    if timer is not None and timer.group in self._left:
                        found = None
                case e.ObjectApplied() | e.ObjectDeleted() | e.NodesTaken():
                    found = self._of_object(event)
                case e.SettingsRecorded():
                    found = replace(event, policy=self._changed.policy_of(event.policy))
                case e.RelistCompleted():
                    yield from self._listed(event)
                    if self.apart and event.kind in ("Pod", "Workload"):
                        version = event.resource_version + DIGITS
                        found = replace(event, resource_version=version)
                case _:
                    pass
            if found is not None:
                yield found

    def _of_pod(self, event: e.PodApplied | e.PodDeleted, view: PodView) -> e.Event | None:
        if view.uid in self._pods:
            return None
        if view.uid not in self.world.pods and isinstance(event, e.PodApplied):
            if why := self._in_its_way(view):
                seen = self._history.seen(view.uid)
                if seen is not None:
                    self._leave(seen.group, why)
                    return None
        if not self.apart:
            return event
        stretched = replace(view, resource_version=self._stretched(view.resource_version))
        return replace(event, pod=stretched)

    def _in_its_way(self, view: PodView) -> str:
        """Say why a pod that comes now does not follow the record, "" if it does."""
        if self._changed.factor != 1.0:
            return "run times are other"
        if not self.apart:
            return ""
        if (view.namespace, view.name) in self._cluster.named:
            return f"a pod that left the record has the name {view.name}"
        name = group_name(view.labels, view.annotations)
        life = self.world.lives.get((GROUP, view.namespace, name)) if name else None
        return "its group has left the record" if life in self._left else ""

    def _of_workload(
        self, event: e.WorkloadApplied | e.WorkloadDeleted, view: WorkloadView
    ) -> e.Event | None:
        if not self.apart:
            return event
        if view.uid not in self._owned:
            life = self.world.by_workload.get((view.namespace, view.name))
            if life not in self._left and self._pods.isdisjoint(view.owner_uids):
                version = self._stretched(view.resource_version)
                return replace(event, workload=replace(view, resource_version=version))
            self._owned.add(view.uid)
        for one in self._past.workloads.by_users(view):
            self._cluster.write(one)
        return None

    def _stretched(self, version: str) -> str:
        version += DIGITS
        self._cluster.seen(version)
        return version

    def _of_outcome(self, event: e.OutcomeRecorded) -> e.Event | None:
        if not event.group:
            return event
        group = self._known(event.group)
        if group in self._left:
            return None
        flying = self._in_flight.get(group)
        if flying is not None and event.status in FINAL:
            flying.pop(event.decision, None)
            if not flying:
                del self._in_flight[group]
        if self.apart and event.resource_version:
            return replace(event, resource_version=self._stretched(event.resource_version))
        return event

    def _of_object(self, event: e.ObjectApplied | e.ObjectDeleted | e.NodesTaken) -> e.Event | None:
        fixed = self._fixed
        if isinstance(event, e.NodesTaken):
            if any(("Node", "", name) in fixed for name in event.taken):
                kept = {n: v for n, v in event.taken.items() if ("Node", "", n) not in fixed}
                return replace(event, taken=kept) if kept else None
            return event
        if isinstance(event, e.ObjectDeleted):
            return None if (event.kind, event.namespace, event.name) in fixed else event
        if key_of(event.object) in fixed:
            return None
        view = self._changed.alter(event.object)
        return event if view is event.object else replace(event, object=view)

    def _listed(self, event: e.RelistCompleted) -> Iterator[e.Event]:
        """Yield what a list has in it here that it had not then."""
        relist = event.relist
        for key, view in self._fixed.items():
            if key[0] == event.kind and view is not None:
                yield e.ObjectApplied(object=view, relist=relist)
        if event.kind == "Pod":
            for pod in self._cluster.pods.values():
                yield e.PodApplied(pod=pod.view, relist=relist)
        elif event.kind == "Workload":
            for workload in self._cluster.workloads():
                yield e.WorkloadApplied(workload=workload, relist=relist)

    # -- groups that follow the record ---

    def follows(self, group: str) -> bool:
        """Return whether a group follows the record."""
        return group not in self._left

    def carries_out(self, decision: e.Decision) -> bool:
        """Return whether a decision about no group is the play's own, once groups have left."""
        if not self.apart:
            return False
        target = decision.command.target
        if isinstance(decision.command, c.ReportQueue):
            return True
        known = self._cluster.has_workload((target.namespace, target.name))
        return target.uid in self._cluster.pods or (target.kind == "Workload" and known)

    def leaves(self, now: Conclusion | None, then: Conclusion | None) -> bool:
        """Have a group leave that is concluded otherwise of, but where the past was so too."""
        one = now if now is not None else then
        assert one is not None
        if not one.group:
            return self.apart and now is not None
        if self._past.differing is None:
            self.unasked = self.unasked or self._recorded
            return False
        here = self._past.differing.get(self._recorded)
        if here is not None and self._between == 0:
            found = point(one)
            if found in (here.now if now is not None else here.then):
                return False
        self._leave(
            one.group,
            _because(now, then),
            concluded=_said(now),
            recorded=_said(then),
        )
        return True

    def _leave(
        self, identity: str, because: str, *, concluded: str = "", recorded: str = ""
    ) -> None:
        """Let a group leave the record: its objects are simulated from here on."""
        if identity in self._left:
            return
        self.apart = True
        self._left.add(identity)
        group = self.world.groups.get(GroupID(identity))
        uids = self._history.members.get(self._original(identity, group), ())
        first = self._history.seen(uids[0]) if uids else None
        self.departures.append(
            Departure(
                group=identity,
                name=_title(group, first),
                queue=group.spec.queue if group is not None else "",
                at=self._cluster.now,
                position=self._recorded,
                because=because,
                concluded=concluded,
                recorded=recorded,
            )
        )
        self._pods.update(uids)
        for kind in ("Pod", "Workload"):  # later versions are no older than those listed
            self._cluster.seen(self.world.meta.versions.get(kind, ""))
        if group is not None:
            self._take_over(group)
            self._shaken.add(identity)
        for uid in uids:
            self._schedule(uid)

    def _original(self, identity: str, group: Group | None) -> str:
        """Return the id that a group has in the log."""
        if group is None:
            return identity
        tail = f"-{group.created_seq}"
        if identity.endswith(tail) and group.created_seq >= STRETCH and self.apart:
            return f"{identity.removesuffix(tail)}-{group.created_seq // STRETCH}"
        return identity

    # -- what leaves is simulated ---

    def _take_over(self, group: Group) -> None:
        world, cluster, now = self.world, self._cluster, self._cluster.now
        delays = self._delays
        for uid in world.members[group.id].flags:
            self._pods.add(uid)
            self._take_over_pod(world.pods[uid])
            if isinstance(delays, RecordedDelays):
                delays.passed(("", uid), now)
        view = group.mirror.workload
        key = group.namespace, group.mirror.name
        if isinstance(delays, RecordedDelays):
            delays.passed(key, now)
            said = delays.under_way(key, now)
            for at, check in said if view is not None else ():
                names = tuple(one.name for one in view.checks) if view is not None else ()
                self._verdicts.add(at, (Asked(key, 1, names), check))
        if view is not None:
            self._owned.add(view.uid)
            cluster.take_over_workload(view)
        for name in self._timers_of(group):
            if (timer := world.meta.timers.get(name)) is not None:
                self._set_timer(name, timer.due_at)
        for decision in self._in_flight.pop(group.id, {}).values():
            if not (isinstance(decision.command, c.CreateWorkload) and view is not None):
                self._carry_out(decision)

    def _timers_of(self, group: Group) -> Iterator[str]:
        """Yield the names that timers of a group may have."""
        for purpose in self._purposes:
            yield f"{purpose}/{group.id}/"
        for uid in self.world.members[group.id].flags:
            yield f"{RETRY}/{group.id}/{uid}"

    def _take_over_pod(self, pod: Pod) -> None:
        """Let a pod go on as it is: its next step is due when it was in the log."""
        view, history = pod.view, self._history
        seen = history.seen(view.uid)
        if seen is None:
            return
        arrival = history.arrival(view.uid)
        life = arrival.life
        asked = any(one.type == TERMINATION_TARGET for one in view.conditions)
        known = self._cluster.take_over(arrival.pod, view, life, victim=asked)
        self._came.add(view.uid)

        def due(since: datetime | None, seconds: float | None, what: int) -> None:
            if since is not None and seconds is not None:
                at = since + timedelta(seconds=seconds)
                self._due.add(max(at, self._cluster.now), (what, view.uid))

        let_in = seen.let_in_at or seen.at
        if view.ended:
            due(seen.ended_at, life.removed_s, REMOVE)
            return
        if view.deleted_at is not None:
            if view.phase == "Running" or (not view.gates and life.stop_s > 0):
                known.stopping = True
                due(seen.deleted_at, life.stop_s, STOPPED)
            return
        if view.gates:
            due(seen.at, life.gives_up_s, GIVE_UP)
            due(seen.at, life.opened_s, OPEN)
            return
        due(let_in, life.deleted_s, REMOVE)
        if view.phase != "Running":
            due(let_in, life.start_s, START)
            return
        ran = seen.ran_at or let_in
        due(ran, life.run_s, END)
        for seconds in life.ready_s if life.ready_s != AT_ONCE else ():
            if ran + timedelta(seconds=seconds) > self._cluster.now:
                due(ran, seconds, TURN)

    def _schedule(self, uid: str) -> None:
        """Have a pod come that is not there yet, when it did, unless another's end brings it."""
        history, now = self._history, self._cluster.now
        seen = history.seen(uid)
        successor = history.successor(uid)
        if seen is None:
            return
        if successor is not None:
            following = history.seen(successor)
            if following is not None and following.at > now and following.group != seen.group:
                self._leave(following.group, f"its pod comes in the place of {seen.born.name}")
        if seen.at < now or uid in self.world.pods or uid in self._came:
            return
        before = history.predecessor(uid)
        if before is not None and before in self._pods:
            earlier = history.seen(before)
            known = self._cluster.pods.get(before)
            over = known.view.ended if known is not None else earlier is None or earlier.at < now
            if not over:
                return
        self._returning.add(seen.at, history.arrival(uid))

    def _arrive(self, arrival: Arrival) -> None:
        view = arrival.pod
        name = view.namespace, view.name
        if view.uid in self._came:
            return
        if name in self._cluster.named:
            self._waiting.setdefault(name, []).append(arrival)
            return
        self._came.add(view.uid)
        self._pods.add(view.uid)
        joined = group_name(view.labels, view.annotations)
        life = self.world.lives.get((GROUP, view.namespace, joined)) if joined else None
        if life is not None and life not in self._left:
            self._leave(life, f"pod {view.name} comes to it, which had left the record")
        kind = GROUP if joined else SINGLE
        self._left.add(group_id(kind, PodUID(view.uid)))
        super()._arrive(arrival)

    def _gone(self, pod: Any) -> None:
        waiting = self._waiting.pop((pod.view.namespace, pod.view.name), ())
        for arrival in waiting:
            self._returning.add(max(arrival.at, self._cluster.now), arrival)


def _because(now: Conclusion | None, then: Conclusion | None) -> str:
    """Describe the difference."""
    if now is None:
        return f"not here: {_words(then)}"
    return f"here: {_words(now)}" if then is None else f"{_words(then)} → {_words(now)}"


def _words(one: Conclusion | None) -> str:
    if isinstance(one, e.Decision):
        return f"{one.rule}: {one.message}"
    return type(one).__name__.lower()


def _said(one: Conclusion | None) -> str:
    """Return the name of a command, or the kind of a record; "" for nothing."""
    if one is None:
        return ""
    return one.command.action if isinstance(one, e.Decision) else type(one).__name__


def _title(group: Group | None, first: Seen | None) -> str:
    if group is not None:
        return f"{group.namespace}/{group.name}"
    if first is None:
        return ""
    name = group_name(first.born.labels, first.born.annotations) or first.born.name
    return f"{first.born.namespace}/{name}"


def _with_names(decision: e.Decision, names: Mapping[str, str]) -> e.Decision:
    """Return a decision that calls groups by other ids."""
    text = msgspec.json.encode(decision)
    if any(name.encode() in text for name in names):
        for name, other in names.items():
            text = text.replace(name.encode(), other.encode())
        return msgspec.json.decode(text, type=e.Decision)
    return decision
