"""Commands against a stand-in API server over HTTP: effect, verdict, repetition."""

import asyncio
from typing import Any

import msgspec
import pytest

from actuator import podwrites, workloadwrites
from actuator.execute import execute
from actuator.kubeapi import KubeApi
from actuator.verdicts import Verdict
from podgroup.model import names
from podgroup.model.commands import (
    Admission,
    AdmitGroup,
    AnyCommand,
    CreateWorkload,
    DeletePod,
    EmitEvent,
    FinalizePod,
    FinalizeWorkload,
    KubeEvent,
    ObjectRef,
    PodSetSpec,
    ReportPod,
    ReportQueue,
    StopPod,
    UpdateWorkload,
    WriteQueueStatus,
    WriteWorkloadStatus,
)
from podgroup.model.objects import Assignment, Condition, Toleration
from podgroup.model.standing import Amount, Standing
from simcluster import Settings
from tests.actuator.commands import (
    NOW,
    create_workload,
    decision,
    pod,
    pod_ref,
    ungate,
    workload_ref,
)
from tests.actuator.conftest import NAMESPACE, Lab, carry_out, settings

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def twice(lab: Lab, command: AnyCommand) -> tuple[Verdict, Verdict]:
    return await carry_out(lab, command), await carry_out(lab, command)


async def successor(lab: Lab, old: ObjectRef) -> ObjectRef:
    """Replace a pod by another of the same name; return the new one."""
    await carry_out(lab, DeletePod(target=old))
    assert await lab.live(old) is None
    return await lab.pod(old.name)


# -- ungating ------------------------------------------------------------------------------------


async def test_pods_without_annotations_are_looked_at_once_and_not_each(lab: Lab) -> None:
    asked: list[str] = []
    api = KubeApi(lab.kube, lab.concurrency, lambda verb, *_: asked.append(verb))

    async def gets(single: bool, targets: list[ObjectRef]) -> int:
        asked.clear()
        labels = {names.PODSET_LABEL: names.SINGLE_PODSET if single else "aa11"}
        note = {names.WORKLOAD_ANNOTATION: "w"}
        commands = [ungate(target, labels=labels, annotations=note) for target in targets]
        verdicts = await asyncio.gather(*(podwrites.ungate(api, one) for one in commands))
        assert {verdict.status for verdict in verdicts} == {"applied"}
        return asked.count("GET")

    bare = [await lab.pod(f"bare-{number}") for number in range(10)]
    grouped = []
    for number in range(10):
        wanted = pod(f"grouped-{number}")
        wanted["metadata"]["annotations"] = {names.GROUP_TOTAL_COUNT: "10"}
        grouped.append(await lab.create(wanted))
    assert await gets(True, bare[:5]) == 0
    assert await gets(False, grouped[:5]) == 0
    # Others than are expected, all at once: each costs a look, and the next none.
    assert await gets(False, bare[5:]) == 5
    assert await gets(True, grouped[5:]) == 5
    assert await gets(False, [await lab.pod(f"more-{number}") for number in range(20)]) == 0


@pytest.mark.parity("S-09")
async def test_ungating_removes_the_gate_and_merges_in_one_patch(lab: Lab) -> None:
    target = await lab.pod()
    command = ungate(target, node_selector={"pool": "a"})
    first, second = await twice(lab, command)
    live = await lab.live(target)
    assert live is not None
    assert "schedulingGates" not in live["spec"]
    assert live["spec"]["nodeSelector"] == {"pool": "a"}
    assert live["metadata"]["labels"][names.PODSET_LABEL] == "main"
    assert live["metadata"]["finalizers"] == [names.POD_FINALIZER]
    assert first.status == second.status == "applied"
    assert first.uid == target.uid
    version = live["metadata"]["resourceVersion"]
    assert first.resource_version == second.resource_version == version
    assert "already" in second.message


async def test_a_plain_ungate_is_one_request(lab: Lab) -> None:
    target = await lab.pod()
    rule = lab.cluster.faults.answer(500, method="GET")
    assert (await carry_out(lab, ungate(target))).status == "applied"
    assert rule.hits == 0


async def test_tries_without_a_look_stop_where_they_are_refused(lab: Lab) -> None:
    """Pods with a selector of their own need a look: after a few misses nothing else is tried."""
    refused = 0
    for number in range(40):
        target = await lab.pod(f"p{number}", nodeSelector={"zone": "z"})
        rule = lab.cluster.faults.delay(0, method="PATCH")
        verdict = await carry_out(lab, ungate(target, node_selector={"pool": "a"}))
        assert verdict.status == "applied"
        refused += rule.hits - 1
        lab.cluster.faults.clear()
    assert 5 <= refused <= 10


async def test_writes_are_ours_in_managed_fields(lab: Lab) -> None:
    target = await lab.pod()
    await carry_out(lab, ungate(target))
    live = await lab.live(target)
    assert live is not None
    assert "gatelog" in [entry["manager"] for entry in live["metadata"]["managedFields"]]


