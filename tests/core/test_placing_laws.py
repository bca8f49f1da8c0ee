"""Laws of placing pods by topology, over random nodes, usage and requests.

No leaf is given more than it has; no pod has two places; the same snapshot gives the same answer in
whatever order it came, also where the tree lived through other states before: by Kueue's way and by
the better one. That one gives every pod a place, breaks no slice, uses few nodes, and differs from
Kueue's where a row of docs/differences.md says so.
"""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from podgroup.admission.model import PodSet
from podgroup.admission.topology.counts import KEPT, Counts, Question, per_pod
from podgroup.admission.topology.domains import DomainTree, Leaf, pods
from podgroup.admission.topology.placement import Placed, place
from podgroup.admission.topology.replacing import replace_nodes
from podgroup.admission.topology.ungating import GroupPod, Ranks, ungated
from podgroup.model.objects import NodeView, Toleration
from podgroup.model.topology import (
    HOSTNAME,
    SliceLayer,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)
from podgroup.model.topology_json import decoded, encoded
from tests.support.examples import examples
from tests.support.offers import Flavor

LEVELS = ("block", "rack", HOSTNAME)
NAMES = [f"n{number:02}" for number in range(14)]
QUICK = examples(60, brief=25)
TAINT = Toleration(key="broken", value="yes", effect="NoSchedule")
INDEX = "index"


@st.composite
def nodes(draw: Any, name: str) -> NodeView:
    """A node of any of two blocks and three racks; some share a hostname, some are of no use."""
    host = draw(st.sampled_from([name, name, name, "shared"]))
    labels = {
        "block": draw(st.sampled_from("ab")),
        "rack": draw(st.sampled_from("rst")),
        HOSTNAME: host,
    }
    return NodeView(
        name=name,
        labels=labels,
        taints=(TAINT,) if draw(st.integers(0, 9)) == 0 else (),
        allocatable={"cpu": draw(st.integers(0, 9)), "pods": draw(st.integers(0, 6))},
        taken={"cpu": draw(st.integers(0, 2))},
        ready=draw(st.integers(0, 9)) > 0,
    )


@st.composite
def requests(draw: Any) -> TopologyRequest:
    level = draw(st.sampled_from(["", *LEVELS]))
    kind = draw(st.sampled_from(["required", "preferred", "unconstrained", "nothing"]))
    layers: tuple[SliceLayer, ...] = ()
    if draw(st.booleans()):
        outer = draw(st.integers(1, 4))
        layers = (SliceLayer(topology=draw(st.sampled_from(LEVELS)), size=outer),)
        if outer == 4 and draw(st.booleans()):
            layers = (
                SliceLayer(topology="block", size=4),
                SliceLayer(topology=draw(st.sampled_from(LEVELS[1:])), size=2),
            )
    return TopologyRequest(
        required=level if kind == "required" else "",
        preferred=level if kind == "preferred" else "",
        unconstrained=True if kind == "unconstrained" else None,
        slices=layers,
        group="g" if level and draw(st.integers(0, 4)) == 0 else "",
    )


@st.composite
def pod_sets(draw: Any) -> list[PodSet]:
    number = draw(st.integers(1, 2))
    asked = draw(requests())
    return [
        PodSet(
            name=f"p{at}",
            count=draw(st.integers(1, 12)) if at == 0 or not asked.group else 1,
            requests=(("cpu", draw(st.integers(0, 3))),),
            topology=asked if at == 0 or asked.group else draw(requests()),
        )
        for at in range(number)
    ]


def tree_of(some: list[NodeView], by_host: bool, better: bool = True) -> DomainTree:
    tree = DomainTree("t", LEVELS if by_host else LEVELS[:2], Flavor(name="f"), better)
    for node in some:
        tree.set_node(node)
    return tree


def fresh(draw: Any) -> list[NodeView]:
    return [draw(nodes(name)) for name in NAMES]


def amounts(leaf: Any) -> dict[str, int]:
    return {name: leaf.free.get(name, 0) - leaf.held.get(name, 0) for name in ("cpu", "pods")}


def check_counts(tree: DomainTree) -> None:
    """What was kept while leaves changed is as if counted anew."""
    for asked, kept in list(tree.watchers.items()):
        assert isinstance(kept, Counts)
        assert isinstance(asked, Question)
        kept.refresh()
        anew = Counts(tree, asked)
        assert +kept.excluded == +anew.excluded
        for level in range(len(tree.levels)):
            assert kept.order(level) == anew.order(level)


def leader_of(sets: list[PodSet]) -> str:
    """The podset that counts as one pod, since it is placed with another."""
    both = len(sets) == 2 and bool(sets[0].topology.group)
    return sets[1].name if both else ""


