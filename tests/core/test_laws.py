"""The laws of the core, with Hypothesis as the author of the users' actions."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.story import Story
from podgroup.engine import Difference, Stored, Then, drain_journal, load_world, new_world, step
from podgroup.fold import FOLDS
from podgroup.folding import replay
from podgroup.log.codec import decode_batch
from podgroup.log.events import Batch, Event
from podgroup.model.names import POD_GROUP_ROLE, PRIORITY_CLASS, RETRIABLE_IN_GROUP
from podgroup.model.objects import (
    QUEUE_KINDS,
    SPELT_OUT,
    DeclaredSet,
    OwnerRef,
    WorkloadView,
    split_owners,
)
from podgroup.model.policy import Policy
from podgroup.model.standing import StandingReport
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.meta import Meta
from podgroup.state.pod import Pod
from podgroup.state.quota import QueueKey
from podgroup.state.world import World
from tests.support.examples import examples
from tests.support.toy import Toy, taken

SIZES = {"a": 2, "b": 3, "c": 1, "d": 3}
SETS = (
    DeclaredSet(name="driver"),
    DeclaredSet(name="workers", count=2, requests={"cpu": 1000}, role="r1", template="{}"),
)
"""What group `d` declares: one driver and two workers."""
action = st.tuples(
    st.sampled_from(
        [
            "create",
            "create",
            "create",
            "extra",
            "run",
            "run",
            "succeed",
            "fail",
            "delete",
            "unretriable",
            "drop_workload",
            "single",
            "reload",
            "again",
        ]
    ),
    st.sampled_from(sorted(SIZES)),
    st.integers(0, 5),
)
stories = st.lists(action, min_size=1, max_size=40)
LAW = examples(100, brief=40)


def encoded(world: World) -> dict[str, Any]:
    """What is stored of a world, as bytes per key."""
    encode = msgspec.msgpack.Encoder(order="sorted").encode
    return {
        "meta": encode(world.meta),
        "groups": {k: encode(v) for k, v in world.groups.items()},
        "pods": {k: encode(v) for k, v in world.pods.items()},
        "told": {"/".join(k): encode(v) for k, v in world.standings.items()},
    }


def reloaded(world: World) -> World:
    decode = msgspec.msgpack.decode
    encode = msgspec.msgpack.encode
    return load_world(
        world.cluster,
        world.mode,
        Stored(
            decode(encode(world.meta), type=Meta),
            [decode(encode(g), type=Group) for g in world.groups.values()],
            [decode(encode(p), type=Pod) for p in world.pods.values()],
            [one for kind in QUEUE_KINDS for one in world.objects_of(kind).values()],
            list(world.workloads.values()),
            decode(
                encode(list(world.standings.items())), type=list[tuple[QueueKey, StandingReport]]
            ),
        ),
    )


def play(story: list[tuple[str, str, int]], *, cpu: int = 4, check: bool = True) -> Toy:
    toy = Toy(cpu)
    serial = 0
    for verb, group, pick in story:
        mine = [p for p in toy.pods.values() if p.name.startswith(group)]
        chosen = mine[pick % len(mine)] if mine else None
        labels = {PRIORITY_CLASS: ("low", "high")[pick % 2]} if group == "b" else {}
        if verb in ("create", "extra", "again"):
            if verb == "create" and len(mine) >= SIZES[group] + 1:
                continue
            serial += 1
            name = f"{group}{serial}"
            if group == "d" and pick < 2:
                toy.pod(name, "gd", None, sets=SETS)
            elif group == "d":
                role = {POD_GROUP_ROLE: ("worker", "workers", "nowhere")[pick % 3]}
                toy.pod(name, "gd", None, cpu=1 + pick % 2, labels=role)
            else:
                toy.pod(name, f"g{group}", SIZES[group], cpu=1 + pick % 2, labels=labels)
        elif verb == "single":
            serial += 1
            toy.pod(f"{group}s{serial}", cpu=1 + pick % 3)
        elif verb == "reload":
            journal = toy.world.journal
            toy.world = reloaded(toy.world)
            toy.world.journal = journal
        elif verb == "drop_workload":
            if f"g{group}" in toy.workloads:
                toy.delete_workload(f"g{group}")
        elif chosen is None or chosen.deleted_at is not None:
            continue
        elif verb == "run" and not chosen.gates and chosen.phase == "Pending":
            toy.run(chosen.name)
        elif verb in ("succeed", "fail") and chosen.phase == "Running":
            toy.end(chosen.name, phase="Succeeded" if verb == "succeed" else "Failed")
        elif verb == "delete":
            toy.delete(chosen.name)
        elif verb == "unretriable":
            toy.change(chosen.uid, annotations={**chosen.annotations, RETRIABLE_IN_GROUP: "false"})
        if check:
            invariants(toy, cpu)
    return toy


def invariants(toy: Toy, cpu: int) -> None:
    world = toy.world
    usage = taken(world, "cq")
    assert usage[("f", "cpu")] <= cpu * 1000, "quota exceeded"
    for group in world.groups.values():
        members = world.members[group.id]
        for role in group.roles.values():
            started = members.count(Flag.OPEN, role.name) + members.count(Flag.OPENING, role.name)
            if group.composition.done and role.count:
                assert started <= role.count, "more pods started than the role has places"
    targets: Counter[tuple[str, str]] = Counter()
    for decision in toy.decisions:
        if decision.command.target.kind == "Pod":
            targets[(decision.command.target.uid, type(decision.command).__name__)] += 1
    for (uid, name), count in targets.items():
        assert count == 1 or name == "EmitEvent", f"{name} of {uid} decided {count} times"
        if name == "DeletePod":
            assert not targets[(uid, "StopPod")], "deleted as excess and stopped"


@LAW
@given(stories)
def test_quota_places_and_single_decisions_hold_at_every_step(story: Any) -> None:
    play(story)


@LAW
@given(stories)
def test_the_same_log_gives_the_same_decisions(story: Any) -> None:
    story = [s for s in story if s[0] != "reload"]
    toy = play(story, check=False)
    again = new_world("test")
    for position, at, batch in toy.messages:
        step(again, position, at, batch)
    assert again.journal.decisions == toy.world.journal.decisions
    assert encoded(again) == encoded(toy.world)
    assert again.journal.notes == toy.world.journal.notes


@LAW
@given(stories)
@pytest.mark.parity("B18")
def test_recorded_decisions_applied_give_the_same_world_and_no_difference(story: Any) -> None:
    story = [s for s in story if s[0] != "reload"]
    toy = play(story, check=False)
    by_position: dict[int, dict[str, Any]] = {}
    for decision in toy.world.journal.decisions:
        by_position.setdefault(decision.as_of, {})[decision.id] = decision
    said = {one.as_of: one for one in toy.world.journal.concluded}
    again = new_world("test")
    for position, at, batch in toy.messages:
        recorded = by_position.get(position, {})
        difference = step(again, position, at, batch, Then(recorded, said.get(position)))
        assert difference == Difference()
    assert encoded(again) == encoded(toy.world)


@LAW
@given(stories)
@pytest.mark.parity("B18")
def test_conclusions_applied_without_any_rule_give_the_same_world_and_journal(story: Any) -> None:
    toy = play(story, check=False)  # restarts included: what they look at is concluded too
    replayed(toy)


def replayed(toy: Toy) -> None:
    """Fold the toy's log with its conclusions, under other settings, and ask no rule."""
    by_position: dict[int, dict[str, Any]] = {}
    live = toy.world.journal
    for decision in live.decisions:
        by_position.setdefault(decision.as_of, {})[decision.id] = decision
    said = {one.as_of: one for one in live.concluded}

    again = new_world("test", "kueue", Policy(label_keys_to_copy=("other",)))
    for position, at, batch in toy.messages:
        recorded = by_position.get(position, {})
        replay(again, position, at, batch, recorded, said.get(position))
    assert encoded(again) == encoded(toy.world)
    journal = again.journal
    assert journal.notes == live.notes
    assert journal.waits == live.waits
    assert journal.admissions == live.admissions
    assert journal.decisions == live.decisions
    assert journal.gates == live.gates
    assert journal.usage == live.usage
    assert journal.standings == live.standings
    assert journal.parked == live.parked


