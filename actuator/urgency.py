"""Which commands go first: those that start pods or free quota.

All else shows how things stand (conditions, status of Workloads and queues, Events) and can wait.
Where Kueue admits, a pod cannot start before its Workload is there, and quota is not free before
the Workload says so; in builtin mode Workloads are a mirror.
"""

from typing import Final

from podgroup.commands import (
    AnyCommand,
    CreateWorkload,
    DeletePod,
    FinalizePod,
    FinalizeWorkload,
    StopPod,
    UngatePod,
    UpdateWorkload,
    WriteWorkloadStatus,
)
from podgroup.names import EVICTED, FINISHED

_ALWAYS: Final = (UngatePod, StopPod, DeletePod, FinalizePod)
_BESIDE_KUEUE: Final = (CreateWorkload, UpdateWorkload, FinalizeWorkload)


def is_urgent(command: AnyCommand, *, kueue: bool) -> bool:
    """Tell whether a command goes first; `kueue`: Kueue admits."""
    if isinstance(command, _ALWAYS):
        return True
    if not kueue:
        return False
    if isinstance(command, WriteWorkloadStatus):
        ends = any(condition.type in (EVICTED, FINISHED) for condition in command.conditions)
        return command.clear_admission or ends
    return isinstance(command, _BESIDE_KUEUE)
