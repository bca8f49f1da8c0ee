"""Status patches: merged by type, guarded, and nothing when nothing differs."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuator import workload_status
from actuator.patches import seconds
from podgroup.model.commands import Admission, WriteWorkloadStatus
from podgroup.model.objects import Assignment, Condition, RequeueState
from simcluster.patches import merge_patch
from tests.actuator.commands import NOW, workload_ref

THEIRS = {
    "type": "Preempted",
    "status": "False",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
    "observedGeneration": 1,
}


def live(**status: Any) -> dict[str, Any]:
    meta = {"uid": "w-uid", "resourceVersion": "9", "generation": 3}
    return {"metadata": meta, "status": {"conditions": [THEIRS], **status}}


def command(**fields: Any) -> WriteWorkloadStatus:
    return WriteWorkloadStatus(target=workload_ref(uid="w-uid"), **fields)


def patched(wanted: WriteWorkloadStatus, before: dict[str, Any]) -> dict[str, Any]:
    patch = workload_status.status(wanted, before, "v1beta2", NOW)
    assert patch is not None
    assert patch["metadata"] == {"uid": "w-uid", "resourceVersion": "9"}
    after = merge_patch(before, patch)
    assert workload_status.status(wanted, after, "v1beta2", NOW) is None
    return after["status"]


def test_conditions_are_merged_by_type_and_others_keep_their_bytes() -> None:
    at = datetime(2026, 11, 20, 9, 0, 0, 700_000, tzinfo=UTC)
    wanted = (
        Condition(type="Finished", status="True", reason="Succeeded", message="done", at=at),
        Condition(type="PodsReady", status="False"),
    )
    conditions = patched(command(conditions=wanted), live())["conditions"]
    assert conditions == [
        THEIRS,
        {
            "type": "Finished",
            "status": "True",
            "reason": "Succeeded",
            "message": "done",
            "lastTransitionTime": "2026-11-20T09:00:00Z",
            "observedGeneration": 3,
        },
        {
            "type": "PodsReady",
            "status": "False",
            "reason": "PodsReady",
            "message": "",
            "lastTransitionTime": "2026-11-20T12:30:15Z",
            "observedGeneration": 3,
        },
    ]


@pytest.mark.parametrize(
    ("status", "moved"), [("False", "2020-01-01T00:00:00Z"), ("True", "2026-11-20T12:30:15Z")]
)
def test_the_transition_time_moves_only_with_the_status(status: str, moved: str) -> None:
    wanted = Condition(type="Preempted", status=status, reason="New", message="new")
    (condition,) = patched(command(conditions=(wanted,)), live())["conditions"]
    assert condition["lastTransitionTime"] == moved
    assert (condition["reason"], condition["message"]) == ("New", "new")


def test_an_admission_is_written_with_quantities() -> None:
    admission = Admission(
        cluster_queue="cq",
        assignments=(
            Assignment(
                name="main",
                flavors={"cpu": "spot", "memory": "spot"},
                usage={"cpu": 1500, "memory": 3 * 2**30, "nvidia.com/gpu": 4},
                count=2,
            ),
        ),
    )
    after = patched(command(admission=admission), live())
    assert after["admission"] == {
        "clusterQueue": "cq",
        "podSetAssignments": [
            {
                "name": "main",
                "flavors": {"cpu": "spot", "memory": "spot"},
                "resourceUsage": {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "4"},
                "count": 2,
            }
        ],
    }


def test_clearing_an_admission_is_a_null_and_nothing_if_there_is_none() -> None:
    admitted = live(admission={"clusterQueue": "cq", "podSetAssignments": [{"name": "main"}]})
    assert "admission" not in patched(command(clear_admission=True), admitted)
    assert workload_status.status(command(clear_admission=True), live(), "v1beta2", NOW) is None


def test_the_requeue_state_says_how_often_and_until_when_and_goes() -> None:
    said = RequeueState(count=2, at=NOW)
    after = patched(command(requeue=said), live())
    assert after["requeueState"] == {"count": 2, "requeueAt": seconds(NOW)}
    assert workload_status.status(command(requeue=said), live(**after), "v1beta2", NOW) is None
    over = workload_status.status(
        command(requeue=RequeueState(count=2)), live(**after), "v1beta2", NOW
    )
    assert over is not None and over["status"]["requeueState"] == {"count": 2, "requeueAt": None}
    gone = workload_status.status(command(requeue=RequeueState()), live(**after), "v1beta2", NOW)
    assert gone is not None and gone["status"]["requeueState"] is None


def test_reclaimable_pods_are_compared_as_a_map() -> None:
    before = live(reclaimablePods=[{"name": "b", "count": 2}, {"name": "a", "count": 1}])
    same = command(reclaimable={"a": 1, "b": 2})
    assert workload_status.status(same, before, "v1beta2", NOW) is None
    after = patched(command(reclaimable={"a": 2, "b": 2}), before)
    assert after["reclaimablePods"] == [{"name": "a", "count": 2}, {"name": "b", "count": 2}]
    assert workload_status.status(command(reclaimable={}), live(), "v1beta2", NOW) is None


@pytest.mark.parametrize(
    ("version", "field"),
    [
        ("v1beta2", "accumulatedPastExecutionTimeSeconds"),
        ("v1beta1", "accumulatedPastExexcutionTimeSeconds"),
    ],
)
def test_executed_seconds_are_spelt_as_the_version_spells_them(version: str, field: str) -> None:
    patch = workload_status.status(command(executed_s=30), live(), version, NOW)
    assert patch is not None
    assert patch["status"] == {field: 30}
    assert workload_status.status(command(executed_s=0), live(), version, NOW) is None


CONDITIONS = st.builds(
    Condition,
    type=st.sampled_from(["A", "B", "Preempted"]),
    status=st.sampled_from(["True", "False"]),
    reason=st.sampled_from(["R", "S"]),
    message=st.sampled_from(["", "m"]),
)


@given(
    first=st.lists(CONDITIONS, max_size=3, unique_by=lambda c: c.type),
    second=st.lists(CONDITIONS, max_size=3, unique_by=lambda c: c.type),
)
def test_merging_loses_no_type_and_is_idempotent(
    first: list[Condition], second: list[Condition]
) -> None:
    once = workload_status.merge_conditions([THEIRS], first, 1, NOW)
    both = workload_status.merge_conditions(once, second, 1, NOW)
    types = [c["type"] for c in both]
    assert len(types) == len(set(types))
    assert set(types) == {"Preempted", *(c.type for c in first), *(c.type for c in second)}
    assert workload_status.merge_conditions(both, second, 1, NOW) == both


def test_new_checks_are_pending_and_what_controllers_said_stays() -> None:
    ready = {"name": "a", "state": "Ready", "message": "m", "podSetUpdates": [{"name": "main"}]}
    gone = {"name": "gone", "state": "Ready", "message": ""}
    after = patched(command(checks=("a", "b")), live(admissionChecks=[ready, gone]))
    new = {
        "name": "b",
        "state": "Pending",
        "message": "",
        "lastTransitionTime": after["admissionChecks"][1]["lastTransitionTime"],
    }
    assert after["admissionChecks"] == [ready, new]


def test_checks_that_are_reset_say_what_they_were_and_count_retries() -> None:
    retry = {"name": "a", "state": "Retry", "message": "m", "requeueAfterSeconds": 9}
    again = {"name": "b", "state": "Retry", "message": "m", "retryCount": 2}
    waits = {"name": "c", "state": "Pending", "message": "in line"}
    ready = {"name": "d", "state": "Ready", "podSetUpdates": [{"name": "main"}]}
    wanted = command(checks=("a", "b", "c", "d"), reset_checks=True)
    found = patched(wanted, live(admissionChecks=[retry, again, waits, ready]))["admissionChecks"]
    assert [one["state"] for one in found] == ["Pending"] * 4
    assert [one.get("retryCount") for one in found] == [1, 3, None, None]
    assert found[0]["message"] == "Pending again; was Retry"
    assert found[2] == waits
    assert not any("podSetUpdates" in one or "requeueAfterSeconds" in one for one in found)