@given(st.data(), st.booleans(), st.booleans())
@QUICK
def test_no_leaf_is_given_more_than_it_has(
    data: st.DataObject, by_host: bool, better: bool
) -> None:
    tree = tree_of(fresh(data.draw), by_host, better)
    for _ in range(3):
        sets = data.draw(pod_sets())
        room = {key: amounts(leaf) for key, leaf in tree.leaves.items()}
        placed = place(tree, sets)
        by_name = {one.name: one for one in sets}
        for name, assignment in placed.places.items():
            for domain in assignment.domains:
                for resource, amount in pods(by_name[name].requests, domain.count):
                    room[domain.values][resource] -= amount
                    assert amount == 0 or room[domain.values][resource] >= 0
        if placed.fits:
            for name, assignment in placed.places.items():
                tree.charge(assignment, by_name[name].requests)


@given(st.data(), st.booleans(), st.booleans())
@QUICK
def test_every_pod_of_a_whole_slice_has_one_place(
    data: st.DataObject, by_host: bool, better: bool
) -> None:
    tree = tree_of(fresh(data.draw), by_host, better)
    sets = data.draw(pod_sets())
    placed = place(tree, sets)
    for one in sets:
        assignment = placed.places.get(one.name)
        if assignment is None:
            continue
        assert max(Counter(domain.values for domain in assignment.domains).values(), default=1) == 1
        size = one.topology.slices[0].size if one.topology.slices else 1
        whole = one.count if better else one.count - one.count % size
        assert assignment.count == (1 if one.name == leader_of(sets) else whole)
        assert decoded(assignment.levels, encoded(assignment)) == assignment


@given(st.data(), st.booleans(), st.booleans())
@QUICK
def test_the_order_of_input_does_not_matter(
    data: st.DataObject, by_host: bool, better: bool
) -> None:
    """A tree that lived through changes answers as one that is made of what is left."""
    first, then = fresh(data.draw), fresh(data.draw)
    sets = [data.draw(pod_sets()) for _ in range(4)]
    lived = tree_of(first, by_host, better)
    charges = []
    for one in sets:
        placed = place(lived, one)
        by_name = {pod_set.name: pod_set for pod_set in one}
        for name, assignment in placed.places.items():
            charges.append((assignment, by_name[name].requests))
            lived.charge(*charges[-1])
        some = data.draw(st.lists(st.sampled_from(range(len(NAMES))), max_size=10, unique=True))
        for at in some:
            if data.draw(st.booleans()):
                lived.remove_node(NAMES[at])
            first[at] = replace(then[at], ready=data.draw(st.booleans()))
            lived.set_node(first[at])
        check_counts(lived)
    gone = charges[::2]
    for charge in gone:
        lived.charge(*charge, -1)
    made = DomainTree("t", lived.levels, Flavor(name="f"), better)
    for charge in data.draw(st.permutations(charges[1::2])):
        made.charge(*charge)
    for node in data.draw(st.permutations(first)):
        made.set_node(node)
    for one in sets:
        for empty in (False, True):
            assert place(lived, one, empty) == place(made, one, empty)
            assert place(lived, one, empty) == place(made, one, empty)
    assert len(lived.watchers) <= KEPT


@given(st.data(), st.booleans())
@QUICK
def test_no_slice_is_broken(data: st.DataObject, by_host: bool) -> None:
    """By the better way; of each layer one domain has the pods that make no whole slice."""
    tree = tree_of(fresh(data.draw), by_host)
    one = data.draw(pod_sets())[0]
    placed = place(tree, [one])
    if not placed.fits:
        return
    for layer in one.topology.slices:
        depth = LEVELS.index(layer.topology) + 1
        have: Counter[tuple[str, ...]] = Counter()
        for domain in placed.places[one.name].domains:
            have[tree.leaves[domain.values].path[:depth]] += domain.count
        left = [count % layer.size for count in have.values() if count % layer.size]
        assert sum(left) == one.count % layer.size
        assert len(left) <= 1


@given(st.data(), st.integers(1, 12))
@QUICK
def test_pods_that_ask_for_no_level_use_as_few_nodes_as_can_be(
    data: st.DataObject, count: int
) -> None:
    tree = tree_of(fresh(data.draw), by_host=True)
    one = PodSet(name="p", count=count, requests=(("cpu", 1),))
    placed = place(tree, [one])
    room = sorted((min(amounts(o).values()) for o in usable(tree)), reverse=True)
    room = [many for many in room if many > 0]
    if not placed.fits:
        assert sum(room) < count
        return
    used = placed.places["p"].domains
    assert sum(room[: len(used)]) >= count
    assert sum(room[: len(used) - 1]) < count


def usable(tree: DomainTree) -> list[Leaf]:
    return [leaf for leaf in tree.leaves.values() if TAINT not in leaf.taints]


