"""The loop: next events, fold and rules on them, their consequences, and so on.

Theory. Discrete events in simulated time. All events of a moment are one message of a log that is
not written; its decisions are carried out at the same moment and answered in the next message,
until there are no more decisions. Then time goes on to the next arrival, start, end or timer.
Timers by which users learn why they wait are left out: a play has no reader.

Invariant: the same arrivals and objects give the same decisions.
"""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from importlib import metadata

from msgspec import Struct

from gatelog.agenda import Agenda
from gatelog.whatif.arrivals import AT_ONCE, Arrival, Later, Scenario, Write
from gatelog.whatif.cluster import Asked, Cluster, Hooks, Simulated
from podgroup.engine import new_world, step
from podgroup.log import events as e
from podgroup.log.records import Concluded, CountsTimed, StartsTimed, Timed
from podgroup.model.commands import (
    AnyCommand,
    CreateWorkload,
    StopPod,
    UngatePod,
)
from podgroup.model.objects import CheckView, FlavorView, kind_of
from podgroup.model.standing import COUNTS_TIMER, STARTS_TIMER
from podgroup.rules import decides_by
from podgroup.state.world import World

PATIENCE = timedelta(days=1)
"""How long timers alone keep a play going, once nothing comes, runs or ends any more."""
TELL_EVERY = 2_000
"""Messages between two reports of progress."""
_ROUNDS = 10_000
"""Messages at one moment after which the rules are taken to go round in circles."""


class PlayFailed(Exception):
    """A play that cannot go on; the message says when and why."""


class Heard(Struct, frozen=True):
    """What watches a play.

    `each` sees the world after each message, with the decisions on it; `pause` comes between two
    moments, when the journal may be taken; `progress` is given the time and events so far.
    """

    each: Callable[[World, list[e.Decision]], None]
    pause: Callable[[World, int], None]
    progress: Callable[[datetime, int], None]


OPEN, START, TURN, END, STOPPED, GIVE_UP, REMOVE, CARRY_OUT = range(8)
"""What falls due of a pod, or of a decision."""


