"""A cluster in which everything goes at its own pace and anything may fail, one step at a time.

Theory. `Toy` carries every change through at once; here each hand-over is a step of its own:

    API server --wire--> ingest --log--> projector --outbox--> actuator --outcomes--> log

What changed waits on the wire of its kind until `see`, `relist` loses a wire and lists instead,
`again` delivers what was delivered before, `fold` folds and commits as the projector does, `crash`
folds, loses that and starts from what was committed, `act` carries a decision out (or is refused,
or loses the answer), `hear` brings an outcome. Users, kubelet and admins act on the API server.

Every step is a word and small integers, so that a program is a list which can be kept as a file;
integers choose by remainder, so any program can be played. What is committed are the rows that the
journal names, as in a database: a change that the journal forgets is lost by the next crash.

Invariant: `checked` holds after every fold; `rest` lets everything come to rest and holds it
against the API server's view of pods and Workloads.
"""

from collections import Counter, deque
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from podgroup import commands as c
from podgroup import events as e
from podgroup.engine import due_timers, load_world, new_world, rejoin_frames, step, take
from podgroup.events import Batch
from podgroup.members import Flag
from podgroup.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    IS_GROUP_WORKLOAD,
    MANAGED_LABEL,
    POD_FINALIZER,
    POD_GROUP_ROLE,
    PRIORITY_CLASS,
    QUEUE_NAME,
    RETRIABLE_IN_GROUP,
    SERVING,
)
from podgroup.names import FAST_ADMISSION as FAST
from podgroup.objects import DeclaredSet, LocalQueueView, PodView, kind_of
from podgroup.policy import Policy
from podgroup.state import Group, Meta, Pod, World
from tests.e2e.audit import Cluster, audit
from tests.support.toy import Toy

KINDS = ("Pod", "Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass")
"""Kinds whose objects change while a program plays."""
SETS = (
    DeclaredSet(name="driver"),
    DeclaredSet(name="workers", count=2, requests={"cpu": 1000}, role="r1", template="{}"),
)
GROUPS: dict[str, tuple[int, dict[str, str]]] = {
    "a": (2, {}),
    "b": (3, {}),
    "c": (1, {}),
    "d": (3, {}),
    "e": (3, {FAST: "true"}),
    "f": (2, {SERVING: "true"}),
}
"""Group -> total count and annotations; `d` declares one driver and two workers."""
QUOTA = 5
"""Cores of the ClusterQueue, as a program begins and as it ends."""
ROUNDS = 400

_packed = msgspec.msgpack.Encoder(order="sorted").encode
_unpacked = msgspec.msgpack.decode


def encoded(world: World) -> dict[str, Any]:
    """What is stored of a world, as bytes per key."""
    objects = [
        *world.local_queues.values(),
        *world.cluster_queues.values(),
        *world.flavors.values(),
        *world.workload_classes.values(),
        *world.classes.values(),
        *world.namespaces.values(),
    ]
    return {
        "meta": _packed(world.meta),
        "groups": {k: _packed(v) for k, v in world.groups.items()},
        "pods": {k: _packed(v) for k, v in world.pods.items()},
        "objects": {(kind_of(o), o.namespace, o.name): o for o in objects}
        | {("Workload", *key): w for key, w in world.workloads.items()},
    }


