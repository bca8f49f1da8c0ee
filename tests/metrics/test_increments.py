"""What a journal adds: hand-made ones case by case, and whole logs however they are batched."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from podgroup.engine import PendingWrites, drain_journal, new_world, step
from podgroup.log.events import Decision
from podgroup.log.journal import AdmissionRow, Journal, Note, ParkedRow
from podgroup.model.commands import Admission, AdmitGroup, DeletePod, ObjectRef, UngatePod
from podgroup.model.ids import GroupID
from podgroup.model.names import ADMISSION_GATE
from podgroup.model.objects import LocalQueueView
from podgroup.state.group import GROUP, Group, QuotaReservation, Spec
from podgroup.state.world import World
from projector.measures.increments import Increments, increments
from tests.projector.support import Messages, busy_toy
from tests.support.toy import Toy

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def world(*, holding: str = "", since: float = 0.0, queue: str = "lq") -> World:
    """Group `g` in LocalQueue `lq` of ClusterQueue `cq`, maybe admitted by another one."""
    found = new_world("test")
    found.local_queues["ns", "lq"] = LocalQueueView(
        uid="l", namespace="ns", name="lq", resource_version="1", cluster_queue="cq"
    )
    group = Group(GroupID("g"), "ns", "g", GROUP, T0, 1, spec=Spec(queue=queue))
    if holding:
        admission = Admission(cluster_queue=holding, assignments=())
        group.quota.holding = QuotaReservation(1, admission, None, at(since), 1)
    found.groups[group.id] = group
    return found


def note(kind: str, reason: str = "", seconds: float = 0.0, seq: int = 1, group: str = "g") -> Note:
    return Note(seq=seq, ord=0, at=at(seconds), kind=kind, reason=reason, group=group, pod="p")


def added(given: World, *notes: Note, gone: tuple[Group, ...] = (), **journal: Any) -> Increments:
    made = Journal(notes=list(notes), **journal)
    return increments(PendingWrites(made, {}, {group.id: group for group in gone}), given)


def admission(number: int, admitted: float, queued: float | None, seq: int, **more: Any) -> Any:
    row = AdmissionRow(
        group="g",
        number=number,
        cluster_queue="cq2",
        assignments=(),
        queued_at=None if queued is None else at(queued),
        admitted_at=at(admitted),
        admitted_seq=seq,
        **more,
    )
    return {("g", number): row}


@pytest.mark.parity("B11")
@pytest.mark.parametrize(
    ("told", "name", "labels"),
    [
        (note("PodSeen", "gated"), "pods_gated", ("cq",)),
        (note("GateRemoved", ADMISSION_GATE), "pods_ungated", ("cq",)),
        (note("PodGone", "excess"), "pods_rejected", ("cq",)),
        (note("GroupAdmitted", "Admitted"), "admitted_groups", ("cq",)),
        (note("GroupEvicted", "Preempted"), "evicted_groups", ("cq", "Preempted")),
        (note("GroupFinished", "Failed"), "finished_groups", ("cq", "Failed")),
    ],
    ids=lambda value: value.kind if isinstance(value, Note) else None,
)
def test_each_note_that_counts(told: Note, name: str, labels: tuple[str, ...]) -> None:
    found = added(world(), told, told)
    assert found.counts == {(f"gatelog_{name}_total", labels): 2}
    assert found.times == []


@pytest.mark.parametrize(
    "told",
    [
        note("PodSeen", "not gated"),
        note("GateRemoved", "example.com/other-gate"),
        note("PodGone", "kept"),
        note("PodGone", "lost"),
        note("GroupAdmitted", "Adopted"),
        note("PodRunning"),
        note("StateChanged", "Queued"),
    ],
    ids=lambda told: f"{told.kind}-{told.reason}",
)
def test_notes_that_do_not_count(told: Note) -> None:
    assert added(world(), told) == Increments()


def test_the_cluster_queue_is_the_one_that_holds_the_group() -> None:
    seen = note("PodSeen", "gated")
    assert added(world(holding="cq1"), seen).counts == {("gatelog_pods_gated_total", ("cq1",)): 1}
    rows = admission(1, 5, 1, 7, released_at=at(9), release_reason="Finished")
    found = added(world(), note("GroupFinished", "Succeeded"), admissions=rows)
    assert found.counts == {("gatelog_finished_groups_total", ("cq2", "Succeeded")): 1}


def test_without_a_queue_there_is_no_cluster_queue() -> None:
    seen = note("PodSeen", "gated")
    assert added(world(queue="typo"), seen).counts == {("gatelog_pods_gated_total", ("",)): 1}
    stranger = note("PodSeen", "gated", group="never heard of")
    assert added(world(), stranger).counts == {("gatelog_pods_gated_total", ("",)): 1}


def test_groups_that_are_gone_are_still_told_apart() -> None:
    full = world()
    group = full.groups.pop(GroupID("g"))
    found = added(full, note("PodGone", "excess"), gone=(group,))
    assert found.counts == {("gatelog_pods_rejected_total", ("cq",)): 1}


def test_the_wait_for_admission_is_that_of_this_admission() -> None:
    rows = admission(1, 5, 1, 7, released_at=at(6)) | admission(2, 30, 6, 9)
    first, second = (
        note("GroupAdmitted", "Admitted", 5, 7),
        note("GroupAdmitted", "Admitted", 30, 9),
    )
    found = added(world(), first, second, admissions=rows)
    wait = ("gatelog_admission_wait_time_seconds", ("cq2",))
    assert found.times == [(wait, 4.0), (wait, 24.0)]


def test_an_admission_that_was_never_queued_has_no_wait() -> None:
    found = added(
        world(), note("GroupAdmitted", "Admitted", 5, 7), admissions=admission(1, 5, None, 7)
    )
    assert found.counts == {("gatelog_admitted_groups_total", ("cq2",)): 1}
    assert found.times == []


@pytest.mark.parity("C-102", "C-103", "C-104")
def test_gate_removal_is_timed_from_the_admission_before_it() -> None:
    took = ("gatelog_pod_scheduling_gate_removal_seconds", ("cq1",))
    gone = note("GateRemoved", ADMISSION_GATE, 12.5)
    assert added(world(holding="cq1", since=10), gone).times == [(took, 2.5)]
    # Evicted and admitted again within the batch: the gate that went before is of the first.
    rows = admission(1, 10, 1, 7, released_at=at(20)) | admission(2, 30, 20, 9)
    found = added(world(holding="cq2", since=30), gone, admissions=rows)
    assert [seconds for _, seconds in found.times] == [2.5]


def test_a_gate_removed_without_admission_is_counted_and_not_timed() -> None:
    found = added(world(holding="cq1", since=10), note("GateRemoved", ADMISSION_GATE, 9))
    assert found.counts == {("gatelog_pods_ungated_total", ("cq1",)): 1}
    assert found.times == []


def test_times_are_never_negative() -> None:
    rows = admission(1, 5, 8, 7)  # the Workload's clock is the API server's
    found = added(world(), note("GroupAdmitted", "Admitted", 5, 7), admissions=rows)
    assert [seconds for _, seconds in found.times] == [0.0]


def test_decisions_and_what_is_parked() -> None:
    pod = ObjectRef(kind="Pod", namespace="ns", name="p", uid="u")

    def decision(number: int, rule: str, command: Any) -> Decision:
        return Decision(
            id=f"d{number}",
            number=number,
            as_of=1,
            at=T0,
            group="g",
            namespace="ns",
            name="g",
            rule=rule,
            reason="R",
            message="m",
            command=command,
        )

    ungate = UngatePod(target=pod, gates=(ADMISSION_GATE,))
    admit = AdmitGroup(target=pod, cluster_queue="cq", assignments=())
    decisions = [
        decision(1, "admit", admit),
        decision(2, "ungate", ungate),
        decision(3, "ungate", ungate),
        decision(4, "excess", DeletePod(target=pod)),
    ]
    parked = [ParkedRow(seq=1, ord=0, at=T0, reason="Undecodable", message="no JSON")]
    assert added(world(), decisions=decisions, parked=parked).counts == {
        ("gatelog_decisions_total", ("admit", "AdmitGroup")): 1,
        ("gatelog_decisions_total", ("ungate", "UngatePod")): 2,
        ("gatelog_decisions_total", ("excess", "DeletePod")): 1,
        ("gatelog_projector_parked_total", ("Undecodable",)): 1,
    }


def in_batches(messages: Messages, size: int) -> Increments:
    folded, total = new_world("test"), Increments()
    for start in range(0, len(messages), size):
        for position, when, batch in messages[start : start + size]:
            step(folded, position, when, batch)
        found = increments(drain_journal(folded), folded)
        total.counts += found.counts
        total.times += found.times
    return total


def lively_toy() -> Toy:
    """Preemption, eviction, replacement and excess, each more than once."""
    toy = busy_toy()
    for i in range(3):
        toy.pod(f"high{i}", "high", 3, labels={"kueue.x-k8s.io/priority-class": "high"})
    toy.run("high0", "high1", "high2")
    toy.pod("extra2", "high", 3)
    toy.end("high0", "high1", "high2")
    return toy


@pytest.mark.parametrize("size", [1, 2, 7, 50, 100_000])
def test_batching_does_not_change_the_sums(size: int) -> None:
    messages = lively_toy().messages
    one_by_one, batched = in_batches(messages, 1), in_batches(messages, size)
    assert batched.counts == one_by_one.counts
    assert sorted(batched.times) == sorted(one_by_one.times)


def test_a_story_adds_up() -> None:
    toy = lively_toy()
    found = in_batches(toy.messages, 13)
    sums: Counter[str] = Counter()
    for (name, _), amount in found.counts.items():
        sums[name] += amount
    ours = [d.command for d in toy.decisions]
    gated = [b for _, _, batch in toy.messages for b in batch.events if hasattr(b, "pod")]
    assert sums["gatelog_pods_gated_total"] == len({event.pod.uid for event in gated})
    assert sums["gatelog_pods_rejected_total"] == 2
    assert sums["gatelog_admitted_groups_total"] == sum(isinstance(c, AdmitGroup) for c in ours)
    assert sums["gatelog_decisions_total"] == len(ours)
    opened = {c.target.uid for c in ours if isinstance(c, UngatePod)}
    assert sums["gatelog_pods_ungated_total"] == len(opened) > 0
    assert sums["gatelog_evicted_groups_total"] > 0
    waits = [s for (name, _), s in found.times if name == "gatelog_admission_wait_time_seconds"]
    assert len(waits) == sums["gatelog_admitted_groups_total"]
    gates = [s for (name, _), s in found.times if name.endswith("gate_removal_seconds")]
    assert len(gates) == sums["gatelog_pods_ungated_total"]
    assert all(0 < seconds < 5 for seconds in gates)
