"""Rule about admission checks: messages of pending checks are written to the waiting pods.

While quota is reserved and checks are pending, one Event per pod names each check that has a
message, and again when the messages change. Large groups have the Event on their first pods, as
with other reasons.

Invariant: the same messages are written once per reservation.
"""

from podgroup.log.records import ChecksReported
from podgroup.model.commands import EmitEvent, KubeEvent
from podgroup.model.names import EVENT_UPDATED_ADMISSION_CHECK
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.order import start_key
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.state.group import Group
from podgroup.state.members import Flag

MAX_PODS = 50


def check(ctx: RuleContext, group: Group) -> Conclusions:
    """Report the messages of pending admission checks."""
    text = _pending(group)
    if text == group.mirror.checks_told:
        return ()
    return _check(ctx, group, text)


def _check(ctx: RuleContext, group: Group, text: str) -> Conclusions:
    yield ChecksReported(group.id, text)
    if not text:
        return
    pods = sorted(
        (ctx.pod(uid) for uid in ctx.members(group).with_flags(Flag.GATED)), key=start_key
    )
    if not pods:
        return
    yield ctx.decision(
        group,
        "check",
        EVENT_UPDATED_ADMISSION_CHECK,
        text,
        EmitEvent(
            target=pod_ref(pods[0]),
            events=tuple(
                KubeEvent(
                    type="Normal",
                    reason=EVENT_UPDATED_ADMISSION_CHECK,
                    message=text,
                    on=pod_ref(pod),
                )
                for pod in pods[:MAX_PODS]
            ),
        ),
    )


def _pending(group: Group) -> str:
    workload = group.mirror.workload
    if workload is None or not workload.cluster_queue or group.requeueing.evicted is not None:
        return ""
    if group.ending.finish is not None or (
        group.quota.holding is not None and group.quota.holding.admitted
    ):
        return ""
    return "; ".join(
        f"{check.name}: {check.message}"
        for check in workload.checks
        if check.state == "Pending" and check.message
    )


RULE = Rule(
    name="check",
    run=check,
    docs=(
        RuleDoc(
            "check",
            "quota is reserved, admission checks are pending",
            "writes an Event on the waiting pods",
        ),
    ),
)
