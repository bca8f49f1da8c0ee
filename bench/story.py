"""A log to fold: groups of pods that are created, admitted, run, end, are let go and deleted.

Theory. Decisions are named after the position of the message they follow, so a log with outcomes in
it can only be made by deciding along. `Story` is a small cluster: it carries out what the engine
decides and writes down every message that an ingester and an actuator would have published. Folded
again by a fresh engine at the same positions, the same decisions follow.

Two shapes of the same log. Trickling: one event a message, each followed at once by what is decided
on it. Under load: everything that happens before anybody answers collects, as it does in front of
the ingester's publisher and the actuator's log of outcomes, and goes out in full messages: all pods
of a wave are created, then all gates are removed, then all outcomes are told, and so on.

Invariant: deterministic; two stories of the same shape are equal byte for byte.
"""

from collections import Counter, deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import Any

import msgspec

from podgroup.engine import drain_journal, new_world, step
from podgroup.log import events as e
from podgroup.log.codec import Conclusions, encode_batch
from podgroup.log.events import Batch
from podgroup.log.subjects import Source
from podgroup.model import commands as c
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
    WORKLOAD_FINALIZER,
)
from podgroup.model.objects import (
    WATCHED_KINDS,
    ClusterQueueView,
    Condition,
    FlavorQuotas,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    OwnerRef,
    PodSetView,
    PodView,
    Quota,
    ResourceGroup,
    Selector,
    WorkloadView,
    split_owners,
)
from podgroup.rules import decides_by