@given(st.data())
@QUICK
def test_where_no_row_applies_the_better_way_is_kueues(data: st.DataObject) -> None:
    """The same fits, in the same domains of the level where Kueue finds room."""
    some = fresh(data.draw)
    trees = [tree_of(some, by_host=True, better=better) for better in (False, True)]
    one = data.draw(pod_sets())[0]
    asked = one.topology
    if asked.slices and one.count % asked.slices[0].size:
        return
    kueue, better = (place(tree, [one]) for tree in trees)
    assert (kueue.fits, kueue.reason) == (better.fits, better.reason)
    if not (kueue.fits and (asked.required or asked.preferred)):
        return
    for depth in range(1, len(LEVELS)):
        used = [
            upper(tree, found, depth) for tree, found in zip(trees, (kueue, better), strict=True)
        ]
        if len(used[0]) == 1:
            assert used[1] == used[0]


def upper(tree: DomainTree, placed: Placed, depth: int) -> set[tuple[str, ...]]:
    """The domains above that a podset has places in."""
    (assignment,) = placed.places.values()
    return {tree.leaves[domain.values].path[:depth] for domain in assignment.domains}


@given(st.data(), st.booleans())
@QUICK
def test_nodes_of_a_rack_count_one_by_one(data: st.DataObject, selective: bool) -> None:
    """No rack is given more than its nodes hold that pods may use, whatever they hold in all."""
    some = fresh(data.draw)
    tree = tree_of(some, by_host=False)
    selector = (("block", data.draw(st.sampled_from("ab"))),) if selective else ()
    one = PodSet(name="p", count=4, requests=(("cpu", 3),), node_selector=selector)
    placed = place(tree, [one])
    for domain in placed.places.get("p", TopologyAssignment(levels=())).domains:
        held = 0
        for node in some:
            at = (node.labels["block"], node.labels["rack"])
            wrong = any(node.labels[key] != value for key, value in selector)
            if node.ready and at == domain.values and TAINT not in node.taints and not wrong:
                cpu = node.allocatable["cpu"] - node.taken["cpu"]
                held += max(0, min(cpu // 3, node.allocatable["pods"]))
        assert domain.count <= held


@given(st.data())
@QUICK
def test_what_stays_keeps_its_place_when_a_node_fails(data: st.DataObject) -> None:
    some = fresh(data.draw)
    tree = tree_of(some, by_host=True)
    one = data.draw(pod_sets())[0]
    placed = place(tree, [one])
    if not placed.fits or not placed.places[one.name].domains:
        return
    present = placed.places[one.name]
    tree.charge(present, one.requests)
    failed = data.draw(st.sampled_from(present.domains)).values[0]
    for node in some:
        if node.labels[HOSTNAME] == failed:
            tree.remove_node(node.name)
    before = {key: amounts(leaf) for key, leaf in tree.leaves.items()}
    found = replace_nodes(tree, [(one, present)], [failed])
    assert {key: amounts(leaf) for key, leaf in tree.leaves.items()} == before
    if not found.fits:
        assert found.reason
        return
    assert failed not in {domain.values[0] for domain in found.places[one.name].domains}
    now = {domain.values: domain.count for domain in found.places[one.name].domains}
    for domain in present.domains:
        if domain.values != (failed,):
            assert now[domain.values] >= domain.count
    assert sum(now.values()) <= present.count


@given(st.data())
@QUICK
def test_no_pod_and_no_place_is_given_twice(data: st.DataObject) -> None:
    hosts = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    domains = tuple(
        TopologyDomain(values=(host,), count=data.draw(st.sampled_from([1, 1, 1, 2, 3])))
        for host in hosts
    )
    assignment = TopologyAssignment(levels=(HOSTNAME,), domains=domains)
    there: Counter[str] = Counter()
    group: list[GroupPod] = []
    for number in range(data.draw(st.integers(0, 8))):
        gated = data.draw(st.integers(0, 5)) > 0
        host = data.draw(st.sampled_from([*hosts, "elsewhere"]))
        index = str(data.draw(st.sampled_from([len(group), len(group), len(group), 0])))
        if not gated:
            if there[host] >= sum(d.count for d in domains if d.values == (host,)):
                continue
            there[host] += 1
        group.append(
            GroupPod(
                name=f"pod-{number}",
                labels={INDEX: index},
                node_selector={} if gated else {HOSTNAME: host},
                gated=gated,
            )
        )
    ranks = Ranks(index_label=data.draw(st.sampled_from(["", INDEX])))
    found = ungated(assignment, assignment.count, group, ranks)
    assert set(found) <= {pod.name for pod in group if pod.gated}
    there.update(selector[HOSTNAME] for selector in found.values())
    for domain in domains:
        assert there[domain.values[0]] <= domain.count
    shuffled = data.draw(st.permutations(group))
    assert ungated(assignment, assignment.count, shuffled, ranks) == found


def test_a_pod_takes_one_of_pods_and_nothing_of_zero() -> None:
    assert per_pod((("memory", 0), ("cpu", 5))) == (("cpu", 5), ("pods", 1))
