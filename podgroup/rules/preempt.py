"""Rule: a group of higher priority has no room; those of lower priority that must go are evicted.

It is run by `admit`, whose verdicts say which.

Invariant: words are those of Kueue; who is meant is named for the ledger.
"""

from podgroup.admission.scheduler import Scheduler
from podgroup.admission.verdicts import PreemptionVerdict
from podgroup.admission.wording import PREEMPTION_WHY, preempted
from podgroup.commands import EvictGroup
from podgroup.events import Decision
from podgroup.names import EVICTED_PREEMPTED
from podgroup.rules.helpers.context import RuleContext, group_ref
from podgroup.rules.helpers.rule import RuleDoc
from podgroup.view import Group


def preempt(
    ctx: RuleContext, scheduler: Scheduler, group: Group, victim: Group, verdict: PreemptionVerdict
) -> Decision:
    """Let a group give way to another: in the words of Kueue, and by name for the ledger."""
    book = scheduler.book
    queue = book.queue_of(book.waiters[group.id])
    path = book.forest.path_text(queue.spec.name) if queue is not None else ""
    uid = group.mirror.workload.uid if group.mirror.workload is not None else group.id
    said = preempted(uid, "", verdict.reason, path, book.forest.path_text(verdict.cluster_queue))
    command = EvictGroup(
        target=group_ref(victim),
        reason=EVICTED_PREEMPTED,
        message=said,
        preempted_by=group.id,
        preemption=verdict.between,
    )
    message = (
        f"Preempted to accommodate {group.namespace}/{group.name} (group {group.id}) of priority "
        f"{group.composition.priority} in {path}, due to {PREEMPTION_WHY[verdict.reason]}"
    )
    return ctx.decision(victim, "preempt", EVICTED_PREEMPTED, message, command)


DOC = RuleDoc(
    "preempt",
    "a group of higher priority has no room",
    "evicts those of lower priority that must go",
)
