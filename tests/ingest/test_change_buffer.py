"""What is held back of a watch of pods, and that nothing is lost by it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.change_buffer import (
    CREATED_BURST,
    DECISIVE_BURST,
    MINOR_BURST,
    NAMESPACE_BURST,
    UNIT_BYTES,
    ChangePolicy,
)
from podgroup.log.codec import encode_event
from podgroup.log.events import DeltaRefused, Event, PodApplied, PodDeleted, RelistStarted
from podgroup.model.names import MANAGED_LABEL, POD_FINALIZER
from podgroup.model.objects import PodView

AT = datetime(2026, 11, 22, tzinfo=UTC)
INTERVAL_S, PER_S = 5.0, 5.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def applied(name: str, version: int, relist: str = "", **more: Any) -> PodApplied:
    labels = {MANAGED_LABEL: "true", "n": str(version)} | more.pop("labels", {})
    fields: dict[str, Any] = {"namespace": "a", "phase": "Pending", "labels": labels} | more
    fields |= {"uid": f"u-{name}", "name": name, "resource_version": str(version)}
    return PodApplied(pod=PodView(created_at=AT, **fields), relist=relist)


def policy(clock: Clock, position: str | None = "0") -> ChangePolicy:
    return ChangePolicy(INTERVAL_S, PER_S, position, clock)


def feed(one: ChangePolicy, *events: Event) -> tuple[list[int], str | None]:
    """Hand events on one by one, as a watch does; return versions that go, and the position."""
    gone: list[int] = []
    position: str | None = None
    for event in events:
        version = event.pod.resource_version if isinstance(event, PodApplied | PodDeleted) else None
        going, position = one.conflate([event], version)
        gone += [int(each.pod.resource_version) for each in going if hasattr(each, "pod")]
    return gone, position


def test_a_lone_change_goes_at_once_and_a_flood_of_one_pod_does_not() -> None:
    clock = Clock()
    one = policy(clock)
    assert feed(one, applied("p", 1)) == ([1], "1")
    gone, position = feed(one, *(applied("p", n) for n in range(2, 5002)))
    assert gone == list(range(2, 2 + MINOR_BURST))
    # A restart begins before what is held: its last state is seen again.
    assert (one.held, position) == (1, "5000")
    assert one.release() == ([], "5000")
    clock.now += INTERVAL_S
    going, position = one.release()
    assert [each.pod.resource_version for each in going if isinstance(each, PodApplied)] == ["5001"]
    assert (one.held, position, one.due_s) == (0, "5001", None)
    assert (one.deferred, one.conflated) == (1, 5000 - MINOR_BURST - 1)


def test_what_decisions_need_goes_at_once_and_takes_what_was_held_along() -> None:
    one = policy(Clock())
    feed(one, *(applied("p", n, gates=("g",)) for n in range(1, 20)))
    assert one.held == 1
    assert feed(one, applied("p", 20)) == ([20], "20")  # the gate is gone
    assert one.held == 0
    feed(one, *(applied("p", n) for n in range(21, 40)))
    runs: dict[str, Any] = {"phase": "Running", "node": "n"}
    assert feed(one, applied("p", 40, **runs)) == ([40], "40")
    runs["requests"] = {"cpu": 2}
    assert feed(one, applied("p", 41, **runs)) == ([41], "41")
    feed(one, *(applied("p", n, **runs) for n in range(42, 60)))
    last = applied("p", 60, deleted_at=AT, **runs)
    assert feed(one, last, PodDeleted(pod=last.pod)) == ([60, 60], "60")
    assert (one.held, one.due_s) == (0, None)


def test_a_refused_state_and_a_relist_leave_nothing_old_behind() -> None:
    one = policy(Clock())
    feed(one, *(applied("p", n) for n in range(1, 20)))
    refused = DeltaRefused(
        kind="Pod", namespace="a", name="p", uid="u-p", resource_version="20", field="", message="m"
    )
    assert one.conflate([refused], "20") == ([refused], "20")
    feed(one, *(applied("p", n) for n in range(21, 40)))
    assert one.held == 1
    started = RelistStarted(kind="Pod", relist="r")
    listed = applied("p", 50, relist="r")
    assert one.conflate([started, listed], None) == ([started, listed], None)
    assert one.held == 0


def test_a_namespace_is_bounded_and_another_is_not_held_up_by_it() -> None:
    clock = Clock()
    one = policy(clock)
    pods = 400
    feed(one, *(applied(f"p{n}", n + 1) for n in range(pods)))
    version, gone = pods, 0
    for _ in range(4):
        for n in range(pods):
            version += 1
            gone += len(feed(one, applied(f"p{n}", version))[0])
    assert gone == NAMESPACE_BURST
    assert set(one.late) == {"a"}
    assert feed(one, applied("other", version + 1, namespace="b"))[0] == [version + 1]
    assert feed(one, applied("other", version + 2, namespace="b"))[0] == [version + 2]
    assert one.held == pods
    clock.now += 10
    assert len(one.release()[0]) == 10 * PER_S
    clock.now += pods / PER_S
    one.release()
    assert one.held == 0


def test_what_matters_waits_for_its_own_pod_only_and_not_for_ever() -> None:
    clock = Clock()
    one = policy(clock)
    ours: dict[str, Any] = {"phase": "Succeeded", "finalizers": (POD_FINALIZER,)}
    pods = NAMESPACE_BURST + 200
    feed(one, *(applied(f"p{n}", n + 1, **ours) for n in range(pods)))
    feed(one, *(applied(f"p{n}", pods + n, **ours) for n in range(pods)))
    assert one.held == 200  # the namespace has had its share of changes of labels
    last = 2 * pods
    over = [applied(f"p{n}", last + n, phase="Succeeded") for n in range(pods)]
    gone, position = feed(one, *over)
    assert (len(gone), one.held, position) == (pods, 0, str(last + pods - 1))
    # Put on and taken off for ever, it is bounded like everything that people can write.
    flips: list[dict[str, Any]] = [ours, {"phase": "Succeeded"}]
    flood = [applied("p0", last + pods + n, **flips[n % 2]) for n in range(2_000)]
    assert len(feed(one, *flood)[0]) <= DECISIVE_BURST + MINOR_BURST
    # Deletion is no flip: it waits for a turn of its own pod, whatever the namespace has used.
    asked = applied("p0", last + pods + 2_000, phase="Succeeded", deleted_at=AT)
    feed(one, asked)
    clock.now += INTERVAL_S
    going, _ = one.release()
    assert [each.pod for each in going if isinstance(each, PodApplied)] == [asked.pod]


FINALIZED: dict[str, Any] = {"finalizers": (POD_FINALIZER,)}
PODS, TRIES_PER_S = 20, 400


def toggled(name: str, version: int) -> Event:
    """An ended pod out of our selector and back."""
    event = applied(name, version, phase="Succeeded", **FINALIZED)
    return PodDeleted(pod=event.pod, filtered=True) if version // PODS % 2 else event


def flapping(name: str, version: int) -> Event:
    return applied(name, version, node=f"n{version}", **FINALIZED)


def unreadable(name: str, version: int) -> Event:
    if version // PODS % 2:
        return applied(name, version, **FINALIZED)
    uid, at = f"u-{name}", str(version)
    return DeltaRefused(
        kind="Pod", namespace="a", name=name, uid=uid, resource_version=at, field="f", message="m"
    )


def large(name: str, version: int) -> Event:
    notes = {"kueue.x-k8s.io/x": "x" * (100_000 if version // PODS % 3 else 1)}
    return applied(name, version, annotations=notes, phase=f"{version % 7}", **FINALIZED)


def mixed(name: str, version: int) -> Event:
    return (toggled, flapping, unreadable, large)[version // 997 % 4](name, version)


@pytest.mark.parametrize("act", [toggled, flapping, unreadable, large, mixed])
def test_the_bytes_of_a_hostile_minute_are_bounded(act: Callable[[str, int], Event]) -> None:
    """F6: a toggle of one pod was 3 KB, 150 of them in 5 s."""
    clock = Clock()
    one = policy(clock)
    version, per_second = 0, []
    for _ in range(60):
        spent = 0
        for _ in range(TRIES_PER_S):
            version += 1
            going, _ = one.conflate([act(f"p{version % PODS}", version)], str(version))
            going += one.release()[0]
            spent += sum(len(encode_event(event)) for event in going)
            clock.now += 1 / TRIES_PER_S
        per_second.append(spent)
    turns = NAMESPACE_BURST + 60 * PER_S
    # One event may take several turns at once, and what a pod may at once it may beside them.
    assert sum(per_second) <= turns * UNIT_BYTES + PODS * DECISIVE_BURST * 110_000
    if act is not large and act is not mixed:
        assert sum(per_second[30:]) <= 30 * PER_S * UNIT_BYTES
    assert one.held <= PODS
    clock.now += 1e6
    one.release()
    assert one.held == 0


def test_pods_that_come_and_go_in_a_loop_are_two_events_each() -> None:
    clock = Clock()
    one = policy(clock)
    going: list[Event] = []
    version, pods, per_s = 0, CREATED_BURST + 2_000, 5_000
    for number in range(pods):
        version += 3
        name = f"p{number}"
        first = applied(name, version, **FINALIZED)
        asked = applied(name, version + 1, deleted_at=AT, **FINALIZED)
        last = PodDeleted(pod=applied(name, version + 2, deleted_at=AT).pod)
        going += one.conflate([first, asked, last], str(version))[0]
        going += one.release()[0]
        clock.now += 1 / per_s
    clock.now += INTERVAL_S
    going += one.release()[0]
    told: dict[str, list[Event]] = {}
    for each in going:
        assert isinstance(each, PodApplied | PodDeleted)
        told.setdefault(each.pod.name, []).append(each)
    assert len(told) == pods
    assert all(isinstance(events[-1], PodDeleted) for events in told.values())
    assert sum(len(events) == 2 for events in told.values()) >= 1_500
    assert one.held == 0


def test_off_is_off() -> None:
    one = ChangePolicy(0.0, 0.0, "0", Clock())
    assert len(feed(one, *(applied("p", n) for n in range(1, 3000)))[0]) == 2999


STEPS = st.lists(
    st.tuples(
        st.sampled_from("pqr"),
        st.sampled_from(["label", "label", "label", "phase", "gone", "wait"]),
    ),
    max_size=120,
)


@given(STEPS)
def test_nothing_is_lost_whenever_the_ingester_ends(steps: list[tuple[str, str]]) -> None:
    """What went, and then what a watch from the last position shows, is all there was."""
    clock = Clock()
    one = policy(clock)
    all_of_it: list[PodApplied | PodDeleted] = []
    seen: dict[str, int] = {}
    phases: dict[str, str] = {}
    position, went = "0", 0

    def take(going: list[Event], where: str | None) -> None:
        nonlocal position, went
        went += len(going)
        assert where is not None and int(where) >= int(position)
        position = where
        for each in going:
            assert isinstance(each, PodApplied | PodDeleted)
            version = int(each.pod.resource_version)
            assert version > seen.get(each.pod.uid, 0), "a pod's changes stay in order"
            seen[each.pod.uid] = version

    for version, (name, what) in enumerate(steps, 1):
        if what == "wait":
            clock.now += 3.0
            take(*one.release())
            continue
        if what == "phase":
            phases[name] = str(version)
        event: PodApplied | PodDeleted = applied(name, version, phase=phases.get(name, ""))
        if what == "gone":
            event = PodDeleted(pod=event.pod)
        all_of_it.append(event)
        take(*one.conflate([event], str(version)))
        assert went + one.held + one.conflated == len(all_of_it), "each is counted once"
        last = {e.pod.uid: int(e.pod.resource_version) for e in all_of_it}
        again = {
            e.pod.uid: int(e.pod.resource_version)
            for e in all_of_it
            if int(e.pod.resource_version) > int(position)
        }
        assert {uid: max(seen.get(uid, 0), again.get(uid, 0)) for uid in last} == last
    clock.now += 1e6
    take(*one.release())
    assert (one.held, went + one.conflated) == (0, len(all_of_it))
    assert seen == {e.pod.uid: int(e.pod.resource_version) for e in all_of_it}
