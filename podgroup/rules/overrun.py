"""Rule: the maximum execution time is used up, all admissions together: deactivated (builtin mode).

Invariant: the time that counts is the log's own, so a replay ends the same groups.
"""

from datetime import datetime, timedelta

from podgroup.model.names import EVENT_MAX_EXEC_TIME, EVICTED_MAX_EXEC_TIME
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.evicting import deactivate
from podgroup.rules.helpers.readiness import admitted
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.timing import is_over, no_wake
from podgroup.state.changes import WORKLOAD
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
    return _end_if_over(ctx, group, due)


def _end_if_over(ctx: RuleContext, group: Group, due: datetime) -> Conclusions:
    if (yield from is_over(ctx, group, OVERRUN, due)):
        why, event = "exceeding the maximum execution time", EVENT_MAX_EXEC_TIME
        yield from deactivate(ctx, group, "overrun", EVICTED_MAX_EXEC_TIME, why, event=event)


RULE = Rule(
    name="overrun",
    run=overrun,
    mode=BUILTIN,
    reads=WORKLOAD,
    once_admitted=True,
    docs=(RuleDoc("overrun", "the maximum execution time is used up", "deactivates it"),),
)