class Play:
    """A play of a scenario; `events` counts folded events."""

    def __init__(self, scenario: Scenario, heard: Heard, *, cluster: str = "what-if") -> None:
        self._scenario = scenario
        self._later_objects = deque(sorted(scenario.later, key=lambda one: one.at))
        self._under_way: dict[str, tuple[e.Decision, e.OutcomeRecorded | None]] = {}
        self.world = new_world(cluster, policy=scenario.policy)
        self.events = 0
        self._source = scenario.source
        self._delays = scenario.source.delays
        self._heard = heard
        self._objects = list(scenario.objects)
        self._cluster = Cluster(
            Hooks(self._may_start, self._stops, self._over, self._gone, self._asked),
            checks=self._delays.checks,
        )
        self._due: Agenda[datetime, tuple[int, str]] = Agenda()
        self._verdicts: Agenda[datetime, tuple[Asked, CheckView]] = Agenda()
        self._timers: Agenda[datetime, tuple[str, datetime]] = Agenda()
        self._returning: Agenda[datetime, Arrival] = Agenda()
        self._arrivals: Iterator[Arrival] = iter(())
        self._coming: Arrival | None = None
        self._messages = 0

    def run(self) -> datetime:
        """Play until nothing comes any more, or to the scenario's end; returns that time.

        Raises:
            PlayFailed: decisions follow decisions without end.
        """
        until = self._scenario.until
        self._cluster.now = last = self._scenario.begin
        self._arrivals = iter(self._source.arrivals())
        self._set_up()
        self._coming = next(self._arrivals, None)
        while (now := self._next_at()) is not None:
            if until is not None and now > until:
                last = until
                break
            if self._busy():
                last = now
            elif now - last > PATIENCE:
                break
            self._moment(now)
        self._heard.progress(last, self.events)
        return last

    def _busy(self) -> bool:
        """Return whether something comes, runs or ends, besides timers."""
        agendas = self._due, self._returning, self._verdicts
        waits = self._coming is not None or bool(self._later_objects)
        return waits or any(each.next_at is not None for each in agendas)

    def _next_at(self) -> datetime | None:
        """Return when something happens next, None if nothing does any more."""
        agendas = self._due, self._returning, self._verdicts, self._timers
        moments = [each.next_at for each in agendas if each.next_at is not None]
        if self._coming is not None:
            moments.append(self._coming.at)
        if self._later_objects:
            moments.append(self._later_objects[0].at)
        return max(min(moments), self._cluster.now) if moments else None

    def _moment(self, now: datetime) -> None:
        """Apply the due events, and decide on them."""
        self._cluster.now = now
        self._happens(now)
        self._settle()

    def _happens(self, now: datetime) -> None:
        """Apply the due events."""
        while self._coming is not None and self._coming.at <= now:
            self._arrive(self._coming)
            self._coming = next(self._arrivals, None)
        for _, arrival in self._returning.take(now):
            self._arrive(arrival)
        for _, (what, uid) in self._due.take(now):
            self._happen(what, uid)
        while self._later_objects and self._later_objects[0].at <= now:
            self._change(self._later_objects.popleft())
        for _, (asked, said) in self._verdicts.take(now):
            self._cluster.answer(asked, said)
        self._fire(now)

    # -- what happens ---

    def _set_up(self) -> None:
        """List everything, as a watch does at its start."""
        said = self._cluster.said
        world = self.world
        settings = decides_by(world.mode, world.policy, metadata.version("gatelog"))
        said.append(settings)
        places = any(isinstance(one, FlavorView) and one.topology for one in self._objects)
        for kind in (*settings.kinds, *(("Node",) if places else ())):
            said.append(e.RelistStarted(kind=kind, relist=kind))
            for view in self._objects:
                if kind_of(view) == kind:
                    self._cluster.put_object(view, kind)
            version = self._cluster.bump()
            said.append(e.RelistCompleted(kind=kind, relist=kind, resource_version=version))
        self._settle()

    def _change(self, one: Later | Write) -> None:
        if isinstance(one, Write):
            self._cluster.write(one)
        elif one.view is not None:
            self._cluster.put_object(one.view)
        else:
            self._cluster.remove_object(one.key)

    def _arrive(self, arrival: Arrival) -> None:
        pod = self._cluster.create(arrival.pod, arrival.life)
        if arrival.life.gives_up_s is not None and arrival.pod.gates:
            self._later(arrival.life.gives_up_s, GIVE_UP, pod)
        if arrival.life.opened_s is not None:
            self._later(arrival.life.opened_s, OPEN, pod)
        if not arrival.pod.gates:
            self._may_start(pod)

    def _happen(self, what: int, uid: str) -> None:
        if what == CARRY_OUT:
            self._cluster.carry_out(*self._under_way.pop(uid))
            return
        pod = self._cluster.pods.get(uid)
        if pod is None:
            return
        over = pod.view.ended
        if what == GIVE_UP:
            if pod.view.gates:
                self._cluster.delete(pod, forced=pod.life.forced)
        elif what == OPEN:
            if pod.view.gates:
                self._cluster.change(pod, gates=())
                self._may_start(pod)
        elif what == REMOVE:
            self._cluster.delete(pod, forced=pod.life.forced)
        elif over:
            return
        elif what == STOPPED:
            self._cluster.end(pod, "Failed")
        elif pod.stopping:
            return
        elif what == START:
            self._cluster.run(pod, ready=pod.life.ready_s[:1] == AT_ONCE)
            self._later(pod.life.run_s, END, pod)
            for seconds in pod.life.ready_s:
                if seconds:
                    self._later(seconds, TURN, pod)
        elif what == TURN:
            self._cluster.turn(pod)
        elif what == END:
            self._cluster.end(pod, pod.life.phase)
            self._follow(self._source.ended(pod.born, self._cluster.now))

    def _carry_out(self, decision: e.Decision) -> None:
        """Carry out a decision with its recorded delay, or refuse it as in the log."""
        command, refused = decision.command, None
        seconds: float | None = 0.0
        on = _attempted(command)
        attempt = self._delays.attempt(on) if on is not None else None
        if attempt is not None:
            seconds, refused = attempt.after_s, attempt.refused
        elif isinstance(command, UngatePod | StopPod):
            pod = self._cluster.pods.get(command.target.uid)
            if pod is not None:
                life = pod.life
                seconds = life.gate_s if isinstance(command, UngatePod) else life.asked_s
        if seconds is None:
            return
        at = decision.at + timedelta(seconds=seconds)
        if at > self._cluster.now:
            self._under_way[decision.id] = decision, refused
            self._due.add(at, (CARRY_OUT, decision.id))
        else:
            self._cluster.carry_out(decision, refused)

    def _may_start(self, pod: Simulated) -> None:
        if pod.life.deleted_s is not None:
            self._later(pod.life.deleted_s, REMOVE, pod)
        if pod.life.start_s > 0:
            self._later(pod.life.start_s, START, pod)
        else:
            self._happen(START, pod.view.uid)

    def _stops(self, pod: Simulated) -> None:
        self._later(pod.life.stop_s, STOPPED, pod)

    def _over(self, pod: Simulated) -> None:
        if pod.victim:
            self._follow(self._source.stopped(pod.born, pod.life, self._cluster.now))
        if pod.life.removed_s is not None:
            self._later(pod.life.removed_s, REMOVE, pod)

    def _gone(self, pod: Simulated) -> None:
        """Do nothing: its name is free, and none waits for it."""

    def _asked(self, asked: Asked) -> None:
        """Have the controllers of checks answer, in their time."""
        now = self._cluster.now
        for verdict in self._delays.verdicts(asked.key, asked.checks):
            at = now + timedelta(seconds=verdict.after_s)
            self._verdicts.add(at, (asked, verdict.said))

    def _follow(self, arrival: Arrival | None) -> None:
        if arrival is not None:
            self._returning.add(arrival.at, arrival)

    def _later(self, seconds: float, what: int, pod: Simulated) -> None:
        self._after(seconds, what, pod.view.uid)

    def _after(self, seconds: float, what: int, whose: str) -> None:
        self._due.add(self._cluster.now + timedelta(seconds=seconds), (what, whose))

    # -- fold and rules ---

    def _set_timer(self, name: str, due_at: datetime) -> None:
        fires_at = self._delays.fires_at(name, due_at)
        if fires_at is not None:
            self._timers.add(fires_at, (name, due_at), rank=name)

    def _fire(self, now: datetime) -> None:
        timers = self.world.meta.timers
        for _, (name, due_at) in self._timers.take(now):
            known = timers.get(name)
            if known is not None and known.due_at == due_at:
                self._cluster.said.append(e.TimerFired(timer=name, due_at=due_at))

    def _settle(self) -> None:
        """Fold events, carry out the decisions on them, and so on until there are no more."""
        for _ in range(_ROUNDS):
            said = self._cluster.said
            if not said:
                break
            self._cluster.said = []
            for decision in self._step(said):
                self._carry_out(decision)
        else:
            at = f"{self._cluster.now:%Y-%m-%d %H:%M:%S}"
            last = self.world.journal.decisions[-1]
            raise PlayFailed(
                f"at {at} (simulated) decisions follow decisions without end, the last of them "
                f"{last.rule} of {last.namespace}/{last.name}: this is a defect of the rules"
            )
        self._heard.pause(self.world, self.events)

    def _step(self, said: list[e.Event]) -> list[e.Decision]:
        world, journal = self.world, self.world.journal
        decided, concluded = len(journal.decisions), len(journal.concluded)
        batch = e.Batch(source="watch", events=tuple(said))
        step(world, world.meta.position + 1, self._cluster.now, batch)
        made = journal.decisions[decided:]
        self._stepped(said, made, journal.concluded[concluded:])
        return made

    def _stepped(
        self, said: list[e.Event], made: list[e.Decision], concluded: list[Concluded]
    ) -> None:
        """Set the timers that were decided, and report the decisions."""
        world = self.world
        self.events += len(said)
        for one in concluded:
            for record in one.records:
                if isinstance(record, Timed) and record.at is not None:
                    self._set_timer(f"{record.purpose}/{record.group}/", record.at)
                elif isinstance(record, CountsTimed):
                    self._set_timer(COUNTS_TIMER, record.at)
                elif isinstance(record, StartsTimed) and record.at is not None:
                    self._set_timer(STARTS_TIMER, record.at)
        for event in said:
            if isinstance(event, e.OutcomeRecorded) and event.status != "applied":
                for name in (f"retry/{event.group}/", f"retry/{event.group}/{event.uid}"):
                    if (timer := world.meta.timers.get(name)) is not None:
                        self._set_timer(name, timer.due_at)
        self._heard.each(world, made)
        self._messages += 1
        if self._messages % TELL_EVERY == 0:
            self._heard.progress(self._cluster.now, self.events)


def _attempted(command: AnyCommand) -> tuple[str, str] | None:
    """Return under what name `Delays.attempt` knows a decision."""
    target = command.target
    match command:
        case CreateWorkload():
            return target.namespace, target.name
        case UngatePod():
            return "", target.uid
        case _:
            return None
