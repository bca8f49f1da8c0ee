"""Rows of single pods, played on the pure core: what the objects look like in the end."""

import msgspec
import pytest

from podgroup.log.events import ObjectApplied
from podgroup.model.commands import UngatePod
from podgroup.model.names import (
    CLUSTER_QUEUE_LABEL,
    JOB_UID,
    LOCAL_QUEUE_LABEL,
    MANAGED_LABEL,
    POD_FINALIZER,
    PODSET_LABEL,
    PROVREQ_PREFIX,
    QUEUE_NAME,
    WORKLOAD_ANNOTATION,
    WORKLOAD_FINALIZER,
    workload_name,
)
from podgroup.model.objects import (
    CheckView,
    Condition,
    FlavorView,
    OwnerRef,
    PodSetUpdate,
    PodView,
    Toleration,
)
from tests.support.toy import Toy

READY = (Condition(type="Ready", status="True"),)


def of(pod: PodView) -> str:
    return workload_name(pod.name, pod.uid)


def running(toy: Toy, name: str = "foo") -> str:
    """An admitted, running single pod in kueue mode; returns its Workload's name."""
    name_of = of(toy.pod(name))
    toy.admit(name_of)
    toy.run(name)
    return name_of


@pytest.mark.parity("C-01", "I-01")
def test_an_admitted_pod_is_ungated_with_all_that_goes_with_it() -> None:
    toy = Toy(mode="kueue")
    flavor = FlavorView(
        uid="f",
        name="f",
        resource_version=toy.bump(),
        node_labels={"arch": "arm64"},
        tolerations=(Toleration(key="spot", operator="Exists"),),
    )
    toy.do(ObjectApplied(object=flavor))
    name = of(toy.pod("foo"))
    assert toy.gated("foo") and toy.named("foo").node_selector == {}
    toy.reserve(name)
    assert toy.gated("foo"), "quota is not yet a permission to start"
    toy.admit(name)
    foo = toy.named("foo")
    assert foo.gates == () and foo.node_selector == {"arch": "arm64"}
    assert foo.tolerations == (Toleration(key="spot", operator="Exists"),)
    assert foo.labels[PODSET_LABEL] == "main"
    assert foo.labels[LOCAL_QUEUE_LABEL] == "lq"
    assert foo.labels[CLUSTER_QUEUE_LABEL] == "cq"
    assert foo.annotations[WORKLOAD_ANNOTATION] == name
    assert ("foo", "Started", "Admitted by clusterQueue cq") in toy.said


@pytest.mark.parity("C-03", "I-01")
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_a_gated_pod_gets_a_workload(mode: str) -> None:
    toy = Toy(cpu=0, mode=mode)
    foo = toy.pod("foo")
    workload = toy.workloads[of(foo)]
    assert workload.labels == {JOB_UID: foo.uid}
    assert [(o.uid, o.controller) for o in workload.owners] == [(foo.uid, True)]
    assert workload.finalizers == (WORKLOAD_FINALIZER,)
    assert workload.priority == 0 and workload.queue == "lq"
    assert [(p.name, p.count) for p in workload.pod_sets] == [("main", 1)]
    assert ("foo", "CreatedWorkload", f"Created Workload: ns/{workload.name}") in toy.said


@pytest.mark.parity("C-12", "I-01")
def test_only_annotations_for_provisioning_requests_are_passed_on() -> None:
    toy = Toy(cpu=0)
    key = PROVREQ_PREFIX + "ValidUntilSeconds"
    foo = toy.pod("foo", annotations={key: "0", "kueue.x-k8s.io/other": "x"})
    assert toy.workloads[of(foo)].annotations == {key: "0"}


@pytest.mark.parity("C-04")
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_a_changed_queue_is_followed_while_nothing_is_reserved(mode: str) -> None:
    toy = Toy(cpu=0, mode=mode)
    foo = toy.pod("foo")
    toy.change(foo.uid, labels={**foo.labels, QUEUE_NAME: "other"})
    assert toy.workloads[of(foo)].queue == "other"


@pytest.mark.parity("C-07")
def test_a_pod_without_the_managed_label_is_left_alone() -> None:
    toy = Toy()
    foo = toy.pod("foo", labels={MANAGED_LABEL: ""})
    assert not toy.workloads and toy.named("foo") == foo
    assert not toy.decisions


