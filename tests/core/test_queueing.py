"""Condition Active of queues: what it says, when it is decided on, and that it is decided once."""

from typing import Any

import msgspec
import pytest

from podgroup.log.events import ObjectApplied, ObjectDeleted
from podgroup.model.commands import WriteQueueStatus
from podgroup.model.objects import FlavorView, LocalQueueView
from tests.support.toy import Toy

READY = ("True", "Ready", "Can admit new workloads")


def said(toy: Toy, since: int = 0) -> list[tuple[str, str, str]]:
    """What was decided: name of the queue, status and reason."""
    return [
        (d.command.target.name, d.command.condition.status, d.command.condition.reason)
        for d in toy.decisions[since:]
        if d.rule == "announce" and isinstance(d.command, WriteQueueStatus)
    ]


def queue(toy: Toy, **changes: Any) -> None:
    """A person changes the ClusterQueue; its status stays what it was."""
    live = toy.world.cluster_queues["cq"]
    changes["resource_version"] = toy.bump()
    toy.do(ObjectApplied(object=msgspec.structs.replace(live, **changes)))


def local(toy: Toy, name: str = "lq", **changes: Any) -> None:
    view = toy.world.local_queues.get(("ns", name)) or LocalQueueView(
        uid=name, namespace="ns", name=name, resource_version="", cluster_queue="cq"
    )
    changes["resource_version"] = toy.bump()
    toy.do(ObjectApplied(object=msgspec.structs.replace(view, **changes)))


def drop(toy: Toy, kind: str, name: str) -> None:
    version = toy.bump()
    toy.do(
        ObjectDeleted(
            kind=kind,  # type: ignore[arg-type]  # a literal of the wire
            namespace="",
            name=name,
            uid=name,
            resource_version=version,
        )
    )


def test_a_new_queue_is_told_to_be_ready_once() -> None:
    toy = Toy()
    assert said(toy) == []
    queue(toy, active=())
    local(toy, "more")
    assert said(toy) == [("cq", "True", "Ready"), ("more", "True", "Ready")]
    assert toy.world.cluster_queues["cq"].active == READY
    toy.pod("p", cpu=1)
    toy.run("p")
    toy.end("p")
    assert len(said(toy)) == 2, "what pods do is no reason"


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_stopped_queues_say_so_and_those_in_front_of_them(policy: str) -> None:
    toy = Toy()
    queue(toy, stop_policy=policy)
    assert said(toy) == [("cq", "False", "Stopped"), ("lq", "False", "ClusterQueueIsInactive")]
    assert toy.world.cluster_queues["cq"].active[2] == "Can't admit new workloads: is stopped."
    since = len(toy.decisions)
    local(toy, stop_policy=policy)
    assert said(toy, since) == [("lq", "False", "Stopped")]
    queue(toy, stop_policy="None")
    local(toy, stop_policy="None")
    assert said(toy, since)[1:] == [("cq", "True", "Ready"), ("lq", "True", "Ready")]


def test_a_flavor_that_is_not_there_is_named_until_it_comes() -> None:
    toy = Toy()
    drop(toy, "ResourceFlavor", "f")
    assert said(toy) == [
        ("cq", "False", "FlavorNotFound"),
        ("lq", "False", "ClusterQueueIsInactive"),
    ]
    message = toy.world.cluster_queues["cq"].active[2]
    assert message == "Can't admit new workloads: references missing ResourceFlavor(s): f."
    since = len(toy.decisions)
    toy.do(ObjectApplied(object=FlavorView(uid="g", name="f", resource_version=toy.bump())))
    assert said(toy, since) == [("cq", "True", "Ready"), ("lq", "True", "Ready")]


def test_a_local_queue_without_cluster_queue_says_so() -> None:
    toy = Toy()
    drop(toy, "ClusterQueue", "cq")
    assert said(toy) == [("lq", "False", "ClusterQueueDoesNotExist")]


def test_what_was_decided_is_not_decided_again_while_it_is_on_its_way() -> None:
    toy = Toy()
    toy.act = False
    queue(toy, stop_policy="Hold", active=READY)
    count = len(said(toy))
    toy.pod("p", cpu=1)
    local(toy, "other", cluster_queue="nowhere", active=("False", "ClusterQueueDoesNotExist", "x"))
    assert said(toy)[:count] == [
        ("cq", "False", "Stopped"),
        ("lq", "False", "ClusterQueueIsInactive"),
    ]
    assert [name for name, *_ in said(toy)[count:]] == ["other"]


def test_kueue_writes_it_itself() -> None:
    toy = Toy(mode="kueue")
    queue(toy, stop_policy="Hold")
    local(toy, "more")
    assert said(toy) == []
    assert not toy.world.unannounced


def test_the_reason_of_a_person_is_in_why_and_in_history() -> None:
    toy = Toy(cpu=2)
    toy.pod("runs", cpu=1)
    toy.run("runs")
    queue(toy, stop_policy="Hold", because="rack 7 (anna)")
    toy.pod("waits", cpu=1)
    assert toy.group("waits").explained.wait.message == "ClusterQueue cq is stopped: rack 7 (anna)"
    queue(toy, stop_policy="HoldAndDrain", because="rack 7 (anna)")
    said = [d.message for d in toy.decisions if d.rule == "drain"]
    assert said[0] == "The ClusterQueue is stopped: rack 7 (anna)"
    queue(toy, stop_policy="None", because="back (ben)")
    local(toy, stop_policy="Hold", because="budget")
    toy.pod("later", cpu=1)
    assert toy.group("later").explained.wait.message == "LocalQueue lq is stopped: budget"
    local(toy, stop_policy="Hold", because="budget of May")
    told = [
        (note.kind, note.reason, note.message)
        for note in toy.world.journal.notes
        if note.kind.startswith("Queue") and note.kind != "QuotaReleased"
    ]
    assert told == [
        ("QueueStopped", "Hold", "ClusterQueue cq: rack 7 (anna)"),
        ("QueueStopped", "HoldAndDrain", "ClusterQueue cq: rack 7 (anna)"),
        ("QueueResumed", "None", "ClusterQueue cq: back (ben)"),
        ("QueueStopped", "Hold", "LocalQueue ns/lq: budget"),
        ("QueueReasonGiven", "Hold", "LocalQueue ns/lq: budget of May"),
    ]


def test_a_stop_without_a_reason_says_what_it_always_said() -> None:
    toy = Toy(cpu=2)
    queue(toy, stop_policy="Hold")
    toy.pod("waits", cpu=1)
    assert toy.group("waits").explained.wait.message == "ClusterQueue cq is stopped"
    assert not [note for note in toy.world.journal.notes if note.kind.startswith("Queue")]