@pytest.mark.parametrize("applied", [False, True])
async def test_who_wrote_what_of_a_pod_is_cleared_unless_it_was_applied(
    lab: Lab, applied: bool
) -> None:
    """A pod that was applied costs a look once: from then on such pods are what is expected."""
    api = KubeApi(lab.kube, lab.concurrency, untrack=True)
    requests = []
    for number in range(2):
        target = await lab.pod(f"p{number}")
        if applied:
            meta = {"name": target.name, "labels": {"app": "a"}}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
            status, _ = await lab.kube.json(
                "PATCH",
                f"/api/v1/namespaces/{NAMESPACE}/pods/{target.name}",
                body=body,
                params={"fieldManager": "argo"},
                content_type="application/apply-patch+yaml",
            )
            assert status == 200
        rule = lab.cluster.faults.delay(0, method="PATCH")
        verdict = await execute(api, lab.emitter, decision(ungate(target)))
        assert verdict.status == "applied", verdict
        requests.append(rule.hits)
        lab.cluster.faults.clear()
        live = await lab.live(target)
        assert live is not None
        writers = [entry["manager"] for entry in live["metadata"].get("managedFields", ())]
        assert ("argo" in writers, "gatelog" in writers) == (applied, applied)
    assert requests == ([2, 1] if applied else [1, 1])


@pytest.mark.parametrize(
    "command",
    [
        {"tolerations": (Toleration(key="spot", operator="Exists"),)},
        {"gates": (names.ADMISSION_GATE, names.TOPOLOGY_GATE)},
        {"annotations": {names.WORKLOAD_ANNOTATION: "w"}},
        {"labels": {names.QUEUE_NAME: "queue"}},
    ],
    ids=["tolerations", "a gate that is not there", "no annotations yet", "equal label"],
)
async def test_ungating_that_needs_a_look(lab: Lab, command: dict[str, Any]) -> None:
    target = await lab.pod()
    verdict = await carry_out(lab, ungate(target, **command))
    assert verdict.status == "applied", verdict
    live = await lab.live(target)
    assert live is not None
    assert "schedulingGates" not in live["spec"]
    for key, value in command.get("annotations", {}).items():
        assert live["metadata"]["annotations"][key] == value
    keys = [t.get("key") for t in live["spec"]["tolerations"]]
    assert ("spot" in keys) == ("tolerations" in command)


async def test_a_foreign_gate_stays(lab: Lab) -> None:
    gates = [{"name": "example.com/hold"}, {"name": names.ADMISSION_GATE}]
    target = await lab.pod(schedulingGates=gates)
    first, second = await twice(lab, ungate(target))
    live = await lab.live(target)
    assert live is not None
    assert live["spec"]["schedulingGates"] == [{"name": "example.com/hold"}]
    assert first.status == second.status == "applied"


async def test_a_conflicting_selector_is_rejected_and_nothing_is_written(lab: Lab) -> None:
    target = await lab.pod(nodeSelector={"pool": "b"})
    before = await lab.live(target)
    verdict = await carry_out(lab, ungate(target, node_selector={"pool": "a"}))
    assert verdict.status == "rejected"
    assert "'b'" in verdict.message
    assert "'a'" in verdict.message
    assert "pool" in verdict.message
    assert await lab.live(target) == before


async def test_what_the_server_finds_invalid_is_rejected_with_its_words(lab: Lab) -> None:
    target = await lab.pod()
    verdict = await carry_out(lab, ungate(target, labels={"a": "not a label value!"}))
    assert verdict.status == "rejected", verdict
    assert verdict.http_status == 422
    assert "metadata.labels" in verdict.message


@pytest.mark.parametrize("command", ["ungate", "finalize", "delete", "stop"])
async def test_a_successor_of_the_same_name_is_never_touched(lab: Lab, command: str) -> None:
    old = await lab.pod()
    new = await successor(lab, old)
    before = await lab.live(new)
    made: dict[str, AnyCommand] = {
        "ungate": ungate(old),
        "finalize": FinalizePod(target=old),
        "delete": DeletePod(target=old),
        "stop": StopPod(target=old, reason="R", message="m", finalize=True),
    }
    verdict = await carry_out(lab, made[command])
    assert verdict.status == "obsolete", verdict
    assert await lab.live(new) == before


@pytest.mark.parametrize(
    "command",
    [
        ungate(pod_ref()),
        FinalizePod(target=pod_ref()),
        DeletePod(target=pod_ref()),
        StopPod(target=pod_ref(), reason="R", message="m"),
        UpdateWorkload(target=workload_ref(uid="x"), queue="q"),
        WriteWorkloadStatus(target=workload_ref(uid="x"), clear_admission=True),
        FinalizeWorkload(target=workload_ref(uid="x"), delete=True),
    ],
    ids=lambda command: type(command).__name__,
)
@pytest.mark.parity("C-117")
async def test_what_is_gone_is_obsolete(lab: Lab, command: AnyCommand) -> None:
    verdict = await carry_out(lab, command)
    assert (verdict.status, verdict.http_status) == ("obsolete", 404), verdict