@pytest.mark.parity("C-07")
def test_a_pod_that_loses_the_managed_label_is_let_go() -> None:
    toy = Toy(cpu=0)
    foo = toy.pod("foo")
    toy.change(foo.uid, labels={k: v for k, v in foo.labels.items() if k != MANAGED_LABEL})
    assert toy.gated("foo") and not toy.held("foo") and not toy.world.pods
    toy.delete("foo")
    assert not toy.pods, "and nothing of ours keeps it"


@pytest.mark.parity("C-08", "C-59", "I-04")
@pytest.mark.parametrize("reason", ["Preempted", "PodsReadyTimeout"])
def test_an_evicted_pod_is_told_why_and_stopped(reason: str) -> None:
    toy = Toy(mode="kueue")
    name = running(toy)
    toy.evict(name, reason, "By test")
    assert toy.stopped("foo") == (f"WorkloadEvictedDueTo{reason}", "By test")
    assert toy.there() == set(), "deleted, and nothing of ours holds it"
    assert ("foo", "Stopped", "By test") in toy.said


@pytest.mark.parity("C-09", "C-10")
@pytest.mark.parametrize("finalizers", [(POD_FINALIZER,), ()])
def test_a_success_finishes_the_workload_with_the_pods_message(finalizers: tuple[str, ...]) -> None:
    toy = Toy(mode="kueue")
    name = running(toy)
    toy.change(
        toy.named("foo").uid,
        phase="Succeeded",
        message="done well",
        conditions=(),
        finalizers=finalizers,
    )
    assert toy.condition(name, "Finished") == ("True", "Succeeded", "done well")
    assert not toy.held("foo")
    assert WORKLOAD_FINALIZER not in toy.workloads[name].finalizers
    assert ("foo", "FinishedWorkload", f"Workload 'ns/{name}' is declared finished") in toy.said


@pytest.mark.parity("C-11", "I-31")
def test_an_open_pod_of_a_workload_that_is_not_admitted_is_stopped() -> None:
    toy = Toy(mode="kueue")
    name = running(toy)
    gone = [
        Condition(type=kind, status="False", reason="NoReservation")
        for kind in ("QuotaReserved", "Admitted")
    ]
    toy.say(name, *gone, cluster_queue="", assignments=())
    assert toy.stopped("foo") == ("NotAdmitted", "Not admitted by cluster queue")
    assert ("foo", "Stopped", "Not admitted by cluster queue") in toy.said
    assert toy.last["foo"].node_selector == {"pool": "a"}, "what was merged stays"


@pytest.mark.parity("C-52")
def test_the_workload_of_a_pod_that_is_gone_is_finished_and_released() -> None:
    toy = Toy(mode="kueue")
    name = running(toy)
    before = toy.workloads[name]
    # Somebody tears our finalizer off: the pod is gone before anything could be done.
    toy.change(toy.named("foo").uid, finalizers=(), deleted_at=toy.now, phase="Failed")
    finished = [d for d in toy.decisions if d.rule in ("finish", "orphan")]
    assert len(finished) == 1
    assert name not in toy.workloads or not toy.workloads[name].finalizers
    assert before.finalizers


@pytest.mark.parity("C-52")
def test_the_workload_of_a_pod_nobody_saw_go_says_owner_not_found() -> None:
    from podgroup.log.events import PodDeleted

    toy = Toy(mode="kueue")
    foo = toy.pod("foo")
    view = msgspec.structs.replace(toy.pods.pop(foo.uid), deleted_at=toy.now)
    toy.do(PodDeleted(pod=view))
    written = toy.workloads[of(foo)]
    assert toy.condition(of(foo), "Finished")[1] == "OwnerNotFound"
    assert written.finalizers == ()


@pytest.mark.parity("C-87", "C-88")
def test_a_single_pod_is_ready_when_it_is() -> None:
    toy = Toy(mode="kueue")
    name = running(toy)
    assert toy.condition(name, "PodsReady")[:2] == ("True", "Started")
    foo = toy.named("foo")
    toy.change(foo.uid, conditions=(Condition(type="Ready", status="False"),))
    assert toy.condition(name, "PodsReady")[:2] == ("False", "WaitForRecovery")
    toy.change(foo.uid, conditions=READY)
    assert toy.condition(name, "PodsReady")[:2] == ("True", "Recovered")


