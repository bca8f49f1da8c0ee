"""Evicting a group, and deactivating it until a person sets spec.active of its Workload.

Invariant: a group whose Workload has a write in flight is deactivated after that write.
"""

from podgroup.log.events import Decision
from podgroup.model.commands import EvictGroup, KubeEvent, UpdateWorkload
from podgroup.model.reasons import BY_RULE, effect_of
from podgroup.rules.helpers.context import (
    Conclusions,
    RuleContext,
    group_ref,
    workload_free,
    workload_ref,
)
from podgroup.rules.helpers.no_workload import without_workload
from podgroup.state.group import Group


def deactivate(
    ctx: RuleContext, group: Group, rule: str, reason: str, why: str, event: str = ""
) -> Conclusions:
    """Set spec.active of the Workload to false and evict the group.

    Raises:
        LookupError: the group has no Workload and gets none, so nothing could say that it is
            deactivated.
    """
    if without_workload(ctx.world, group):
        where = (
            "by which key in podgroup/model/keys.py (`workload`), or when in "
            "podgroup/rules/helpers/no_workload.py"
        )
        raise LookupError(f"rule {rule} deactivates a pod without a Workload: say {where}")
    if not workload_free(group):
        return  # the rule decides again once the write in flight was seen
    message = f"The workload is deactivated due to {why}"
    events = (KubeEvent(type="Warning", reason=event, message=message),) if event else ()
    yield ctx.decision(
        group,
        rule,
        reason,
        message,
        UpdateWorkload(target=workload_ref(group), active=False, events=events),
    )
    command = EvictGroup(target=group_ref(group), reason=reason, message=message, told=BY_RULE)
    yield ctx.decision(group, rule, reason, message, command)


def evict_group(
    ctx: RuleContext, group: Group, rule: str, reason: str, message: str, requeue_after_s: int = 0
) -> Decision:
    """Evict the group; it stays out of the queue for `requeue_after_s` seconds at least."""
    return ctx.decision(
        group,
        rule,
        reason,
        message,
        EvictGroup(
            target=group_ref(group),
            reason=reason,
            message=message,
            requeue_after_s=requeue_after_s,
            told=effect_of(reason),
        ),
    )
