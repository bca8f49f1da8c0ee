"""What a program is played on: the API server's objects, wires, the log, and what is stored.

Invariant: what is stored changes by `store` alone, and a world begins with what is stored.
"""

from collections import Counter, deque
from datetime import timedelta
from typing import Any

import msgspec

from podgroup.engine import Stored, drain_journal, load_world, rejoin_frames
from podgroup.log import events as e
from podgroup.log.events import Batch
from podgroup.model.names import FAST_ADMISSION as FAST
from podgroup.model.names import SERVING
from podgroup.model.objects import DeclaredSet, LocalQueueView, PodView, kind_of
from podgroup.model.policy import Policy
from podgroup.state.group import Group
from podgroup.state.meta import Meta
from podgroup.state.pod import Pod
from podgroup.state.world import World
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

packed = msgspec.msgpack.Encoder(order="sorted").encode
unpacked = msgspec.msgpack.decode


def encoded(world: World) -> dict[str, Any]:
    """What is stored of a world, as bytes per key."""
    objects: list[Any] = [
        *world.local_queues.values(),
        *world.cluster_queues.values(),
        *world.flavors.values(),
        *world.workload_classes.values(),
        *world.classes.values(),
        *world.namespaces.values(),
    ]
    return {
        "meta": packed(world.meta),
        "groups": {k: packed(v) for k, v in world.groups.items()},
        "pods": {k: packed(v) for k, v in world.pods.items()},
        "standings": dict(world.standings),
        "objects": {(kind_of(o), o.namespace, o.name): o for o in objects}
        | {("Workload", *key): w for key, w in world.workloads.items()},
    }


class Ground(Toy):
    """A cluster before anything happens."""

    def __init__(
        self,
        mode: str = "builtin",
        *,
        strategy: str = "BestEffortFIFO",
        within: str = "LowerPriority",
        ready_s: int = 0,
        workloads: str = "all",
        policy: Policy | None = None,
    ) -> None:
        self.wires: dict[str, deque[e.Event]] = {}
        self.outcomes: list[e.OutcomeRecorded] = []
        self.heard: list[e.OutcomeRecorded] = []
        policy = policy or Policy(
            pods_ready_timeout_s=ready_s, requeuing_backoff_s=20, workloads=workloads
        )
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

    # -- the log ---

    def send(self, *events: Any) -> None:
        if not self.wires:
            super().send(*events)
            return
        for event in events:
            if isinstance(event, e.OutcomeRecorded):
                self.outcomes.append(event)
            else:
                self.wires[kind_of_event(event)].append(event)

    def publish(self, *events: e.Event) -> None:
        self.position += 1
        self.messages.append((self.position, self.now, Batch(source="watch", events=events)))
        self.now += timedelta(milliseconds=10)

    # -- what is stored ---

    def loaded(self) -> World:
        """The world that a projector starts from."""
        stored = self.stored
        groups = [unpacked(b, type=Group) for b in stored["groups"].values()]
        pods = [unpacked(b, type=Pod) for b in stored["pods"].values()]
        views = stored["objects"]
        world = load_world(
            "test",
            self.mode,
            Stored(
                unpacked(stored["meta"], type=Meta),
                sorted(groups, key=lambda g: (g.created_seq, g.id)),
                sorted(pods, key=lambda p: (p.seen_seq, p.view.uid)),
                [views[key] for key in sorted(views) if key[0] != "Workload"],
                [views[key] for key in sorted(views) if key[0] == "Workload"],
                [*stored["standings"].items()],
            ),
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
        taken = drain_journal(world)
        if everything:
            self.stored = now
            return
        stored = self.stored
        stored["meta"] = now["meta"]
        for table, gone, changed in (
            ("groups", taken.gone_groups, taken.journal.groups),
            ("pods", taken.gone_pods, taken.journal.pods),
            ("objects", (), taken.journal.objects),
            ("standings", (), taken.journal.standings),
        ):
            for key in (*gone, *sorted(changed)):
                if key in now[table]:
                    stored[table][key] = now[table][key]
                elif key in gone or table in ("objects", "standings"):
                    stored[table].pop(key, None)

    def _pick(self, pick: int, among: list[PodView] | None = None) -> PodView | None:
        found = sorted(self.pods.values() if among is None else among, key=lambda p: p.uid)
        return found[pick % len(found)] if found else None


def kind_of_event(event: e.Event) -> str:
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


def lines_of(what: str, then: list[e.Decision], now: list[e.Decision]) -> str:
    lines = [what]
    lines += [f"- {d}" for d in then if d not in now]
    lines += [f"+ {d}" for d in now if d not in then]
    return "\n".join(lines)
