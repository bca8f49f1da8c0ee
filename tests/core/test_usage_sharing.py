"""Admission fair sharing in builtin mode: who used least lately comes first, restarts or not."""

import random

import pytest
from msgspec.structs import replace

from actuator.queuewrites import status_of
from podgroup.log import events as e
from podgroup.model import commands as c
from podgroup.model.names import QUEUE_NAME
from podgroup.model.objects import WHOLE, LocalQueueView
from podgroup.model.policy import Policy
from tests.core.test_laws import encoded, reloaded, replayed
from tests.support.toy import Toy

HOUR = Policy(usage_half_life_s=3600, usage_sampling_s=60)


def local(toy: Toy, name: str, weight_nano: int = WHOLE) -> None:
    toy.do(
        e.ObjectApplied(
            object=LocalQueueView(
                uid=f"l-{name}",
                namespace="ns",
                name=name,
                resource_version=toy.bump(),
                cluster_queue="cq",
                weight_nano=weight_nano,
                active=("True", "Ready", "Can submit new workloads to localQueue"),
            )
        )
    )


def shared(policy: Policy = HOUR, cpu: int = 1, blue: int = WHOLE) -> Toy:
    toy = Toy(cpu=cpu, policy=policy)
    toy.do(e.ObjectApplied(object=toy.cluster_queue(cpu, usage_based=True, active=())))
    local(toy, "red")
    local(toy, "blue", blue)
    return toy


def wait_in_turn(toy: Toy) -> None:
    """One of red has run for an hour; then three of red queue before three of blue."""
    toy.pod("first", labels={QUEUE_NAME: "red"})
    toy.run("first")
    toy.wait(3600)
    for team in ("red", "blue"):
        for number in range(3):
            toy.pod(f"{team}{number}", labels={QUEUE_NAME: team})
    toy.end("first")


def order(toy: Toy, *, restart: bool = False) -> list[str]:
    """Let one after the other run for an hour."""
    found = []
    while started := [p.name for p in toy.pods.values() if not p.gates and p.phase == "Pending"]:
        (name,) = started
        found.append(name)
        toy.run(name)
        if restart:
            toy.world = reloaded(toy.world)
        toy.wait(3600)
        toy.end(name)
    return found


@pytest.mark.parametrize("restart", [False, True])
def test_who_used_least_lately_comes_first(restart: bool) -> None:
    toy = shared()
    assert toy.world.cluster_queues["cq"].active == ("True", "Ready", "Can admit new workloads")
    wait_in_turn(toy)
    assert order(toy, restart=restart) == ["blue0", "red0", "blue1", "red1", "blue2", "red2"]
    if not restart:
        replayed(toy)


def test_without_the_setting_time_decides_and_the_queue_says_so() -> None:
    toy = shared(Policy())
    assert "usage_half_life_s" in toy.world.cluster_queues["cq"].active[2]
    wait_in_turn(toy)
    assert order(toy) == ["red0", "red1", "red2", "blue0", "blue1", "blue2"]
    assert not toy.world.meta.used


def test_a_larger_weight_gets_more() -> None:
    toy = shared(blue=10 * WHOLE)
    wait_in_turn(toy)
    assert order(toy)[:3] == ["blue0", "blue1", "blue2"]


def test_resources_count_by_their_weights() -> None:
    toy = shared(replace(HOUR, usage_weights=("cpu=0",)))
    wait_in_turn(toy)
    assert order(toy)[:3] == ["red0", "red1", "red2"], "nobody used anything: time decides"


def test_a_queue_that_goes_is_forgotten() -> None:
    toy = shared()
    toy.pod("first", labels={QUEUE_NAME: "red"})
    assert set(toy.world.meta.used) == {"ns/red", "ns/blue", "ns/lq"}
    view = toy.world.local_queues["ns", "blue"]
    toy.do(
        e.ObjectDeleted(
            kind="LocalQueue",
            namespace="ns",
            name="blue",
            uid=view.uid,
            resource_version=toy.bump(),
        )
    )
    assert "ns/blue" not in toy.world.meta.used


def test_the_status_of_a_local_queue_says_what_it_used() -> None:
    toy = shared(replace(HOUR, status_interval_s=1))
    toy.pod("first", labels={QUEUE_NAME: "red"})
    toy.run("first")
    toy.wait(3600)
    toy.end("first")
    toy.wait(5)
    written = [d.command for d in toy.decisions if isinstance(d.command, c.ReportQueue)]
    status = status_of(next(one for one in reversed(written) if one.target.name == "red"))
    used = toy.world.meta.used["ns/red"]
    assert used.at is not None and used.consumed is not None
    assert status["fairSharing"] == {
        "weightedShare": 0,
        "admissionFairSharingStatus": {
            "consumedResources": dict(used.consumed),
            "lastUpdate": used.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }
    assert 0.4 < float(dict(used.consumed)["cpu"]) < 0.6, "an hour is the half-life"
    replayed(toy)


@pytest.mark.parametrize("seed", range(4))
def test_restarts_change_neither_order_nor_ledger(seed: int) -> None:
    toys = [shared(cpu=3), shared(cpu=3)]
    rng = random.Random(seed)
    for number in range(60):
        team, cpu = rng.choice(["red", "blue"]), rng.randint(1, 2)
        pause, ends = rng.choice([0, 30, 90, 600]), rng.randint(0, 2)
        restart = rng.random() < 0.3
        for toy, restarted in zip(toys, (restart, False), strict=True):
            toy.pod(f"p{number}", labels={QUEUE_NAME: team}, cpu=cpu)
            if restarted:
                toy.world = reloaded(toy.world)
            toy.wait(pause)
            going = [p.name for p in toy.pods.values() if not p.gates]
            toy.run(*(n for n in going if toy.named(n).phase == "Pending"))
            toy.end(*going[:ends])
    one, other = (encoded(toy.world) for toy in toys)
    assert one["groups"] == other["groups"]
    assert toys[0].world.meta.used == toys[1].world.meta.used
