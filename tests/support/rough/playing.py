"""A program from its beginning to its end: played, brought to rest, replayed, emptied.

Invariant: whatever was played, what must hold at rest holds after `rest`.
"""

from collections.abc import Iterable
from typing import Any

from podgroup.engine import Difference, Then, new_world, step
from podgroup.folding import replay
from podgroup.log import events as e
from podgroup.model.names import GROUP_NAME, MANAGED_LABEL
from podgroup.model.objects import PodView
from podgroup.state.members import Flag
from tests.e2e.audit import Cluster, audit
from tests.support.rough.exchange import Exchange
from tests.support.rough.ground import KINDS, QUOTA, ROUNDS, encoded, lines_of
from tests.support.rough.reading import as_object


class Rough(Exchange):
    """A cluster on which a program is played; `steps` is the program so far."""

    # -- a program ---

    def play(self, program: Iterable[list[Any]]) -> None:
        for verb, *numbers in program:
            self.do_step(verb, *numbers)

    def do_step(self, verb: str, *numbers: int) -> None:
        getattr(self, f"step_{verb}")(*numbers)

    # -- the end ---

    def calm(self) -> None:
        """Let everything be seen, decided and carried out, until nothing moves any more."""
        idle = 0
        for _ in range(ROUNDS):
            moved = self._calmer()
            idle = 0 if moved else idle + 1
            if idle == 3:
                return
            if not moved:
                self.step_wait(61)
        raise AssertionError(f"never comes to rest: {[d.rule for d in self.decisions[-12:]]}")

    def _calmer(self) -> bool:
        moved = False
        for index, kind in enumerate(KINDS):
            while self.wires[kind]:
                self.step_see(index, 3)
        while self.outcomes:
            self.step_hear(0, 0)
        before = self.folded
        self.step_fold(10_000)
        moved |= self.folded > before
        while self.outbox:
            size = len(self.outbox)
            ready = [i for i, d in enumerate(self._heads()) if not self._must_wait(d.command)]
            if not ready:
                break
            self.step_act(ready[0], 0)
            moved |= len(self.outbox) < size
        for p in list(self.pods.values()):
            if p.deleted_at is not None and p.node and p.phase == "Running":
                self.change(p.uid, phase="Failed", conditions=())
                moved = True
        if self.mode == "kueue":
            for name in sorted(self.workloads):
                if self._admissible(name):
                    self.admit(name)
                    moved = True
        return moved

    def rest(self) -> None:
        """Set queues right, come to rest and hold everything against the API server."""
        self.quota, self.stop_policy = max(QUOTA, self.largest_quota), "None"
        self._queue()
        if self.local is None:
            self.step_local()
        self.calm()
        world = self.world
        assert not world.expecting, f"nobody answers: {world.expecting}"
        assert not world.meta.frames
        spoiled = {self.last_of(uid).name for uid in self.tampered}
        spoiled |= {self.last_of(uid).labels.get(GROUP_NAME, "-") for uid in self.tampered}
        wrong = [
            line
            for line in audit(self.read(), self.quota * 1000)
            if not self._in_order(line)
            and not any(f" {name} " in f"{line} ".replace(":", " ") for name in spoiled)
        ]
        assert not wrong, wrong
        for uid, pod in world.pods.items():
            assert pod.view == self.pods[uid], f"{uid} is not as it is known"
        assert set(world.pods) <= set(self.pods)
        for group in world.groups.values():
            members = world.members[group.id]
            there = sum(
                members.count(Flag.ACTIVE, role.name)
                + members.count(Flag.INACTIVE, role.name)
                + role.succeeded_gone
                for role in group.roles.values()
                if role.count
            )
            assert there or group.quota.holding is None, f"{group.name} holds quota for nobody"

    def _in_order(self, line: str) -> bool:
        """Tell whether what the audit says is as it should be here."""
        name = line.split()[1].rstrip(":")
        if "waits for" in line:
            # Somebody is in the way, or runs on quota without a Workload that says so (B17).
            w = self.workloads[name]
            return (
                w.queue != "lq"
                or not w.active
                or self.strategy == "StrictFIFO"
                or bool(self.tampered)
            )
        if "no Workload" in line and self.policy.workloads == "groups":
            return GROUP_NAME not in self.last[name].labels
        # What was never created is not missing there.
        return "says otherwise" in line and name in ("gd", "ge")

    def last_of(self, uid: str) -> PodView:
        return next(p for p in self.last.values() if p.uid == uid)

    def read(self) -> Cluster:
        """Pods and Workloads that are ours, as the API server shows them."""
        pods = [
            {
                "metadata": {
                    "name": p.name,
                    "uid": p.uid,
                    "labels": dict(p.labels),
                    "annotations": {
                        "kueue.x-k8s.io/role-hash": (
                            self.world.pods[p.uid].role if p.uid in self.world.pods else p.role
                        )
                    },
                    "finalizers": list(p.finalizers),
                    **({"deletionTimestamp": "then"} if p.deleted_at is not None else {}),
                },
                "spec": {
                    "schedulingGates": [{"name": g} for g in p.gates],
                    **({"nodeName": p.node} if p.node else {}),
                },
                "status": {"phase": p.phase},
            }
            for p in self.pods.values()
        ]
        return Cluster(pods, [as_object(w) for w in self.workloads.values()], self.opened)

    def replayed(self) -> None:
        """The log, folded without any crash, gives the same decisions and the same world."""
        again = new_world("test", self.mode, self.policy)
        recorded: dict[int, dict[str, e.Decision]] = {}
        for d in self.decisions:
            recorded.setdefault(d.as_of, {})[d.id] = d
        for position, at, batch in self.messages[: self.folded]:
            before = len(again.journal.decisions)
            step(again, position, at, batch)
            new = again.journal.decisions[before:]
            wanted = list(recorded.get(position, {}).values())
            assert new == wanted, lines_of(f"replayed at {position}", wanted, new)
        assert encoded(again) == encoded(self.world), "the replayed world is another"
        applied = new_world("test", self.mode, self.policy)
        said = {one.as_of: one for one in self.concluded}
        for position, at, batch in self.messages[: self.folded]:
            concluded = Then(recorded.get(position, {}), said.get(position))
            difference = step(applied, position, at, batch, concluded)
            assert difference == Difference(), difference
        assert encoded(applied) == encoded(self.world), "applied conclusions give another world"
        applied = new_world("test")  # mode and policy are in the log
        for position, at, batch in self.messages[: self.folded]:
            then = recorded.get(position, {})
            replay(applied, position, at, batch, then, said.get(position))
        assert encoded(applied) == encoded(self.world), "without rules it is another world"

    def emptied(self) -> None:
        """Users delete everything: nothing of ours may keep it, and nothing is left of it."""
        for _ in range(3):
            for p in list(self.pods.values()):
                if p.uid in self.pods and p.deleted_at is None:
                    self._delete(p.uid)
            for name in sorted(self.workloads):
                if name in self.workloads and self.workloads[name].deleted_at is None:
                    self.delete_workload(name)
            self.calm()
        left = {p.name for p in self.pods.values() if MANAGED_LABEL in p.labels}
        assert not left, f"pods {left} are kept"
        assert not self.workloads, f"Workloads {set(self.workloads)} are kept"
        world = self.world
        assert not world.groups, world.groups
        assert not world.pods
        assert not world.expecting
        assert not world.quotas.charges
        assert not world.quotas.waiting
