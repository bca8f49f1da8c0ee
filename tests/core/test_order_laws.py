"""What is decided depends on no order that means nothing, and on no moment of a restart.

Stories are those of `test_laws`. A life is named after the pod of it that was seen first, so the
order of a list may be seen in the ids of groups, and of what is decided on them, and nowhere else.
"""

import random
from collections import Counter
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from podgroup.engine import new_world, step
from podgroup.log import events as e
from tests.core.test_laws import encoded, play, reloaded, stories
from tests.support.examples import examples
from tests.support.toy import Toy


@examples(30, brief=15)
@given(stories)
def test_resumed_before_every_message_it_decides_and_tells_the_same(story: Any) -> None:
    toy = play([s for s in story if s[0] != "reload"], check=False)
    world, decisions, notes = new_world("test"), [], []
    for position, at, batch in toy.messages:
        world = reloaded(world)
        step(world, position, at, batch)
        decisions += world.journal.decisions
        notes += world.journal.notes
    assert decisions == toy.world.journal.decisions
    assert notes == toy.world.journal.notes
    assert encoded(world) == encoded(toy.world)


def listed(toy: Toy, workloads: bool, order: random.Random | None = None) -> Toy:
    """A new log whose first lists hold what is in a cluster, in its order or in another one.

    Without its Workloads, pods that are past their gates are stopped and the others composed anew.
    """
    kept = toy.workloads.values() if workloads else ()
    found: list[list[Any]] = [
        [e.WorkloadApplied(workload=w, relist="Workload") for w in kept],
        [e.PodApplied(pod=p, relist="Pod") for p in toy.pods.values()],
    ]
    fresh = Toy(cpu=1000)
    fresh.act = False
    for kind, some in zip(("Workload", "Pod"), found, strict=True):
        if order is not None:
            order.shuffle(some)
        fresh.send(
            e.RelistStarted(kind=cast(Any, kind), relist=kind, reason="410"),
            *some,
            e.RelistCompleted(kind=cast(Any, kind), relist=kind, resource_version=str(toy.version)),
        )
    return fresh


def what(toy: Toy) -> Counter[tuple[Any, ...]]:
    """Which rule decided what about which object, and why; without the ids of lives."""
    found: Counter[tuple[Any, ...]] = Counter()
    for d in toy.decisions:
        command = msgspec.json.encode(d.command).replace(d.group.encode(), b"the group")
        found[d.rule, d.reason, d.message, d.namespace, d.name, command] += 1
    return found


@examples(60, brief=30)
@given(stories, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_a_list_decides_nothing(
    story: Any, workloads: bool, order: random.Random
) -> None:
    toy = play([s for s in story if s[0] != "reload"], check=False)
    one, other = listed(toy, workloads), listed(toy, workloads, order)
    assert what(other) == what(one)
    assert {uid: p.role for uid, p in other.world.pods.items()} == {
        uid: p.role for uid, p in one.world.pods.items()
    }
    assert set(one.world.pods) == set(toy.pods)
