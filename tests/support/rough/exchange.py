"""Steps of the wire, of the projector and of the actuator: each hand-over, and its failures.

Invariant: what was committed is folded again as it was folded; what was not may be lost.
"""

from datetime import timedelta
from typing import Any, cast

import msgspec

from podgroup.engine import due_timers, step
from podgroup.log import events as e
from podgroup.log.events import Batch
from podgroup.model import commands as c
from podgroup.model.names import IS_GROUP_WORKLOAD
from podgroup.model.objects import PodView
from tests.support.rough.ground import KINDS, lines_of
from tests.support.rough.holding import Holding, target_of


class Exchange(Holding):
    """Carries what happened, what was decided and what came of it from one to the next."""

    # -- the wire ---

    def step_see(self, kind: int, count: int) -> None:
        """The watch of a kind brings what is next, in one message."""
        wire = self.wires[KINDS[kind % len(KINDS)]]
        events = [wire.popleft() for _ in range(min(len(wire), 1 + count % 4))]
        if events:
            self.publish(*events)

    def step_relist(self, kind: int, how: int) -> None:
        """The watch of a kind lost its place: what was on the wire is gone, and it lists.

        `how` 0: one message. 1: three, folded between. 2: abandoned and begun again.
        """
        name: Any = KINDS[kind % len(KINDS)]
        self.wires[name].clear()
        self.serial += 1
        if how % 3 == 2:
            lost = f"lost{self.serial}"
            self.publish(
                e.RelistStarted(kind=name, relist=lost), *self._list(name, lost)[: 1 + how % 2]
            )
        relist = f"relist{self.serial}"
        begin = e.RelistStarted(kind=name, relist=relist, reason="410")
        end = e.RelistCompleted(kind=name, relist=relist, resource_version=str(self.version))
        found = self._list(name, relist)
        if how % 3 == 1:
            self.publish(begin, *found[:1])
            self.step_fold(99)
            self.step_crash(0)
            self.publish(*found[1:], end)
        else:
            self.publish(begin, *found, end)

    def _list(self, kind: str, relist: str) -> list[e.Event]:
        match kind:
            case "Pod":
                return [e.PodApplied(pod=p, relist=relist) for p in self.pods.values()]
            case "Workload":
                return [
                    e.WorkloadApplied(workload=w, relist=relist) for w in self.workloads.values()
                ]
            case "LocalQueue":
                found: list[Any] = [self.local] if self.local is not None else []
            case "ClusterQueue":
                found = [
                    self.cluster_queue(
                        self.quota, self.strategy, self.within, stop_policy=self.stop_policy
                    )
                ]
            case "ResourceFlavor":
                found = [self.flavor]
            case _:
                found = list(self.world.workload_classes.values())
        return [e.ObjectApplied(object=o, relist=relist) for o in found]

    def step_again(self, back: int) -> None:
        """What was delivered is delivered once more, out of order and late."""
        batch = self.messages[-1 - back % len(self.messages)][2]
        if not any(isinstance(x, e.RelistStarted | e.RelistCompleted) for x in batch.events):
            self.publish(*cast(Any, batch.events))

    def step_wait(self, seconds: int) -> None:
        """Time passes, and timers that fall due are put into the log."""
        self.now += timedelta(seconds=seconds)
        for due in due_timers(self.world, self.now):
            self.publish(due)

    # -- the projector ---

    def step_fold(self, count: int) -> None:
        """Fold some messages and commit after them."""
        for message in self.messages[self.folded : self.folded + 1 + count]:
            self._step(message)
            self.folded += 1
        self.store()
        self.checked()

    def _step(self, message: tuple[int, Any, Batch]) -> None:
        position, at, batch = message
        journal = self.world.journal
        before, said = len(journal.decisions), len(journal.concluded)
        step(self.world, position, at, batch)
        new = journal.decisions[before:]
        foreseen = self.foreseen.pop(position, None)
        if foreseen is not None:
            assert new == foreseen, lines_of("folded again after a crash", foreseen, new)
        assert not journal.parked, journal.parked
        self._made(new)
        self.decisions += new
        self.concluded += journal.concluded[said:]
        self.outbox += new

    def step_crash(self, count: int) -> None:
        """Fold some messages, lose it all before the commit, and start from what was stored."""
        for position, at, batch in self.messages[self.folded : self.folded + count]:
            before = len(self.world.journal.decisions)
            step(self.world, position, at, batch)
            self.foreseen[position] = self.world.journal.decisions[before:]
        self.world = self.loaded()

    # -- the actuator ---

    def step_act(self, pick: int, how: int) -> None:
        """Carry a decision out. `how` 1: refused, 2: the answer is lost, 3: nothing yet, again."""
        heads = self._heads()
        if not heads:
            return
        decision = heads[pick % len(heads)]
        if isinstance(decision.command, c.INTERNAL):
            self.outbox.remove(decision)
            return
        if how == 1 and not isinstance(decision.command, c.EmitEvent | c.ReportPod):
            self.outbox.remove(decision)
            self.refused[target_of(decision)] += 1
            self.send(outcome_of(decision, "rejected", 422))
            return
        if how == 3:
            self.send(outcome_of(decision, "retrying", 409))
            return
        before = len(self.outcomes)
        self.execute(decision)
        if how == 2:
            del self.outcomes[before:]
            return
        if self.outcomes[-1].status in ("rejected", "obsolete"):
            self.refused[target_of(decision)] += 1
        if self.outcomes[-1].status != "retrying":
            self.outbox.remove(decision)

    def _carry_out(self, command: c.AnyCommand) -> tuple[Any, str, str]:
        t = command.target
        pod = self.pods.get(t.uid)
        match command:
            case c.UngatePod() if pod is not None:
                if not set(command.gates) & set(pod.gates):
                    return "applied", pod.resource_version, pod.uid
                self.opened.add(pod.uid)
            case c.StopPod() if pod is not None and pod.deleted_at is not None:
                if command.finalize:
                    self._strip(t.uid)
                return "applied", self._version(t.uid, pod), t.uid
            case c.DeletePod() | c.FinalizePod() if pod is not None:
                self._strip(t.uid)
                if isinstance(command, c.DeletePod) and t.uid in self.pods:
                    self._delete(t.uid)
                return "applied", self._version(t.uid, self.last[pod.name]), t.uid
            case c.CreateWorkload():
                if any(p.sample and p.sample.uid not in self.pods for p in command.pod_sets):
                    return "obsolete", "", ""
                live = self.workloads.get(t.name)
                if live is not None and live.deleted_at is not None and self._must_wait(command):
                    return "retrying", "", ""
                if live is not None and (live.deleted_at or self._ours(command, live)):
                    return "applied", live.resource_version, live.uid
            case c.UpdateWorkload():
                live = self.workloads.get(t.name)
                if live is not None:
                    known = {o.uid for o in live.owners}
                    new = tuple(o for o in command.add_owners if o.uid not in known)
                    command = msgspec.structs.replace(command, add_owners=new)
        return super()._carry_out(command)

    def _heads(self) -> list[e.Decision]:
        """Decisions that may be carried out now: the first about each object."""
        heads: dict[tuple[str, ...], e.Decision] = {}
        for decision in self.outbox:
            target = decision.command.target
            heads.setdefault((target.kind, target.namespace, target.name), decision)
        return list(heads.values())

    def _must_wait(self, command: c.AnyCommand) -> bool:
        """Tell whether a Workload of an earlier life is in the way."""
        live = self.workloads.get(command.target.name)
        if not isinstance(command, c.CreateWorkload) or live is None or live.deleted_at is None:
            return False
        return not {o.uid for o in live.owners} & {o.uid for o in command.owners}

    def _version(self, uid: str, pod: PodView) -> str:
        return self.pods.get(uid, pod).resource_version

    def _ours(self, command: c.CreateWorkload, live: Any) -> bool:
        if command.controller:
            return {o.uid for o in live.owners} == {o.uid for o in command.owners}
        counts = sorted((p.name, p.count) for p in command.pod_sets)
        marked = live.annotations.get(IS_GROUP_WORKLOAD) == "true"
        return marked and sorted((p.name, p.count) for p in live.pod_sets) == counts

    def step_hear(self, pick: int, twice: int) -> None:
        """An outcome reaches the log, maybe twice."""
        if not self.outcomes:
            return
        outcome = self.outcomes.pop(pick % len(self.outcomes))
        self.heard.append(outcome)
        self.publish(outcome)
        if twice % 3 == 1:
            self.publish(outcome)
        elif twice % 3 == 2:
            self.publish(self.heard[pick % len(self.heard)])


def outcome_of(d: e.Decision, status: Any, code: int) -> e.OutcomeRecorded:
    return e.OutcomeRecorded(decision=d.id, group=d.group, status=status, http_status=code)
