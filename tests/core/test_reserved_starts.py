"""Laws of reserved starts: who has waited too long starts by the time that was worked out.

Workloads come, run for at most as long as they are bound to, and go, on random queues. A start that
is reserved is put off by nothing but what could take the quota back at once.
"""

import heapq
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podgroup.admission import Scheduler
from podgroup.admission.cache.reserved_starts import ReservedStart
from podgroup.admission.model import Configuration, PodSet, Workload
from podgroup.admission.starts import Starts
from podgroup.model.names import MAX_EXEC_SECONDS
from podgroup.model.objects import ClusterQueueView, FlavorQuotas, Quota, ResourceGroup
from podgroup.model.policy import Policy
from tests.core.test_laws import replayed
from tests.core.test_shared_quota import resumed
from tests.support.calls import calls_of
from tests.support.examples import examples
from tests.support.offers import ClusterQueue, Flavor, LocalQueue, Namespace, Preemption
from tests.support.toy import T0, Toy

LONGEST_S = 5.0
LAW = examples(60, brief=25)


def queue(name: str, cpu: dict[str, int], **more: Any) -> ClusterQueueView:
    limit = more.pop("borrowing_limit", None)
    flavors = tuple(
        FlavorQuotas(name=flavor, resources={"cpu": Quota(nominal=n, borrowing_limit=limit)})
        for flavor, n in cpu.items()
    )
    return ClusterQueue(
        name=name, groups=(ResourceGroup(covered=("cpu",), flavors=flavors),), **more
    )


def workload(
    name: str, cpu: int, at: float, run_s: float | None, *, to: str = "q0", priority: int = 0
) -> Workload:
    return Workload(
        id=name,
        uid=name,
        namespace="ns",
        queue=to,
        created=at,
        priority=priority,
        pod_sets=(PodSet(name="main", count=1, requests=(("cpu", cpu),)),),
        run_s=run_s,
    )


class Day:
    """Queues on which workloads come and go; LocalQueues bear the names of ClusterQueues."""

    def __init__(self, queues: list[ClusterQueueView], **more: Any) -> None:
        more.setdefault("longest_wait_s", LONGEST_S)
        self.scheduler = Scheduler(Configuration(**more))
        self.cache = self.scheduler.cache
        flavors = dict.fromkeys(f.name for one in queues for f in one.groups[0].flavors)
        self.cache.apply(Namespace(name="ns"))
        for name in flavors:
            self.cache.apply(Flavor(name=name))
        for one in queues:
            self.cache.apply(one)
            self.cache.apply(LocalQueue(namespace="ns", name=one.name, cluster_queue=one.name))
        self.ends: list[tuple[float, str]] = []
        self.runs: dict[str, float] = {}
        self.by_right: dict[str, float] = {}
        """When a ClusterQueue last took what is its own, or kept it for the first in its line."""
        self.urgent: dict[str, float] = {}
        """When it last admitted who may preempt, or had others preempted."""
        self.now = 0.0

    def comes(self, one: Workload, runs_s: float) -> None:
        self.runs[one.id] = runs_s
        self.cache.submit(one)

    def passes(self, now: float) -> list[str]:
        """Let all end that has run for long enough, and decide; returns who was admitted."""
        self.now = now
        while self.ends and self.ends[0][0] <= now:
            self.cache.release(heapq.heappop(self.ends)[1], requeue=False)
        verdicts = self.scheduler.decide(now)
        for one in verdicts.preempted:
            self.urgent[self.cache.queues.waiting[one.by_id].queue] = now
            self.ends = [end for end in self.ends if end[1] != one.id]
            heapq.heapify(self.ends)
            heapq.heappush(self.ends, (now + 1, one.id))
        for admission in verdicts.admitted:
            queue = self.cache.objects.cluster_queues[admission.cluster_queue]
            holding = self.cache.reservations.admitted[admission.id]
            if holding.priority and queue.spec.within_cluster_queue != "Never":
                self.urgent[admission.cluster_queue] = now
            if not admission.borrowing:
                self.by_right[admission.cluster_queue] = now
            heapq.heappush(self.ends, (now + self.runs[admission.id], admission.id))
        for name, line in self.cache.objects.cluster_queues.items():
            if line.reserved:
                self.by_right[name] = now
        return [one.id for one in verdicts.admitted]

    def reserved(self) -> dict[str, float | None]:
        return {id: one.by for id, one in self.cache.starts.by_id.items()}


