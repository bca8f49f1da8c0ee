"""Memory of one namespace: what its larger pods take is bounded, said, and free again."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.folding import Stored, load_world
from podgroup.model.interning import shared
from podgroup.model.objects import NodeTerm, PodView, Requirement
from podgroup.model.policy import Policy
from podgroup.model.remembering import LARGE_BYTES, MOST_BYTES, remembered, size_of
from podgroup.model.weight import own_weight, shape_weight
from podgroup.state.world import World
from tests.core.test_bad_values import reason
from tests.support.toy import Toy

MIB = 1024 * 1024
SMALL = Policy(namespace_memory_mib=1)


def terms(word: str, count: int = 1000) -> tuple[NodeTerm, ...]:
    values = tuple(f"{word}-{n}" for n in range(count))
    return (NodeTerm(expressions=(Requirement(key="pool", operator="NotIn", values=values),)),)


def end(toy: Toy, name: str) -> None:
    if not toy.gated(name):
        toy.run(name)
        toy.end(name)
    if name in toy.there():
        toy.delete(name)


def kept(world: World) -> int:
    """The bytes of what users can make large of all pods, each object once."""
    seen: dict[int, int] = {}
    for pod in world.pods.values():
        for name in pod.view.__struct_fields__:
            value = getattr(pod.view, name)
            seen[id(value)] = size_of(value)
    return sum(seen.values())


def consistent(world: World) -> None:
    for namespace, table in world.weights.items():
        assert table.total <= world.policy.namespace_memory_mib * MIB
        own = sum(size for size, _ in table.own.values())
        assert table.total == own + sum(part.size for part in table.parts.values())
        assert table.own or table.crowded, namespace
        assert {*table.own, *table.crowded} <= {*world.pods}
        assert all(world.pods[uid].view.crowded for uid in table.crowded)
        pods = [digest for _, digest in table.own.values()]
        assert all(pods.count(digest) == part.pods for digest, part in table.parts.items())


def test_a_namespace_that_takes_too_much_waits_and_others_do_not() -> None:
    toy = Toy(1000, policy=SMALL)
    for n in range(40):
        toy.pod(f"large-{n}", node_terms=terms(f"{n}"))
    waiting = [n for n in range(40) if reason(toy, f"large-{n}")[0] == "NamespaceTooLarge"]
    assert 20 < len(waiting) < 35
    _, message = reason(toy, f"large-{waiting[0]}")
    assert toy.group(f"large-{waiting[0]}").explained.state == "Blocked"
    assert "1 MiB" in message and "queueing.namespace_memory_mib" in message
    consistent(toy.world)
    assert kept(toy.world) < 2 * MIB
    toy.pod("small")
    assert not toy.gated("small"), "what is as small as most is read all the same"
    toy.pod("neighbour", namespace="other", node_terms=terms("x"))
    assert toy.world.weights["other"].own


def test_room_that_others_leave_is_taken_without_a_persons_help() -> None:
    toy = Toy(1000, policy=SMALL)
    for n in range(16):
        toy.pod(f"large-{n}", node_terms=terms(f"{n}"))
    waiting = [n for n in range(16) if reason(toy, f"large-{n}")[0] == "NamespaceTooLarge"]
    there = [n for n in range(16) if n not in waiting]
    assert waiting
    toy.wait(60)
    for n in there:
        end(toy, f"large-{n}")
    said = len(toy.decisions)
    toy.wait(60)
    again = [d.command.target.uid for d in toy.decisions[said:] if d.rule == "report"]
    assert again
    for uid in again:  # what was written to the pod comes back by its watch, with all of it
        toy.change(uid)
    consistent(toy.world)
    for n in waiting:
        assert reason(toy, f"large-{n}")[0] != "NamespaceTooLarge", n


def test_pods_of_a_role_take_it_once() -> None:
    toy = Toy(10_000, policy=SMALL)
    for n in range(100):
        toy.pod(f"p{n}", "gang", 100, node_terms=terms("host", 5000))
    assert toy.group("gang").explained.state in ("Admitted", "Running")
    assert toy.world.weights["ns"].total < MIB
    consistent(toy.world)
    first, *others = (pod.view.node_terms for pod in toy.world.pods.values())
    assert all(one is first for one in others)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_counted_is_what_is_there_after_anything(seed: int) -> None:
    toy, dice = Toy(1000, policy=SMALL), random.Random(seed)
    there: list[str] = []
    for n in range(60):
        if there and dice.random() < 0.4:
            name = there.pop(dice.randrange(len(there)))
            end(toy, name)
        else:
            labels = {f"x{k}": "y" for k in range(dice.choice((0, 10, 400)))}
            size = dice.choice((0, 10, 500, 2000))
            toy.pod(f"p{n}", node_terms=terms(str(dice.randrange(4)), size), labels=labels)
            there.append(f"p{n}")
        consistent(toy.world)
    stored = Stored(
        meta=toy.world.meta,
        groups=list(toy.world.groups.values()),
        pods=list(toy.world.pods.values()),
    )
    again = load_world("test", "builtin", stored)
    consistent(again)
    assert {ns: table.own for ns, table in again.weights.items()} == {
        ns: table.own for ns, table in toy.world.weights.items()
    }
    for name in there:
        end(toy, name)
    assert not toy.world.weights


def test_a_pod_that_is_too_large_is_blocked_by_reason() -> None:
    toy = Toy()
    toy.pod("p", "g", 2, too_large="spec.affinity (7000 KiB) would take too much memory")
    toy.pod("q", "g", 2)
    why, message = reason(toy, "g")
    assert (why, toy.group("g").explained.state) == ("PodTooLarge", "Blocked")
    assert message == "pod p: spec.affinity (7000 KiB) would take too much memory"


def test_what_is_heavy_is_in_no_table() -> None:
    view = Toy().pod("p", node_terms=terms("v", 5000))
    found: Any = shared(replace(view, uid="other", node_terms=terms("v", 5000)))
    again: Any = shared(replace(view, uid="another", node_terms=terms("v", 5000)))
    assert found.node_terms is not again.node_terms
    assert found.namespace is again.namespace


def light(view: PodView) -> bool:
    return not own_weight(view) and not shape_weight(view)


def test_most_pods_are_light() -> None:
    view = Toy().pod("p", labels={f"l{n}": "x" for n in range(20)}, node_terms=terms("h", 20))
    assert light(view)
    assert not light(replace(view, node_terms=terms("h", 200)))
    assert not light(replace(view, annotations={"a": "x" * 5000}))


def test_answers_are_bounded_in_bytes() -> None:
    asked = []

    @remembered
    def answer(text: str) -> str:
        asked.append(text)
        return text.upper()

    assert (answer("a"), answer("a"), len(asked)) == ("A", "A", 1)
    large = "x" * LARGE_BYTES
    assert answer(large) == answer(large) == large.upper()
    assert len(asked) == 3, "kept by nobody"
    for n in range(100):
        answer(f"{n}" * (MOST_BYTES // 100))
    closure = answer.__wrapped__  # type: ignore[attr-defined] # by functools.wraps
    assert closure("b") == "B"
    tables = [
        c.cell_contents for c in answer.__closure__ or () if isinstance(c.cell_contents, dict)
    ]
    assert size_of(tables[0]) < 1.2 * MOST_BYTES
