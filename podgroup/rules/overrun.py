"""Rule: the maximum execution time is used up, all admissions together: deactivated (builtin mode).

Invariant: times are compared with the log's own, so a replay ends the same groups.
"""

from datetime import timedelta

from podgroup.model.names import EVENT_MAX_EXEC_TIME, EVICTED_MAX_EXEC_TIME
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.evicting import deactivate
from podgroup.rules.helpers.readiness import admitted
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.timing import no_wake, wake_at
from podgroup.state.group import Group, QuotaReservation

OVERRUN = "maxexec"


def overrun(ctx: RuleContext, group: Group) -> Conclusions:
    """Deactivate a group that has run for as long as it may."""
    holding = admitted(group)
    return no_wake(ctx, group, OVERRUN) if holding is None else _overrun(ctx, group, holding)


def _overrun(ctx: RuleContext, group: Group, holding: QuotaReservation) -> Conclusions:
    workload = group.mirror.workload
    if workload is None or not workload.max_execution_s:
        return no_wake(ctx, group, OVERRUN)
    begin = holding.admitted_at or holding.at
    due = begin + timedelta(seconds=workload.max_execution_s - group.quota.executed_s)
    if due > ctx.here.at:
        return wake_at(ctx, group, OVERRUN, due)
    why = "exceeding the maximum execution time"
    return deactivate(ctx, group, "overrun", EVICTED_MAX_EXEC_TIME, why, event=EVENT_MAX_EXEC_TIME)


RULE = Rule(
    name="overrun",
    run=overrun,
    mode=BUILTIN,
    once_admitted=True,
    docs=(RuleDoc("overrun", "the maximum execution time is used up", "deactivates it"),),
)
