"""The law of due rules: those that are due, or all of them on everything, conclude the same.

Programs of users, faults and relists are played in both modes, under several policies, with both
queueing strategies and all four ways to declare a group. The log of each is then folded twice, by
the rules that are due and by all rules; and now and then a projector is started anew, which looks
at every group there is and has nothing to add.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.story import Story
from podgroup.engine import drain_journal, new_world, step
from podgroup.log.codec import decode_batch
from podgroup.log.events import Batch, Decision
from podgroup.model import names
from podgroup.model.commands import CreateWorkload
from podgroup.model.names import (
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_GROUP_COUNT,
    POD_GROUP_ROLE,
    POD_GROUP_ROLE_COUNT,
    POD_GROUP_ROLES,
    QUEUE_NAME,
)
from podgroup.model.objects import CheckView, OwnerRef, WorkloadView
from podgroup.model.policy import Policy
from podgroup.state.world import World
from tests.core.test_checks import asks
from tests.core.test_laws import encoded, play, reloaded, stories
from tests.core.test_machine import KEPT
from tests.support.examples import examples
from tests.support.rough import Rough
from tests.support.toy import Toy

SINGLES = Policy(workloads="groups")
MARKS = {QUEUE_NAME, MANAGED_LABEL, GROUP_NAME, GROUP_TOTAL_COUNT}
"""Keys that pods of the stories bear anyway."""
POLICIES = {
    "plain": Policy(),
    "timed": Policy(
        pods_ready_timeout_s=30,
        pods_ready_recovery_timeout_s=10,
        requeuing_backoff_s=20,
        requeuing_limit=1,
        retention_after_deactivation_s=60,
        wait_for_pods_ready="on",
        status_interval_s=5,
        unreachable_timeout_s=90,
        deleted_node_timeout_s=45,
        deleted_group_timeout_s=25,
        least_run_s=15,
        least_run_by_reason=("InCohortReclamation=5",),
        owned_groups=("StatefulSet",),
        longest_wait_s=15,
    ),
    "gates": Policy(
        fast_quota_release=True,
        skip_reassignment=False,
        elastic_jobs=True,
        topology_aware_scheduling=False,
        wait_for_pods_ready="off",
        label_keys_to_copy=(POD_GROUP_ROLE,),
        exclude_resource_prefixes=("c",),
        device_classes=("gpu.example.com=gpus",),
        status_interval_s=1,
    ),
    "shared": Policy(
        compatibility="kueue",
        fair_sharing=("LessThanOrEqualToFinalShare",),
        usage_half_life_s=60,
        usage_sampling_s=5,
        usage_weights=("cpu=2",),
        stop_unadmitted=True,
        termination_grace_max_s=30,
        preemption_grace_s=5,
        requeuing_backoff_max_s=40,
        pods_ready_timeout_s=20,
        annotation_keys_to_copy=("example.com/team",),
        namespace_memory_mib=1,
    ),
}


class Wide(Rough):
    """With groups of the first draft's dialects as well, resizes, nodes, and turns of the wheel.

    Pods bear each key there is, and what a key says may fall due while nothing else happens.
    """

    KEYS: ClassVar = [
        text
        for name, text in sorted(vars(names).items())
        if name.isupper() and isinstance(text, str) and "/" in text and text not in MARKS
    ]
    VALUES: ClassVar = ["20", "true", "2", "other", "low", "", "20s"]

    def step_declare(self, which: int, cpu: int) -> None:
        """A pod of a group that declares a count, or roles."""
        self.serial += 1
        if which % 3 == 0:
            self.pod(f"n{self.serial}", "gn", None, 1, annotations={POD_GROUP_COUNT: "2"})
            return
        role, size = (("lead", "1"), ("work", "2"))[which % 3 - 1]
        said = {POD_GROUP_ROLES: "2", POD_GROUP_ROLE_COUNT: size}
        labels = {POD_GROUP_ROLE: role}
        self.pod(f"o{self.serial}", "go", None, 1 + cpu % 2, labels=labels, annotations=said)

    def step_bear(self, which: int, value: int) -> None:
        """A pod that bears a key, as a label and as an annotation; every other one of a group."""
        key = self.KEYS[which % len(self.KEYS)]
        if key == names.ADMISSION_GATED_BY and self.mode == "kueue":
            return  # the toy's core admits whom Kueue would hold back
        self.serial += 1
        said = {key: self.VALUES[value % len(self.VALUES)]}
        group, total = (f"gk{which}", 2) if self.serial % 2 else ("", 0)
        self.pod(f"k{self.serial}", group, total, 1, labels=said, annotations=said)

    def step_resize(self, pick: int, cpu: int) -> None:
        view = self._pick(pick)
        if view is not None:
            self.change(view.uid, requests={"cpu": 1000 * (1 + cpu % 3)})

    def step_turn(self, times: int) -> None:
        """What was begun goes on for a while."""
        for _ in range(1 + times % 3):
            self._calmer()

    def _calmer(self) -> bool:
        moved = super()._calmer()
        for view in list(self.pods.values()):
            if not view.gates and view.phase == "Pending" and not view.node and not self.serial % 3:
                self.change(view.uid, node="node")
        return moved

    def _made(self, new: list[Decision]) -> None:
        """What is decided is held against what must hold elsewhere (`tests.core.test_machine`)."""


some = st.integers(0, 11)
VERBS = [
    *("create", "fill", "fill", "declare", "declare", "declare", "delete", "run", "run", "run"),
    *("run", "end", "end", "relabel", "tamper", "drop", "active", "quota", "stop_queue", "local"),
    *(
        "bear",
        "bear",
        "core",
        "core",
        "relist",
        "again",
        "wait",
        "act",
        "hear",
        "resize",
        *["turn"] * 4,
    ),
]
ARGS = {verb: getattr(Wide, f"step_{verb}").__code__.co_argcount - 1 for verb in VERBS}
step_of_program = st.sampled_from(VERBS).flatmap(
    lambda verb: st.tuples(st.just(verb), *[some] * ARGS[verb])
)
programs = st.lists(step_of_program, min_size=5, max_size=60)
GOING_ON = ["run", "run", "run", "end", "end", "see", "see", "fold", "fold", "act", "act", "hear"]
ARGS |= {verb: getattr(Wide, f"step_{verb}").__code__.co_argcount - 1 for verb in GOING_ON}
lives = st.lists(
    st.sampled_from([*GOING_ON, "turn"]).flatmap(
        lambda verb: st.tuples(st.just(verb), *[st.sampled_from([0, 1, 3, 5, 7])] * ARGS[verb])
    ),
    min_size=10,
    max_size=80,
)
"""Programs in which nothing but what is usual happens, one thing at a time."""


def same(messages: Any, mode: str, policy: Policy, at_once: int = 1, restart: int = 0) -> World:
    """Fold messages, `at_once` in one, with the rules that are due and with all of them.

    Every `restart` messages the world is read back and all groups are looked at.
    """
    due, every = new_world("test", mode, policy), new_world("test", mode, policy)
    every.evaluate_all = True
    for first in range(0, len(messages), at_once):
        some = messages[first : first + at_once]
        position, at, _ = some[-1]
        batch = Batch(source="watch", events=tuple(e for m in some for e in m[2].events))
        step(due, position, at, batch)
        step(every, position, at, batch)
        assert not due.journal.parked
        for name in due.journal.__struct_fields__:
            assert getattr(due.journal, name) == getattr(every.journal, name), (position, name)
        drain_journal(due)
        drain_journal(every)
        if restart and (first // at_once) % restart == restart - 1:
            again = reloaded(due)
            again.policy = policy
            step(again, position, at, Batch(source="watch", events=()))
            said = [*again.journal.decisions, *again.journal.concluded]
            assert not said, (position, said)
    assert encoded(due) == encoded(every)
    assert replace(due.quotas, deciding=None) == replace(every.quotas, deciding=None)
    return due


def test_each_setting_has_another_value_in_some_policy() -> None:
    """What a setting makes a rule do is asked in each way: a new setting belongs in `POLICIES`."""
    plain = Policy()
    others = (*POLICIES.values(), SINGLES)
    same = {
        name
        for name in Policy.__struct_fields__
        if all(getattr(policy, name) == getattr(plain, name) for policy in others)
    }
    assert not same, f"no story has another {sorted(same)}: give a policy in POLICIES a value of it"


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
@examples(25, brief=12)
@given(program=programs, at_once=st.sampled_from([1, 1, 3]))
def test_rules_that_are_not_due_have_nothing_to_say(
    mode: str, policy: Policy, strategy: str, program: Any, at_once: int
) -> None:
    wide = Wide(mode, strategy=strategy, policy=policy)
    if policy.exclude_resource_prefixes:
        wide.largest_quota = 1000  # what it leaves out of account has no bound
    wide.play(program)
    samples = policy.usage_half_life_s >= 0  # a sample of use is taken at a start as well
    same(wide.messages, mode, policy, at_once, restart=0 if samples else 10)


@examples(25, brief=12)
@given(program=programs)
def test_nor_where_single_pods_do_without_a_workload(program: Any) -> None:
    wide = Wide(policy=SINGLES)
    wide.play(program)
    same(wide.messages, "builtin", SINGLES, restart=10)


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
@examples(60, brief=25)
@given(program=lives)
def test_nor_have_they_while_groups_live_their_lives(mode: str, program: Any) -> None:
    wide = Wide(mode)
    wide.play([["quota", 6], ["fill", 0, 0], ["fill", 1, 0], *[["turn", 2]] * 3])
    wide.play(program)
    same(wide.messages, mode, wide.policy, restart=15)


class Meddling(Toy):
    """Another client is quick to write `more` into each Workload."""

    more: Mapping[str, Any] = MappingProxyType({})

    def put_workload(self, view: WorkloadView) -> WorkloadView:
        return super().put_workload(replace(view, **self.more))


@pytest.mark.no_rest("another client undoes every write")
@pytest.mark.parametrize("what", ["it was refused", "a pod was replaced", "a check says no"])
def test_nor_as_a_workload_comes_on_which_more_depends(what: str) -> None:
    toy = Meddling()
    toy.act = False
    for name in ("a", "b"):
        toy.pod(name, "g", 2)
    made = next(d for d in toy.queue if isinstance(d.command, CreateWorkload))
    toy.queue.remove(made)
    toy.act = True
    toy.settle()
    toy.run("a", "b")
    match what:
        case "it was refused":
            toy.refusing = "no"
        case "a pod was replaced":
            toy.end("a", phase="Failed")
            toy.pod("c", "g", 2)
            pods = toy.pods.values()
            toy.more = {"owners": tuple(OwnerRef(kind="Pod", name=p.name, uid=p.uid) for p in pods)}
        case "a check says no":
            asks(toy, "c", cpu=10)
            toy.more = {"checks": (CheckView(name="c", state="Rejected"),)}
    toy.execute(made)
    toy.refusing = ""
    toy.wait(3600)
    assert "g" in toy.workloads
    same(toy.messages, "builtin", Policy())


@pytest.mark.parametrize("last", ["Pod", "Workload"])
def test_nor_at_the_end_of_a_group_whatever_comes_off_last(last: str) -> None:
    wide = Wide()
    wide.play([["fill", 0, 0], *[["turn", 2]] * 2, *[["run", 0]] * 2, ["turn", 0]])
    wide.play([["end", 0, 1], ["end", 0, 1], ["see", 0, 3], ["fold", 99]])
    for _ in range(20):
        kinds = [d.command.target.kind for d in wide._heads()]
        rest = [n for n, kind in enumerate(kinds) if kind != last]
        if not kinds:
            break
        wide.play([["act", (rest or [0])[0], 0], *[["see", kind, 0] for kind in (0, 1)]])
        wide.play([["hear", 0, 0], ["fold", 99]])
    assert "Finished" in {one.explained.state for one in wide.world.groups.values()}
    same(wide.messages, "builtin", wide.policy)


@pytest.mark.parametrize("kept", KEPT, ids=[entry["found"] for entry in KEPT])
def test_nor_have_they_in_programs_that_failed_once(kept: dict[str, Any]) -> None:
    rough = Rough(**kept["begin"])
    rough.play(kept["steps"])
    same(rough.messages, rough.mode, rough.policy)


def test_nor_after_the_workload_of_a_half_full_group_was_made() -> None:
    """A new Workload took the places that its role had had at once out of account."""
    wide = Wide(policy=POLICIES["timed"])
    wide.play([["quota", 6], ["fill", 0, 0], ["fill", 1, 0], ["active", 4], ["turn", 6]])
    wide.play([["create", 4, 2, 10], ["run", 6], ["act", 9, 3], ["quota", 5], ["turn", 9]])
    wide.play([["active", 10], ["end", 5, 2], ["core", 1, 6], ["core", 8, 11], ["end", 6, 7]])
    wide.play([["run", 7], ["declare", 0, 8], ["turn", 7], ["turn", 11]])
    same(wide.messages, "builtin", wide.policy, restart=1)


@settings(max_examples=100)
@given(stories, st.sampled_from([1, 1, 2, 5]))
def test_nor_in_stories(story: Any, at_once: int) -> None:
    toy = play([s for s in story if s[0] != "reload"], check=False)
    same(toy.messages, "builtin", Policy(), at_once)


@pytest.mark.parametrize("at_once", [1, 7, 200])
def test_nor_in_a_log_of_whole_lives(at_once: int) -> None:
    story = Story(6, 5, at_once=3)
    messages = [(m.position, m.at, decode_batch(m.body)) for m in story.messages]
    same(messages, "builtin", Policy(), at_once)


def test_what_is_given_back_and_nobody_waits_for_is_entered_later() -> None:
    world, looks, kept = new_world("test"), 0, 0
    for message in Story(2, 3).messages:
        step(world, message.position, message.at, decode_batch(message.body))
        kept += bool(world.quotas.charged)
        looks += not world.quotas.charged and bool(world.quotas.charges)
        assert not (world.quotas.charged and world.quotas.waiting)
    assert kept > looks
