"""What runs without having been admitted costs its own ClusterQueue, and no neighbour (law 10)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from podgroup.admission.model import FlavorResource
from podgroup.admission.tree import Node
from podgroup.fold.account import known
from podgroup.log import events as e
from podgroup.model.objects import NamespaceView, Requirement, Selector
from podgroup.model.policy import Policy
from projector.measures import gauges
from tests.core.test_laws import reloaded, replayed
from tests.core.test_shared_quota import of, started, team
from tests.support.examples import examples
from tests.support.toy import Toy

LENDS: list[dict[str, Any]] = [
    {},
    {"reclaim_within_cohort": "Never"},
    {"lends": 0},
    {"lends": 0, "reclaim_within_cohort": "Never"},
]


def sly(toy: Toy, name: str, cpu: int, queue: str) -> None:
    """A pod that came past admission, and runs."""
    toy.pod(name, cpu=cpu, labels=of(queue), gated=False)
    toy.run(name)


@pytest.mark.parametrize("terms", LENDS)
def test_a_neighbours_own_quota_stays_usable(terms: dict[str, Any]) -> None:
    toy = Toy()
    team(toy, "red", 10)
    team(toy, "blue", 10, **terms)
    sly(toy, "sly", 100_000, "red")
    toy.pod("mine", cpu=10, labels=of("blue"))
    assert started(toy) == {"sly", "mine"}
    toy.pod("more", cpu=1, labels=of("red"))
    assert toy.gated("more"), "its own queue has nothing left"
    replayed(toy)
    reloaded(toy.world)
    toy.end("sly")
    assert not toy.gated("more")


def test_what_is_left_of_ones_own_quota_is_charged_and_not_lent() -> None:
    toy = Toy()
    team(toy, "red", 4)
    team(toy, "blue", 4)
    sly(toy, "sly", 3, "red")
    toy.pod("large", cpu=6, labels=of("blue"))
    assert toy.gated("large"), "red has one CPU left to lend"
    toy.pod("b", cpu=5, labels=of("blue"))
    assert not toy.gated("b")
    toy.end("b")
    toy.end("sly")
    assert not toy.gated("large")


def test_its_own_queue_may_not_borrow_instead() -> None:
    toy = Toy()
    team(toy, "red", 4)
    team(toy, "blue", 4)
    sly(toy, "sly", 8, "red")
    toy.pod("r", cpu=1, labels=of("red"))
    assert toy.gated("r"), "red has had what it may ever have"
    toy.pod("b", cpu=4, labels=of("blue"))
    assert not toy.gated("b")


def test_what_was_admitted_once_is_charged_as_it_was() -> None:
    """Its group is over, its pods still run: the quota was lent, and is not free yet."""
    toy = Toy()
    team(toy, "red", 1)
    team(toy, "blue", 1)
    toy.slow = True
    toy.pod("p0", "g", 2, labels=of("red"))
    toy.pod("p1", "g", 2, labels=of("red"))
    toy.run("p0", "p1")
    toy.delete_workload("g")
    toy.pod("b", cpu=1, labels=of("blue"))
    assert toy.gated("b")
    toy.end("p0", "p1")
    assert not toy.gated("b")


@pytest.mark.parametrize("allowed", [False, True])
def test_a_queue_that_does_not_select_the_namespace_is_not_charged(allowed: bool) -> None:
    toy = Toy(cpu=4)
    team_of = Requirement(key="team", operator="In", values=("a" if allowed else "b",))
    queue = replace(toy.cluster_queue(4), namespaces=Selector(expressions=(team_of,)))
    namespace = NamespaceView(uid="n", name="ns", resource_version=toy.bump(), labels={"team": "a"})
    toy.do(e.ObjectApplied(object=namespace), e.ObjectApplied(object=queue))
    toy.pod("sly", cpu=3, gated=False)
    toy.run("sly")
    assert bool(toy.world.quotas.charges) is allowed


@pytest.mark.parametrize("forged", [False, True])
def test_marks_of_a_start_that_a_user_writes_cost_no_neighbour(forged: bool) -> None:
    toy = Toy()
    team(toy, "red", 10)
    team(toy, "blue", 10, reclaim_within_cohort="Never")
    marks = {"kueue.x-k8s.io/podset": "main"} if forged else {}
    toy.pod("sly", cpu=100_000, labels=of("red") | marks, gated=False)
    toy.run("sly")
    assert (toy.group("sly").quota.holding is not None) is forged
    toy.pod("mine", cpu=10, labels=of("blue"))
    assert not toy.gated("mine")
    reloaded(toy.world)


@pytest.mark.parametrize("stop", [False, True])
def test_an_operator_may_have_them_stopped(stop: bool) -> None:
    toy = Toy(policy=Policy(stop_unadmitted=stop))
    toy.pod("before", labels=of("lq") | {"kueue.x-k8s.io/podset": "main"}, gated=False)
    toy.pod("sly", gated=False)
    toy.pod("free", labels=of(""), gated=False)
    toy.run("before", "free", *([] if stop else ["sly"]))
    assert toy.there() == {"before", "free"} | ({"sly"} if not stop else set())
    assert ("unadmit" in toy.rules()) is stop
    if not stop:
        assert gauges.unadmitted_pods(toy.world) == {("cq",): 1}


def test_what_runs_unadmitted_is_apart_from_what_is_held() -> None:
    toy = Toy(policy=Policy(status_interval_s=1))
    team(toy, "red", 10)
    toy.pod("mine", cpu=2, labels=of("red"))
    toy.run("mine")
    sly(toy, "sly", 100_000, "red")
    toy.wait(2)
    for place in (("ClusterQueue", "", "red"), ("LocalQueue", "ns", "red"), ("Cohort", "", "lab")):
        standing = toy.world.standings[place].standing
        assert standing is not None
        (amount,) = standing.amounts
        taken = amount.reserved, amount.used, amount.borrowed, amount.unadmitted
        assert taken == (2_000, 2_000, 0, 100_000_000), place
    assert gauges.quota_used(toy.world)["red", "f", "cpu"] == 2
    assert gauges.quota_unadmitted(toy.world) == {("red", "f", "cpu"): 100_000}


KEY: FlavorResource = ("f", "cpu")
steps = st.lists(
    st.tuples(st.sampled_from(("red", "blue")), st.booleans(), st.integers(1, 9)), max_size=12
)


@given(steps)
@examples(60, brief=25)
def test_what_runs_unadmitted_takes_its_own_quota_and_gives_all_of_it_back(steps: Any) -> None:
    toy = Toy()
    team(toy, "red", 5, lends=2)
    team(toy, "blue", 5)
    forest = known(toy.world).scheduler.cache.objects.forest
    nodes = forest.queues
    before = [dict(node.usage) for node in (*nodes.values(), *forest.cohorts.values())]
    admitted = dict.fromkeys(nodes, 0)
    runs = dict.fromkeys(nodes, 0)
    for name, admit, amount in steps:
        node: Node = nodes[name]
        if admit:
            node.add(KEY, amount * 1000)
            admitted[name] += amount * 1000
        else:
            node.run({KEY: amount * 1000})
            runs[name] += amount * 1000
        for each, node in nodes.items():
            if each not in admitted or KEY not in node.subtree:
                continue
            used, own = node.usage.get(KEY, 0), node.subtree[KEY]
            assert used == max(admitted[each], min(admitted[each] + runs[each], own))
            assert used + node.overrun(KEY) == admitted[each] + runs[each]
    for name, admit, amount in reversed(steps):
        if admit:
            nodes[name].remove(KEY, amount * 1000)
        else:
            nodes[name].run({KEY: amount * 1000}, -1)
    after = [dict(node.usage) for node in (*nodes.values(), *forest.cohorts.values())]
    assert [{k: v for k, v in one.items() if v} for one in after] == [
        {k: v for k, v in one.items() if v} for one in before
    ]


def test_what_no_node_has_is_not_taken_over() -> None:
    toy = Toy()
    toy.pod("sly", cpu=1_000_001, labels={"kueue.x-k8s.io/podset": "main"}, gated=False)
    toy.run("sly")
    assert toy.group("sly").quota.holding is None
    assert "takeover" not in toy.rules()


def test_an_admission_says_that_devices_are_not_charged() -> None:
    toy = Toy()
    toy.pod("plain")
    toy.pod("claims", devices=True)
    (plain, claims) = (d.message for d in toy.decisions if d.rule == "admit")
    assert "resourceClaims" not in plain
    assert claims.endswith("; devices of its resourceClaims are charged to no quota")
