"""A log to fold: groups of pods that are created, admitted, run, end, are let go and deleted.

Theory. Decisions are named after the position of the message they follow, so a log with outcomes in
it can only be made by deciding along: the engine's decisions are carried out on the cluster that
what-if plays on, and every message is written that an ingester and an actuator would have
published. Folded again by a fresh engine at the same positions, the same decisions follow.

Two shapes of the same log. Trickling: one event a message, each followed at once by its decisions.
Under load: all events before the next answer collect, as they do in front of the ingester's
publisher and the actuator's log of outcomes, and go out in full messages: all pods of a wave are
created, then all gates are removed, then all outcomes are published, and so on.

Invariant: deterministic; two stories of the same shape are equal byte for byte.
"""

from collections import Counter, deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import Any

import msgspec

from gatelog.whatif.arrivals import Life
from gatelog.whatif.cluster import Cluster
from podgroup.engine import drain_journal, new_world, step
from podgroup.log import events as e
from podgroup.log.codec import Conclusions, encode_batch
from podgroup.log.events import Batch
from podgroup.log.subjects import Source
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
)
from podgroup.model.objects import (
    WATCHED_KINDS,
    ClusterQueueView,
    Condition,
    FlavorQuotas,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    PodView,
    Quota,
    ResourceGroup,
    Selector,
    kind_of,
)
from podgroup.rules import decides_by

_START = datetime(2026, 1, 1, tzinfo=UTC)
READY = (Condition(type="Ready", status="True"),)
CLUSTER = "bench"
_LIFE = Life(run_s=0.0)
"""Pods start and end by waves, not by time."""


class Message(msgspec.Struct, frozen=True):
    """A message of the log as it would be stored."""

    position: int
    at: datetime
    source: Source
    body: bytes
    events: int = 1


_SAID_BY: dict[type[e.Event], Source] = {
    e.OutcomeRecorded: "actuator",
    e.SettingsRecorded: "projector",
}