_START = datetime(2026, 1, 1, tzinfo=UTC)
READY = (Condition(type="Ready", status="True"),)
CLUSTER = "bench"


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
        self._deltas: list[e.Event] = []
        self._outcomes: list[e.Event] = []
        self.counts: Counter[str] = Counter()
        self._world = new_world(CLUSTER)
        self.decisions = 0
        """How many decisions were made."""
        self._decided: deque[Conclusions] = deque()
        self._version = 10
        self._pods: dict[str, PodView] = {}
        self._workloads: dict[str, WorkloadView] = {}
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
        for uid in uids:
            self._change(uid, node="node-1")
        self._settle()
        for uid in uids:
            self._change(uid, phase="Running", conditions=READY)
        self._settle()
        for uid in uids:
            self._change(uid, phase="Succeeded", conditions=())
        self._settle()
        for uid in uids:
            gone = msgspec.structs.replace(
                self._pods.pop(uid), deleted_at=self._now, resource_version=self._bump()
            )
            self._send(e.PodDeleted(pod=gone))
        self._settle()
        for name in names:
            workload = self._workloads.pop(name, None)
            if workload is not None:
                last = msgspec.structs.replace(workload, resource_version=self._bump())
                self._send(e.WorkloadDeleted(workload=last))
        self._settle()

    # -- the log ---

    @property
    def _now(self) -> datetime:
        return _START + timedelta(milliseconds=2 * self.events)

    def _send(self, event: e.Event) -> None:
        self._log(event)
        if not self._message_bytes:
            self._settle()

    def _settle(self) -> None:
        """Carry out what is decided, and what is decided on that, until nothing more is."""
        while self._decided or self._deltas or self._outcomes:
            while self._decided:
                self._see_through(self._decided.popleft())
            deltas, self._deltas = self._deltas, []
            outcomes, self._outcomes = self._outcomes, []
            for events in (*self._full(deltas), *self._full(outcomes)):
                self._publish(events)

    def _see_through(self, one: Conclusions) -> None:
        """Do what follows from a conclusion; from records nothing does."""
        if isinstance(one, e.Decision):
            self._carry_out(one)

    def _log(self, event: e.Event) -> None:
        if not self._message_bytes or isinstance(event, e.SettingsRecorded):
            self._publish((event,))  # nobody says it together with others
        elif isinstance(event, e.OutcomeRecorded):
            self._outcomes.append(event)
        else:
            self._deltas.append(event)

    def _full(self, events: list[e.Event]) -> Iterator[tuple[e.Event, ...]]:
        """Cut events into messages as the ingester's publisher does: in order, by size."""
        taken: list[e.Event] = []
        size = 0
        for event in events:
            each = len(msgspec.json.encode(event))
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

    def _bump(self) -> str:
        self._version += 1
        return str(self._version)

    def _set_up(self) -> None:
        v = self._bump
        quotas = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=10**12)})
        objects: dict[str, list[Any]] = {
            "Namespace": [NamespaceView(uid="n", name="ns", resource_version=v())],
            "ResourceFlavor": [FlavorView(uid="f", name="f", resource_version=v())],
            "ClusterQueue": [
                ClusterQueueView(
                    uid="cq",
                    name="cq",
                    resource_version=v(),
                    strategy="BestEffortFIFO",
                    namespaces=Selector(),
                    groups=(ResourceGroup(covered=("cpu",), flavors=(quotas,)),),
                )
            ],
            "LocalQueue": [
                LocalQueueView(
                    uid="lq", namespace="ns", name="lq", resource_version=v(), cluster_queue="cq"
                )
            ],
        }
        world = self._world
        self._send(decides_by(world.mode, world.policy, metadata.version("gatelog")))
        for kind in WATCHED_KINDS:
            self._send(e.RelistStarted(kind=kind, relist=kind))
            for view in objects.get(kind, []):
                self._send(e.ObjectApplied(object=view, relist=kind))
            self._send(e.RelistCompleted(kind=kind, relist=kind, resource_version=v()))
        self._settle()

    # -- users and kubelet ---

    def _create(self, group: str, index: int, total: int) -> str:
        uid = f"{group}-{index:05d}-7c1f3a90-4a53-4e5b-b1a7-5f0c0d0e0f11"
        view = PodView(
            uid=uid,
            namespace="ns",
            name=f"{group}-{index:05d}",
            resource_version=self._bump(),
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
        self._pods[uid] = view
        self._send(e.PodApplied(pod=view))
        return uid

    def _change(self, uid: str, **fields: Any) -> None:
        view = msgspec.structs.replace(self._pods[uid], resource_version=self._bump(), **fields)
        self._pods[uid] = view
        self._send(e.PodApplied(pod=view))

    # -- the actuator ---

    def _carry_out(self, decision: e.Decision) -> None:
        command = decision.command
        if isinstance(command, c.RECORDS):
            return
        target = command.target
        if target.kind == "Pod":
            uid, version = target.uid, self._write_pod(command)
        else:
            uid, version = self._write_workload(command)
        self._log(
            e.OutcomeRecorded(
                decision=decision.id,
                group=decision.group,
                status="applied" if version else "obsolete",
                uid=uid,
                resource_version=version,
                http_status=200,
                by="bench",
            )
        )

    def _write_pod(self, command: Any) -> str:
        view = self._pods.get(command.target.uid)
        if view is None:
            return ""
        match command:
            case c.UngatePod():
                view = msgspec.structs.replace(
                    view, gates=(), labels={**view.labels, **command.labels}, writer="gatelog"
                )
            case c.FinalizePod():
                view = msgspec.structs.replace(view, finalizers=())
            case _:
                return view.resource_version
        view = msgspec.structs.replace(view, resource_version=self._bump())
        self._pods[view.uid] = view
        self._log(e.PodApplied(pod=view))
        return view.resource_version

    def _write_workload(self, command: Any) -> tuple[str, str]:
        name = command.target.name
        found = self._workloads.get(name)
        match command:
            case c.CreateWorkload():
                refs = [OwnerRef(kind="Pod", name=o.name, uid=o.uid) for o in command.owners]
                owners, owner_pods = split_owners(refs)
                found = WorkloadView(
                    uid=f"w-{name}",
                    namespace="ns",
                    name=name,
                    resource_version="",
                    created_at=self._now,
                    labels=command.labels,
                    annotations=command.annotations,
                    finalizers=(WORKLOAD_FINALIZER,),
                    owners=owners,
                    owner_pods=owner_pods,
                    queue=command.queue,
                    pod_sets=tuple(
                        PodSetView(name=p.name, count=p.count, requests=p.requests)
                        for p in command.pod_sets
                    ),
                )
            case _ if found is None:
                return "", ""
            case c.WriteWorkloadStatus():
                found = command.on(found)
            case c.FinalizeWorkload():
                found = msgspec.structs.replace(found, finalizers=())
            case _:
                return found.uid, found.resource_version
        found = msgspec.structs.replace(found, resource_version=self._bump())
        self._workloads[name] = found
        self._log(e.WorkloadApplied(workload=found))
        if isinstance(command, c.FinalizeWorkload) and command.delete:
            # Of more owners than it has references to: nothing else would delete it.
            last = msgspec.structs.replace(self._workloads.pop(name), resource_version=self._bump())
            self._log(e.WorkloadDeleted(workload=last))
        return found.uid, found.resource_version