@pytest.mark.parity("B21", "C-109", "I-05", "I-06", "I-02")
@pytest.mark.parametrize("reason", ["Preempted", "NodeFailures"])
def test_a_single_pod_that_must_go_keeps_its_quota_and_is_not_requeued(reason: str) -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    name = running(toy)
    toy.evict(name, reason)
    assert toy.named("foo").phase == "Running" and toy.named("foo").deleted_at is not None
    assert toy.workloads[name].cluster_queue == "cq", "held while it may still be running"
    toy.act = False
    toy.end("foo", phase="Failed")
    finish = toy.group("foo").ending.finish
    assert finish is not None and (finish.reason, finish.message) == ("Failed", "By test")
    toy.act = True
    toy.settle()
    assert not toy.workloads and not toy.pods, "it is over, and is not queued again"


@pytest.mark.parity("I-02")
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_an_admitted_pod_that_is_deleted_goes(mode: str) -> None:
    toy = Toy(mode=mode)
    name = of(toy.pod("foo"))
    if mode == "kueue":
        toy.admit(name)
    toy.run("foo")
    toy.delete("foo")
    assert not toy.pods and not toy.workloads


@pytest.mark.parity("I-03")
def test_a_foreign_finalizer_stays() -> None:
    toy = Toy()
    toy.pod("foo", finalizers=(POD_FINALIZER, "example.com/hold"))
    toy.run("foo")
    toy.end("foo")
    toy.delete("foo")
    assert toy.named("foo").finalizers == ("example.com/hold",)


@pytest.mark.parity("I-09")
def test_updates_of_a_ready_check_are_merged_at_the_start() -> None:
    toy = Toy(mode="kueue")
    name = of(toy.pod("foo"))
    update = PodSetUpdate(
        name="main",
        labels={"l": "1"},
        annotations={"a": "2"},
        node_selector={"n": "3"},
        tolerations=(Toleration(key="t", operator="Exists"),),
    )
    check = CheckView(name="check", state="Pending", message="asking")
    toy.reserve(name, checks=(check,))
    assert toy.gated("foo")
    toy.admit(name, checks=(CheckView(name="check", state="Ready", updates=(update,)),))
    foo = toy.named("foo")
    assert foo.gates == ()
    (command,) = [d.command for d in toy.decisions if isinstance(d.command, UngatePod)]
    assert foo.labels["l"] == "1" and command.annotations["a"] == "2", "the log keeps it of no pod"
    assert foo.node_selector == {"pool": "a", "n": "3"}
    assert foo.tolerations == (Toleration(key="t", operator="Exists"),)


@pytest.mark.parity("C-02")
def test_a_running_pod_whose_workload_has_another_count_is_stopped() -> None:
    toy = Toy(mode="kueue")
    toy.act = False
    foo = toy.pod("foo")
    name = of(foo)
    owner = OwnerRef(kind="Pod", name="foo", uid=foo.uid, controller=True)
    toy.workload(name, ("main", 2), owners=(owner,))
    toy.change(foo.uid, gates=())
    toy.admit(name)
    toy.run("foo")
    toy.act = True
    toy.settle()
    assert toy.stopped("foo")[0] == "NoMatchingWorkload"
    # Kueue deletes the Workload in so many words; ours ends with the pod that it is about.
    assert "Stopped" in {reason for _, reason, _ in toy.said}
    assert not toy.pods and not toy.workloads


@pytest.mark.parity("C-94")
def test_information_for_two_podsets_is_a_permanent_failure() -> None:
    toy = Toy(mode="kueue")
    name = of(toy.pod("foo"))
    toy.reserve(name)
    twice = toy.workloads[name].assignments * 2
    toy.say(name, Condition(type="Admitted", status="True", reason="Admitted"), assignments=twice)
    assert toy.gated("foo")
    assert toy.condition(name, "Finished")[:2] == ("True", "FailedToStart")
