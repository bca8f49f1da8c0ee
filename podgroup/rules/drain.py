"""Rule: an admitted group was deactivated, or its queue is drained: it is evicted (builtin mode).

Invariant: a mere reservation goes as soon as its queue is stopped, an admission when it is drained.
"""

from podgroup.model.names import (
    EVICTED_CLUSTER_QUEUE_STOPPED,
    EVICTED_DEACTIVATED,
    EVICTED_LOCAL_QUEUE_STOPPED,
)
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.evicting import evict_group
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.wording import because_of
from podgroup.state.facts import local_queue_of
from podgroup.state.group import Group


def drain(ctx: RuleContext, group: Group) -> Conclusions:
    """Evict an admitted group that was deactivated or whose queue was drained."""
    holding = group.quota.holding
    if holding is None or group.requeueing.evicted is not None or group.ending.finish is not None:
        return ()
    local = local_queue_of(ctx.world, group)
    queue = ctx.world.cluster_queues.get(holding.admission.cluster_queue)
    reason = message = ""
    # A mere reservation goes as soon as its queue is stopped, an admission when it is drained.
    drained = ("HoldAndDrain",) if holding.admitted else ("Hold", "HoldAndDrain")
    if group.mirror.workload is not None and not group.mirror.workload.active:
        reason = EVICTED_DEACTIVATED
        message = because_of("The workload is deactivated", group.mirror.workload.because)
    elif queue is not None and queue.stop_policy in drained:
        reason = EVICTED_CLUSTER_QUEUE_STOPPED
        message = because_of("The ClusterQueue is stopped", queue.because)
    elif local is not None and local.stop_policy in drained:
        reason = EVICTED_LOCAL_QUEUE_STOPPED
        message = because_of("The LocalQueue is stopped", local.because)
    if reason:
        return (evict_group(ctx, group, "drain", reason, message),)
    return ()


RULE = Rule(
    name="drain",
    run=drain,
    mode=BUILTIN,
    docs=(RuleDoc("drain", "the group was deactivated, or its queue is drained", "evicts it"),),
)