# -- finalizing, deleting, stopping ----------------------------------------------------------------


@pytest.mark.parity("I-03")
async def test_finalizing_leaves_the_finalizers_of_others(lab: Lab) -> None:
    wanted = pod()
    wanted["metadata"]["finalizers"] = ["a.io/b", names.POD_FINALIZER, "c.io/d"]
    target = await lab.create(wanted)
    first, second = await twice(lab, FinalizePod(target=target))
    live = await lab.live(target)
    assert live is not None
    assert live["metadata"]["finalizers"] == ["a.io/b", "c.io/d"]
    assert first.status == second.status == "applied"
    assert first.resource_version == second.resource_version


async def test_deleting_an_excess_pod(lab: Lab) -> None:
    target = await lab.pod()
    first, second = await twice(lab, DeletePod(target=target))
    assert await lab.live(target) is None
    assert (first.status, second.status) == ("applied", "obsolete")
    assert first.resource_version


async def test_a_deleted_pod_that_another_finalizer_holds_is_applied_each_time(lab: Lab) -> None:
    wanted = pod()
    wanted["metadata"]["finalizers"] = [names.POD_FINALIZER, "a.io/b"]
    target = await lab.create(wanted)
    first, second = await twice(lab, DeletePod(target=target))
    live = await lab.live(target)
    assert live is not None
    assert live["metadata"]["finalizers"] == ["a.io/b"]
    assert live["metadata"]["deletionTimestamp"]
    assert first.status == second.status == "applied"


async def bound(lab: Lab, name: str = "p0") -> ObjectRef:
    """A pod on a node: its deletion takes its grace period."""
    wanted = pod(name, gates=())
    wanted["spec"]["nodeName"] = "node-a"
    return await lab.create(wanted)


@pytest.mark.parametrize("finalize", [False, True])
@pytest.mark.parity("C-116")
async def test_stopping_says_why_and_deletes(lab: Lab, finalize: bool) -> None:
    target = await bound(lab)
    command = StopPod(
        target=target,
        reason="WorkloadEvictedDueToPreempted",
        message="to make room",
        finalize=finalize,
    )
    first = await carry_out(lab, command)
    live = await lab.live(target)
    assert live is not None
    second = await carry_out(lab, command)
    assert await lab.live(target) == live
    (condition,) = [
        c for c in live["status"]["conditions"] if c["type"] == names.TERMINATION_TARGET
    ]
    assert condition["status"] == "True"
    assert condition["reason"] == "WorkloadEvictedDueToPreempted"
    assert condition["message"] == "to make room"
    assert live["metadata"]["deletionTimestamp"]
    assert (names.POD_FINALIZER in live["metadata"].get("finalizers", [])) != finalize
    assert first.status == second.status == "applied"
    assert first.resource_version == live["metadata"]["resourceVersion"]


async def test_what_a_pod_is_told_changes_and_a_stop_stays_beside_it(lab: Lab) -> None:
    target = await bound(lab)
    waits = ReportPod(target=target, status="False", reason="WaitingForQuota", message="m")
    runs = ReportPod(target=target, status="True", reason="Admitted", message="by queue")
    verdicts = [
        await carry_out(lab, command)
        for command in (waits, StopPod(target=target, reason="R", message="m"), runs, runs)
    ]
    live = await lab.live(target)
    assert live is not None
    said = {c["type"]: (c["status"], c["reason"]) for c in live["status"]["conditions"]}
    assert said[names.ADMITTED_CONDITION] == ("True", "Admitted")
    assert said[names.TERMINATION_TARGET] == ("True", "R")
    assert {verdict.status for verdict in verdicts} == {"applied"}
    assert verdicts[2].resource_version == verdicts[3].resource_version
    before = ReportPod(target=pod_ref(uid="other"), status="False", reason="R", message="m")
    assert (await carry_out(lab, before)).status == "obsolete"


async def test_stopping_a_pod_that_vanishes_with_its_finalizer(lab: Lab) -> None:
    target = await lab.pod()
    verdict = await carry_out(lab, StopPod(target=target, reason="R", message="m", finalize=True))
    assert verdict.status == "applied"
    assert await lab.live(target) is None


@pytest.mark.parity("C-117")
async def test_a_pod_that_went_before_it_could_be_stopped_is_told_as_stopped(lab: Lab) -> None:
    event = KubeEvent(type="Normal", reason="Stopped", message="m")
    command = StopPod(target=pod_ref("gone"), reason="R", message="m", events=(event,))
    sender = asyncio.create_task(lab.emitter.run())
    verdict = await carry_out(lab, command)
    assert verdict.status == "obsolete"
    await lab.emitter.drain(5.0)
    sender.cancel()
    (found,) = lab.events()
    assert (found["reason"], found["involvedObject"]["name"]) == ("Stopped", "gone")