def test_what_ends_before_passes_and_nothing_else() -> None:
    day = Day([queue("q0", {"f": 10})])
    day.comes(workload("holder", 6, 0, 60), 60)
    day.passes(0)
    day.comes(workload("large", 9, 1, None), 10)
    day.passes(1)
    assert day.reserved() == {}
    day.passes(6)
    assert day.reserved() == {"large": 60.0}
    day.comes(workload("long", 3, 7, 54), 54)
    day.comes(workload("unbound", 2, 7, None), 5)
    day.comes(workload("short", 3, 7, 53), 53)
    assert day.passes(7) == ["short"]
    waiting = day.cache.queues.waiting
    assert waiting["long"].message.startswith("Workload would put off a start")
    assert "insufficient unused quota" in waiting["unbound"].message
    assert day.passes(60) == ["large"]
    assert day.passes(70) == ["long", "unbound"]


def test_what_leaves_the_room_that_it_needs_passes() -> None:
    day = Day([queue("q0", {"f": 10})])
    day.comes(workload("holder", 6, 0, None), 60)
    day.passes(0)
    day.comes(workload("large", 8, 1, None), 10)
    day.passes(6)
    assert day.reserved() == {"large": None}
    day.comes(workload("two", 2, 7, None), 100)
    assert day.passes(7) == ["two"]
    day.comes(workload("one", 1, 8, 1), 1)
    assert day.passes(8) == []  # by when the holder ends is not known
    assert day.passes(60) == ["large"]


def test_a_higher_priority_that_may_preempt_it_passes_and_one_that_may_not_does_not() -> None:
    for policy, passes in (("LowerPriority", ["urgent"]), ("Never", [])):
        preemption = Preemption(within_cluster_queue=policy)  # type: ignore[arg-type] # one of them
        day = Day([queue("q0", {"f": 10}, preemption=preemption)])
        day.comes(workload("holder", 6, 0, 60, priority=9), 60)
        day.passes(0)
        day.comes(workload("large", 8, 1, None), 10)
        day.passes(6)
        day.comes(workload("urgent", 3, 7, None, priority=5), 100)
        assert day.passes(7) == passes
        day.passes(8)
        assert day.reserved() == {"large": None if passes else 60.0}


def test_it_gives_way_to_a_neighbour_within_its_nominal_quota_and_keeps_its_turn() -> None:
    day = Day([queue("q0", {"f": 4}, cohort="c"), queue("q1", {"f": 6}, cohort="c")])
    day.comes(workload("holder", 3, 0, 20), 20)
    day.passes(0)
    day.comes(workload("large", 8, 1, None), 10)
    day.passes(6)
    assert day.reserved() == {"large": 20.0}
    day.comes(workload("own", 6, 7, 40, to="q1"), 40)
    day.comes(workload("borrower", 3, 7, None), 100)
    assert day.passes(7) == ["own"]
    day.passes(8)
    assert day.reserved() == {"large": 47.0}
    assert day.passes(20) == []
    assert "large" in day.passes(47)


def test_one_start_is_reserved_in_a_flavor_and_the_next_oldest_has_its_turn() -> None:
    day = Day([queue("q0", {"f": 4, "g": 4})])
    for name in ("a", "b"):
        day.comes(workload(name, 4, 0, 30), 30)
    day.passes(0)
    for at, name in enumerate(("first", "second", "third"), 1):
        day.comes(workload(name, 3, at, None), 10)
    day.passes(8)
    assert day.reserved() == {"first": 30.0, "second": 30.0}
    day.comes(workload("late", 4, 9, 21), 21)
    assert day.passes(30) == ["first", "second"]
    assert day.reserved() == {"third": None, "late": None}


def test_a_group_that_never_fits_has_no_start_and_keeps_no_other_off() -> None:
    day = Day([queue("q0", {"f": 4})])
    day.comes(workload("never", 5, 0, None), 1)
    day.comes(workload("a", 4, 0, None), 50)
    assert day.passes(0) == ["a"]
    day.comes(workload("small", 1, 1, None), 1)
    day.passes(20)
    assert day.reserved() == {"small": None}
    assert day.passes(50) == ["small"]