@LAW
@given(stories, st.integers(1, 4))
def test_redelivered_messages_change_nothing(story: Any, back: int) -> None:
    toy = play(story, check=False)
    drain_journal(toy.world)
    before = encoded(toy.world)
    deltas = [m for m in toy.messages if m[2].events and hasattr(m[2].events[0], "pod")][-back:]
    for _, _, batch in deltas:
        step(toy.world, toy.position + 1, toy.now, batch)
    after = encoded(toy.world)
    after["meta"] = before["meta"]
    assert after == before
    assert not toy.world.journal.decisions


@LAW
@given(stories)
@pytest.mark.parity("B18")
def test_a_reloaded_world_is_the_same_world(story: Any) -> None:
    toy = play(story, check=False)
    again = reloaded(toy.world)
    assert encoded(again) == encoded(toy.world)
    for identity, members in toy.world.members.items():
        other = again.members[identity]
        assert other.flags == members.flags
        assert +Counter(other.counts) == +Counter(members.counts)
        assert other.queues == members.queues
        assert other.totals == members.totals
    assert taken(again, "cq") == taken(toy.world, "cq")
    assert again.quotas.charges == toy.world.quotas.charges
    assert again.expecting == toy.world.expecting


@LAW
@given(stories)
def test_at_the_end_nothing_is_stuck(story: Any) -> None:
    """Everything deleted: no pod, Workload, group, quota or expectation is left."""
    toy = play(story, check=False)
    for _ in range(3):
        for view in list(toy.pods.values()):
            if view.deleted_at is None and view.uid in toy.pods:
                toy.delete(view.name)
        for name in list(toy.workloads):
            if name in toy.workloads and toy.workloads[name].deleted_at is None:
                toy.delete_workload(name)
    assert not toy.pods
    assert not toy.workloads
    assert not toy.world.groups
    assert not toy.world.pods
    assert not toy.world.expecting
    assert not toy.world.quotas.charges