class Story:
    """`groups` groups of `size` pods, `at_once` of them alive at a time.

    `message_bytes`: events collect into messages of at most so many bytes; 0: one event a message.
    """

    def __init__(
        self, groups: int, size: int, at_once: int = 50, *, message_bytes: int = 0
    ) -> None:
        self.messages: list[Message] = []
        self._message_bytes = message_bytes
        self.counts: Counter[str] = Counter()
        self._world = new_world(CLUSTER)
        self._cluster = Cluster(keeps=True)
        self.decisions = 0
        """How many decisions were made."""
        self._decided: deque[Conclusions] = deque()
        self._set_up()
        for first in range(0, groups, at_once):
            self._wave([f"g{n:05d}" for n in range(first, min(groups, first + at_once))], size)

    @property
    def events(self) -> int:
        """How many events there are in all messages."""
        return sum(self.counts.values())

    @property
    def conclusions(self) -> int:
        """The number of the last conclusion."""
        return self._world.meta.decisions

    def _wave(self, names: list[str], size: int) -> None:
        uids = [self._create(name, i, size) for i in range(size) for name in names]
        self._settle()
        self._change(uids, node="node-1")
        self._change(uids, phase="Running", conditions=READY)
        self._change(uids, phase="Succeeded", conditions=())
        for uid in uids:
            self._cluster.remove(self._cluster.pods[uid])
            self._sent()
        self._settle()

    # -- the log ---

    @property
    def _now(self) -> datetime:
        return _START + timedelta(milliseconds=2 * self.events)

    def _sent(self) -> None:
        """Under load, changes collect."""
        if not self._message_bytes:
            self._settle()

    def _settle(self) -> None:
        """Carry out decisions, and the decisions that follow, until there are no more."""
        cluster = self._cluster
        while self._decided or cluster.said:
            if not self._message_bytes:
                self._publish_said()
            while self._decided:
                self._see_through(self._decided.popleft())
                if not self._message_bytes:
                    self._publish_said()
            self._publish_said()

    def _see_through(self, one: Conclusions) -> None:
        """Do what follows from a conclusion; from records nothing does."""
        if isinstance(one, e.Decision):
            self._cluster.now = self._now
            self._cluster.carry_out(one)

    def _publish_said(self) -> None:
        said, self._cluster.said = self._cluster.said, []
        for source in ("projector", "watch", "actuator"):
            mine = [event for event in said if _SAID_BY.get(type(event), "watch") == source]
            for events in self._full(mine):
                self._publish(events)

    def _full(self, events: list[e.Event]) -> Iterator[tuple[e.Event, ...]]:
        """Cut events into messages as the ingester's publisher does: in order, by size."""
        taken: list[e.Event] = []
        size = 0
        for event in events:
            each = len(msgspec.json.encode(event)) if self._message_bytes else 1
            if taken and size + each > self._message_bytes:
                yield tuple(taken)
                taken, size = [], 0
            taken.append(event)
            size += each
        if taken:
            yield tuple(taken)

    def _publish(self, events: tuple[e.Event, ...]) -> None:
        source = _SAID_BY.get(type(events[0]), "watch")
        batch = Batch(source=source, events=events)
        position, body = self._world.meta.position + 1, encode_batch(batch)
        message = Message(position, self._now, source, body, len(events))
        self.messages.append(message)
        self.counts["outcomes" if source == "actuator" else "deltas"] += len(events)
        step(self._world, message.position, message.at, batch)
        journal = drain_journal(self._world).journal
        self.decisions += len(journal.decisions)
        self._decided.extend(journal.decisions)
        self._decided.extend(journal.concluded)

    def _set_up(self) -> None:
        quotas = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=10**12)})
        objects = (
            NamespaceView(uid="n", name="ns", resource_version=""),
            FlavorView(uid="f", name="f", resource_version=""),
            ClusterQueueView(
                uid="cq",
                name="cq",
                resource_version="",
                strategy="BestEffortFIFO",
                namespaces=Selector(),
                groups=(ResourceGroup(covered=("cpu",), flavors=(quotas,)),),
            ),
            LocalQueueView(
                uid="lq", namespace="ns", name="lq", resource_version="", cluster_queue="cq"
            ),
        )
        world, cluster = self._world, self._cluster
        self._publish((decides_by(world.mode, world.policy, metadata.version("gatelog")),))
        for kind in WATCHED_KINDS:
            cluster.said.append(e.RelistStarted(kind=kind, relist=kind))
            for view in objects:
                if kind_of(view) == kind:
                    cluster.put_object(view, kind)
            version = cluster.bump()
            cluster.said.append(e.RelistCompleted(kind=kind, relist=kind, resource_version=version))
        self._settle()

    # -- users and kubelet ---

    def _create(self, group: str, index: int, total: int) -> str:
        uid = f"{group}-{index:05d}-7c1f3a90-4a53-4e5b-b1a7-5f0c0d0e0f11"
        view = PodView(
            uid=uid,
            namespace=self._namespace(group),
            name=f"{group}-{index:05d}",
            resource_version="",
            created_at=self._now.replace(microsecond=0),
            labels={QUEUE_NAME: "lq", MANAGED_LABEL: "true", GROUP_NAME: group, "team": "bench"},
            annotations={GROUP_TOTAL_COUNT: str(total)},
            finalizers=(POD_FINALIZER,),
            gates=(ADMISSION_GATE,),
            role="3f1c9a7d",
            role_annotated=True,
            requests={"cpu": 1000},
            phase="Pending",
        )
        self._cluster.create(view, _LIFE)
        self._sent()
        return uid

    def _namespace(self, group: str) -> str:
        """Where the pods of a group are."""
        return "ns"

    def _change(self, uids: list[str], **fields: Any) -> None:
        """Change pods singly, and settle."""
        for uid in uids:
            self._cluster.change(self._cluster.pods[uid], **fields)
            self._sent()
        self._settle()