async def test_a_deletion_spares_a_successor_that_came_after_the_finalizer_went(lab: Lab) -> None:
    old = await lab.pod()
    new = await successor(lab, old)
    before = await lab.live(new)
    verdict = await podwrites.delete_only(lab.api, old)
    assert verdict.status == "obsolete", verdict
    assert new.uid in verdict.message
    assert await lab.live(new) == before


# -- Workloads -------------------------------------------------------------------------------------


async def made(lab: Lab, *, group: bool = True) -> tuple[ObjectRef, ObjectRef, Verdict]:
    """A pod, its Workload, and the verdict of creating it."""
    owner = await lab.pod()
    verdict = await carry_out(lab, create_workload(owner, group=group))
    assert verdict.status == "applied", verdict
    return owner, workload_ref(uid=verdict.uid), verdict


@pytest.mark.parametrize("group", [True, False])
async def test_a_workload_is_created_from_its_sample_pod(lab: Lab, group: bool) -> None:
    owner, target, first = await made(lab, group=group)
    live = await lab.live(target)
    sample = await lab.live(owner)
    assert live is not None
    assert sample is not None
    assert live["spec"]["podSets"][0]["template"]["spec"] == sample["spec"]
    assert live["metadata"]["finalizers"] == [names.WORKLOAD_FINALIZER]
    assert first.http_status == 201
    assert (first.uid, first.resource_version) == (
        live["metadata"]["uid"],
        live["metadata"]["resourceVersion"],
    )
    second = await carry_out(lab, create_workload(owner, group=group))
    assert second.status == "applied"
    assert (second.uid, second.resource_version) == (first.uid, first.resource_version)


@pytest.mark.parity("B9")
async def test_a_workload_with_a_declared_podset_needs_no_pod_of_it(lab: Lab) -> None:
    owner = await lab.pod()
    sets = (
        PodSetSpec(name="driver", count=1, sample=owner),
        PodSetSpec(name="workers", count=3, template='{"containers":[{"name":"w"}]}'),
    )
    verdict = await carry_out(lab, create_workload(owner, pod_sets=sets))
    assert verdict.status == "applied", verdict.message
    live = await lab.live(workload_ref(namespace=NAMESPACE))
    assert live is not None
    (worker,) = live["spec"]["podSets"][1]["template"]["spec"]["containers"]
    assert worker["name"] == "w"


async def test_somebody_elses_workload_of_that_name_is_left_alone(lab: Lab) -> None:
    _owner, target, _ = await made(lab)
    before = await lab.live(target)
    other = await lab.pod("p1")
    verdict = await carry_out(lab, create_workload(other, group=True, count=7))
    assert verdict.status == "rejected"
    assert "not ours" in verdict.message
    assert await lab.live(target) == before


async def test_a_workload_that_is_being_deleted_is_waited_for(lab: Lab) -> None:
    _owner, target, _ = await made(lab)
    await lab.api.delete(target, {})
    next_life = await lab.pod("p1")
    verdict = await carry_out(lab, create_workload(next_life))
    assert verdict.status == "retrying"
    await carry_out(lab, FinalizeWorkload(target=target))
    assert await lab.live(target) is None
    again = await carry_out(lab, create_workload(next_life))
    assert again.status == "applied"
    assert again.uid != target.uid


async def test_one_of_our_own_that_is_being_deleted_is_not_waited_for(lab: Lab) -> None:
    """Its finalizer goes with a later command, which waits for this one: waiting would be a knot.

    So it is when the answer to a creation was lost and the Workload was deleted meanwhile.
    """
    owner, target, _ = await made(lab)
    await lab.api.delete(target, {})
    verdict = await carry_out(lab, create_workload(owner))
    assert verdict.status == "applied"
    assert verdict.uid == target.uid


async def test_samples_come_from_the_cache_unless_it_lags(lab: Lab) -> None:
    """A read from etcd costs the API server twice as much, and this never changes."""
    asked: list[str] = []

    class Lagging:
        """The API server, one of whose caches has not seen a pod yet."""

        async def request(self, method: str, path: str, **rest: Any) -> Any:
            cached = (rest.get("params") or {}).get("resourceVersion") == "0"
            asked.append(f"{method} {'cache' if cached else 'etcd'}")
            if cached and path.endswith("/late"):
                path = path.removesuffix("late") + "nobody"
            return await lab.kube.request(method, path, **rest)

    api = KubeApi(Lagging(), lab.concurrency)
    assert await api.workload_version()
    for name, reads in (("known", ["GET cache"]), ("late", ["GET cache", "GET etcd"])):
        owner = await lab.pod(name)
        command = create_workload(owner, f"for-{name}")
        asked.clear()
        verdict = await workloadwrites.create(api, command, NOW)
        assert verdict.status == "applied"
        assert asked == [*reads, "POST etcd"]


