"""Rows about the start of an admitted group: what goes onto pods, and when it is ready."""

import msgspec
import pytest

from podgroup.model.commands import CreateWorkload, WriteWorkloadStatus
from podgroup.model.names import (
    GROUP_TOTAL_COUNT,
)
from podgroup.model.objects import Condition
from podgroup.model.policy import Policy
from tests.parity.groups import admitted
from tests.support.toy import Toy

WAITS = Policy(wait_for_pods_ready="on")


@pytest.mark.parity("C-22")
def test_every_pod_of_an_admitted_group_starts() -> None:
    toy = Toy(mode="kueue")
    admitted(toy, run=False)
    for name in ("p0", "p1"):
        assert not toy.gated(name) and toy.named(name).node_selector == {"pool": "a"}
    started = [e for e in toy.said if e[1] == "Started"]
    assert started == [(n, "Started", "Admitted by clusterQueue cq") for n in ("p0", "p1")]


@pytest.mark.parity("C-89", "C-90", "C-91")
def test_a_group_is_ready_when_all_its_pods_are() -> None:
    toy = Toy(mode="kueue", policy=WAITS)
    admitted(toy, 3, run=False)
    assert toy.condition("g", "PodsReady")[:2] == ("False", "WaitForStart")
    toy.run("p0", "p1")
    assert toy.condition("g", "PodsReady")[0] == "False"
    toy.run("p2")
    assert toy.condition("g", "PodsReady")[:2] == ("True", "Started")
    toy.change(toy.named("p1").uid, conditions=(Condition(type="Ready", status="False"),))
    assert toy.condition("g", "PodsReady")[:2] == ("False", "WaitForRecovery")
    toy.change(toy.named("p1").uid, conditions=(Condition(type="Ready", status="True"),))
    assert toy.condition("g", "PodsReady")[:2] == ("True", "Recovered")
    toy.change(toy.named("p1").uid, finalizers=(), deleted_at=toy.now, phase="Failed")
    assert toy.condition("g", "PodsReady")[:2] == ("False", "WaitForRecovery")


@pytest.mark.parametrize(
    ("mode", "how", "timeout", "said"),
    [
        ("kueue", "off", 0, []),
        ("kueue", "auto", 0, [("True", "Started")]),
        ("kueue", "on", 0, [("False", "WaitForStart"), ("True", "Started")]),
        ("builtin", "off", 60, []),
        ("builtin", "auto", 0, []),
        ("builtin", "auto", 60, [("False", "WaitForStart"), ("True", "Started")]),
        ("builtin", "on", 0, [("False", "WaitForStart"), ("True", "Started")]),
    ],
)
def test_pods_ready_is_written_where_somebody_waits_for_it(
    mode: str, how: str, timeout: int, said: list[tuple[str, str]]
) -> None:
    policy = Policy(wait_for_pods_ready=how, pods_ready_timeout_s=timeout)
    toy = Toy(mode=mode, policy=policy)
    for name in ("p0", "p1"):
        toy.pod(name, "g", 2)
    if mode == "kueue":
        toy.admit("g")
    toy.run("p0", "p1")
    commands = [d.command for d in toy.decisions]
    writes = [c for c in commands if isinstance(c, WriteWorkloadStatus)]
    first = [c.status for c in commands if isinstance(c, CreateWorkload) and c.status is not None]
    written = [c for write in (*first, *writes) for c in write.conditions if c.type == "PodsReady"]
    assert [(c.status, c.reason) for c in written] == said
    if mode == "kueue":
        assert len(writes) == len(said), "nothing else is ours to write"


@pytest.mark.parity("I-32")
@pytest.mark.parametrize("mode", ["kueue", "builtin"])
def test_where_it_is_waited_for_it_is_false_before_the_admission(mode: str) -> None:
    toy = Toy(cpu=0, mode=mode, policy=WAITS)
    toy.pod("p0", "g", 1)
    wanted = ("False", "WaitForStart", "Not all pods are ready or succeeded")
    assert toy.condition("g", "PodsReady") == wanted
    assert "QuotaReserved" not in toy.true("g")


@pytest.mark.parity("C-92", "C-93")
@pytest.mark.parametrize("total", [None, "many"])
def test_without_a_total_count_nothing_is_ever_ready(total: str | None) -> None:
    """Kueue asks the pods for the total again; here it was fixed with the Workload."""
    toy = Toy(mode="kueue", policy=WAITS)
    admitted(toy, run=False)
    for name in ("p0", "p1"):
        notes = {k: v for k, v in toy.named(name).annotations.items() if k != GROUP_TOTAL_COUNT}
        if total is not None:
            notes[GROUP_TOTAL_COUNT] = total
        toy.change(toy.named(name).uid, annotations=notes)
    toy.run("p0")
    assert toy.condition("g", "PodsReady")[0] == "False"
    bad = Toy(mode="kueue")
    bad.pod("p0", "g", annotations={GROUP_TOTAL_COUNT: total or ""})
    assert not bad.workloads, "and none is made without one"


@pytest.mark.parity("B6")
def test_a_success_is_as_good_as_ready() -> None:
    toy = Toy(mode="kueue")
    admitted(toy)
    toy.end("p0")
    assert toy.condition("g", "PodsReady")[:2] == ("True", "Started")


@pytest.mark.parity("U-13", "U-14", "U-15")
@pytest.mark.parametrize(("phase", "ended"), [("Failed", 1), ("Succeeded", 1), ("Running", 0)])
def test_what_has_ended(phase: str, ended: int) -> None:
    from podgroup.state.members import Flag

    toy = Toy()
    toy.pod("p0", "g", 2, gated=False, phase=phase, node="n")
    toy.pod("p1", "g", 2)
    members = toy.world.members[toy.group("g").id]
    assert members.count(Flag.TERMINATED) == ended


