"""The finalizer of what is in use: who carries it, and what a queue does until it goes."""

from datetime import timedelta
from typing import Any

import msgspec

from podgroup.engine import Stored, due_timers, load_world, read_back
from podgroup.log.events import ObjectApplied
from podgroup.model.commands import MarkInUse
from podgroup.model.objects import AdmissionCheckView, FlavorView
from tests.support.toy import Toy


def marks(toy: Toy, since: int = 0) -> list[tuple[str, str, bool]]:
    """What was decided: kind and name, and whether the finalizer was to go."""
    return [
        (d.command.target.kind, d.command.target.name, d.command.off)
        for d in toy.decisions[since:]
        if d.rule == "protect" and isinstance(d.command, MarkInUse)
    ]


def change(toy: Toy, **changes: Any) -> None:
    """Somebody changes the ClusterQueue."""
    live = toy.world.cluster_queues["cq"]
    seen = msgspec.structs.replace(live, marking="", resource_version=toy.bump(), **changes)
    toy.do(ObjectApplied(object=seen))


def test_what_comes_without_the_finalizer_is_given_it_once() -> None:
    toy = Toy()
    assert marks(toy) == []
    toy.do(
        ObjectApplied(object=FlavorView(uid="g", name="g", resource_version=toy.bump())),
        ObjectApplied(object=AdmissionCheckView(uid="c", name="c", resource_version=toy.bump())),
    )
    change(toy, marked=False)
    assert marks(toy) == [
        ("AdmissionCheck", "c", False),
        ("ResourceFlavor", "g", False),
        ("ClusterQueue", "cq", False),
    ]
    assert all(
        (view.marked, view.marking) == (True, "")
        for view in (toy.world.cluster_queues["cq"], toy.world.flavors["g"], toy.world.checks["c"])
    )
    assert not toy.world.marks
    change(toy, stop_policy="Hold")
    assert len(marks(toy)) == 3


def test_a_queue_goes_when_the_last_group_gave_its_quota_back_and_admits_nobody_meanwhile() -> None:
    toy = Toy(cpu=4)
    toy.pod("a", cpu=1)
    toy.pod("b", cpu=1)
    toy.run("a")
    toy.run("b")
    change(toy, deleting=True)
    assert toy.world.cluster_queues["cq"].active[:2] == ("False", "Terminating")
    toy.pod("late", cpu=1)
    assert toy.gated("late")
    toy.end("a")
    assert marks(toy) == []
    toy.end("b")
    assert marks(toy) == [("ClusterQueue", "cq", True)]
    assert "cq" not in toy.world.cluster_queues
    assert not toy.world.ending
    assert not toy.world.marks


def test_a_queue_that_holds_nothing_goes_at_once_and_then_its_flavor() -> None:
    toy = Toy()
    flavor = toy.world.flavors["f"]
    going = msgspec.structs.replace(flavor, resource_version=toy.bump(), deleting=True)
    toy.do(ObjectApplied(object=going))
    assert marks(toy) == []
    change(toy, deleting=True)
    assert marks(toy) == [("ClusterQueue", "cq", True), ("ResourceFlavor", "f", True)]
    assert "f" not in toy.world.flavors


def test_what_is_refused_is_tried_again_by_a_timer_and_not_before() -> None:
    toy = Toy()
    toy.rejecting.add("MarkInUse")
    change(toy, deleting=True)
    change(toy, because="again")
    assert marks(toy) == [("ClusterQueue", "cq", True)]
    toy.rejecting.clear()
    (timer,) = due_timers(toy.world, toy.now + timedelta(seconds=31))
    assert timer.timer == "mark/ClusterQueue/cq"
    toy.do(timer)
    assert marks(toy) == [("ClusterQueue", "cq", True)] * 2
    assert "cq" not in toy.world.cluster_queues


def test_one_write_is_in_flight_whatever_else_happens_and_a_restart_knows_of_it() -> None:
    toy = Toy()
    toy.act = False
    change(toy, deleting=True)
    (decision,) = [d for d in toy.decisions if d.rule == "protect"]
    live = toy.world.cluster_queues["cq"]
    assert live.marking == decision.id
    later = msgspec.structs.replace(live, marking="", resource_version=toy.bump(), because="x")
    toy.do(ObjectApplied(object=later))
    assert len(marks(toy)) == 1
    world = toy.world
    again = load_world(
        "toy",
        "builtin",
        Stored(
            world.meta,
            [*world.groups.values()],
            [*map(read_back, world.pods.values())],
            [*world.cluster_queues.values(), *world.flavors.values()],
        ),
    )
    assert again.marks == world.marks == {decision.id: ("ClusterQueue", "", "cq")}
    assert again.ending == world.ending == {"cq": None}