@pytest.mark.parametrize(
    ("gates", "reads"), [((names.ADMISSION_GATE,), 0), ((names.TOPOLOGY_GATE,), 1)]
)
async def test_the_answer_to_an_ungating_is_the_sample_of_its_workload(
    lab: Lab, gates: tuple[str, ...], reads: int
) -> None:
    """A creation waits for one under way; a pod whose topology gate goes is read beforehand."""
    owner = await lab.pod(schedulingGates=[{"name": gate} for gate in gates])
    looks = lab.cluster.faults.delay(0, method="GET", path=r"/pods/")
    lab.cluster.faults.delay(50, method="PATCH")
    started, made = await asyncio.gather(
        carry_out(lab, ungate(owner, gates=gates)), carry_out(lab, create_workload(owner))
    )
    assert (started.status, made.status) == ("applied", "applied")
    assert looks.hits == reads


async def test_a_sample_is_read_when_its_ungating_failed(lab: Lab) -> None:
    owner = await lab.pod()
    lab.cluster.faults.answer(500, method="PATCH")
    looks = lab.cluster.faults.delay(0, method="GET", path=r"/pods/")
    failed, made = await asyncio.gather(
        carry_out(lab, ungate(owner)), carry_out(lab, create_workload(owner))
    )
    assert (failed.status, made.status, looks.hits) == ("retrying", "applied", 1)


async def test_a_sample_that_is_gone_makes_the_creation_obsolete(lab: Lab) -> None:
    owner = await lab.pod()
    gone = pod_ref("gone", "gone-uid")
    sets = (
        PodSetSpec(name="a", count=1, sample=owner),
        PodSetSpec(name="b", count=1, sample=gone),
    )
    verdict = await carry_out(lab, create_workload(owner, pod_sets=sets))
    assert verdict.status == "obsolete"
    assert "'b'" in verdict.message
    assert "team/gone" in verdict.message
    assert await lab.live(workload_ref()) is None


async def test_updating_adds_owners_and_changes_the_queue(lab: Lab) -> None:
    _owner, target, _ = await made(lab)
    new = await lab.pod("p1")
    command = UpdateWorkload(target=target, add_owners=(new,), queue="other", priority=7)
    first, second = await twice(lab, command)
    live = await lab.live(target)
    assert live is not None
    assert [o["name"] for o in live["metadata"]["ownerReferences"]] == ["p0", "p1"]
    assert live["spec"]["queueName"] == "other"
    assert live["spec"]["priority"] == 7
    assert first.status == second.status == "applied"
    assert first.resource_version == second.resource_version


async def test_status_is_merged_and_an_admission_taken_back(lab: Lab) -> None:
    _owner, target, _ = await made(lab)
    theirs = {"type": "Theirs", "status": "True", "reason": "R", "message": ""}
    theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    await lab.api.patch(
        target,
        {"status": {"conditions": [theirs]}},
        "application/merge-patch+json",
        subresource="status",
    )
    admission = Admission(
        cluster_queue="cq",
        assignments=(Assignment(name="main", flavors={"cpu": "f"}, usage={"cpu": 100}, count=1),),
    )
    reserved = Condition(type="QuotaReserved", status="True", reason="QuotaReserved")
    command = WriteWorkloadStatus(target=target, conditions=(reserved,), admission=admission)
    first, second = await twice(lab, command)
    assert first.status == second.status == "applied"
    assert first.resource_version == second.resource_version
    live = await lab.live(target)
    assert live is not None
    assert [c["type"] for c in live["status"]["conditions"]] == ["Theirs", "QuotaReserved"]
    assert live["status"]["admission"]["clusterQueue"] == "cq"
    released = Condition(type="QuotaReserved", status="False", reason="Pending")
    clear = WriteWorkloadStatus(target=target, conditions=(released,), clear_admission=True)
    assert (await carry_out(lab, clear)).status == "applied"
    live = await lab.live(target)
    assert live is not None
    assert "admission" not in live["status"]
    assert live["status"]["conditions"][1]["status"] == "False"


@pytest.mark.parametrize("delete", [False, True])
async def test_finalizing_a_workload(lab: Lab, delete: bool) -> None:
    _owner, target, _ = await made(lab)
    first, second = await twice(lab, FinalizeWorkload(target=target, delete=delete))
    live = await lab.live(target)
    assert first.status == "applied"
    assert first.resource_version
    if delete:
        assert live is None
        assert second.status == "obsolete"
    else:
        assert live is not None
        assert "finalizers" not in live["metadata"]
        assert second.status == "applied"


def status_command(target: ObjectRef, message: str) -> WriteWorkloadStatus:
    condition = Condition(type="PodsReady", status="True", reason="Started", message=message)
    return WriteWorkloadStatus(target=target, conditions=(condition,))


async def test_what_we_wrote_last_need_not_be_read_again(lab: Lab) -> None:
    _, target, _ = await made(lab)
    rule = lab.cluster.faults.answer(500, method="GET")
    assert (await carry_out(lab, status_command(target, "first"))).status == "applied"
    assert (await carry_out(lab, status_command(target, "second"))).status == "applied"
    assert (await carry_out(lab, FinalizeWorkload(target=target))).status == "applied"
    assert rule.hits == 0


