"""A log in kueue mode over several namespaces, in two layouts with the same positions.

Decisions are named after positions, so two layouts can be compared only where every message has the
same place in both. What concerns the whole cluster (frames, ClusterQueues, flavors, namespaces) is
published to every shard; in the layout of one shard an empty message takes the place of each copy.

Invariant: `one` and `many` have as many messages, and the n-th of both hold the same events or the
first holds none.
"""

from typing import Any

import msgspec

from bench.story import Story
from podgroup.engine import new_world
from podgroup.log import events as e
from podgroup.log.codec import encode_batch
from podgroup.log.events import Batch
from podgroup.log.subjects import shard_of
from podgroup.model import commands as c
from podgroup.model.ids import GroupID
from podgroup.model.objects import Assignment, Condition, LocalQueueView

SHARDS = 2
NAMESPACES = ("team-a", "team-b", "team-c", "team-d")


class Laid(msgspec.Struct, frozen=True):
    """A message in both layouts."""

    source: str
    shard: int
    one: bytes
    many: bytes


class Sharded(Story):
    """`Story`, with its groups spread over namespaces and Kueue as the one who admits."""

    def __init__(self, groups: int, size: int) -> None:
        self.laid: list[Laid] = []
        self._space = {f"g{n:05d}": NAMESPACES[n % len(NAMESPACES)] for n in range(groups)}
        super().__init__(groups, size)

    def _set_up(self) -> None:
        self._world = new_world("two", "kueue")
        super()._set_up()
        for name in NAMESPACES:
            queue = LocalQueueView(
                uid=f"lq-{name}",
                namespace=name,
                name="lq",
                resource_version=self._bump(),
                cluster_queue="cq",
            )
            self._send(e.ObjectApplied(object=queue))

    def _log(self, event: e.Event) -> None:
        event = self._placed(event)
        space = _namespace(event)
        if isinstance(event, e.OutcomeRecorded):
            space = self._world.groups[GroupID(event.group)].namespace
        shards = range(SHARDS) if space is None else (shard_of(space, SHARDS),)
        for copy, shard in enumerate(shards):
            if copy:
                self._blank()
            else:
                super()._log(event)
            message = self.messages[-1]
            many = encode_batch(Batch(source=message.source, events=(event,)))
            self.laid.append(Laid(message.source, shard, message.body, many))

    def _blank(self) -> None:
        blank = encode_batch(Batch(source="watch", events=()))
        last = self.messages[-1]
        position = self._world.meta.position + 1
        self.messages.append(msgspec.structs.replace(last, position=position, body=blank))
        # Decisions are named after positions, and the next message takes the one after this.
        self._world.meta.position = position

    def _placed(self, event: e.Event) -> e.Event:
        """Put what the story says happens in `ns` where its group lives."""
        match event:
            case e.PodApplied(pod=view) | e.PodDeleted(pod=view):
                there = self._space[view.name.rsplit("-", 1)[0]]
                return type(event)(pod=msgspec.structs.replace(view, namespace=there))
            case e.WorkloadApplied(workload=found) | e.WorkloadDeleted(workload=found):
                there = self._space[found.name]
                return type(event)(workload=msgspec.structs.replace(found, namespace=there))
            case _:
                return event

    def _write_workload(self, command: Any) -> tuple[str, str]:
        uid, version = super()._write_workload(command)
        if isinstance(command, c.CreateWorkload):
            self._admit(command.target.name)
        return uid, version

    def _admit(self, name: str) -> None:
        """What Kueue's scheduler does."""
        found = self._workloads[name]
        conditions = [Condition(type=t, status="True") for t in ("QuotaReserved", "Admitted")]
        self._workloads[name] = msgspec.structs.replace(
            found,
            resource_version=self._bump(),
            cluster_queue="cq",
            conditions=(*found.conditions, *conditions),
            assignments=tuple(
                Assignment(name=p.name, count=p.count, flavors={"cpu": "f"}, usage={"cpu": 1})
                for p in found.pod_sets
            ),
        )
        self._log(e.WorkloadApplied(workload=self._workloads[name]))


def _namespace(event: e.Event) -> str | None:
    match event:
        case e.PodApplied(pod=view) | e.PodDeleted(pod=view):
            return view.namespace
        case e.WorkloadApplied(workload=view) | e.WorkloadDeleted(workload=view):
            return view.namespace
        case e.ObjectApplied(object=LocalQueueView() as view):
            return view.namespace
        case _:
            return None