def test_every_event_has_its_fold() -> None:
    assert set(FOLDS) == set(get_args(Event))


def test_owners_in_short_mean_what_owners_spelt_out_mean() -> None:
    """Logs from before `owner_pods` spell every owner out."""
    short = Story(2, SPELT_OUT + 4)
    spelt = [_spelt_out(decode_batch(m.body)) for m in short.messages]
    assert any(len(getattr(e, "workload", NO).owners) > SPELT_OUT for b in spelt for e in b.events)
    one, other = new_world("bench"), new_world("bench")
    for message, batch in zip(short.messages, spelt, strict=True):
        step(one, message.position, message.at, decode_batch(message.body))
        step(other, message.position, message.at, batch)
    assert one.journal == other.journal


NO = WorkloadView(
    uid="", namespace="", name="", resource_version="", created_at=datetime(2026, 1, 1, tzinfo=UTC)
)


def _spelt_out(batch: Batch) -> Batch:
    return msgspec.structs.replace(batch, events=tuple(_spell(e) for e in batch.events))


def _spell(event: Any) -> Any:
    view = getattr(event, "workload", None)
    if view is None:
        return event
    owners = tuple(OwnerRef(kind="Pod", name="p", uid=uid) for uid in view.owner_uids)
    spelt = msgspec.structs.replace(view, owners=owners, owner_pods="")
    return msgspec.structs.replace(event, workload=spelt)


def test_only_plain_pods_among_many_owners_are_in_short() -> None:
    pods = [OwnerRef(kind="Pod", name=f"p{i}", uid=f"u{i:02}") for i in range(SPELT_OUT)]
    job = OwnerRef(kind="Job", name="j", uid="j", controller=True)
    assert split_owners(pods) == (tuple(pods), "")
    assert split_owners([*reversed(pods), job]) == ((job,), ",".join(o.uid for o in pods))
