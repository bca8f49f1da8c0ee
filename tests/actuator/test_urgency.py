"""What starts pods or frees quota goes first."""

import pytest

from actuator.urgency import is_urgent
from podgroup.model import commands, names
from podgroup.model.commands import AnyCommand
from podgroup.model.objects import Condition
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
