"""What counting costs the projector: little, per event of a batch, beside folding and deciding."""

import time
from datetime import datetime

from podgroup.engine import PendingWrites, drain_journal, new_world, step
from podgroup.state.world import World
from projector.measures.metrics import ProjectorMetrics
from runtime.metrics import Metrics
from tests.projector.support import Messages
from tests.support.toy import Toy

LIMIT_US = 2.0
"""Microseconds per event that counting may add, in batches as they are under load."""
BATCH = 500
ROUNDS = 5

Batches = list[tuple[list[tuple[int, datetime]], PendingWrites]]


def whole_lives(groups: int = 40, size: int = 10) -> Messages:
    """Groups from the first pod to the last success."""
    toy = Toy(cpu=10_000)
    for g in range(groups):
        names = [f"g{g}-{i}" for i in range(size)]
        for name in names:
            toy.pod(name, f"g{g}", size)
        toy.run(*names)
        toy.end(*names)
    return toy.messages


def folded(messages: Messages) -> tuple[World, Batches]:
    """The world at the end, and per batch the messages' sizes and what they changed."""
    world = new_world("test")
    batches: Batches = []
    for start in range(0, len(messages), BATCH):
        part = messages[start : start + BATCH]
        for position, at, batch in part:
            step(world, position, at, batch)
        batches.append(([(len(batch.events), at) for _, at, batch in part], drain_journal(world)))
    return world, batches


def counting_us(world: World, batches: Batches) -> float:
    """Microseconds of CPU time for counting all of it, once."""
    metrics = ProjectorMetrics(Metrics())
    began = time.process_time_ns()
    for read, taken in batches:
        for events, at in read:
            metrics.folded("watch", events, at)
        metrics.committed(metrics.begin_batch(taken, world), 100, 0.01, rebuilding=False)
    return (time.process_time_ns() - began) / 1000


def test_counting_adds_less_than_two_microseconds_per_event() -> None:
    world, batches = folded(whole_lives())
    events = sum(size for read, _ in batches for size, _ in read)
    assert events > 3000
    best = min(counting_us(world, batches) for _ in range(ROUNDS))
    assert best / events < LIMIT_US, f"{best / events:.2f} us per event"
