"""Every number and time of a pod at its extremes, at random stages: no rule raises, nothing is
freed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podgroup.folding import Stored, drain_journal, load_world
from podgroup.log.events import PodApplied, PodDeleted
from podgroup.model.names import ADMISSION_GATE
from podgroup.model.objects import PodView
from podgroup.model.policy import Policy
from tests.support.examples import examples
from tests.support.extremes import ABSENT, FIELDS, GRACES, Field, event_of, put, raw_of
from tests.support.toy import Toy, kept, taken

LOW = {"kueue.x-k8s.io/priority-class": "low"}
HIGH = {"kueue.x-k8s.io/priority-class": "high"}
QUIET_S = 29
"""Seconds of silence after which no pod is taken for lost."""
STAGES = ("waits", "starts", "runs", "deleted", "preempted", "ended")


@kept
def staged(stage: str, *, group: bool) -> Toy:
    """Pods `odd0` and `odd1` (single, or one group) have come to a stage of their life."""
    toy = Toy(cpu=2, policy=Policy(unreachable_timeout_s=30, pods_ready_timeout_s=600))
    toy.slow = True
    if stage == "waits":
        toy.pod("big", cpu=2, labels=HIGH)
        toy.run("big")
    names = ("odd0", "odd1")
    for name in names:
        toy.pod(name, "g" if group else "", 2 if group else 0, labels=LOW)
    if stage not in ("waits", "starts"):
        toy.run(*names)
    if stage == "deleted":
        toy.ask("odd0", 30)
    if stage == "preempted":
        toy.pod("high", cpu=2, labels=HIGH)
    if stage == "ended":
        toy.end("odd0")
    return toy


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("group", [False, True])
def test_a_copy_of_a_stage_goes_on_as_the_story_itself(stage: str, group: bool) -> None:
    ways = []
    for toy in (staged.__wrapped__(stage, group=group), staged(stage, group=group)):  # type: ignore[attr-defined]
        toy.pod("late", cpu=1, labels=HIGH)
        toy.wait(QUIET_S)
        for name in [pod.name for pod in toy.pods.values()]:
            toy.delete(name)
        toy.wait(700)
        ways.append((toy.decisions, toy.concluded, toy.world.groups, toy.world.quotas.charges))
    assert ways[0] == ways[1]


def hit(toy: Toy, name: str, *changes: tuple[Field, object]) -> None:
    """An object comes in with fields at extremes."""
    known = next((pod for pod in toy.pods.values() if pod.name == name), None)
    if known is None:
        return
    raw = raw_of(msgspec.structs.replace(known, resource_version=toy.bump()))
    for field, value in changes:
        raw = put(raw, field.path, value)
    event = event_of(raw)
    assert isinstance(event, PodApplied), event
    toy.pods[known.uid] = event.pod
    toy.do(event)


def can_run(pod: PodView) -> bool:
    return ADMISSION_GATE not in pod.gates and bool(pod.node) and not pod.ended


def lawful(toy: Toy) -> None:
    parked = [(row.reason, row.message) for row in toy.world.journal.parked]
    assert not parked, parked
    used = taken(toy.world, "cq").get(("f", "cpu"), 0)
    assert all(
        n >= 0 for charge in toy.world.quotas.charges.values() for n in charge.usage.values()
    )
    runs = sum(pod.requests["cpu"] for pod in toy.pods.values() if can_run(pod))
    assert used >= runs, f"{runs} can run, {used} is charged"
    let_in = [p for p in toy.pods.values() if ADMISSION_GATE not in p.gates and not p.ended]
    assert sum(pod.requests["cpu"] for pod in let_in) <= 2000, "more was let in than there is"


@pytest.mark.parametrize("field", FIELDS["Pod"], ids=lambda field: str(field.path[-1]))
@pytest.mark.parametrize("stage", STAGES)
def test_each_field_at_each_extreme_at_each_stage(stage: str, field: Field) -> None:
    for value in field.values:
        for group in (False, True):
            toy = staged(stage, group=group)
            toy.pod("waits", cpu=1, labels=LOW)
            hit(toy, "odd0", (field, value))
            lawful(toy)
            toy.wait(QUIET_S)
            lawful(toy)


@pytest.mark.parametrize("grace_s", GRACES)
@pytest.mark.parametrize("own_s", [30, 2**63 - 1, -1])
@pytest.mark.parametrize("stage", ["starts", "runs", "deleted", "preempted"])
def test_each_grace_period_at_each_stage(stage: str, own_s: int, grace_s: int) -> None:
    toy = staged(stage, group=False)
    (own,) = (f for f in FIELDS["Pod"] if f.path[-1] == "terminationGracePeriodSeconds")
    hit(toy, "odd0", (own, own_s))
    toy.pod("waits", cpu=1, labels=LOW)
    if "odd0" in toy.there():
        toy.ask("odd0", grace_s)
    lawful(toy)
    for _ in range(3):
        toy.wait(9)
        lawful(toy)
    for name in ("odd0", "odd1"):
        if name in toy.there() and toy.named(name).phase == "Running":
            toy.end(name, phase="Failed")
        lawful(toy)


ENDS = st.sampled_from(["nothing", "wait", "delete", "end", "unreach", "gone", "restart"])


@given(st.data())
@examples(400, brief=60)
def test_random_fields_at_random_stages_of_a_life(data: st.DataObject) -> None:
    toy = staged(data.draw(st.sampled_from(STAGES)), group=data.draw(st.booleans()))
    toy.pod("waits", cpu=1, labels=LOW)
    silent_s = 0
    for _ in range(data.draw(st.integers(1, 6))):
        fields = data.draw(st.lists(st.sampled_from(FIELDS["Pod"]), min_size=1, max_size=4))
        changes = [(field, data.draw(st.sampled_from(field.values))) for field in fields]
        name = data.draw(st.sampled_from(["odd0", "odd1"]))
        hit(toy, name, *changes)
        lawful(toy)
        found = next((pod for pod in toy.pods.values() if pod.name == name), None)
        match data.draw(ENDS):
            case "wait" if silent_s < 2:
                silent_s += 1
                toy.wait(14)
            case "delete" if found is not None and found.deleted_at is None:
                toy.ask(name, data.draw(st.sampled_from(GRACES)))
            case "end" if found is not None and can_run(found):
                toy.end(name, phase=data.draw(st.sampled_from(["Succeeded", "Failed"])))
            case "unreach" if found is not None and can_run(found):
                toy.unreach(name)
            case "gone" if found is not None and found.ended:
                del toy.pods[found.uid]
                toy.do(PodDeleted(pod=msgspec.structs.replace(found, resource_version=toy.bump())))
            case "restart":
                restarted(toy)
        lawful(toy)


def restarted(toy: Toy) -> None:
    """What was stored is loaded again."""
    world = toy.world
    drain_journal(world)
    stored = Stored(
        world.meta,
        list(world.groups.values()),
        list(world.pods.values()),
        [
            *world.local_queues.values(),
            *world.cluster_queues.values(),
            *world.flavors.values(),
            *world.workload_classes.values(),
            *world.namespaces.values(),
        ],
        list(world.workloads.values()),
    )
    toy.world = load_world("test", world.mode, stored, world.policy)


def test_a_field_that_is_not_there_is_not_there() -> None:
    toy = staged("runs", group=False)
    raw = put(raw_of(toy.named("odd0")), ("spec", "terminationGracePeriodSeconds"), ABSENT)
    event = event_of(raw)
    assert isinstance(event, PodApplied) and event.pod.termination_grace_s == 30


def test_a_pod_reads_back_as_it_was() -> None:
    view = staged("runs", group=True).named("odd0")
    event = event_of(raw_of(view))
    assert isinstance(event, PodApplied)
    kept = (
        "uid",
        "labels",
        "gates",
        "finalizers",
        "requests",
        "phase",
        "node",
        "deleted_at",
        "role",
    )
    assert [getattr(event.pod, n) for n in kept] == [getattr(view, n) for n in kept]