class Rough(Toy):
    """A cluster on which a program is played; `steps` is the program so far."""

    def __init__(
        self,
        mode: str = "builtin",
        *,
        strategy: str = "BestEffortFIFO",
        within: str = "LowerPriority",
        ready_s: int = 0,
    ) -> None:
        self.wires: dict[str, deque[e.Event]] = {}
        self.outcomes: list[e.OutcomeRecorded] = []
        self.heard: list[e.OutcomeRecorded] = []
        policy = Policy(pods_ready_timeout_s=ready_s, requeuing_backoff_s=20)
        self.mode, self.policy = mode, policy
        super().__init__(QUOTA, mode=mode, policy=policy, strategy=strategy, within=within)
        self.strategy, self.within = strategy, within
        self.act = False
        self.slow = True
        self.quota = self.largest_quota = QUOTA
        self.stop_policy = "None"
        self.local: LocalQueueView | None = self.world.local_queues[("ns", "lq")]
        self.flavor: Any = self.world.flavors["f"]
        self.wires = {kind: deque() for kind in KINDS}
        self.outbox: list[e.Decision] = []
        self.folded = len(self.messages)
        self.foreseen: dict[int, list[e.Decision]] = {}
        self.tampered: set[str] = set()
        """Uids of pods at which somebody did what no user is supposed to do."""
        self.opened: set[str] = set()
        self.refused: Counter[tuple[str, str]] = Counter()
        self.decided: Counter[tuple[str, str]] = Counter()
        self.serial = 0
        self.stored: dict[str, Any] = {}
        self.store(everything=True)

    # -- a program ---

    def play(self, program: Iterable[list[Any]]) -> None:
        for verb, *numbers in program:
            self.do_step(verb, *numbers)

    def do_step(self, verb: str, *numbers: int) -> None:
        getattr(self, f"step_{verb}")(*numbers)

    # -- users ---

    def step_create(self, group: int, cpu: int, more: int) -> None:
        """A pod of a group, or a single pod; `more` 5: one that was never gated (B17)."""
        self.serial += 1
        names = [*GROUPS, "s"]
        which = names[group % len(names)]
        name = f"{which}{self.serial}"
        cpu = 1 + cpu % 2
        labels = {PRIORITY_CLASS: ("low", "high")[more % 2]} if which in "bs" else {}
        gated = more != 5
        if which == "s":
            view = self.pod(name, cpu=cpu, labels=labels, gated=gated)
        elif which == "d" and more % 3 == 0:
            view = self.pod(name, "gd", None, sets=SETS, gated=gated)
        elif which == "d":
            role = {POD_GROUP_ROLE: "workers" if more % 3 == 1 else "nowhere"}
            view = self.pod(name, "gd", None, cpu=cpu, labels=role, gated=gated)
        else:
            total, annotations = GROUPS[which]
            annotations = dict(annotations)
            view = self.pod(
                name, f"g{which}", total, cpu, labels=labels, annotations=annotations, gated=gated
            )
        if not gated:
            self.tampered.add(view.uid)

    def step_fill(self, group: int, cpu: int) -> None:
        """What is missing of a group, all at once."""
        which = [*GROUPS][group % len(GROUPS)]
        there = [
            p
            for p in self.pods.values()
            if p.labels.get(GROUP_NAME) == f"g{which}"
            and p.phase not in ("Failed", "Succeeded")
            and p.deleted_at is None
        ]
        for number in range(GROUPS[which][0] - len(there)):
            index = [*GROUPS].index(which)
            self.step_create(index, cpu, number if which == "d" else cpu)

    def step_delete(self, pick: int) -> None:
        view = self._pick(pick)
        if view is not None and view.deleted_at is None:
            self._delete(view.uid)

    def step_run(self, pick: int) -> None:
        """The scheduler binds it and the kubelet starts it."""
        ready = [p for p in self.pods.values() if not p.gates and p.phase == "Pending"]
        view = self._pick(pick, [p for p in ready if p.deleted_at is None])
        if view is not None:
            self.run(view.name)

    def step_end(self, pick: int, good: int) -> None:
        """A running pod ends; one that is being deleted and ends badly leaves the node."""
        view = self._pick(pick, [p for p in self.pods.values() if p.phase == "Running"])
        if view is not None:
            self.change(view.uid, phase="Succeeded" if good % 2 else "Failed", conditions=())

    def step_relabel(self, pick: int, what: int) -> None:
        """A user changes a pod; some of it is refused by a webhook that was not asked."""
        view = self._pick(pick)
        if view is None:
            return
        labels, annotations = dict(view.labels), dict(view.annotations)
        match what % 7:
            case 0:
                labels[QUEUE_NAME] = "other" if labels.get(QUEUE_NAME) == "lq" else "lq"
            case 1:
                annotations[RETRIABLE_IN_GROUP] = "false"
            case 2:
                labels[PRIORITY_CLASS] = "low" if labels.get(PRIORITY_CLASS) == "high" else "high"
            case 3 if GROUP_TOTAL_COUNT in annotations:
                annotations[GROUP_TOTAL_COUNT] = str(int(annotations[GROUP_TOTAL_COUNT]) % 3 + 1)
            case 4:
                labels.pop(MANAGED_LABEL, None)
                self.tampered.add(view.uid)
            case 5:
                labels[MANAGED_LABEL] = "true"
            case 6 if GROUP_NAME in labels:
                labels[GROUP_NAME] = "ga" if labels[GROUP_NAME] != "ga" else "gb"
                self.tampered.add(view.uid)
        if (labels, annotations) != (view.labels, view.annotations):
            self.change(view.uid, labels=labels, annotations=annotations)

    def step_tamper(self, pick: int, what: int) -> None:
        """Somebody removes our gate or our finalizer."""
        view = self._pick(pick)
        if view is None:
            return
        self.tampered.add(view.uid)
        if what % 2 and ADMISSION_GATE in view.gates:
            self.change(view.uid, gates=(), writer="kubectl-edit", written_at=self.now)
        elif not what % 2 and POD_FINALIZER in view.finalizers:
            self.change(view.uid, finalizers=())

    def step_drop(self, pick: int) -> None:
        """A user deletes a Workload."""
        names = sorted(n for n, w in self.workloads.items() if w.deleted_at is None)
        if names:
            self.delete_workload(names[pick % len(names)])

    def step_active(self, pick: int) -> None:
        """A user deactivates a Workload, or activates it again."""
        names = sorted(n for n, w in self.workloads.items() if w.deleted_at is None)
        if names:
            w = self.workloads[names[pick % len(names)]]
            self.put_workload(msgspec.structs.replace(w, active=not w.active))

    # -- admins ---

    def step_quota(self, cpu: int) -> None:
        self.quota = 1 + cpu % 7
        self.largest_quota = max(self.largest_quota, self.quota)
        self._queue()

    def step_stop_queue(self, how: int) -> None:
        self.stop_policy = ("None", "Hold", "HoldAndDrain")[how % 3]
        self._queue()

    def _queue(self) -> None:
        view = self.cluster_queue(
            self.quota, self.strategy, self.within, stop_policy=self.stop_policy
        )
        self.send(e.ObjectApplied(object=view))

    def step_local(self, _: int = 0) -> None:
        """The LocalQueue goes, or comes again."""
        if self.local is not None:
            gone, self.local = self.local, None
            self.send(
                e.ObjectDeleted(
                    kind="LocalQueue",
                    namespace="ns",
                    name="lq",
                    uid=gone.uid,
                    resource_version=self.bump(),
                )
            )
            return
        self.serial += 1
        self.local = LocalQueueView(
            uid=f"lq{self.serial}",
            namespace="ns",
            name="lq",
            resource_version=self.bump(),
            cluster_queue="cq",
        )
        self.send(e.ObjectApplied(object=self.local))

    # -- Kueue's core, in kueue mode ---

    def step_core(self, pick: int, what: int) -> None:
        """Kueue's core admits a Workload that fits, or evicts one that holds quota."""
        if self.mode != "kueue":
            return
        if what % 3 == 0:
            names = sorted(n for n in self.workloads if self._holds(n) and not self._evicted(n))
            if names:
                self.evict(names[pick % len(names)])
            return
        names = sorted(n for n in self.workloads if self._admissible(n))
        if names:
            self.admit(names[pick % len(names)])

    def _holds(self, name: str) -> bool:
        return bool(self.workloads[name].cluster_queue) and "Finished" not in self.true(name)

    def _evicted(self, name: str) -> bool:
        return "Evicted" in self.true(name)

    def _admissible(self, name: str) -> bool:
        w, true = self.workloads[name], self.true(name)
        if self._holds(name) or not w.active or w.deleted_at is not None or w.queue != "lq":
            return False
        if true & {"Finished", "WaitingForReplacementPods"} or self.local is None:
            return False
        if self.condition(name, "Requeued")[0] == "False":
            return False
        used = sum(self._demand(n) for n in self.workloads if self._holds(n))
        return used + self._demand(name) <= self.quota * 1000

    def _demand(self, name: str) -> int:
        w = self.workloads[name]
        return sum(
            (p.count - w.reclaimable.get(p.name, 0)) * p.requests.get("cpu", 0) for p in w.pod_sets
        )

    # -- the wire and the log ---

    def send(self, *events: e.Event) -> None:
        if not self.wires:
            super().send(*events)
            return
        for event in events:
            if isinstance(event, e.OutcomeRecorded):
                self.outcomes.append(event)
            else:
                self.wires[_kind(event)].append(event)

    def publish(self, *events: e.Event) -> None:
        self.position += 1
        self.messages.append((self.position, self.now, Batch(source="watch", events=events)))
        self.now += timedelta(milliseconds=10)

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
            self.publish(*batch.events)

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
        before = len(journal.decisions)
        step(self.world, position, at, batch)
        new = journal.decisions[before:]
        foreseen = self.foreseen.pop(position, None)
        if foreseen is not None:
            assert new == foreseen, _difference("folded again after a crash", foreseen, new)
        assert not journal.parked, journal.parked
        self._made(new)
        self.decisions += new
        self.outbox += new

    def step_crash(self, count: int) -> None:
        """Fold some messages, lose it all before the commit, and start from what was stored."""
        for position, at, batch in self.messages[self.folded : self.folded + count]:
            before = len(self.world.journal.decisions)
            step(self.world, position, at, batch)
            self.foreseen[position] = self.world.journal.decisions[before:]
        self.world = self.loaded()

    def loaded(self) -> World:
        """The world that a projector starts from."""
        stored = self.stored
        groups = [_unpacked(b, type=Group) for b in stored["groups"].values()]
        pods = [_unpacked(b, type=Pod) for b in stored["pods"].values()]
        views = stored["objects"]
        world = load_world(
            "test",
            self.mode,
            _unpacked(stored["meta"], type=Meta),
            sorted(groups, key=lambda g: (g.created_seq, g.id)),
            sorted(pods, key=lambda p: (p.seen_seq, p.view.uid)),
            [views[key] for key in sorted(views) if key[0] != "Workload"],
            [views[key] for key in sorted(views) if key[0] == "Workload"],
            self.policy,
        )
        for frame in list(world.meta.frames.values()):
            for position, _, batch in self.messages:
                if frame.started_seq <= position <= world.meta.position:
                    rejoin_frames(world, batch, position)
        return world

    def store(self, *, everything: bool = False) -> None:
        """Write what the journal names, as the projector does."""
        world = self.world
        now = encoded(world)
        taken = take(world)
        if everything:
            self.stored = now
            return
        stored = self.stored
        stored["meta"] = now["meta"]
        for table, gone, changed in (
            ("groups", taken.gone_groups, taken.journal.groups),
            ("pods", taken.gone_pods, taken.journal.pods),
            ("objects", (), taken.journal.objects),
        ):
            for key in (*gone, *sorted(changed)):
                if key in now[table]:
                    stored[table][key] = now[table][key]
                elif key in gone or table == "objects":
                    stored[table].pop(key, None)

    # -- the actuator ---

    def step_act(self, pick: int, how: int) -> None:
        """Carry a decision out. `how` 1: refused, 2: the answer is lost, 3: nothing yet, again."""
        heads = self._heads()
        if not heads:
            return
        decision = heads[pick % len(heads)]
        if isinstance(decision.command, c.RECORDS):
            self.outbox.remove(decision)
            return
        if how == 1 and not isinstance(decision.command, c.EmitEvent | c.ReportPod):
            self.outbox.remove(decision)
            self.refused[_what(decision)] += 1
            self.send(_outcome(decision, "rejected", 422))
            return
        if how == 3:
            self.send(_outcome(decision, "retrying", 409))
            return
        before = len(self.outcomes)
        self.execute(decision)
        if how == 2:
            del self.outcomes[before:]
            return
        if self.outcomes[-1].status in ("rejected", "obsolete"):
            self.refused[_what(decision)] += 1
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

    # -- what must hold ---

    def _made(self, new: list[e.Decision]) -> None:
        """What must hold of the decisions of one message, right after it."""
        world = self.world
        targets: dict[str, set[str]] = {}
        for d in new:
            command, uid = d.command, d.command.target.uid
            kind = type(command).__name__
            if command.target.kind == "Pod" and not isinstance(command, c.EmitEvent | c.ReportPod):
                targets.setdefault(uid, set()).add(kind)
                self.decided[_what(d)] += 1
                made, refused = self.decided[_what(d)], self.refused[_what(d)]
                if uid not in self.tampered:
                    assert made <= 1 + refused, f"{kind} of {uid} decided {made} times: {d}"
            group: Any = world.groups.get(d.group)  # type: ignore[call-overload]
            match command:
                case c.UngatePod():
                    assert group.composed, f"ungated before it was composed: {d}"
                    assert group.holding is not None, f"ungated without admission: {d}"
                    assert group.holding.admitted, f"ungated without admission: {d}"
                    deleted = self.decided[(uid, "DeletePod")] + self.decided[(uid, "StopPod")]
                    assert not deleted or uid in self.tampered, f"deleted, then ungated: {d}"
                case c.DeletePod():
                    if uid not in self.tampered and not self._any_tampered(d.group):
                        ungated = self.decided[(uid, "UngatePod")]
                        assert not ungated, f"ungated, then deleted as excess: {d}"
                    self._not_below(group, d)
                case c.CreateWorkload() if "made again" not in d.message:
                    self._complete(group, command)
                case c.AdmitGroup():
                    used = world.quotas.usage.get("cq", Counter())[("f", "cpu")]
                    nominal = world.cluster_queues["cq"].groups[0].flavors[0].resources["cpu"]
                    assert used <= nominal.nominal, f"{used}m in use after {d}"
        for uid, kinds in targets.items():
            assert len(kinds) == 1, f"{sorted(kinds)} of pod {uid} at once"

    def _unstored(self, table: str, now: dict[Any, Any]) -> str:
        """Name what is stored of a table that is not what is known."""
        stored = self.stored[table]
        keys = [k for k in {**stored, **now} if stored.get(k) != now.get(k)]
        if table not in ("groups", "pods"):
            return f"{keys} stored, but known otherwise"
        said = []
        for key in keys:
            one, other = (
                _unpacked(t[key]) if key in t else {"": f"no {key}"} for t in (stored, now)
            )
            said.append(
                {
                    k: (one.get(k), other.get(k))
                    for k in {**one, **other}
                    if one.get(k) != other.get(k)
                }
            )
        return f"stored and known differ: {said}"

    def _any_tampered(self, group: str) -> bool:
        members = self.world.members.get(group)  # type: ignore[call-overload]
        return members is None or any(uid in self.tampered for uid in members.flags)

    def _not_below(self, group: Any, d: e.Decision) -> None:
        if group is None or group.single:
            return
        members = self.world.members[group.id]
        if group.composed:
            for role in group.roles.values():
                pod = self.world.pods.get(d.command.target.uid)  # type: ignore[call-overload]
                if pod is not None and pod.role == role.name and role.count:
                    left = members.count(Flag.ACTIVE, role.name) + role.succeeded_gone
                    assert left >= role.count, f"{left} of {role.count} pods left after {d}"
        elif not group.dialect:
            left = members.count(Flag.ACTIVE)
            assert left >= group.total, f"{left} of {group.total} pods left after {d}"

    def _complete(self, group: Any, command: c.CreateWorkload) -> None:
        if group.single:
            return
        count = sum(p.count for p in command.pod_sets)
        pods = [self.world.pods[u] for u in self.world.members[group.id].flags]
        active = [p for p in pods if p.fate != "excess" and p.view.phase != "Failed"]
        if group.dialect:
            assert count == 3, f"{count} places of 3 that are declared"
            return
        totals = {p.view.annotations[GROUP_TOTAL_COUNT] for p in active}
        assert totals == {str(count)}, f"composed with {count}, pods say {totals}"
        if not group.fast:
            assert len(active) >= count, f"composed with {len(active)} of {count} pods"

    def checked(self) -> None:
        """What must hold after a commit."""
        world, now = self.world, encoded(self.world)
        for table in ("meta", "groups", "pods", "objects"):
            assert self.stored[table] == now[table], f"{table}: {self._unstored(table, now[table])}"
        again = self.loaded()
        step(again, world.meta.position, self.messages[-1][1], Batch(source="test", events=()))
        more = again.journal.decisions
        assert not more, f"decided anew with nothing new: {more}"
        busy = [
            p
            for p in self.pods.values()
            if p.uid in self.opened - self.tampered
            and not p.gates
            and p.phase in ("Pending", "Running")
            and p.deleted_at is None
            and not self.decided[(p.uid, "StopPod")] + self.decided[(p.uid, "DeletePod")]
            and {QUEUE_NAME, MANAGED_LABEL} <= set(p.labels)
        ]
        used = sum(p.requests["cpu"] for p in busy)
        assert used <= self.largest_quota * 1000, f"{used}m run: {sorted(p.name for p in busy)}"
        for group in world.groups.values():
            members = world.members[group.id]
            if any(uid in self.tampered for uid in members.flags):
                continue
            for role in group.roles.values():
                taken = members.count(Flag.OPEN, role.name) + members.count(Flag.OPENING, role.name)
                if group.composed and role.count:
                    assert taken <= role.count, f"{taken} of {role.count} places of {role.name}"

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
            assert there or group.holding is None, f"{group.name} holds quota for nobody"

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
        if "says otherwise" in line:
            return name in ("gd", "ge")  # what was never created is not missing there
        # Deleted past the gate and before it was bound: it keeps its place until replaced.
        return "before it ran" in line and self.last[name].uid in self.opened

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
                            self.world.pods[p.uid].role  # type: ignore[index]
                            if p.uid in self.world.pods
                            else p.role
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
        return Cluster(pods, [_workload(w) for w in self.workloads.values()])

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
            then = list(recorded.get(position, {}).values())
            assert new == then, _difference(f"replayed at {position}", then, new)
        assert encoded(again) == encoded(self.world), "the replayed world is another"
        applied = new_world("test", self.mode, self.policy)
        for position, at, batch in self.messages[: self.folded]:
            difference = step(applied, position, at, batch, recorded.get(position, {}))
            assert not difference.only_now, difference.only_now
            assert not difference.only_then, difference.only_then
        assert encoded(applied) == encoded(self.world), "applied decisions give another world"

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
        assert not world.quotas.places

    def _pick(self, pick: int, among: list[PodView] | None = None) -> PodView | None:
        found = sorted(self.pods.values() if among is None else among, key=lambda p: p.uid)
        return found[pick % len(found)] if found else None


