"""The order of commands: those that start pods or free quota go first; some wait to be merged.

Commands that end pods have a flow of their own beside their namespace's, and pass reports on the
same pod: otherwise a pod that is slow to write to would keep quota that others wait for.

All other commands report states (conditions, status of Workloads and queues, Events) and can wait.
Where Kueue admits, a pod cannot start before its Workload is there, and quota is not free before
the Workload says so; in builtin mode Workloads are a mirror.
"""

from typing import Final

from podgroup.model.commands import (
    AnyCommand,
    DeletePod,
    FinalizePod,
    ReportPod,
    StopPod,
    Urgency,
    WriteWorkloadStatus,
)
from podgroup.model.names import EVICTED, FINISHED

GATHER_S: Final = 1.0
"""Seconds that a count of succeeded pods waits. The projector has one write of a Workload in flight
and says what happens meanwhile in the next: 2 writes in place of 10 for 10 pods that end within a
second (bench/NOTES.md). A kubelet looks at its containers as often."""


def is_urgent(command: AnyCommand, *, kueue: bool) -> bool:
    """Return whether a command goes first; `kueue`: Kueue admits."""
    if command.about.urgency is Urgency.ALWAYS or not kueue:
        return command.about.urgency is Urgency.ALWAYS
    if isinstance(command, WriteWorkloadStatus):
        ends = any(condition.type in (EVICTED, FINISHED) for condition in command.conditions)
        return command.clear_admission or ends
    return command.about.urgency is Urgency.BESIDE_KUEUE


def ends(command: AnyCommand) -> bool:
    """Return whether a command ends a pod, or releases a pod that has ended."""
    return isinstance(command, StopPod | DeletePod | FinalizePod)


def reports(command: AnyCommand) -> bool:
    """Return whether a command only reports on a pod: commands that end the pod pass it."""
    return isinstance(command, ReportPod)


def flow(command: AnyCommand) -> str:
    """Return the flow that a command's requests belong to (`fairqueue`)."""
    namespace = command.target.namespace
    return f"{namespace}/ends" if ends(command) else namespace


def gathers(command: AnyCommand, *, kueue: bool) -> bool:
    """Return whether a command only reports how many pods have succeeded, or moved places.

    Later writes to the Workload, such as a deactivation, wait with it; quota does not.
    """
    return (
        not kueue
        and isinstance(command, WriteWorkloadStatus)
        and bool(command.reclaimable)
        and not (command.conditions or command.clear_admission)
        and command.checks is None
        and command.requeue is None
    )