@pytest.mark.parity("I-11", "I-30", "E-05")
def test_a_group_of_two_roles_from_creation_to_release() -> None:
    toy = Toy(mode="kueue")
    for name, cpu in (("b0", 2), ("a0", 1), ("a1", 1), ("b1", 2)):
        toy.pod(name, "g", 4, cpu=cpu)
    assert [(p.name, p.count) for p in toy.workloads["g"].pod_sets] == [("r1", 2), ("r2", 2)]
    toy.admit("g")
    names = ("a0", "a1", "b0", "b1")
    assert not any(toy.gated(n) for n in names)
    assert {toy.named(n).labels["kueue.x-k8s.io/podset"] for n in names} == {"r1", "r2"}
    toy.run(*names)
    toy.end(*names)
    assert toy.condition("g", "Finished")[:2] == ("True", "Succeeded")
    assert not any(toy.held(n) for n in names)
    for name in names:
        toy.delete(name)
    assert not toy.pods and not toy.workloads and not toy.world.groups


@pytest.mark.parity("S-13", "S-18", "S-19")
@pytest.mark.parametrize(
    "has",
    [
        {"node_selector": {"pool": "b"}},
        {"labels": {"kueue.x-k8s.io/podset": "other"}},
        {"annotations": {"kueue.x-k8s.io/workload": "other"}},
    ],
    ids=["selector", "label", "annotation"],
)
def test_an_admission_that_contradicts_a_pod_ends_the_group(has: dict[str, dict[str, str]]) -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2, **has)  # type: ignore[arg-type] # passed on
    toy.admit("g")
    assert toy.condition("g", "Finished")[:2] == ("True", "FailedToStart")
    assert toy.gated("p1") and not toy.held("p1"), "never started, and free to be deleted"


@pytest.mark.parity("S-04")
def test_a_flavor_nobody_knows_yet_is_waited_for() -> None:
    from podgroup.log.events import ObjectApplied
    from podgroup.model.objects import FlavorView

    toy = Toy(mode="kueue")
    toy.pod("foo")
    (name,) = toy.workloads
    toy.reserve(name)
    (assignment,) = toy.workloads[name].assignments
    new = msgspec.structs.replace(assignment, flavors={"cpu": "new"})
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), assignments=(new,))
    assert toy.gated("foo")
    flavor = FlavorView(uid="n", name="new", resource_version=toy.bump(), node_labels={"pool": "n"})
    toy.do(ObjectApplied(object=flavor))
    assert not toy.gated("foo") and toy.named("foo").node_selector == {"pool": "n"}


@pytest.mark.parity("S-01", "S-02", "S-03", "S-05")
def test_flavors_are_merged_each_once() -> None:
    from podgroup.log.events import ObjectApplied
    from podgroup.model.objects import FlavorView, Toleration

    toy = Toy(mode="kueue")
    for name, key in (("f", "spot"), ("gpu", "gpu")):
        flavor = FlavorView(
            uid=name,
            name=name,
            resource_version=toy.bump(),
            node_labels={key: "yes"},
            tolerations=(Toleration(key=key, operator="Exists"),),
        )
        toy.do(ObjectApplied(object=flavor))
    toy.pod("foo")
    (name,) = toy.workloads
    toy.reserve(name)
    (assignment,) = toy.workloads[name].assignments
    several = msgspec.structs.replace(
        assignment, flavors={"cpu": "f", "memory": "f", "nvidia.com/gpu": "gpu"}, count=0
    )
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), assignments=(several,))
    foo = toy.named("foo")
    assert foo.node_selector == {"spot": "yes", "gpu": "yes"}
    assert [t.key for t in foo.tolerations] == ["spot", "gpu"]


@pytest.mark.parity("S-06", "S-20", "S-21", "S-22", "E-14")
@pytest.mark.parametrize("topology", [True, False])
def test_the_topology_gate_stays_only_for_who_assigned_one(topology: bool) -> None:
    from podgroup.model.names import ADMISSION_GATE, TOPOLOGY_GATE

    toy = Toy(mode="kueue")
    foo = toy.pod("foo")
    toy.change(foo.uid, gates=("example.com/hold", ADMISSION_GATE, TOPOLOGY_GATE))
    (name,) = toy.workloads
    toy.reserve(name)
    (assignment,) = toy.workloads[name].assignments
    given = msgspec.structs.replace(assignment, topology=topology)
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), assignments=(given,))
    left = ("example.com/hold", TOPOLOGY_GATE) if topology else ("example.com/hold",)
    assert toy.named("foo").gates == left


@pytest.mark.parity("I-29")
def test_a_queue_that_appears_later_starts_what_waits_for_it() -> None:
    from podgroup.log.events import ObjectApplied, ObjectDeleted
    from podgroup.model.objects import LocalQueueView

    toy = Toy()
    queue = toy.world.local_queues[("ns", "lq")]
    toy.do(
        ObjectDeleted(
            kind="LocalQueue",
            namespace="ns",
            name="lq",
            uid=queue.uid,
            resource_version=toy.bump(),
        )
    )
    toy.pod("foo")
    assert toy.gated("foo") and toy.group("foo").explained.wait.reason == "LocalQueueNotFound"
    again = LocalQueueView(
        uid="again", namespace="ns", name="lq", resource_version=toy.bump(), cluster_queue="cq"
    )
    toy.do(ObjectApplied(object=again))
    assert not toy.gated("foo") and toy.named("foo").node_selector == {"pool": "a"}
