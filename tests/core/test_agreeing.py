"""Pods that contradict each other: which two are named, and what naming them costs."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podgroup.applying import Applier
from podgroup.log.journal import At
from podgroup.model.names import GROUP_NAME, GROUP_TOTAL_COUNT, POD_GROUP_COUNT, QUEUE_NAME
from podgroup.rules.helpers.conflicts import find_conflict
from podgroup.rules.helpers.context import Conclusions
from tests.parity.test_life_rows import cost_of
from tests.support.examples import examples
from tests.support.toy import T0, Toy

NAMES = st.integers(0, 5)
ACTS = st.one_of(
    st.tuples(st.just("come"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("total"), NAMES, st.sampled_from(["7", "8", "9"])),
    st.tuples(st.just("count"), NAMES, st.sampled_from(["7", "8"])),
    st.tuples(st.just("queue"), NAMES, st.sampled_from(["lq", "other"])),
    st.tuples(st.just("fail"), NAMES, st.just(0)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
)


def asked(toy: Toy) -> tuple[str, str] | None:
    """What is wrong with the group, by what is known of it."""
    applier = Applier(toy.world, At(toy.position, toy.now))
    found: list[tuple[str, str] | None] = []

    def ask() -> Conclusions:
        found.append((yield from find_conflict(applier.ctx, toy.group("g"))))

    applier.run(ask())
    return found[0]


def asked_anew(toy: Toy) -> tuple[str, str] | None:
    toy.world.members[toy.group("g").id].pairs.clear()
    return asked(toy)


class Play:
    """Pods of one group with totals, counts and queues that may contradict each other."""

    def __init__(self) -> None:
        self.toy = Toy(cpu=100)
        self.uids: dict[int, str] = {}
        self.do("come", 9, 0)  # so that there is always a group

    def do(self, act: str, number: int, value: Any) -> None:
        uid = self.uids.get(number)
        there = uid is not None and uid in self.toy.pods
        if act == "come":
            if not there:
                at = T0 + timedelta(seconds=value)
                total = 7 + number % 2
                view = self.toy.pod(f"p{number}", "g", total, settle=False, created_at=at)
                self.uids[number] = view.uid
            return
        if not there:
            return
        assert uid is not None
        view = self.toy.pods[uid]
        match act:
            case "total" | "count":
                key = GROUP_TOTAL_COUNT if act == "total" else POD_GROUP_COUNT
                self.toy.change(uid, annotations={**view.annotations, key: value}, settle=False)
            case "queue":
                labels = {**view.labels, QUEUE_NAME: value}
                self.toy.change(uid, labels=labels, settle=False)
            case "fail":
                self.toy.change(uid, gates=(), node="n", phase="Failed", settle=False)
            case _:
                self.toy.change(uid, deleted_at=self.toy.now, finalizers=(), settle=False)


@examples(150, brief=60)
@given(st.lists(ACTS, max_size=25))
def test_what_is_remembered_is_what_a_pass_over_the_group_finds(acts: list[Any]) -> None:
    play = Play()
    for act, number, value in acts:
        play.do(act, number, value)
        told = asked(play.toy)
        assert told == asked_anew(play.toy)


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "totals": {},
    "queues": {"labels": {QUEUE_NAME: "other"}},
    "dialects": {"annotations": {POD_GROUP_COUNT: "7"}},
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_one_more_pod_of_a_blocked_group_costs_no_pass_over_it(what: str) -> None:
    cost = {}
    for size in (20, 1000):
        toy = Toy(cpu=10_000)
        total = 9999 if what == "totals" else 5000
        toy.pod("odd", "g", total, settle=False, **CONTRADICTIONS[what])
        for i in range(size):
            toy.pod(f"p{i}", "g", 5000, settle=False)
        wait = toy.group("g").explained.wait
        assert wait is not None
        assert wait.blocked
        assert "'odd' and 'p0'" in wait.message
        late = toy.now.replace(microsecond=0)
        more = msgspec.structs.replace(toy.named("p9"), uid="u9999", name="late", created_at=late)
        assert more.labels[GROUP_NAME] == "g"
        cost[size] = cost_of(toy, more)
    assert cost[1000] <= cost[20] * 1.5 + 50, cost
