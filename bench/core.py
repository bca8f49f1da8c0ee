"""The core in memory: decode, fold and decide, without any I/O. Cost per event by group size.

Each shape twice: trickling, one event a message, with its group read and its decisions written as a
row after each; and under load, full messages as from ingester and actuator (`.load`).

The limit is decoding alone. The journal is taken away every thousand events, as the projector does
with each of its batches; the cost of writing the journal is in the projector's figure. Growth is of
the medians of turns: in each turn every shape is folded once, so that other work of the machine
meets all shapes alike.
"""

import gc
import time
from collections.abc import Callable, Iterator
from statistics import median

from bench.figures import Figure
from bench.story import CLUSTER, Story
from podgroup.engine import drain_journal, new_world, step
from podgroup.log.codec import decode_batch

SHAPES = ((200, 10), (20, 100), (2, 1000), (1, 10_000))
LOAD_BYTES = 900_000
TAKE_EVERY = 1000
REPEAT = 3


def run() -> Iterator[Figure]:
    """Measure each shape; median of `REPEAT` runs after a warm-up, processor time."""
    for suffix, message_bytes in (("", 0), (".load", LOAD_BYTES)):
        stories = [Story(groups, size, message_bytes=message_bytes) for groups, size in SHAPES]
        for story in stories:
            _fold(story)
        turns = [[_timed(_fold, story) for story in stories] for _ in range(REPEAT)]
        costs_us = []
        for (groups, size), story, times in zip(
            SHAPES, stories, zip(*turns, strict=True), strict=True
        ):
            whole = median(times)
            bare = median(_timed(_decode, story) for _ in range(REPEAT))
            costs_us.append(whole / story.events * 1e6)
            yield Figure(
                name=f"core.fold_decide.{groups}x{size}{suffix}",
                value=story.events / whole,
                unit="events/s",
                limit=story.events / bare,
                limit_name="decoding alone",
                target=100_000,
                samples=REPEAT,
                note=f"{costs_us[-1]:.1f} us per event, {story.events} events in "
                f"{len(story.messages)} messages, {story.decisions} decisions",
            )
        yield Figure(
            name=f"core.growth{suffix}",
            value=max(costs_us) / min(costs_us),
            unit="times",
            target=1.2,
            note="cost per event, the largest of these shapes by the smallest",
        )


def _timed(work: Callable[[Story], None], story: Story) -> float:
    gc.collect()
    begin = time.process_time()
    work(story)
    return time.process_time() - begin


def _fold(story: Story) -> None:
    world = new_world(CLUSTER)
    untaken = 0
    for message in story.messages:
        step(world, message.position, message.at, decode_batch(message.body))
        untaken += message.events
        if untaken >= TAKE_EVERY:
            drain_journal(world)
            untaken = 0
    if world.meta.decisions != story.conclusions:
        raise RuntimeError(
            f"folded again, the log gave {world.meta.decisions} conclusions, not "
            f"{story.conclusions}"
        )


def _decode(story: Story) -> None:
    for message in story.messages:
        decode_batch(message.body)