async def write_as_others(lab: Lab, target: ObjectRef, conditions: Any) -> None:
    """Write a Workload's conditions past the actuator's own view of the API server."""
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads/{target.name}/status"
    status, answer = await lab.kube.json(
        "PATCH",
        path,
        body={"status": {"conditions": conditions}},
        content_type="application/merge-patch+json",
    )
    assert status == 200, answer


async def conditions_of(lab: Lab, target: ObjectRef) -> set[str]:
    live = await lab.live(target)
    assert live is not None
    return {condition["type"] for condition in live["status"]["conditions"]}


async def test_a_copy_that_is_out_of_date_undoes_nobody_elses_write(lab: Lab) -> None:
    _, target, _ = await made(lab)
    theirs = {"type": "Theirs", "status": "True", "reason": "R", "message": ""}
    theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    await write_as_others(lab, target, [theirs])
    assert (await carry_out(lab, status_command(target, "ours"))).status == "applied"
    assert await conditions_of(lab, target) == {"Theirs", "PodsReady"}


async def test_that_it_is_so_already_is_concluded_from_a_read_only(lab: Lab) -> None:
    """Somebody took away what we wrote: our copy still shows it, the server does not."""
    _, target, _ = await made(lab)
    command = status_command(target, "ours")
    assert (await carry_out(lab, command)).status == "applied"
    await write_as_others(lab, target, None)
    assert (await carry_out(lab, command)).status == "applied"
    assert await conditions_of(lab, target) == {"PodsReady"}


async def test_a_workload_of_another_life_is_not_touched(lab: Lab) -> None:
    _owner, target, _ = await made(lab)
    before = await lab.live(target)
    other = workload_ref(uid="another-life")
    for command in (
        FinalizeWorkload(target=other, delete=True),
        WriteWorkloadStatus(target=other, executed_s=5),
        UpdateWorkload(target=other, queue="x"),
    ):
        assert (await carry_out(lab, command)).status == "obsolete"
    assert await lab.live(target) == before


