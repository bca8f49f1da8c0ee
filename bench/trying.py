"""What a trial costs where many wait: the state read, the pods decided on, what would change it.

Measured is processor time, from the read model to the answer, without an estimate of the start,
which has a budget of its own (`--budget`), and without the start of a process. All that wait are in
one ClusterQueue, in shapes of seven sizes; a group of eight pods is tried that waits as well.
"""

import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.figures import Figure
from gatelog.trial.state import world_of
from gatelog.trial.trying import Asked, tried
from podgroup.engine import drain_journal
from projector.storage.store import SqlStore
from projector.upkeep import migrate
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import pack_meta
from projector.writing.rows import build
from runtime.settings import Settings
from tests.support.toy import Toy

WAITING = 5_000
TURNS = 7
WANTED_S = 0.5
MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {name: new, namespace: ns}
spec:
  parallelism: 8
  template:
    metadata:
      labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/pod-group-name: new}
      annotations: {kueue.x-k8s.io/pod-group-total-count: "8"}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""


async def run() -> AsyncIterator[Figure]:
    """Yield the figure."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'model.sqlite3'}"
        stored(url, WAITING)
        spent = [once(url) for _ in range(TURNS)]
    yield Figure(
        name=f"trial.{WAITING}",
        value=round(min(spent), 3),
        unit="s CPU",
        target=WANTED_S,
        samples=TURNS,
        note=f"{WAITING:,} groups wait; the least of {TURNS}",
    )


def stored(url: str, waiting: int) -> None:
    """Write a read model in which one pod holds all quota and others wait."""
    migrate.upgrade(url)
    toy = Toy(cpu=10)
    toy.act = False
    for number in range(waiting + 1):
        toy.pod(f"pod-{number}", cpu=1 + number % 7 if number else 10, settle=False)
    world, meta = toy.world, toy.world.meta
    store = SqlStore(url, world.cluster)
    try:
        rows = build(world, drain_journal(world))
        new = Checkpoint(
            cluster=world.cluster,
            mode=world.mode,
            seq=meta.position,
            epoch=meta.epoch,
            at=world.at,
            written_at=toy.now,
            folded=pack_meta(meta),
        )
        store.commit(rows, new, None)
    finally:
        store.close()


def once(url: str) -> float:
    """Return the processor time of a trial, in seconds."""
    begin = time.process_time()
    world = world_of(url, "test")
    now = world.meta.at if world is not None else None
    if world is None or now is None:
        raise RuntimeError("nothing was stored")
    answer = tried(world, Asked(text=MANIFEST, namespace="ns", at=now), Settings())
    spent = time.process_time() - begin
    if answer.verdict != "waits" or answer.groups[0].position < WAITING:
        raise RuntimeError(f"{answer.verdict}: it is not behind all that wait")
    return spent
