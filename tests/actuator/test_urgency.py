"""What starts pods or frees quota goes first."""

from typing import Any

import pytest
from msgspec.structs import replace

from actuator.urgency import gathers, is_urgent
from podgroup.model import commands, names
from podgroup.model.commands import AnyCommand
from podgroup.model.objects import NOT_REQUEUED, Condition
from tests.actuator.commands import create_workload, pod_ref, ungate, workload_ref

POD, WORKLOAD = pod_ref(), workload_ref()
EVICTED = Condition(type=names.EVICTED, status="True", reason="Preempted", message="m")
STOP = commands.StopPod(target=POD, reason="r", message="m")
REPORT = commands.ReportPod(target=POD, status="False", reason="r", message="m")
STATUS = commands.WriteWorkloadStatus(target=WORKLOAD, reclaimable={"main": 1})
EVICTION = commands.WriteWorkloadStatus(target=WORKLOAD, conditions=(EVICTED,))


@pytest.mark.parametrize(
    ("command", "builtin", "kueue"),
    [
        (ungate(POD), True, True),
        (STOP, True, True),
        (commands.DeletePod(target=POD), True, True),
        (commands.FinalizePod(target=POD), True, True),
        (commands.KeepPod(target=POD), False, False),
        (REPORT, False, False),
        (create_workload(POD), False, True),
        (STATUS, False, False),
        (EVICTION, False, True),
        (commands.FinalizeWorkload(target=WORKLOAD), False, True),
    ],
)
def test_which(command: AnyCommand, builtin: bool, kueue: bool) -> None:
    assert is_urgent(command, kueue=False) is builtin
    assert is_urgent(command, kueue=True) is kueue


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({}, True),
        ({"reclaimable": None}, False),
        ({"reclaimable": {}}, False),
        ({"conditions": (EVICTED,)}, False),
        ({"clear_admission": True}, False),
        ({"checks": ()}, False),
        ({"requeue": NOT_REQUEUED}, False),
    ],
)
def test_a_count_of_succeeded_pods_waits_for_more(changes: dict[str, Any], waits: bool) -> None:
    assert gathers(replace(STATUS, **changes), kueue=False) is waits
    assert not gathers(replace(STATUS, **changes), kueue=True)
    assert not gathers(STOP, kueue=False)
