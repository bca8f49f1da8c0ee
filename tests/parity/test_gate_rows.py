"""Rows about Kueue's feature gates that are settings here, each on and off."""

from datetime import timedelta

import msgspec
import pytest

from ingest.kinds import watched_kinds
from ingest.translate.items import Delta
from ingest.webhook.pod import read_pod
from podgroup.log.events import PodApplied
from podgroup.model.ids import PodUID
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    POD_FINALIZER,
    SLICE_NAME,
    TOPOLOGY_GATE,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
    WORKLOAD_ANNOTATION,
)
from podgroup.model.objects import Condition, PodView
from podgroup.model.policy import Policy
from tests.parity.groups import admitted
from tests.support.toy import Toy


def with_topology(toy: Toy, **pod: object) -> PodView:
    """A single pod with a topology gate, admitted with an assigned topology."""
    foo = toy.pod("foo", **pod)  # type: ignore[arg-type] # passed on
    toy.change(foo.uid, gates=(ADMISSION_GATE, TOPOLOGY_GATE))
    (name,) = toy.workloads
    toy.reserve(name)
    (assignment,) = toy.workloads[name].assignments
    given = msgspec.structs.replace(assignment, topology=True)
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), assignments=(given,))
    return toy.named("foo")


@pytest.mark.parity("S-06")
def test_an_assigned_topology_is_marked_where_the_pod_asked_for_none() -> None:
    foo = with_topology(Toy(mode="kueue"))
    assert foo.gates == (TOPOLOGY_GATE,)
    assert foo.annotations[TOPOLOGY_UNCONSTRAINED] == "true"
    asks = with_topology(Toy(mode="kueue"), annotations={TOPOLOGY_REQUIRED: "rack"})
    assert TOPOLOGY_UNCONSTRAINED not in asks.annotations


@pytest.mark.parity("S-07")
def test_with_the_feature_off_an_assigned_topology_holds_nobody() -> None:
    foo = with_topology(Toy(mode="kueue", policy=Policy(topology_aware_scheduling=False)))
    assert foo.gates == ()
    assert not {TOPOLOGY_UNCONSTRAINED, WORKLOAD_ANNOTATION} & foo.annotations.keys()


def of_slice(toy: Toy, old: dict[str, str], new: str) -> PodView:
    """A pod that carries annotations of an earlier slice, admitted with Workload `new`."""
    foo = toy.pod("foo", annotations=old)
    (name,) = toy.workloads
    notes = {**toy.workloads[name].annotations, **({SLICE_NAME: new} if new else {})}
    toy.put_workload(msgspec.structs.replace(toy.workloads[name], annotations=notes))
    toy.admit(name)
    return toy.last[foo.name]


@pytest.mark.parity("S-15")
def test_a_new_slice_takes_the_place_of_the_one_before() -> None:
    toy = Toy(mode="kueue", policy=Policy(elastic_jobs=True))
    foo = of_slice(toy, {SLICE_NAME: "old"}, "new")
    assert foo.gates == () and foo.annotations[SLICE_NAME] == "new"


@pytest.mark.parity("S-16")
def test_a_new_slice_brings_its_workload_along() -> None:
    toy = Toy(mode="kueue", policy=Policy(elastic_jobs=True))
    foo = of_slice(toy, {SLICE_NAME: "old", WORKLOAD_ANNOTATION: "old"}, "new")
    (name,) = toy.workloads
    assert foo.annotations[SLICE_NAME] == "new" and foo.annotations[WORKLOAD_ANNOTATION] == name
    plain = Toy(mode="kueue", policy=Policy(elastic_jobs=True))
    left = of_slice(plain, {WORKLOAD_ANNOTATION: "old"}, "")
    assert left.gates == (ADMISSION_GATE,), "a Workload that is no slice replaces nothing"


