"""Kubernetes Events: names that repeat, texts that fit, and a queue that never blocks."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from actuator.concurrency import AdaptiveConcurrency
from actuator.fairqueue import ON_BEHALF, Claim
from actuator.kubeapi import KubeApi
from actuator.kubeevents import ROUTINE, Emitter, Note, notes, wanted_in
from podgroup.model import limits
from podgroup.model.commands import EmitEvent, KubeEvent, ObjectRef
from podgroup.model.names import EVENT_EXCESS_POD_DELETED, EVENT_STARTED, EVENT_STOPPED
from tests.actuator.commands import decision, pod_ref, ungate, workload_ref
from tests.actuator.conftest import Lab

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


def body_of(note: Note) -> Any:
    return msgspec.json.decode(note.body)


def event(reason: str = "Started", message: str = "m", on: ObjectRef | None = None) -> KubeEvent:
    return KubeEvent(type="Normal", reason=reason, message=message, on=on)


def test_names_follow_from_decision_and_index_alone() -> None:
    command = EmitEvent(target=pod_ref(), events=(event(), event()))
    first, second = notes(decision(command), ""), notes(decision(command), "")
    assert first == second
    names = [body_of(note)["metadata"]["name"] for note in first]
    assert len(set(names)) == 2
    assert all(name.startswith("p0.") for name in names)
    other = notes(decision(command, number=2), "")
    assert body_of(other[0])["metadata"]["name"] not in names


def test_an_event_is_about_its_target_or_what_it_says() -> None:
    on = (event(on=workload_ref(uid="w")), event())
    about_workload, about_pod = notes(decision(ungate(pod_ref(), events=on)), "v1beta1")
    assert body_of(about_workload)["regarding"] == {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "namespace": "team",
        "name": "w",
        "uid": "w",
    }
    assert body_of(about_pod)["regarding"]["apiVersion"] == "v1"


def test_a_course_without_trouble_may_go_untold_but_nothing_else() -> None:
    reasons = (EVENT_STARTED, EVENT_STOPPED, EVENT_EXCESS_POD_DELETED, "WaitingForQuota")
    warning = KubeEvent(type="Warning", reason=EVENT_STARTED, message="m")
    command = EmitEvent(target=pod_ref(), events=(*map(event, reasons), warning))

    def kept(events: Any) -> list[tuple[str, str]]:
        bodies = [body_of(note) for note in notes(decision(command), "", wanted=events)]
        return [(body["reason"], body["metadata"]["name"]) for body in bodies]

    everything = kept("all")
    assert [reason for reason, _ in everything] == [*reasons, EVENT_STARTED]
    # Names stay what they are, so that a change of the setting repeats none.
    assert kept("failures") == everything[1:]
    assert kept("none") == []


def test_who_runs_beside_kueue_gets_what_kueue_writes() -> None:
    settled = [
        wanted_in(mode, events) for mode in ("builtin", "kueue") for events in ("auto", "none")
    ]
    assert settled == ["failures", "none", "all", "none"]
    assert wanted_in("builtin", "all") == "all"


async def test_events_that_are_not_wanted_cost_no_request(lab: Lab) -> None:
    emitter = Emitter(lab.api, lab.concurrency, wanted="failures")
    sender = asyncio.create_task(emitter.run())
    target = await lab.pod()
    for number, reason in enumerate((*ROUTINE, EVENT_STOPPED)):
        await emitter.emit(decision(ungate(target, events=(event(reason),)), number=number))
    await emitter.drain(5.0)
    assert await emitter.emit_now(decision(EmitEvent(target=target, events=(event(),)))) == []
    sender.cancel()
    assert [found["reason"] for found in lab.events()] == [EVENT_STOPPED]
    assert emitter.dropped == 0


def test_cluster_scoped_objects_have_their_events_in_default() -> None:
    queue = ObjectRef(kind="ClusterQueue", namespace="", name="cq", uid="x")
    (note,) = notes(decision(EmitEvent(target=queue, events=(event(),))), "v1beta2")
    assert note.namespace == "default"
    assert "namespace" not in body_of(note)["regarding"]


@pytest.mark.parametrize("letter", ["m", "ä", "€", "😀"])
async def test_long_texts_are_cut_to_what_the_api_takes(lab: Lab, letter: str) -> None:
    """The API server counts bytes, whatever it calls them."""
    target = pod_ref(name="p" * 253)
    long = EmitEvent(target=target, events=(event("R" * 200, letter * 5000),))
    (reply,) = await lab.emitter.emit_now(decision(long))
    assert reply.ok, reply.message
    (stored,) = lab.events()
    assert len(stored["metadata"]["name"]) <= limits.OBJECT_NAME
    size = len(stored["message"].encode())
    assert limits.NOTE_BYTES - 6 <= size <= limits.NOTE_BYTES
    assert len(stored["reason"]) == limits.EVENT_REASON_BYTES


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("note", "ä" * 513, "can have at most 1024 characters"),
        ("reason", "R" * 129, "can have at most 128 characters"),
        ("action", "A" * 129, "can have at most 128 characters"),
        ("reportingInstance", "i" * 129, "can have at most 128 characters"),
        ("type", "Error", "has invalid value: Error"),
    ],
)
async def test_the_stand_in_refuses_events_as_the_api_server_does(
    lab: Lab, field: str, value: str, said: str
) -> None:
    (note,) = notes(decision(EmitEvent(target=pod_ref(), events=(event(),))), "")
    body = msgspec.json.encode(body_of(note) | {field: value})
    reply = await lab.api.create_event(note.namespace, msgspec.Raw(body))
    assert (reply.status, said in reply.message) == (422, True), reply.message


async def test_events_of_commands_are_sent_in_the_background(lab: Lab) -> None:
    sender = asyncio.create_task(lab.emitter.run())
    target = await lab.pod()
    for number in range(30):
        await lab.emitter.emit(decision(ungate(target, events=(event(),)), number=number))
    await lab.emitter.emit(decision(ungate(target, events=(event(),)), number=0))
    await lab.emitter.drain(5.0)
    sender.cancel()
    assert len(lab.events()) == 30
    assert (lab.emitter.sent, lab.emitter.dropped) == (31, 0)


async def test_events_give_way_to_gates_for_a_while_and_are_sent_all_the_same(lab: Lab) -> None:
    concurrency = AdaptiveConcurrency(1)
    target = await lab.pod()

    async def gate() -> None:
        ON_BEHALF.set(Claim("team", urgent=True))
        while True:
            async with concurrency.slot() as slot:
                await asyncio.sleep(0.001)
                slot.answered(200)

    async def sent(count: int) -> None:
        async with asyncio.timeout(10):
            while brief.sent + patient.sent < count:
                await asyncio.sleep(0.01)

    api = KubeApi(lab.kube, concurrency)
    brief, patient = (Emitter(api, concurrency, hold_s=hold) for hold in (0.2, 60.0))
    # One has the turn, two wait: it is never calm.
    gates = [asyncio.create_task(gate()) for _ in range(3)]
    await asyncio.sleep(0)
    senders = [asyncio.create_task(emitter.run()) for emitter in (brief, patient)]
    began = time.monotonic()
    await patient.emit(decision(ungate(target, events=(event(),)), number=1))
    await brief.emit(decision(ungate(target, events=(event(),)), number=2))
    await sent(1)
    assert time.monotonic() - began >= 0.2
    assert (brief.sent, patient.sent) == (1, 0)
    for task in gates:
        task.cancel()
    await sent(2)
    for task in senders:
        task.cancel()
    await asyncio.gather(*gates, *senders, return_exceptions=True)
    assert brief.dropped == patient.dropped == 0


async def test_what_the_server_refuses_is_dropped_and_counted(lab: Lab) -> None:
    lab.cluster.faults.answer(500, path=r"/events(\?|$)")
    sender = asyncio.create_task(lab.emitter.run())
    target = await lab.pod()
    await lab.emitter.emit(decision(ungate(target, events=(event(), event()))))
    await lab.emitter.drain(5.0)
    sender.cancel()
    assert lab.events() == []
    assert lab.emitter.dropped == 2
