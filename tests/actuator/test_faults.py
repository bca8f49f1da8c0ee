"""Commands while the API server fails: the verdict, and that a repetition puts things right."""

import asyncio
import time
from typing import Any

import pytest

from actuator.concurrency import AdaptiveConcurrency
from actuator.execute import QUICK_TRIES
from actuator.kubeapi import BRIEF_S, STRATEGIC_PATCH
from podgroup.model import names
from podgroup.model.commands import (
    AnyCommand,
    DeletePod,
    FinalizePod,
    FinalizeWorkload,
    ObjectRef,
    ReportPod,
    StopPod,
    UpdateWorkload,
    WriteWorkloadStatus,
)
from podgroup.model.objects import Condition
from tests.actuator.commands import create_workload, ungate, workload_ref
from tests.actuator.conftest import Lab, carry_out
from tests.actuator.test_execute import bound

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def every_command(lab: Lab) -> dict[str, AnyCommand]:
    """One command of each kind that writes, each with objects of its own."""
    pods = {name: await lab.pod(name) for name in ("a", "b", "c", "d", "e", "f")}
    workloads: dict[str, ObjectRef] = {}
    for name in ("w1", "w2", "w3"):
        verdict = await carry_out(lab, create_workload(pods["e"], name))
        workloads[name] = workload_ref(name, verdict.uid)
    ready = Condition(type="PodsReady", status="True", reason="Started")
    return {
        "UngatePod": ungate(pods["a"]),
        "FinalizePod": FinalizePod(target=pods["b"]),
        "DeletePod": DeletePod(target=pods["c"]),
        "StopPod": StopPod(target=pods["d"], reason="R", message="m", finalize=True),
        "CreateWorkload": create_workload(pods["e"], "new"),
        "UpdateWorkload": UpdateWorkload(target=workloads["w1"], add_owners=(pods["f"],)),
        "WriteWorkloadStatus": WriteWorkloadStatus(target=workloads["w2"], conditions=(ready,)),
        "FinalizeWorkload": FinalizeWorkload(target=workloads["w3"], delete=True),
    }


KINDS = [
    "UngatePod",
    "FinalizePod",
    "DeletePod",
    "StopPod",
    "CreateWorkload",
    "UpdateWorkload",
    "WriteWorkloadStatus",
    "FinalizeWorkload",
]
WRITES = "PATCH|POST|DELETE"


def state(lab: Lab) -> dict[str, Any]:
    """What is stored, without what differs between two ways to the same end."""
    found: dict[str, Any] = {}
    for group, plural in (("", "pods"), ("kueue.x-k8s.io", "workloads")):
        for obj in lab.cluster.objects(group, plural, "team"):
            meta = obj["metadata"]
            conditions = (obj.get("status") or {}).get("conditions") or ()
            found[f"{plural}/{meta['name']}"] = {
                "gates": (obj["spec"].get("schedulingGates") or []),
                "labels": meta.get("labels"),
                "finalizers": meta.get("finalizers"),
                "owners": [o["name"] for o in meta.get("ownerReferences") or ()],
                "deleting": "deletionTimestamp" in meta,
                "conditions": sorted((c["type"], c["status"]) for c in conditions),
            }
    return found