def test_a_start_is_worked_out_anew_as_often_however_many_start_in_a_pass() -> None:
    names = [f"q{number:02}" for number in range(24)]
    day = Day([queue(name, {"f": 10}, cohort="c") for name in names])
    for name in names:
        for number in range(4):
            day.comes(workload(f"{name}-{number}", 2, 0, 60, to=name), 60)
    day.passes(0)
    for age, size in enumerate((9, 9, 1)):
        for name in names:
            day.comes(workload(f"{name}-{age}-waits", size, 1 + age, 30, to=name), 30)
    day.passes(7)
    reserved, admitted = day.reserved(), list[str]()
    calls = calls_of(lambda: admitted.extend(day.passes(60)))[Starts._worked_out.__code__]
    started = [one for one in admitted if one in reserved]
    assert len(started) > 5
    assert calls < 5 * len(reserved), f"{len(started)} of {len(reserved)} started, {calls} searches"


def test_without_the_setting_and_as_kueue_none_is_reserved() -> None:
    for more in ({"longest_wait_s": 0}, {"as_kueue": True, "longest_wait_s": 0}):
        day = Day([queue("q0", {"f": 4})], **more)
        day.comes(workload("a", 3, 0, None), 100)
        day.passes(0)
        day.comes(workload("large", 4, 1, None), 1)
        day.comes(workload("small", 1, 60, None), 1)
        assert [*day.passes(60), *day.passes(60)] == ["small"]
        assert not day.reserved() and day.cache.starts.due_at == float("inf")


@st.composite
def days(draw: Any) -> tuple[list[ClusterQueueView], list[tuple[Workload, float]]]:
    cohort = draw(st.sampled_from(["", "c"]))
    names = [f"q{i}" for i in range(draw(st.integers(1, 3)))]
    flavors = draw(st.sampled_from([["f"], ["f"], ["f", "g"]]))
    queues = [
        queue(
            name,
            {flavor: draw(st.integers(2, 8)) for flavor in flavors},
            cohort=cohort,
            borrowing_limit=draw(st.none() | st.integers(0, 5)) if cohort else None,
            strategy=draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"])),
            preemption=Preemption(
                within_cluster_queue=draw(st.sampled_from(["Never", "LowerPriority"]))
            ),
        )
        for name in names
    ]
    coming = []
    at = 0
    for number in range(draw(st.integers(8, 40))):
        at += draw(st.integers(0, 3))
        bound = draw(st.integers(1, 25))
        bounded = draw(st.sampled_from([True, True, True, False]))
        one = workload(
            f"w{number:02}",
            draw(st.integers(1, 8)),
            at,
            bound if bounded else None,
            to=draw(st.sampled_from(names)),
            priority=draw(st.integers(0, 1)),
        )
        coming.append((one, draw(st.integers(1, bound))))
    return queues, coming


@LAW
@given(days())
def test_who_is_reserved_a_start_starts_by_then(
    drawn: tuple[list[ClusterQueueView], list[tuple[Workload, float]]],
) -> None:
    queues, coming = drawn
    day, left = Day(queues), list(coming)
    promised: dict[str, tuple[ReservedStart, set[str]]] = {}

    def by_right(start: ReservedStart) -> bool:
        """A neighbour took or kept what is its own, since that start was worked out."""
        others = [at for name, at in day.by_right.items() if name != start.queue]
        urgent = day.urgent.get(start.queue, -1.0) >= start.at
        return urgent or (bool(queues[0].cohort and others) and max(others) >= start.at)

    for now in range(2000):
        while left and left[0][0].created <= now:
            day.comes(*left.pop(0))
        in_now = day.passes(now)
        running = set(day.cache.reservations.admitted)
        for id in promised.keys() - day.cache.starts.by_id.keys() - {*in_now}:
            del promised[id]  # withdrawn: behind a higher priority that nothing passes
        for id, start in day.cache.starts.by_id.items():
            before, held = promised.get(id, (start, running))
            if start.at != before.at:
                assert by_right(before), (id, before.by, start.by)
                held, day.by_right[start.queue] = running, now  # for who is reserved one later
            elif start.by != before.by:
                assert before.by is None, (id, before.by, start.by)
            promised[id] = start, held
        for id, (start, held) in promised.items():
            waits = id in day.cache.starts.by_id
            if id in in_now and start.by is not None:
                assert now <= start.by or by_right(start), (id, now, start.by)
            elif waits and start.by is not None:
                assert now < start.by or by_right(start), (id, now, start.by)
            elif waits:
                assert held & running or by_right(start), (id, now)
        for node in day.cache.objects.present.queues.values():
            for key, taken in node.root.usage.items():
                assert taken <= node.root.subtree[key], "nothing is admitted beyond the quota"
        if not left and not day.ends:
            day.passes(now + LONGEST_S)
            break
    # Each that could ever fit has started; all others say that they cannot.
    for waiter in day.cache.queues.waiting.values():
        assert "maximum capacity" in waiter.message or not day.cache.starts.by_id, waiter.message


