"""Single pods that do without a Workload live as those with one do, and some have one all the same.

What is decided of them is the same; random programs of people, faults and crashes are played with
that setting as well (`tests.core.test_machine`, `tests.core.test_due`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podgroup import engine
from podgroup.engine import step
from podgroup.log.events import Batch
from podgroup.model.commands import EvictGroup
from podgroup.model.keys import KEYS
from podgroup.model.names import (
    EVICTED_MAX_EXEC_TIME,
    MANAGED_LABEL,
    MAX_EXEC_SECONDS,
    PRIORITY_CLASS,
    QUEUE_NAME,
    WORKLOAD_ANNOTATION,
)
from podgroup.model.policy import Policy
from podgroup.rules import decides_by
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.evicting import deactivate, evict_group
from podgroup.rules.helpers.readiness import admitted
from podgroup.rules.helpers.rule import Rule
from podgroup.state.group import Group
from tests.core.test_checks import asks, check
from tests.core.test_following import relabel
from tests.core.test_laws import LAW, reloaded, replayed
from tests.support.resting import says_what_follows
from tests.support.toy import Toy

GROUPS = Policy(workloads="groups")


def spare(cpu: int = 4, **policy: Any) -> Toy:
    return Toy(cpu, policy=Policy(workloads="groups", **policy))


def switch(toy: Toy, policy: Policy) -> None:
    """Let a projector with other settings go on, as after a restart."""
    toy.do(decides_by("builtin", policy, metadata.version("gatelog")))


def lives(policy: Policy, story: list[tuple[str, int]]) -> list[tuple[str, ...]]:
    """Play what users do with single pods; return what was decided of them, in order."""
    toy = Toy(3, policy=policy)
    for number, (verb, pick) in enumerate(story):
        mine = [pod for pod in toy.pods.values() if pod.deleted_at is None]
        chosen = mine[pick % len(mine)] if mine else None
        if verb == "create":
            labels = {PRIORITY_CLASS: ("low", "high")[pick % 2]} if pick % 3 else {}
            toy.pod(f"p{number}", cpu=1 + pick % 2, labels=labels)
        elif chosen is None:
            continue
        elif verb == "run" and not chosen.gates and chosen.phase == "Pending":
            toy.run(chosen.name)
        elif verb in ("Succeeded", "Failed") and chosen.phase == "Running":
            toy.end(chosen.name, phase=verb)
        elif verb == "delete":
            toy.delete(chosen.name)
        elif verb == "class":
            relabel(toy, chosen.name, **{PRIORITY_CLASS: ("low", "high")[pick % 2]})
    assert policy is not GROUPS or not toy.workloads
    replayed(toy)
    made: list[tuple[str, ...]] = []
    for decision in toy.decisions:
        command = decision.command
        if command.target.kind in ("Pod", "Group") and decision.rule not in ("compose", "follow"):
            made.append((decision.name, decision.rule, type(command).__name__))
    return made


verbs = st.sampled_from(
    ["create", "create", "create", "run", "run", "Succeeded", "Failed", "delete", "class"]
)


@LAW
@given(st.lists(st.tuples(verbs, st.integers(0, 5)), min_size=1, max_size=25))
def test_what_is_decided_of_single_pods_is_the_same_without_workloads(story: Any) -> None:
    assert lives(GROUPS, story) == lives(Policy(), story)


def test_a_life_without_a_workload() -> None:
    toy = spare(cpu=1)
    toy.pod("foo")
    toy.pod("bar")
    toy.run("foo")
    assert toy.group("foo").explained.state == "Running" and toy.gated("bar")
    assert WORKLOAD_ANNOTATION not in toy.named("foo").annotations
    assert toy.group("bar").explained.wait.reason == "WaitingForQuota"
    toy.end("foo")
    assert toy.group("foo").explained.state == "Finished" and not toy.gated("bar")
    toy.delete("bar")
    assert toy.there() == {"foo"} and not toy.workloads
    replayed(toy)


def test_groups_have_theirs() -> None:
    toy = spare()
    toy.pod("a", "g", 2)
    toy.pod("b", "g", 2)
    toy.pod("alone")
    assert list(toy.workloads) == ["g"] and not any(map(toy.gated, ("a", "b", "alone")))


def test_the_less_important_gives_way() -> None:
    toy = spare(cpu=1)
    toy.pod("low", labels={PRIORITY_CLASS: "low"})
    toy.run("low")
    toy.pod("high", labels={PRIORITY_CLASS: "high"})
    assert toy.stopped("low")[1] and not toy.gated("high") and not toy.workloads


@pytest.mark.parametrize("has", [True, False])
def test_while_quota_is_reserved_a_class_may_change_but_not_appear(has: bool) -> None:
    toy = spare()
    toy.pod("foo", labels={PRIORITY_CLASS: "low"} if has else {})
    relabel(toy, "foo", **{PRIORITY_CLASS: "high"})
    charge = toy.world.quotas.charges[toy.group("foo").id]
    assert charge.priority == (1000 if has else 0)
    assert "compose" in toy.rules() and not toy.workloads


def test_whoever_waits_follows_queue_and_class() -> None:
    toy = spare(cpu=1)
    toy.pod("hog", labels={PRIORITY_CLASS: "high"})
    toy.pod("first")
    toy.pod("second", labels={QUEUE_NAME: "nowhere"})
    relabel(toy, "second", **{QUEUE_NAME: "lq", PRIORITY_CLASS: "high"})
    toy.run("hog")
    toy.end("hog")
    assert not toy.gated("second") and toy.gated("first")


@pytest.mark.parametrize(
    ("policy", "labels"),
    [
        ({}, {MAX_EXEC_SECONDS: "60"}),
        ({"pods_ready_timeout_s": 60, "requeuing_limit": 1}, {}),
        ({"elastic_jobs": True}, {}),
    ],
)
def test_what_may_be_deactivated_has_a_workload(policy: Any, labels: dict[str, str]) -> None:
    toy = spare(**policy)
    toy.pod("foo", labels=labels)
    assert len(toy.workloads) == 1 and not toy.gated("foo")


@pytest.mark.parametrize("when", ["before", "while it waits", "once it runs"])
def test_checks_are_heard_by_a_workload(when: str) -> None:
    toy = spare(cpu=1)
    check(toy, "budget")
    if when == "before":
        asks(toy, "budget", cpu=1)
    toy.pod("hog" if when == "while it waits" else "foo")
    if when == "while it waits":
        toy.pod("foo")
    if when != "before":
        assert not toy.workloads
        asks(toy, "budget", cpu=1)
    if when == "while it waits":
        toy.run("hog")
        toy.end("hog")
    assert len(toy.workloads) == (when != "once it runs")
    assert toy.gated("foo") == (when != "once it runs"), "it starts once the check is ready"
    assert [c.name for w in toy.workloads.values() for c in w.checks] == ["budget"] * len(
        toy.workloads
    )


def test_it_is_switched_on_and_off_while_pods_wait_and_run() -> None:
    toy = Toy(cpu=1)
    toy.pod("one")
    toy.run("one")
    toy.pod("two")
    assert len(toy.workloads) == 2
    switch(toy, GROUPS)
    toy.pod("three")
    assert len(toy.workloads) == 2, "who has one keeps it"
    toy.end("one")
    assert "Finished" in toy.true(toy.group("one").mirror.name) and not toy.gated("two")
    toy.run("two")
    toy.end("two")
    toy.run("three")
    assert len(toy.workloads) == 2 and toy.group("three").explained.state == "Running"
    switch(toy, Policy())
    assert len(toy.workloads) == 3, "who has none gets one"
    made = toy.group("three").mirror.workload
    assert {"QuotaReserved", "Admitted"} <= {c.type for c in made.conditions if c.status == "True"}
    assert not toy.stopped("three")[0], "and runs on"
    toy.end("three")
    assert all("Finished" in toy.true(name) for name in toy.workloads)
    notes = [n.message for n in toy.world.journal.notes if n.kind == "SettingsRecorded"]
    assert notes[-2:] == ["queueing.workloads groups", "queueing.workloads all"]
    replayed(toy)


def test_a_restart_has_nothing_to_add() -> None:
    toy = spare(cpu=1)
    for name in ("foo", "bar"):
        toy.pod(name)
    again = reloaded(toy.world)
    step(again, toy.position + 1, toy.now, Batch(source="watch", events=()))
    assert not again.journal.decisions


def test_a_workload_of_its_name_is_its_own_all_the_same() -> None:
    toy = spare()
    toy.pod("foo")
    switch(toy, Policy())
    switch(toy, GROUPS)
    (name,) = toy.workloads
    toy.delete_workload(name)
    assert toy.stopped("foo") != ("", ""), "who deletes it stops its pod"


def test_after_a_creation_that_was_refused_it_is_tried_again() -> None:
    toy = Toy()
    toy.refusing = "not now"
    toy.pod("foo")
    switch(toy, GROUPS)
    toy.refusing = ""
    toy.wait(60)
    assert len(toy.workloads) == 1


# -- what a rule forgets of them ---


VALUES = ("20", "20s", "true", "low", "nowhere")
"""What keys say: a number, a duration, a word; a key with another grammar adds a value of it."""
Decided = dict[str, set[tuple[str, str, str]]]
"""Of pods by name: (rule, command, reason) of what was decided."""


def bearing(key: str, policy: Policy) -> Decided:
    """Pods that bear a key, as a label and as an annotation, with several values; a day goes by.

    Half of them start, and the others are too large for the quota and wait.
    """
    toy = Toy(20, policy=policy)
    for number, value in enumerate((*VALUES, *VALUES)):
        said = {key: value}
        labels = {PRIORITY_CLASS: "high"} if number % 2 else {}
        cpu = 1 if number < len(VALUES) else 21
        toy.pod(f"p{number}", cpu=cpu, labels=labels | said, annotations=said)
    for name in [pod.name for pod in toy.pods.values() if not pod.gates]:
        toy.run(name)
    for seconds in (60, 3600, 86_400):
        toy.wait(seconds)
    found: Decided = {}
    for one in toy.decisions:
        of_pods = one.command.target.kind in ("Pod", "Group")
        if of_pods and one.rule not in ("compose", "follow"):
            kind = type(one.command).__name__
            found.setdefault(one.name, set()).add((one.rule, kind, one.reason))
    return found


def forgotten(keys: Iterable[str]) -> str:
    """Rules that decide something of a pod with one of these keys in one of both cases alone."""
    said = []
    for key in keys:
        with_one, without = bearing(key, Policy()), bearing(key, GROUPS)
        for name in sorted({*with_one, *without}):
            differ = with_one.get(name, set()) ^ without.get(name, set())
            said += [f"rule {rule} ({reason}), of a pod with {key}" for rule, _, reason in differ]
    return "; ".join(sorted(set(said)))


def test_each_rule_treats_single_pods_alike_with_and_without_a_workload() -> None:
    # Where a Workload is there its name is written, and an annotation of people is in the way.
    others = {QUEUE_NAME, MANAGED_LABEL, WORKLOAD_ANNOTATION}
    keys = [key.name for key in KEYS if key.name not in others]
    missed = forgotten([*keys, "example.com/any"])
    assert not missed, (
        f"with queueing.workloads=groups otherwise: {missed}. Let the rule read the pod or its "
        "group, or say in podgroup/model/keys.py that the key needs a Workload (`workload`)"
    )


@contextmanager
def ruled_by(run: Callable[[RuleContext, Group], Conclusions]) -> Iterator[None]:
    """One more rule, which its author did not think through."""
    engine._FIRST.insert(0, Rule(name="careless", run=run, reads=-1))
    engine._PLANS.clear()
    try:
        yield
    finally:
        del engine._FIRST[0]
        engine._PLANS.clear()


def _with_workload_alone(ctx: RuleContext, group: Group) -> Conclusions:
    if group.mirror.workload and admitted(group):
        yield evict_group(ctx, group, "careless", "Preempted", "its Workload was seen", 86_400)


def _deactivating(ctx: RuleContext, group: Group) -> Conclusions:
    if group.quota.holding is None:
        yield from deactivate(ctx, group, "careless", EVICTED_MAX_EXEC_TIME, "its name")


def _impatient(ctx: RuleContext, group: Group) -> Conclusions:
    first = ctx.members(group).first()
    waits = group.quota.holding is None and group.requeueing.evicted is None
    if first and waits and ctx.pod(first).view.labels.get("x") == "20s":
        yield from deactivate(ctx, group, "careless", EVICTED_MAX_EXEC_TIME, "its wait")


def _evicting_by_hand(ctx: RuleContext, group: Group) -> Conclusions:
    if admitted(group):
        command = EvictGroup(target=group_ref(group), reason="Preempted", message="by hand")
        yield ctx.decision(group, "careless", "Preempted", "by hand", command)


@pytest.mark.no_rest
def test_a_rule_that_reads_the_workload_is_found() -> None:
    with ruled_by(_with_workload_alone):
        assert "rule careless (Preempted), of a pod with x" in forgotten(["x"])


@pytest.mark.no_rest
def test_a_rule_that_deactivates_what_waits_for_longer_than_a_duration_is_found() -> None:
    with ruled_by(_impatient):
        assert f"rule careless ({EVICTED_MAX_EXEC_TIME}), of a pod with x" in forgotten(["x"])


@pytest.mark.no_rest
def test_a_rule_that_evicts_by_hand_is_found() -> None:
    with ruled_by(_evicting_by_hand):
        toy = Toy()
        toy.pod("foo")
    with pytest.raises(AssertionError, match=r"\['careless'\] evict or deactivate by hand"):
        says_what_follows(toy)


def test_what_nothing_could_hold_is_not_deactivated_but_parked() -> None:
    with ruled_by(_deactivating):
        toy = spare()
        toy.pod("foo")
    assert toy.gated("foo") and "no_workload.py" in toy.group("foo").parked