@pytest.mark.parametrize("status", [401, 409, 410, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parity("C-105", "C-108")
async def test_a_passing_failure_is_retried_and_repetition_has_the_same_effect(
    lab: Lab, kind: str, status: int
) -> None:
    command = (await every_command(lab))[kind]
    lab.cluster.faults.answer(status, method=WRITES)
    before = state(lab)
    verdict = await carry_out(lab, command)
    assert verdict.status == "retrying", verdict
    assert verdict.http_status == status
    assert verdict.whole_server == (status in (401, 429, 502, 503))
    assert state(lab) == before
    lab.cluster.faults.clear()
    assert (await carry_out(lab, command)).status == "applied"
    assert state(lab) != before


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_is_lost_after_the_effect_changes_nothing(lab: Lab, kind: str) -> None:
    """The write happened, we were told it failed, and do it again: applied or gone, once."""
    command = (await every_command(lab))[kind]
    lab.cluster.faults.answer(500, method=WRITES, after=True, count=1)
    first = await carry_out(lab, command)
    # What a stop says first is nice to have.
    assert first.status == ("applied" if kind == "StopPod" else "retrying")
    verdict = await carry_out(lab, command)
    assert verdict.status in ("applied", "obsolete"), verdict
    once = state(lab)
    again = await carry_out(lab, command)
    assert again.status in ("applied", "obsolete")
    assert state(lab) == once


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parity("C-108", "B18")
async def test_interrupted_after_each_request_it_ends_in_the_same_state(
    lab: Lab, kind: str
) -> None:
    """Let the first n writes through and fail the rest, for every n; then repeat."""
    commands = await every_command(lab)
    others = state(lab)
    for passed in range(4):
        lab.cluster.faults.clear()
        lab.cluster.faults.delay(0, method=WRITES)  # a rule that hits and does nothing ...
        lab.cluster.faults.rules[0].count = passed  # ... for the first writes
        lab.cluster.faults.answer(500, method=WRITES)
        await carry_out(lab, commands[kind])
    lab.cluster.faults.clear()
    verdict = await carry_out(lab, commands[kind])
    assert verdict.status in ("applied", "obsolete"), verdict
    touched = {k for k, v in state(lab).items() if others.get(k) != v} | (
        others.keys() - state(lab).keys()
    )
    assert len(touched) == 1


async def test_a_conflict_is_read_again_at_once_a_few_times(lab: Lab) -> None:
    command = (await every_command(lab))["WriteWorkloadStatus"]
    rule = lab.cluster.faults.answer(409, method="PATCH", count=QUICK_TRIES - 1)
    assert (await carry_out(lab, command)).status == "applied"
    assert rule.hits == QUICK_TRIES - 1


async def test_429_carries_its_retry_after(lab: Lab) -> None:
    target = await lab.pod()
    lab.cluster.faults.answer(429, method="PATCH", retry_after_s=7)
    verdict = await carry_out(lab, ungate(target))
    assert verdict.retry_after_s == 7
    assert lab.concurrency.limit <= 8


async def test_a_server_that_is_down_is_no_answer(lab: Lab) -> None:
    target = await lab.pod()
    lab.cluster.faults.refuse(1.0)
    await asyncio.sleep(0.1)  # until its sockets are closed
    verdict = await carry_out(lab, ungate(target))
    assert (verdict.status, verdict.http_status) == ("retrying", 0)
    assert verdict.whole_server
    assert "no answer" in verdict.message


async def test_a_slow_server_is_no_answer_after_the_time_out(lab: Lab) -> None:
    target = await lab.pod()
    lab.cluster.faults.delay(3000, method="PATCH")
    began = time.monotonic()
    verdict = await carry_out(lab, ungate(target))
    assert (verdict.status, verdict.http_status) == ("retrying", 0)
    assert time.monotonic() - began < 2.5


async def test_somebody_who_writes_in_between_loses_nothing(lab: Lab) -> None:
    """Others write while our patch is on its way: it fails, and the next look finds their value."""
    target = await lab.pod(nodeSelector={"zone": "z"})
    lab.cluster.faults.delay(150, method="PATCH", path=r"/pods/p0(\?|$)")
    done = asyncio.Event()

    async def meddle() -> None:
        number = 0
        while not done.is_set():
            number += 1
            await lab.pod(f"noise-{number}")  # other objects change nothing
            body = {"metadata": {"labels": {"theirs": "x"}}}
            reply = await lab.api.patch(target, body, "application/merge-patch+json")
            assert reply.ok
            await asyncio.sleep(0)

    meddler = asyncio.create_task(meddle())
    verdict = await carry_out(lab, ungate(target, node_selector={"pool": "a"}))
    done.set()
    await meddler
    assert verdict.status == "applied", verdict
    live = await lab.live(target)
    assert live is not None
    assert live["metadata"]["labels"]["theirs"] == "x"
    assert live["metadata"]["labels"][names.PODSET_LABEL] == "main"
    assert live["spec"]["nodeSelector"] == {"zone": "z", "pool": "a"}


async def test_a_pod_that_is_slow_to_write_to_is_stopped_all_the_same(lab: Lab) -> None:
    """A status that takes long, as with 60,000 labels and a policy that looks at each."""
    target = await bound(lab)
    lab.cluster.faults.delay(60_000, method="PATCH", path="/status")
    began = time.monotonic()
    verdict = await carry_out(lab, StopPod(target=target, reason="R", message="m"))
    assert verdict.status == "applied"
    assert time.monotonic() - began < BRIEF_S + 2
    live = await lab.live(target)
    assert live is not None and live["metadata"]["deletionTimestamp"]
    # What was tried in vain is not tried again.
    began = time.monotonic()
    assert (await carry_out(lab, StopPod(target=target, reason="R", message="m"))).status
    assert time.monotonic() - began < BRIEF_S


@pytest.mark.parity("B31")
@pytest.mark.parametrize("status", [403, 409, 422, 500, 503])
async def test_a_pod_whose_status_is_refused_is_stopped_all_the_same(lab: Lab, status: int) -> None:
    target = await bound(lab)
    lab.cluster.faults.answer(status, method="PATCH", path="/status")
    verdict = await carry_out(lab, StopPod(target=target, reason="R", message="m", finalize=True))
    assert verdict.status == "applied"
    live = await lab.live(target)
    assert live is not None and live["metadata"]["deletionTimestamp"]
    assert names.POD_FINALIZER not in live["metadata"].get("finalizers", ())


async def test_a_report_that_takes_long_is_given_up(lab: Lab) -> None:
    target = await lab.pod()
    lab.cluster.faults.delay(60_000, method="PATCH", path="/status")
    began = time.monotonic()
    report = ReportPod(target=target, status="False", reason="R", message="m")
    verdict = await carry_out(lab, report)
    assert (verdict.status, verdict.whole_server) == ("retrying", False)
    assert time.monotonic() - began < BRIEF_S + 2


async def test_a_report_waits_for_its_turn_as_long_as_the_server_is_busy(lab: Lab) -> None:
    """Twenty tries of a report that never reached the server would park it."""
    target = await lab.pod()
    lab.api.concurrency = AdaptiveConcurrency(1)

    async def others() -> None:
        async with lab.api.concurrency.slot() as slot:
            await asyncio.sleep(BRIEF_S + 0.5)
            slot.answered(200)

    async with asyncio.TaskGroup() as busy:
        for _ in range(2):
            busy.create_task(others())
        await asyncio.sleep(0)
        report = ReportPod(target=target, status="False", reason="R", message="m")
        verdict = await carry_out(lab, report)
    assert verdict.status == "applied"


async def test_one_object_that_gets_no_answer_is_no_trouble_of_the_api_server(lab: Lab) -> None:
    target = await lab.pod()
    lab.cluster.faults.delay(60_000, path=f"/pods/{target.name}")
    reply = await lab.api.patch(target, {}, STRATEGIC_PATCH)
    assert (reply.status, reply.alone, lab.api.trouble) == (0, True, "")
    lab.cluster.faults.delay(60_000, path="/readyz")
    reply = await lab.api.patch(target, {}, STRATEGIC_PATCH)
    assert (reply.status, reply.alone) == (0, False)
    assert "no answer" in lab.api.trouble