HOUR = Policy(longest_wait_s=3600)


def bounded(name: str, cpu: int, seconds: int, toy: Toy) -> None:
    toy.pod(name, cpu=cpu, labels={MAX_EXEC_SECONDS: str(seconds)})


@pytest.mark.parametrize("restart", [False, True])
def test_a_start_is_recorded_outlives_a_restart_and_ends_with_the_admission(restart: bool) -> None:
    toy = Toy(10, policy=HOUR)
    bounded("holder", 6, 7200, toy)
    toy.run("holder")
    toy.pod("large", cpu=9)
    toy.pod("small", cpu=1)
    assert not toy.gated("small"), "within the hour it passes"
    toy.run("small")
    toy.wait(3601)
    held = toy.group("large").quota.start
    assert held is not None
    # 7200 s from the admission, 30 s of grace, 15 s until that is seen.
    assert (held.start.by - T0).total_seconds() == pytest.approx(7245, abs=1)
    if restart:
        resumed(toy)
    toy.pod("late", cpu=1)
    bounded("longer", 2, 3600, toy)
    bounded("brief", 2, 3000, toy)
    assert [name for name in ("late", "longer", "brief") if toy.gated(name)] == ["late", "longer"]
    assert toy.group("late").quota.reason[1].startswith("a group that has waited for longer")
    toy.run("brief")
    toy.end("small", "brief", "holder")
    assert not toy.gated("large") and toy.group("large").quota.start is None
    (row,) = toy.world.journal.starts.values()
    assert row.ended == "Admitted" and row.to_seq is not None and row.to_seq > row.from_seq
    if not restart:
        replayed(toy)


def test_what_was_seen_of_a_bound_after_the_admission_counts() -> None:
    toy = Toy(10, policy=HOUR)
    toy.act = False
    bounded("holder", 6, 7200, toy)
    toy.act = True
    toy.settle()
    toy.run("holder")
    toy.pod("large", cpu=9)
    toy.wait(3601)
    assert toy.group("large").quota.start.start.by is not None


def test_a_start_ends_with_its_group_and_the_next_oldest_is_reserved_one() -> None:
    toy = Toy(10, policy=HOUR)
    toy.pod("holder", cpu=6)
    toy.run("holder")
    toy.pod("large", cpu=9)
    toy.pod("next", cpu=8)
    toy.wait(3601)
    assert toy.group("large").quota.start.start.by is None
    assert toy.group("next").quota.start is None
    toy.delete("large")
    toy.pod("other", cpu=5)
    assert toy.group("next").quota.start is not None
    assert [row.ended for row in toy.world.journal.starts.values()] == ["Left", ""]


@pytest.mark.parametrize("policy", [Policy(), Policy(longest_wait_s=60, compatibility="kueue")])
def test_no_start_is_reserved_by_default_of_old_logs_and_as_kueue_decides(policy: Policy) -> None:
    toy = Toy(10, policy=policy)
    bounded("holder", 6, 7200, toy)
    toy.run("holder")
    toy.pod("large", cpu=9)
    toy.wait(7000)
    toy.pod("small", cpu=1)
    assert not toy.gated("small") and not toy.world.journal.starts
    assert not any(timer.startswith("starts/") for timer in toy.world.meta.timers)
