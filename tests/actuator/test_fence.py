"""The fence: what the actuator does not do, and that it costs nothing where it does its work."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from actuator import fence
from actuator.kubeapi import KubeApi
from podgroup.model import names
from podgroup.model.commands import (
    AnyCommand,
    DeletePod,
    FinalizePod,
    FinalizeWorkload,
    KubeEvent,
    ObjectRef,
    ReportPod,
    StopPod,
    UngatePod,
)
from tests.actuator.commands import create_workload, pod, pod_ref, ungate, workload_ref
from tests.actuator.conftest import Lab
from tests.actuator.test_execute import carry_out

BAD = {
    "kind": DeletePod(target=workload_ref("w", "u")),
    "pod as Workload": FinalizeWorkload(target=pod_ref(), delete=True),
    "no uid": DeletePod(target=pod_ref(uid="")),
    "path": StopPod(target=pod_ref("../../kube-system/pods/dns"), reason="R", message="m"),
    "query": StopPod(target=pod_ref("p?x=1"), reason="R", message="m"),
    "namespace": DeletePod(target=pod_ref(namespace="a/pods")),
    "no namespace": DeletePod(target=pod_ref(namespace="")),
    "event": DeletePod(
        target=pod_ref(),
        events=(KubeEvent(type="Normal", reason="R", message="m", on=pod_ref(namespace="a/b")),),
    ),
    "sample": create_workload(pod_ref("a/b")),
    "gate": ungate(pod_ref(), gates=("example.com/quota",)),
    "label": ungate(pod_ref(), labels={"app": "frontend"}),
    "queue": ungate(pod_ref(), labels={names.QUEUE_NAME: "other"}),
    "annotation": ungate(pod_ref(), annotations={"example.com/inject": "true"}),
    "replaces": ungate(pod_ref(), replaces=("example.com/inject",)),
}


@pytest.mark.parametrize("command", BAD.values(), ids=BAD)
def test_a_command_that_shows_what_is_wrong_with_it(command: Any) -> None:
    assert fence.forbidden(command, labels_of_checks=False)


def test_what_gatelog_decides_is_within() -> None:
    for command in (
        ungate(pod_ref(), gates=(names.ADMISSION_GATE, names.TOPOLOGY_GATE)),
        ungate(pod_ref(), annotations={names.WORKLOAD_ANNOTATION: "w"}),
        FinalizePod(target=pod_ref()),
        create_workload(pod_ref()),
        FinalizeWorkload(target=workload_ref("w", "u"), delete=True),
    ):
        assert fence.forbidden(command, labels_of_checks=False) == ""
    checks = ungate(pod_ref(), labels={"zone": "a"}, annotations={"example.com/reservation": "r"})
    assert fence.forbidden(checks, labels_of_checks=True) == ""
    assert fence.forbidden(ungate(pod_ref(), labels={names.QUEUE_NAME: "q"}), labels_of_checks=True)


def stranger(name: str = "stranger") -> dict[str, Any]:
    """A gated pod that names no queue and bears no mark of ours."""
    found = pod(name)
    found["metadata"] = {"name": name, "labels": {"app": "x"}, "finalizers": ["example.com/own"]}
    return found


@pytest.mark.parametrize("kind", ["ungate", "stop", "delete", "finalize"])
async def test_a_strangers_pod_is_left_as_it_is(lab: Lab, kind: str) -> None:
    target = await lab.create(stranger())
    before = await lab.live(target)
    commands: dict[str, AnyCommand] = {
        "ungate": ungate(target),
        "stop": StopPod(target=target, reason="R", message="m", finalize=True),
        "delete": DeletePod(target=target),
        "finalize": FinalizePod(target=target),
    }
    verdict = await carry_out(lab, commands[kind])
    assert await lab.live(target) == before
    if kind != "finalize":  # takes out our finalizer, and there is none
        assert (verdict.status, "outside of the fence" in verdict.message) == ("rejected", True)


async def test_nobody_elses_pod_becomes_the_template_of_a_workload(lab: Lab) -> None:
    target = await lab.create(stranger())
    verdict = await carry_out(lab, create_workload(target))
    assert (verdict.status, "outside of the fence" in verdict.message) == ("rejected", True)


@pytest.mark.parametrize("mark", ["queue", "managed", "finalizer"])
async def test_each_mark_is_enough(lab: Lab, mark: str) -> None:
    wanted = stranger()
    if mark == "finalizer":
        wanted["metadata"]["finalizers"].append(names.POD_FINALIZER)
    elif mark == "queue":
        wanted["metadata"]["labels"][names.QUEUE_NAME] = "q"
    else:
        wanted["metadata"]["labels"][names.MANAGED_LABEL] = "true"
    target = await lab.create(wanted)
    verdict = await carry_out(lab, UngatePod(target=target, gates=(names.ADMISSION_GATE,)))
    assert verdict.status == "applied", verdict
    live = await lab.live(target)
    assert live is not None and not live["spec"].get("schedulingGates")


async def test_it_costs_no_request_where_pods_are_started_and_stopped(lab: Lab) -> None:
    asked: Counter[str] = Counter()
    lab.api = KubeApi(
        lab.kube, lab.concurrency, lambda verb, path, status, at: asked.update([verb])
    )
    started: list[ObjectRef] = [await lab.pod(f"p{n}") for n in range(5)]
    for target in started:
        await carry_out(lab, ReportPod(target=target, status="False", reason="R", message="m"))
        await carry_out(lab, ungate(target))
    assert asked == {"PATCH": 10}
    for target in started:
        await carry_out(lab, StopPod(target=target, reason="R", message="m"))
    assert asked == {"PATCH": 15, "DELETE": 5}
    # One that was never written to is looked at once.
    await carry_out(lab, DeletePod(target=await lab.pod("excess")))
    assert asked == {"PATCH": 16, "DELETE": 6, "GET": 1}


def test_labels_that_no_ready_check_of_the_workload_wants_are_refused() -> None:
    """In builtin mode a command may name a Workload, whose checks have the last word."""
    command = ungate(pod_ref(), labels={"zone": "a"}, annotations={"example.com/r": "1"})
    command = msgspec.structs.replace(command, workload="g")
    assert fence.forbidden(command, labels_of_checks=False) == ""
    assert fence.strange_keys(command)

    def workload(state: str, **update: object) -> dict[str, object]:
        check = {"name": "c", "state": state, "podSetUpdates": [{"name": "main", **update}]}
        return {"status": {"admissionChecks": [check]}}

    both = {"labels": {"zone": "a"}, "annotations": {"example.com/r": "1"}}
    assert fence.unasked(command, workload("Ready", **both)) == ""
    assert "labels zone" in fence.unasked(command, workload("Pending", **both))
    assert "labels zone" in fence.unasked(command, {})
    assert "annotations" in fence.unasked(command, workload("Ready", labels={"zone": "a"}))
    other = {"labels": {"zone": "b"}, "annotations": {"example.com/r": "1"}}
    assert "labels zone" in fence.unasked(command, workload("Ready", **other))
    mine = msgspec.structs.replace(command, labels={names.QUEUE_NAME: "q"})
    assert fence.forbidden(mine, labels_of_checks=False), "whose a pod is is its owner's to write"