async def test_a_workload_is_created_with_its_status_in_one_request(lab: Lab) -> None:
    owner = await lab.pod()
    writes = lab.cluster.faults.delay(0, method="POST|PATCH", path=r"/workloads")
    assert (await carry_out(lab, with_status(owner))).status == "applied"
    assert await conditions_of(lab, workload_ref()) == {"QuotaReserved"}
    assert writes.hits == 1
    live = await lab.live(workload_ref())
    assert live is not None and live["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert live["status"]["conditions"][0]["lastTransitionTime"] == "2026-11-20T12:30:15Z"


@pytest.mark.parametrize("status", [403, 422])
async def test_where_a_status_is_refused_a_workload_is_created_without(
    lab: Lab, status: int
) -> None:
    owner = await lab.pod()
    lab.cluster.faults.answer(status, method="POST", path=r"/v1beta2-with-status/")
    assert (await carry_out(lab, with_status(owner))).status == "applied"
    live = await lab.live(workload_ref())
    assert live is not None and not live.get("status")


async def test_a_status_that_is_always_refused_is_not_offered_each_time(lab: Lab) -> None:
    owner = await lab.pod()
    offered = lab.cluster.faults.answer(403, method="POST", path=r"/v1beta2-with-status/")
    for n in range(40):
        assert (await carry_out(lab, with_status(owner, name=f"w{n}"))).status == "applied"
    assert 5 <= offered.hits <= 8
    lab.cluster.faults.clear()
    for n in range(40, 80):  # the refusal has ended: that is found out, and the status is back
        assert (await carry_out(lab, with_status(owner, name=f"w{n}"))).status == "applied"
    live = [await lab.live(workload_ref(name=f"w{n}")) for n in range(40, 80)]
    assert any(found is not None and found.get("status") for found in live)


def with_status(owner: ObjectRef, name: str = "w") -> CreateWorkload:
    said = Condition(type="QuotaReserved", status="False", reason="Pending", message="waits")
    status = WriteWorkloadStatus(target=workload_ref(name), conditions=(said,))
    return create_workload(owner, name, status=status)


@pytest.mark.parametrize(
    "cluster_settings", [settings(kueue_versions=("v1beta1",))], ids=["v1beta1"]
)
async def test_the_older_version_is_used_where_it_is_all_there_is(
    lab: Lab, cluster_settings: Settings
) -> None:
    assert (await carry_out(lab, with_status(await lab.pod()))).status == "applied"
    live = await lab.live(workload_ref())
    assert live is not None
    assert live["apiVersion"] == "kueue.x-k8s.io/v1beta1" and not live.get("status")


@pytest.mark.parametrize("cluster_settings", [settings(kueue_kinds=False)], ids=["no kueue"])
async def test_a_cluster_without_workloads_rejects_and_says_why(
    lab: Lab, cluster_settings: Settings
) -> None:
    verdict = await carry_out(lab, create_workload(await lab.pod()))
    assert verdict.status == "rejected"
    assert "CRD" in verdict.message


# -- Events and records ----------------------------------------------------------------------------


async def test_events_are_emitted_once_and_can_be_read(lab: Lab) -> None:
    target = await lab.pod()
    event = KubeEvent(type="Normal", reason="Started", message="Admitted by clusterQueue cq")
    first, second = await twice(lab, EmitEvent(target=target, events=(event,)))
    assert first.status == second.status == "applied"
    (found,) = lab.events()
    assert found["reason"] == "Started"
    assert found["message"] == "Admitted by clusterQueue cq"
    assert found["involvedObject"]["name"] == "p0"
    assert found["involvedObject"]["uid"] == target.uid
    assert found["metadata"]["namespace"] == NAMESPACE


async def test_an_event_in_a_namespace_that_is_gone_is_obsolete(lab: Lab) -> None:
    event = KubeEvent(type="Normal", reason="Started", message="m")
    target = pod_ref(namespace="nowhere")
    verdict = await carry_out(lab, EmitEvent(target=target, events=(event,)))
    assert verdict.status == "obsolete", verdict


async def test_a_refused_event_does_not_fail_the_command_it_belongs_to(lab: Lab) -> None:
    lab.cluster.faults.answer(403, method="POST", path=r"/events(\?|$)")
    target = await lab.pod()
    event = KubeEvent(type="Normal", reason="Started", message="m")
    verdict = await carry_out(lab, ungate(target, events=(event,)))
    assert verdict.status == "applied"


async def test_what_is_internal_is_not_carried_out(lab: Lab) -> None:
    internal = AdmitGroup(target=workload_ref(), cluster_queue="cq", assignments=())
    with pytest.raises(TypeError, match="writes nothing"):
        await execute(lab.api, lab.emitter, decision(internal))


# -- queues --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plural", "namespaced"), [("clusterqueues", False), ("localqueues", True)]
)
async def test_a_queue_is_told_whether_it_is_active_and_nothing_else_changes(
    lab: Lab, plural: str, namespaced: bool
) -> None:
    kind = "LocalQueue" if namespaced else "ClusterQueue"
    theirs = {
        "type": "Theirs",
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    group, place = "kueue.x-k8s.io", NAMESPACE if namespaced else ""
    spec: dict[str, Any] = {"stopPolicy": "Hold"}
    made = await lab.cluster.create(group, plural, {"metadata": {"name": "q"}, "spec": spec}, place)
    path = f"/apis/{group}/v1beta2/" + (f"namespaces/{place}/" if place else "") + f"{plural}/q"
    status, _ = await lab.kube.json(
        "PATCH",
        f"{path}/status",
        body={"status": {"conditions": [theirs], "pendingWorkloads": 3}},
        content_type="application/merge-patch+json",
    )
    assert status == 200
    target = ObjectRef(kind=kind, namespace=place, name="q", uid=made["metadata"]["uid"])
    stopped = Condition(type=names.ACTIVE, status="False", reason="Stopped", message="m")
    first, second = await twice(lab, WriteQueueStatus(target=target, condition=stopped))
    live = await lab.live(target)
    assert live is not None
    assert live["spec"]["stopPolicy"] == "Hold"
    assert live["status"]["pendingWorkloads"] == 3
    kept, ours = live["status"]["conditions"]
    assert kept == theirs
    assert {key: ours[key] for key in ("type", "status", "reason", "message")} == {
        "type": "Active",
        "status": "False",
        "reason": "Stopped",
        "message": "m",
    }
    assert ours["observedGeneration"] == live["metadata"]["generation"]
    assert first.status == second.status == "applied"
    assert first.resource_version == second.resource_version, "written once"
    other = WriteQueueStatus(target=msgspec.structs.replace(target, uid="u"), condition=stopped)
    assert (await carry_out(lab, other)).status == "obsolete"


STANDING = Standing(
    pending=2,
    reserving=3,
    admitted=1,
    amounts=(
        Amount("f", "cpu", nominal=4000, quota=4000, reserved=5500, used=1500, borrowed=1500),
        Amount("f", "memory", nominal=2**30, quota=2**30, reserved=2**29),
        Amount("g", "cpu", nominal=0, quota=0),
    ),
    share=375,
    cohort="lab",
    root="lab",
)


@pytest.mark.parametrize("plural", ["clusterqueues", "localqueues", "cohorts"])
async def test_counts_and_usage_are_written_once_and_conditions_stay(lab: Lab, plural: str) -> None:
    kinds = {"clusterqueues": "ClusterQueue", "localqueues": "LocalQueue", "cohorts": "Cohort"}
    place = NAMESPACE if plural == "localqueues" else ""
    made = await lab.cluster.create(
        "kueue.x-k8s.io", plural, {"metadata": {"name": "q"}, "spec": {}}, place
    )
    uid = made["metadata"]["uid"]
    target = ObjectRef(kind=kinds[plural], namespace=place, name="q", uid=uid)
    ready = Condition(type=names.ACTIVE, status="True", reason="Ready", message="m")
    await carry_out(lab, WriteQueueStatus(target=target, condition=ready))
    first, second = await twice(
        lab, ReportQueue(target=target, standing=STANDING, fair_sharing=True)
    )
    assert (first.status, second.status) == ("applied", "applied")
    assert first.resource_version == second.resource_version, "written once"
    live = await lab.live(target)
    assert live is not None
    status = live["status"]
    assert [c["type"] for c in status.pop("conditions")] == ["Active"]
    if plural == "cohorts":
        assert status == {"fairSharing": {"weightedShare": 375}}
        return
    counts = {"pendingWorkloads": 2, "reservingWorkloads": 3, "admittedWorkloads": 1}
    assert {k: status[k] for k in counts} == counts
    borrows = plural == "clusterqueues"

    def amounts(*told: tuple[str, str, str, str]) -> list[dict[str, Any]]:
        found: dict[str, list[dict[str, str]]] = {}
        for flavor, name, total, borrowed in told:
            more = {"borrowed": borrowed} if borrows else {}
            found.setdefault(flavor, []).append({"name": name, "total": total} | more)
        return [{"name": name, "resources": resources} for name, resources in found.items()]

    assert status["flavorsReservation"] == amounts(
        ("f", "cpu", "5500m", "1500m"), ("f", "memory", "512Mi", "0"), ("g", "cpu", "0", "0")
    )
    assert status["flavorsUsage"] == amounts(
        ("f", "cpu", "1500m", "0"), ("f", "memory", "0", "0"), ("g", "cpu", "0", "0")
    )
    assert status.get("fairSharing") == ({"weightedShare": 375} if borrows else None)
    without = await carry_out(lab, ReportQueue(target=target, standing=STANDING))
    assert without.status == "applied"
    live = await lab.live(target)
    assert live is not None and "fairSharing" not in live["status"]


# -- too large ------------------------------------------------------------------------------------

LARGE = [{"name": f"V{number}", "value": "x" * 90_000} for number in range(9)]


@pytest.mark.parametrize("cluster_settings", [settings(max_object_bytes=1_200_000)])
async def test_a_mirror_that_is_too_large_goes_without_what_is_not_counted(lab: Lab) -> None:
    """Templates over 100 KB in env (argo-workflows#7586, #8789): one request more, and no other."""
    owner = await lab.pod(containers=[{"name": "job", "image": "job", "env": LARGE}])
    sets = tuple(PodSetSpec(name=name, count=1, sample=owner) for name in ("a", "b"))
    command = create_workload(owner, pod_sets=sets, group=True)
    refused = await carry_out(lab, command)
    assert (refused.status, refused.http_status) == ("rejected", 413)
    size = "for template of podset b, containers[0].env"
    assert size in refused.message and "etcdserver: request is too large" in refused.message
    assert await lab.live(command.target) is None
    verdict = await carry_out(lab, msgspec.structs.replace(command, trim=True))
    assert verdict.status == "applied" and size in verdict.message
    live = await lab.live(command.target)
    assert live is not None
    assert live["metadata"]["annotations"][names.TEMPLATE] == names.TRIMMED
    (container,) = live["spec"]["podSets"][0]["template"]["spec"]["containers"]
    assert container["image"] == "job" and "env" not in container
    again = await carry_out(lab, msgspec.structs.replace(command, trim=True))
    assert again.status == "applied", "it is ours"


@pytest.mark.parametrize("cluster_settings", [settings(max_object_bytes=1_200_000)])
async def test_a_trimmed_mirror_stays_trimmed(lab: Lab) -> None:
    owner = await lab.pod(containers=[{"name": "job", "image": "job", "env": LARGE}])
    sets = tuple(PodSetSpec(name=name, count=1, sample=owner) for name in ("a", "b"))
    command = create_workload(owner, pod_sets=sets, group=True)
    await carry_out(lab, msgspec.structs.replace(command, trim=True))
    more = tuple(msgspec.structs.replace(one, count=2) for one in sets)
    verdict = await carry_out(lab, UpdateWorkload(target=command.target, pod_sets=more))
    assert verdict.status == "applied"
    live = await lab.live(command.target)
    assert live is not None and [one["count"] for one in live["spec"]["podSets"]] == [2, 2]


@pytest.mark.parametrize(
    ("cluster_settings", "said"),
    [
        (settings(max_object_bytes=1_200_000), "etcdserver: request is too large"),
        (settings(max_body_bytes=1_200_000), "limit is 1200000"),
        (settings(max_object_bytes=1_000, max_body_bytes=9_000_000), "larger than max"),
    ],
)
async def test_what_is_too_large_even_so_names_what_takes_most(lab: Lab, said: str) -> None:
    size = 2_200_000 if "larger" in said else 1_300_000
    declared = msgspec.json.encode({"containers": [], "nodeSelector": {"a": "x" * size}}).decode()
    sets = (PodSetSpec(name="a", count=1, template=declared),)
    command = create_workload(pod_ref(), pod_sets=sets, group=True)
    verdict = await carry_out(lab, msgspec.structs.replace(command, trim=True))
    assert (verdict.status, verdict.http_status) == ("rejected", 413)
    assert "for template of podset a, nodeSelector" in verdict.message and said in verdict.message