def _kind(event: e.Event) -> str:
    match event:
        case e.PodApplied() | e.PodDeleted():
            return "Pod"
        case e.WorkloadApplied() | e.WorkloadDeleted():
            return "Workload"
        case e.ObjectApplied():
            return kind_of(event.object)
        case e.ObjectDeleted():
            return event.kind
        case _:
            raise AssertionError(event)


def _what(d: e.Decision) -> tuple[str, str]:
    return d.command.target.uid, type(d.command).__name__


def _outcome(d: e.Decision, status: Any, code: int) -> e.OutcomeRecorded:
    return e.OutcomeRecorded(decision=d.id, group=d.group, status=status, http_status=code)


def _difference(what: str, then: list[e.Decision], now: list[e.Decision]) -> str:
    lines = [what]
    lines += [f"- {d}" for d in then if d not in now]
    lines += [f"+ {d}" for d in now if d not in then]
    return "\n".join(lines)


def _workload(w: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": w.name,
            "annotations": dict(w.annotations),
            "finalizers": list(w.finalizers),
            "ownerReferences": [{"uid": o.uid} for o in w.owners],
        },
        "spec": {
            "podSets": [
                {
                    "name": p.name,
                    "count": p.count,
                    "template": {
                        "spec": {
                            "containers": [
                                {"resources": {"requests": {"cpu": f"{p.requests['cpu']}m"}}}
                            ]
                        }
                    },
                }
                for p in w.pod_sets
            ]
        },
        "status": {
            "conditions": [
                {"type": x.type, "status": x.status, "reason": x.reason} for x in w.conditions
            ],
            "reclaimablePods": [{"name": n, "count": k} for n, k in w.reclaimable.items()],
            **(
                {
                    "admission": {
                        "podSetAssignments": [
                            {
                                "name": a.name,
                                "count": a.count,
                                "resourceUsage": {"cpu": f"{a.usage.get('cpu', 0)}m"},
                            }
                            for a in w.assignments
                        ]
                    }
                }
                if w.cluster_queue
                else {}
            ),
        },
    }
