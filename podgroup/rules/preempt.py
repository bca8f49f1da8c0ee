"""Rule: a group of higher priority lacks quota: groups of lower priority are preempted for it.

Rule `admit` runs it, by its verdicts.

Invariant: plain words come first, Kueue's after them; the decision names the preemptor.
"""

from podgroup.admission.scheduler import Scheduler
from podgroup.admission.verdicts import PreemptionVerdict
from podgroup.admission.wording import preempted, preemption_why
from podgroup.log.events import Decision
from podgroup.model import names
from podgroup.model.commands import EvictGroup
from podgroup.model.names import EVICTED_PREEMPTED
from podgroup.model.reasons import effect_of
from podgroup.model.wording import joined
from podgroup.rules.helpers.context import RuleContext, group_ref
from podgroup.rules.helpers.rule import RuleDoc
from podgroup.state.asked import waiter_id
from podgroup.state.group import Composition, Group


def preempt(
    ctx: RuleContext, scheduler: Scheduler, group: Group, victim: Group, verdict: PreemptionVerdict
) -> Decision:
    """Preempt a group for another.

    A reader of the victim may not see other namespaces: a preemptor there is named by the decision,
    and not by its command. The API shows the command's words, and so does the console to users of
    one namespace.
    """
    manager, forest = scheduler.cache.queues, scheduler.cache.objects.forest
    queue = manager.queue_of(manager.waiting[waiter_id(group)])
    path = forest.path_text(queue.spec.name) if queue is not None else ""
    # Before the preemptor has a Workload its uid is Kueue's word for unknown, no id of ours.
    uid = group.mirror.workload.uid if group.mirror.workload is not None else ""
    owner = (ctx.members(group).first() or "") if group.single else ""
    kueues = preempted(uid, owner, verdict.reason, path, forest.path_text(verdict.cluster_queue))
    by = "" if queue is None else queue.spec.name
    over = f"({_right(verdict.reason, by, group.composition, victim.composition)})"
    near = group.namespace == victim.namespace
    who = f"{group.namespace}/{group.name}" if near else "a group of another namespace"
    command = EvictGroup(
        target=group_ref(victim),
        reason=EVICTED_PREEMPTED,
        message=joined(f"preempted by {who} {over}", kueues),
        preempted_by=group.id,
        preemption=verdict.between,
        told=effect_of(EVICTED_PREEMPTED),
    )
    message = (
        f"preempted by {group.namespace}/{group.name} (group {group.id}) {over} in {path}: "
        f"{preemption_why(verdict.reason)}"
    )
    return ctx.decision(victim, "preempt", EVICTED_PREEMPTED, message, command)


def _right(policy: str, queue: str, mine: Composition, theirs: Composition) -> str:
    """Say by what right a group of a ClusterQueue preempts its victim (`PREEMPTION_WHY`)."""
    match policy:
        case names.PREEMPTED_IN_COHORT:  # nominal quota, whatever the priorities are
            return f"reclaims nominal quota for ClusterQueue {queue}"
        case names.PREEMPTED_FAIR_SHARING:
            return f"by Fair Sharing, for ClusterQueue {queue}"
        case _ if mine.priority == theirs.priority:
            return f"priority {mine.priority} both, and queued earlier"
        case _:
            return f"priority {mine.priority} over {theirs.priority}"


DOC = RuleDoc(
    "preempt",
    "a group of higher priority has no room",
    "evicts those of lower priority that must go",
)
