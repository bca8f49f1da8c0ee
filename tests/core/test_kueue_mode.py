"""kueue mode, against Workloads that a real Kueue admitted, evicted and admitted again.

The recording has the Workloads of two groups, written by somebody else than Kueue's pod
integration. Pods of ours are put beside them; our decisions are held against what was done there.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from actuator.workload_status import status as status_patch
from ingest.translate.items import Delta
from podgroup.engine import new_world, step
from podgroup.log.events import Batch, Decision, Event, ObjectApplied, OutcomeRecorded, PodApplied
from podgroup.model.commands import StopPod, UngatePod, WriteWorkloadStatus
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
)
from podgroup.model.objects import FlavorView, PodView
from tests.support.recordings import T0, TRANSLATORS, lines, opening
from tests.support.toy import Toy

NAME = "external_workloads_under_kueue"


class Kueue:
    """Plays the recorded Workload items up to given moments; pods are ours."""

    def __init__(self) -> None:
        self.world = new_world("recorded", "kueue")
        self.position, self.version = 0, 10**9
        self.items = [x for x in lines(NAME) if x["resource"] in ("workloads", "user")]
        self.namespace = next(
            x["object"]["metadata"]["namespace"] for x in self.items if x["resource"] == "workloads"
        )
        self.decisions: list[Decision] = []
        self.live: dict[str, Any] = {}
        self.send(*opening().events)  # type: ignore[arg-type] # all of them decodable
        flavor = FlavorView(
            uid="f", name="lab-flavor", resource_version="5", node_labels={"pool": "a"}
        )
        self.send(ObjectApplied(object=flavor))

    def send(self, *events: Event) -> list[Decision]:
        self.position += 1
        before = len(self.world.journal.decisions)
        at = T0 + timedelta(seconds=self.position)
        step(self.world, self.position, at, Batch(source="watch", events=events))
        new = self.world.journal.decisions[before:]
        self.decisions += new
        return new

    def pod(self, name: str, group: str, **more: Any) -> list[Decision]:
        self.version += 1
        view = PodView(
            uid=f"uid-{name}",
            namespace=self.namespace,
            name=name,
            resource_version=str(self.version),
            created_at=datetime(2026, 11, 21, tzinfo=UTC),
            labels={QUEUE_NAME: "user-queue", GROUP_NAME: group, MANAGED_LABEL: "true"},
            annotations={GROUP_TOTAL_COUNT: "2"},
            finalizers=(POD_FINALIZER,),
            role="main",
            role_annotated=True,
            requests={"cpu": 5000},
            **({"gates": (ADMISSION_GATE,), "phase": "Pending"} | more),
        )
        return self.send(PodApplied(pod=view))

    def until(self, marker: str) -> list[Decision]:
        """Play on up to and with the user's action that contains `marker`, or to the end."""
        new: list[Decision] = []
        while self.items:
            item = self.items.pop(0)
            if item["resource"] == "user":
                if marker in item["object"]["action"]:
                    break
                continue
            # Our pods are owners too, as if the Workload had been made for them.
            owners = item["object"]["metadata"]["ownerReferences"]
            owners += [
                {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": f"uid-{n}"}
                for n in ("l0", "l1", "h0", "h1")
            ]
            raw = json.dumps({"type": item["type"], "object": item["object"]}).encode()
            delta = TRANSLATORS["Workload"].item(raw)
            assert isinstance(delta, Delta)
            self.live[item["object"]["metadata"]["name"]] = item["object"]
            new += self.send(delta.event)
        return new

    def done(self, decisions: list[Decision]) -> list[Decision]:
        """Say that what was decided about Workloads has been applied."""
        new: list[Decision] = []
        for d in list(decisions):
            if d.command.target.kind == "Workload":
                new += self.send(
                    OutcomeRecorded(
                        decision=d.id, group=d.group, status="applied", resource_version="1"
                    )
                )
        return new


def started() -> Kueue:
    kueue = Kueue()
    for name in ("l0", "l1"):
        kueue.pod(name, "low")
    kueue.until("create workload high")
    return kueue


def test_pods_start_when_kueue_says_admitted() -> None:
    kueue = started()
    ungated = [d.command for d in kueue.decisions if isinstance(d.command, UngatePod)]
    assert {c.target.name for c in ungated} == {"l0", "l1"}
    assert ungated[0].node_selector == {"pool": "a"}
    assert ungated[0].labels["kueue.x-k8s.io/podset"] == "main"
    assert not any(d.rule == "admit" for d in kueue.decisions), "Kueue admits, not we"


def test_evicted_pods_are_stopped_and_quota_is_released_when_none_runs() -> None:
    kueue = started()
    for name in ("l0", "l1"):
        kueue.pod(name, "low", gates=(), phase="Running", node="n")
    kueue.done(kueue.decisions)
    stopped = kueue.until("release quota of low")
    stops = [d.command for d in stopped if isinstance(d.command, StopPod)]
    assert {c.target.name for c in stops} == {"l0", "l1"}
    assert {c.reason for c in stops} == {"WorkloadEvictedDueToPreempted"}
    assert not [d for d in kueue.decisions if _releases(d)], "something still runs"
    for name in ("l0", "l1"):
        kueue.pod(name, "low", gates=(), phase="Failed", node="n")
    kueue.done(kueue.decisions)
    release = [d for d in kueue.decisions if _releases(d)]
    assert len(release) == 1

    # What we would write, on the Workload as it was then, says what the recorded release said.
    live = kueue.live["low"]
    command = release[0].command
    assert isinstance(command, WriteWorkloadStatus)
    patch = status_patch(command, live, "v1beta2", datetime(2026, 11, 21, tzinfo=UTC))
    assert patch is not None
    assert patch["status"]["admission"] is None
    assert patch["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
    kueue.until("finish high")
    released = next(
        x["object"]
        for x in lines(NAME)
        if x["resource"] == "workloads"
        and x["object"]["metadata"]["name"] == "low"
        and any(
            c["type"] == "Requeued" for c in x["object"].get("status", {}).get("conditions", ())
        )
    )
    ours = {c["type"]: c["status"] for c in patch["status"]["conditions"]}
    theirs = {c["type"]: c["status"] for c in released["status"]["conditions"]}
    assert {k: ours[k] for k in theirs} == theirs


def _releases(decision: Decision) -> bool:
    return isinstance(decision.command, WriteWorkloadStatus) and decision.command.clear_admission


def test_a_finished_workload_releases_its_pods() -> None:
    kueue = Kueue()
    for name in ("h0", "h1"):
        kueue.pod(name, "high")
    kueue.until("finish high")
    for name in ("h0", "h1"):
        kueue.pod(name, "high", gates=(), phase="Running", node="n")
    kueue.done(kueue.decisions)
    kueue.until("reclaim one pod of low")
    group = next(g for g in kueue.world.groups.values() if g.name == "high")
    assert group.ending.finish is not None
    assert group.ending.finish.reason == "Succeeded"
    released = {d.command.target.name for d in kueue.decisions if d.rule == "release"}
    assert released >= {"h0", "h1"}


def test_readmission_clears_the_eviction_and_waits_are_kueues_words() -> None:
    kueue = started()
    kueue.until("finish high")
    group = next(g for g in kueue.world.groups.values() if g.name == "low")
    assert group.requeueing.evicted is not None
    waits = [w.reason for w in kueue.world.journal.waits.values() if w.group == group.id]
    assert "WaitingForQuota" in waits or "PendingEvaluation" in waits
    kueue.until("reclaim")
    assert group.requeueing.evicted is None
    assert group.quota.holding is not None
    assert group.quota.admissions == 2


def test_every_recorded_workload_folds_to_the_same_bytes_twice() -> None:
    one, two = started(), started()
    encode = msgspec.msgpack.encode
    assert encode(one.world.groups) == encode(two.world.groups)


# -- in a toy cluster ---


def running(**more: Any) -> Toy:
    """A group g of two running pods, admitted by Kueue."""
    toy = Toy(mode="kueue")
    for name in ("a", "b"):
        toy.pod(name, "g", 2, **more)
    toy.admit("g")
    toy.run("a", "b")
    return toy


def test_reclaimable_pods_are_never_taken_back_while_quota_is_reserved() -> None:
    toy = running()
    toy.end("a")
    assert toy.workloads["g"].reclaimable == {"r1": 1}
    # A kubelet may yet say Failed of a pod that somebody else called Succeeded.
    toy.end("a", phase="Failed")
    assert toy.workloads["g"].reclaimable == {"r1": 1}, "Kueue refuses less, and all with it"
    assert toy.condition("g", "WaitingForReplacementPods")[0] == "True"


def test_a_group_deactivated_for_a_cause_may_queue_again_when_activated() -> None:
    """B15: after a plain Deactivated the core lets it queue again, after a cause nobody would."""
    for cause, wanted in (("", "False"), ("DueToMaximumExecutionTimeExceeded", "True")):
        toy = running()
        w = toy.workloads["g"]
        toy.put_workload(msgspec.structs.replace(w, active=False))
        toy.evict("g", f"Deactivated{cause}")
        assert toy.workloads["g"].cluster_queue == "", "both pods were stopped"
        assert toy.condition("g", "Requeued")[:2] == ("False", f"Deactivated{cause}")
        w = toy.workloads["g"]
        toy.put_workload(msgspec.structs.replace(w, active=True))
        toy.settle()
        assert toy.condition("g", "Requeued")[0] == wanted
