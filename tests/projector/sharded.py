"""A log in kueue mode over several namespaces, in two layouts with the same positions.

Decisions are named after positions, so two layouts can be compared only where every message has the
same place in both. What concerns the whole cluster (frames, ClusterQueues, flavors, namespaces) is
published to every shard; in the layout of one shard an empty message takes the place of each copy.

Invariant: `one` and `many` have as many messages, and the n-th of both hold the same events or the
first holds none.
"""

import msgspec

from bench.story import Story
from podgroup.engine import new_world
from podgroup.log import events as e
from podgroup.log.codec import Conclusions, encode_batch
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
                resource_version="",
                cluster_queue="cq",
            )
            self._cluster.put_object(queue)
        self._settle()

    def _namespace(self, group: str) -> str:
        return self._space[group]

    def _publish(self, events: tuple[e.Event, ...]) -> None:
        (event,) = events
        space = _namespace(event)
        if isinstance(event, e.OutcomeRecorded):
            space = self._world.groups[GroupID(event.group)].namespace
        shards = range(SHARDS) if space is None else (shard_of(space, SHARDS),)
        for copy, shard in enumerate(shards):
            if copy:
                self._blank()
            else:
                super()._publish(events)
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

    def _see_through(self, one: Conclusions) -> None:
        super()._see_through(one)
        if isinstance(one, e.Decision) and isinstance(one.command, c.CreateWorkload):
            self._admit(one.command)

    def _admit(self, command: c.CreateWorkload) -> None:
        """What Kueue's scheduler does."""
        self._cluster.change_workload(
            (command.target.namespace, command.target.name),
            cluster_queue="cq",
            conditions=tuple(
                Condition(type=t, status="True") for t in ("QuotaReserved", "Admitted")
            ),
            assignments=tuple(
                Assignment(name=p.name, count=p.count, flavors={"cpu": "f"}, usage={"cpu": 1})
                for p in command.pod_sets
            ),
        )


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