@pytest.mark.parity("S-17")
def test_with_the_feature_off_another_slice_is_a_conflict() -> None:
    from podgroup.model.objects import CheckView, PodSetUpdate

    toy = Toy(mode="kueue")
    toy.pod("foo", annotations={SLICE_NAME: "old"})
    (name,) = toy.workloads
    toy.reserve(name)
    update = PodSetUpdate(name="main", annotations={SLICE_NAME: "new"})
    check = CheckView(name="c", state="Ready", updates=(update,))
    toy.say(name, Condition(type="Admitted", status="True", reason="x"), checks=(check,))
    assert toy.condition(name, "Finished")[:2] == ("True", "FailedToStart")
    assert toy.gated("foo") and toy.named("foo").annotations[SLICE_NAME] == "old"


@pytest.mark.parametrize(
    ("labels", "annotations", "group"),
    [
        pytest.param({}, {GROUP_NAME: "a"}, "", id="U-27-annotation"),
        pytest.param({GROUP_NAME: "l"}, {GROUP_NAME: "a"}, "l", id="U-30-both"),
    ],
)
def test_with_the_feature_off_a_group_is_named_by_its_label_alone(
    labels: dict[str, str], annotations: dict[str, str], group: str
) -> None:
    meta = {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "999",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "lq", **labels},
        "annotations": {"kueue.x-k8s.io/role-hash": "r", **annotations},
    }
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": []}}
    line = msgspec.json.encode({"type": "ADDED", "object": pod})
    seen = {}
    for on in (True, False):
        table = {row.kind: row for row in watched_kinds("", annotated_names=on)}
        toy = Toy()
        event = table["Pod"].translator.item(line)
        assert isinstance(event, Delta) and isinstance(event.event, PodApplied)
        toy.do(event.event)
        found = toy.world.groups[toy.world.pods[PodUID("u")].group]
        seen[on] = (found.kind, found.name)
        assert read_pod(pod, annotated_names=on).group == ("a" if on else group), "so the webhook"
    assert seen[True] == ("group", "a"), "with it on the annotation wins"
    assert seen[False] == (("group", group) if group else ("single", "p"))


@pytest.mark.parity("I-07")
@pytest.mark.parametrize("reason", ["Preempted", "NodeFailures", "ByTest"])
def test_with_the_feature_off_an_evicted_single_pod_is_queued_again(reason: str) -> None:
    toy = Toy(mode="kueue", policy=Policy(skip_reassignment=False))
    toy.pod("foo", finalizers=(POD_FINALIZER, "example.com/hold"))
    (name,) = toy.workloads
    toy.admit(name)
    toy.evict(name, reason)
    requeued = "False" if reason == "ByTest" else "True"
    assert toy.condition(name, "Requeued") == (requeued, reason, "By test")


def test_a_single_pod_that_is_evicted_at_its_gate_is_queued_again() -> None:
    """The eviction overtakes the start: nothing is stopped, and nobody else would let it in."""
    toy = Toy(mode="kueue")
    toy.pod("foo")
    (name,) = toy.workloads
    toy.reserve(name)
    toy.evict(name)
    assert toy.gated("foo") and toy.named("foo").deleted_at is None
    assert toy.workloads[name].cluster_queue == ""
    assert toy.condition(name, "Requeued") == ("True", "Preempted", "By test")
    toy.admit(name)
    assert not toy.gated("foo")


@pytest.mark.parity("C-112", "C-114", "C-115")
@pytest.mark.parametrize("fast", [True, False])
def test_quick_release_does_not_wait_for_pods_that_are_going(fast: bool) -> None:
    toy = Toy(mode="kueue", policy=Policy(fast_quota_release=fast))
    toy.slow = True
    admitted(toy, 2)
    going = toy.named("p0")
    toy.change(going.uid, deleted_at=toy.now + timedelta(seconds=30), grace_s=30)
    toy.act = False  # the other one is not told to stop yet
    toy.evict("g")
    assert toy.workloads["g"].cluster_queue == "cq", "one is terminating, one runs"
    toy.act = True
    toy.settle()
    toy.change(toy.named("p1").uid, deleted_at=toy.now + timedelta(seconds=30), grace_s=30)
    assert toy.named("p1").phase == "Running"
    assert toy.workloads["g"].cluster_queue == ("" if fast else "cq")
