"""Executing decisions: a decision in, a verdict out.

Theory. A command says exactly what to write; this module says in which requests, and what the
answers mean. The table of answers is in `verdicts`; commands on pods are in `podwrites`, on
Workloads in `workloadwrites`, on queues in `queuewrites`. Internal commands (`AdmitGroup` ...)
write nothing and do not come here.

    200, 201   applied      409 conflict   read again, then retried   429        retried, paced
    404        obsolete     409 exists     ours: applied, else        5xx        retried
    410        retried                     rejected                   no answer  retried
    403, 400   rejected     422            on the uid: obsolete; a failed test: read again;
                                           findings: rejected

Invariant: wherever an execution is interrupted, executing the decision again ends in the same state
of the cluster; an object with another uid is never touched.
"""

from typing import Final

from actuator import podwrites, queuewrites, workloadwrites
from actuator.kubeapi import KubeApi
from actuator.kubeevents import Emitter
from actuator.verdicts import Verdict, applied, judge
from podgroup.log.events import Decision
from podgroup.model.commands import (
    AdmitGroup,
    ComposeGroup,
    CreateWorkload,
    DeletePod,
    EmitEvent,
    EvictGroup,
    FinalizePod,
    FinalizeWorkload,
    FinishGroup,
    KeepPod,
    MarkInUse,
    ReleaseQuota,
    ReplaceNodes,
    ReportPod,
    ReportQueue,
    ResizeGroup,
    StopPod,
    UngatePod,
    UpdateWorkload,
    WriteQueueStatus,
    WriteWorkloadStatus,
)

QUICK_TRIES: Final = 5
"""Tries in a row, without a pause, when an object changed between our read and our write."""


async def execute(api: KubeApi, emitter: Emitter, decision: Decision) -> Verdict:
    """Carry out a decision once.

    The Events of a command that was carried out are handed to `emitter`, which sends them in its
    own time.
    """
    verdict = await _once(api, emitter, decision)
    for _ in range(QUICK_TRIES - 1):
        if not verdict.again:
            break
        verdict = await _once(api, emitter, decision)
    # A pod that was to be stopped and has gone by itself is reported all the same.
    went = isinstance(decision.command, StopPod) and verdict.status == "obsolete"
    if (verdict.status == "applied" or went) and not isinstance(decision.command, EmitEvent):
        await emitter.emit(decision)
    return verdict


async def _once(api: KubeApi, emitter: Emitter, decision: Decision) -> Verdict:
    match decision.command:
        case UngatePod() as command:
            return await podwrites.ungate(api, command)
        case FinalizePod() as command:
            return await podwrites.finalize(api, command)
        case DeletePod() as command:
            return await podwrites.delete(api, command)
        case KeepPod() as command:
            return await podwrites.restore_label(api, command)
        case ReportPod() as command:
            return await podwrites.report(api, command, decision.at)
        case StopPod() as command:
            return await podwrites.stop(api, command, decision.at)
        case CreateWorkload() as command:
            return await workloadwrites.create(api, command, decision.at)
        case UpdateWorkload() as command:
            return await workloadwrites.update(api, command)
        case WriteWorkloadStatus() as command:
            return await workloadwrites.write_status(api, command, decision.at)
        case FinalizeWorkload() as command:
            return await workloadwrites.finalize(api, command)
        case WriteQueueStatus() as command:
            return await queuewrites.write_status(api, command, decision.at)
        case MarkInUse() as command:
            return await queuewrites.mark(api, command)
        case ReportQueue() as command:
            return await queuewrites.report(api, command)
        case EmitEvent():
            return await _emit(emitter, decision)
        case (
            ComposeGroup()
            | AdmitGroup()
            | ResizeGroup()
            | ReplaceNodes()
            | EvictGroup()
            | ReleaseQuota()
            | FinishGroup()
        ):
            raise TypeError(f"{decision.command.action} is internal: it writes nothing")


async def _emit(emitter: Emitter, decision: Decision) -> Verdict:
    verdict = Verdict(status="applied", message="no Events to emit")
    for reply in await emitter.emit_now(decision):
        if reply.there_already:
            verdict = applied(reply, f"{reply.path}: is there already")
            continue
        verdict = judge(reply)
        if verdict.status != "applied":
            return verdict
    return verdict
