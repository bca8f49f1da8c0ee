"""What counting costs the projector: little, per event of a batch, beside folding and deciding.

Instructions of the interpreter are counted, not time: a busy machine does not change them.
"""

import sys
from collections.abc import Callable
from datetime import datetime
from types import FrameType
from typing import Any

from podgroup.engine import PendingWrites, drain_journal, new_world, step
from podgroup.state.world import World
from projector.measures.metrics import ProjectorMetrics
from runtime.metrics import Metrics
from tests.projector.support import Messages
from tests.support.toy import Toy

LIMIT = 150
"""Instructions per event that counting may add, in batches as they are under load."""
BATCH = 500

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


def instructions(work: Callable[[], None]) -> int:
    """How many instructions of the interpreter a piece of work takes, those of all calls in it."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    # Python 3.12 asks when tracing begins whether any frame wants instructions.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def counted(world: World, batches: Batches) -> None:
    """Count all of it, once."""
    metrics = ProjectorMetrics(Metrics())
    for read, taken in batches:
        for events, at in read:
            metrics.folded("watch", events, at)
        metrics.committed(metrics.begin_batch(taken, world), 100, 0.01, rebuilding=False)


def test_counting_adds_little_per_event() -> None:
    world, batches = folded(whole_lives())
    events = sum(size for read, _ in batches for size, _ in read)
    assert events > 3000
    found = instructions(lambda: counted(world, batches)) / events
    assert 1 < found < LIMIT, f"{found:.1f} instructions per event"
