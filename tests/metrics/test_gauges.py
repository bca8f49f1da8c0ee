"""Sizes read off the state, and how far behind the log a projection is."""

import time

from podgroup.engine import Stored, load_world, new_world
from podgroup.log.events import ObjectApplied
from podgroup.model.objects import LocalQueueView
from podgroup.model.quantities import in_base_units
from podgroup.state.facts import cluster_queue_name
from podgroup.state.members import Flag
from projector.measures import gauges
from projector.measures.lag import MAX_LOOKS, Lag
from runtime.metrics import Metrics
from tests.metrics.test_registry import samples
from tests.projector.support import busy_toy
from tests.support.toy import Toy


def test_who_waits_for_what() -> None:
    toy = Toy(cpu=4)
    for i in range(3):
        toy.pod(f"a{i}", "a", 3)
    toy.pod("half", "b", 2)
    toy.pod("b-too", "c", 2)
    toy.pod("big", cpu=2)
    toy.pod("lost", labels={"kueue.x-k8s.io/queue-name": "typo"})
    waiting = gauges.pending_groups(toy.world)
    assert waiting["cq", "composing", "WaitingForPods"] == 2
    assert waiting["", "blocked", "LocalQueueNotFound"] == 1
    assert sum(waiting.values()) == 4
    assert [q for q, _, _ in waiting] == ["cq", "cq", ""]
    states = gauges.groups(toy.world)
    assert sum(states.values()) == len(toy.world.groups) == 5
    assert states[("Admitted",)] == 1
    assert gauges.pods(toy.world) == {(): 7}
    assert gauges.gated_pods(toy.world) == {("cq",): 3, ("",): 1}


def test_gated_pods_are_those_that_show_the_gate() -> None:
    world = busy_toy().world
    counted = sum(gauges.gated_pods(world).values())
    assert counted == sum(pod.gated and pod.fate != "excess" for pod in world.pods.values()) > 0
    assert counted == sum(members.count(Flag.GATED) for members in world.members.values())


def test_quota_is_in_base_units() -> None:
    toy = Toy(cpu=4)
    toy.pod("a0", "a", 2)
    assert gauges.quota_nominal(toy.world) == {("cq", "f", "cpu"): 4.0}
    assert gauges.quota_used(toy.world) == {("cq", "f", "cpu"): 0.0}
    toy.pod("a1", "a", 2)
    assert gauges.quota_used(toy.world) == {("cq", "f", "cpu"): 2.0}
    assert in_base_units("cpu", 1500) == 1.5
    assert in_base_units("memory", 1 << 30) == 1 << 30
    assert in_base_units("nvidia.com/gpu", 8) == 8


def test_quota_still_held_of_a_cluster_queue_that_is_gone_is_shown() -> None:
    toy = Toy(cpu=4)
    toy.pod("a", cpu=3)
    del toy.world.cluster_queues["cq"]
    assert gauges.quota_nominal(toy.world) == {}
    assert gauges.quota_used(toy.world) == {("cq", "f", "cpu"): 3.0}


def test_kueue_keeps_its_own_books() -> None:
    toy = Toy(cpu=4, mode="kueue")
    assert gauges.quota_nominal(toy.world) == {("cq", "f", "cpu"): 4.0}
    assert gauges.quota_used(toy.world) == {}


def test_a_holding_outweighs_the_queue() -> None:
    toy = Toy(cpu=4)
    toy.pod("a")
    (group,) = toy.world.groups.values()
    toy.do(
        ObjectApplied(
            object=LocalQueueView(
                uid="lq",
                namespace="ns",
                name="lq",
                resource_version=toy.bump(),
                cluster_queue="other",
            )
        )
    )
    assert cluster_queue_name(toy.world, group) == "cq"
    assert cluster_queue_name(new_world("empty"), group) == "cq"
    group.quota.holding = None
    assert cluster_queue_name(toy.world, group) == "other"


def test_the_state_that_is_read_is_the_one_of_now() -> None:
    world, metrics = new_world("before"), Metrics()
    gauges.declare(metrics, lambda: world)
    assert samples(metrics)["gatelog_pods", ()] == 0
    world = busy_toy().world
    assert samples(metrics)["gatelog_pods", ()] == len(world.pods)
    assert samples(metrics)["gatelog_quota_nominal", ("cq", "f", "cpu")] == 6


def test_a_scrape_of_a_large_state_is_quick() -> None:
    """100,000 single pods that wait: what a scrape costs the projector, once in 15 s or so."""
    toy = Toy(cpu=1)
    toy.pod("big", cpu=2)
    (group,) = toy.world.groups.values()
    groups = {f"single-{i}": group for i in range(100_000)}
    world = load_world("test", "builtin", Stored(toy.world.meta))
    world.local_queues = toy.world.local_queues
    world.groups = groups  # type: ignore[assignment]
    world.members = dict.fromkeys(groups, toy.world.members[group.id])  # type: ignore[arg-type]
    metrics = Metrics()
    gauges.declare(metrics, lambda: world)
    began = time.process_time()
    page = metrics().decode()
    took_s = time.process_time() - began
    assert 'gatelog_gated_pods{cluster_queue="cq"} 100000.0' in page
    assert took_s < 1.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_lag_counts_from_the_first_look_that_was_ahead() -> None:
    clock = Clock()
    lag = Lag(clock)
    assert (lag.messages(0), lag.seconds(0)) == (0, 0.0)
    lag.looked(10)
    assert (lag.messages(10), lag.seconds(10)) == (0, 0.0)
    clock.now += 3600  # a quiet hour is no lag
    lag.looked(10)
    assert lag.seconds(10) == 0.0
    lag.looked(15)
    clock.now += 5
    lag.looked(20)
    clock.now += 5
    assert (lag.messages(12), lag.seconds(12)) == (8, 10.0)
    assert (lag.messages(15), lag.seconds(15)) == (5, 5.0)
    assert (lag.messages(20), lag.seconds(20)) == (0, 0.0)
    assert lag.messages(25) == 0  # folded since the last look


def test_lag_goes_on_while_nothing_new_comes() -> None:
    clock = Clock()
    lag = Lag(clock)
    lag.looked(5)
    for _ in range(10):
        clock.now += 5
        lag.looked(5)
    assert lag.seconds(4) == 50.0


def test_a_stream_made_anew_has_a_lag_of_its_own() -> None:
    clock = Clock()
    lag = Lag(clock)
    lag.looked(1000)
    clock.now += 60
    lag.looked(3)
    clock.now += 1
    assert (lag.messages(1), lag.seconds(1)) == (2, 1.0)


def test_looks_are_bounded_and_the_oldest_is_kept() -> None:
    clock = Clock()
    lag = Lag(clock)
    for sequence in range(1, 3 * MAX_LOOKS):
        lag.looked(sequence)
        clock.now += 5
    assert len(lag._looks) == MAX_LOOKS
    assert lag.seconds(0) == 5.0 * (3 * MAX_LOOKS - 1)
