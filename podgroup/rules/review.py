"""Rules about admission checks (builtin mode): from the reservation of quota to the admission.

Theory. A group with a reservation is admitted when all checks that hold for it (`helpers.checks`)
say Ready in its Workload's status. Retry evicts it, for as long as the check says; Rejected
deactivates it. The same holds for groups that are admitted already, but without the checks that the
ClusterQueue names later.

Invariant: no pod starts before all checks that hold for its flavors were ready at the same time.
"""

from collections.abc import Iterable

from podgroup.model.commands import AdmitGroup
from podgroup.model.names import (
    ADMITTED,
    EVENT_CHECK_REJECTED,
    EVICTED_ADMISSION_CHECK,
    EVICTED_CHECK_REJECTED,
)
from podgroup.model.objects import CheckView
from podgroup.rules.helpers.checks import READY, required_checks, states_of
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.evicting import deactivate, evict_group
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.state.changes import WORKLOAD
from podgroup.state.group import Group

RETRY, REJECTED = "Retry", "Rejected"
NONE_ASKED = "none is asked for any more"


def review(ctx: RuleContext, group: Group) -> Conclusions:
    """Admit a group whose checks are ready; evict or deactivate it if a check says so."""
    holding = group.quota.holding
    if holding is None or group.requeueing.evicted is not None or group.ending.finish is not None:
        return ()
    if group.mirror.workload is None or group.mirror.lost:
        return ()
    states = states_of(group)
    admission = holding.admission
    names = required_checks(ctx.world, admission.cluster_queue, admission.assignments)
    if names is None or not (names or states or not holding.admitted):
        return ()
    heard = [states[name] for name in names if name in states]
    rejected = [check for check in heard if check.state == REJECTED]
    if rejected:
        why = f"admission checks that were rejected: {_said(rejected)}"
        return deactivate(
            ctx, group, "review", EVICTED_CHECK_REJECTED, why, event=EVENT_CHECK_REJECTED
        )
    again = [check for check in heard if check.state == RETRY]
    if again:
        after_s = max(check.requeue_after_s for check in again)
        message = f"admission checks want it to be tried again: {_said(again)}"
        return (evict_group(ctx, group, "review", EVICTED_ADMISSION_CHECK, message, after_s),)
    elif not holding.admitted and all(
        name in states and states[name].state == READY for name in names
    ):
        return (
            ctx.decision(
                group,
                "review",
                ADMITTED,
                f"all admission checks are ready: {', '.join(names) or NONE_ASKED}",
                AdmitGroup(
                    target=group_ref(group),
                    cluster_queue=admission.cluster_queue,
                    assignments=admission.assignments,
                ),
            ),
        )
    return ()


def _said(checks: Iterable[CheckView]) -> str:
    return "; ".join(
        f"{check.name}: {check.message}" if check.message else check.name for check in checks
    )


RULE = Rule(
    name="review",
    run=review,
    mode=BUILTIN,
    reads=WORKLOAD,
    docs=(
        RuleDoc("review", "all admission checks are ready", "admits the group"),
        RuleDoc("review", "a check says Retry", "evicts it, for as long as the check says"),
        RuleDoc("review", "a check says Rejected", "deactivates it"),
    ),
)
