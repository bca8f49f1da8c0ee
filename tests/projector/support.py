"""What the projector's tests share: stories on the toy cluster, and writing them to a store."""

import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from podgroup.engine import drain_journal, load_world, new_world, step
from podgroup.log.events import Batch
from podgroup.model.policy import Policy
from podgroup.state.world import World
from projector.live.replicas import Replica
from projector.storage.store import SqlStore
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import pack_meta
from projector.writing.rows import build
from tests.support.toy import Toy, taken

Messages = list[tuple[int, datetime, Batch]]
NOW = datetime(2026, 2, 1, tzinfo=UTC)


def busy_toy(policy: Policy | None = None) -> Toy:
    """A namespace with a bit of everything: gone, failed, excess, running and waiting groups."""
    toy = Toy(cpu=6, policy=policy)
    toy.pod("single")
    toy.run("single")
    toy.end("single")
    toy.delete("single")
    for i in range(3):
        toy.pod(f"a{i}", "a", 3)
    toy.run("a0", "a1", "a2")
    toy.end("a0", phase="Failed")
    toy.pod("a3", "a", 3)
    toy.pod("extra", "a", 3)
    toy.pod("driver", "b", 3, cpu=1, labels={"team": "red"})
    toy.pod("w0", "b", 3, cpu=1)
    toy.pod("w1", "b", 3, cpu=1)
    toy.run("driver")
    toy.pod("late", "c", 2, cpu=3)
    toy.pod("later", "c", 2, cpu=3)
    toy.pod("half", "d", 4)
    return toy


def fold(messages: Messages, mode: str = "builtin") -> World:
    world = new_world("test", mode)
    for position, at, batch in messages:
        step(world, position, at, batch)
    return world


class Writer:
    """Folds messages into a store, `size` messages per transaction."""

    def __init__(self, url: str, size: int = 7, cluster: str = "test") -> None:
        self.store = SqlStore(url, cluster)
        weakref.finalize(self, self.store.close)
        self.size = size
        self.world = new_world(cluster)
        self.checkpoint: Checkpoint | None = None

    def load(self) -> "Writer":
        loaded = self.store.load()
        if loaded is not None:
            self.checkpoint = loaded.checkpoint
            self.world = load_world(self.world.cluster, loaded.checkpoint.mode, loaded)
        return self

    def feed(self, messages: Messages) -> "Writer":
        for start in range(0, len(messages), self.size):
            for position, at, batch in messages[start : start + self.size]:
                step(self.world, position, at, batch)
            self.commit()
        return self

    def heard(self) -> "Writer":
        """Say that gatelog's parts are at work, for the hour of a test: the moment is now."""
        now = datetime.now(UTC)
        parts, hour = ("ingest", "projector", "actuator"), timedelta(hours=1)
        rows = [
            Replica(part, "toy", "", leads=True, since=now, heard_at=now + hour) for part in parts
        ]
        self.store.write_replicas(rows)
        return self

    def commit(self) -> None:
        rows = build(self.world, drain_journal(self.world))
        meta = self.world.meta
        new = Checkpoint(
            cluster=self.world.cluster,
            mode=self.world.mode,
            seq=meta.position,
            epoch=meta.epoch,
            at=self.world.at,
            written_at=NOW,
            folded=pack_meta(meta),
        )
        self.checkpoint = self.store.commit(rows, new, self.checkpoint)


def comparable(world: World) -> dict[str, Any]:
    """The stored part of a world, and the indices that are rebuilt from it, as plain values."""
    plain = msgspec.to_builtins
    return {
        "meta": {
            **plain(msgspec.structs.replace(world.meta, frames={})),
            "synced": sorted(world.meta.synced),
            "missing": sorted(world.meta.missing),
            "frames": {k: (f.relist, f.started_seq, f.seen) for k, f in world.meta.frames.items()},
        },
        "pods": {uid: plain(pod) for uid, pod in sorted(world.pods.items())},
        "groups": {uid: plain(group) for uid, group in sorted(world.groups.items())},
        "flags": {g: dict(sorted(m.flags.items())) for g, m in sorted(world.members.items())},
        "lives": dict(sorted(world.lives.items())),
        "by_workload": dict(sorted(world.by_workload.items())),
        "expecting": dict(sorted(world.expecting.items())),
        "workloads": dict(world.workloads),
        "queues": [
            world.local_queues,
            world.cluster_queues,
            world.flavors,
            world.workload_classes,
            world.classes,
            world.namespaces,
        ],
        "usage": {q: +u for q in world.cluster_queues if +(u := taken(world, q))},
        "charges": world.quotas.charges,
    }
