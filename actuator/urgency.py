"""Which commands go first: those that start pods or free quota.

All else shows how things stand (conditions, status of Workloads and queues, Events) and can wait.
Where Kueue admits, a pod cannot start before its Workload is there, and quota is not free before
the Workload says so; in builtin mode Workloads are a mirror.
"""

from podgroup.model.commands import AnyCommand, Urgency, WriteWorkloadStatus
from podgroup.model.names import EVICTED, FINISHED


def is_urgent(command: AnyCommand, *, kueue: bool) -> bool:
    """Tell whether a command goes first; `kueue`: Kueue admits."""
    if command.about.urgency is Urgency.ALWAYS or not kueue:
        return command.about.urgency is Urgency.ALWAYS
    if isinstance(command, WriteWorkloadStatus):
        ends = any(condition.type in (EVICTED, FINISHED) for condition in command.conditions)
        return command.clear_admission or ends
    return command.about.urgency is Urgency.BESIDE_KUEUE
