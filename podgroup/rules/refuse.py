"""Rule: a pod cannot be read (an annotation that is too long, a field of another type).

The pod is marked with its fault, once for each fault. A pod that bears our gate or finalizer
without our label gets an Event that says so.

Invariant: a pod bears its fault as long as it has the fault.
"""

from podgroup.log.records import PodRefused
from podgroup.model.commands import EmitEvent, KubeEvent, ObjectRef, ReportPod
from podgroup.model.reasons import UNMANAGED
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import ClusterRule, RuleDoc
from podgroup.state.world import World

REFUSED = "PodRefused"


MAX_MARKED = 50
"""Pods marked after one message of the log at most; the others follow after the next."""


def refuse(ctx: RuleContext) -> Conclusions:
    """Report their fault on pods that cannot be read."""
    meta = ctx.world.meta
    waiting = [uid for uid, refusal in meta.refused.items() if not refusal.reported]
    for uid in waiting[:MAX_MARKED]:
        refusal = meta.refused[uid]
        yield PodRefused("", uid)
        pod = ctx.world.pods.get(uid)
        after = "goes by what it last read of it" if pod is not None else "ignores it"
        if pod is not None and pod.view.unread:
            after = "goes on without what is too long"
        target = ObjectRef(kind="Pod", namespace=refusal.namespace, name=refusal.name, uid=uid)
        if refusal.unlabelled:
            # The status of a pod without our label is not ours to write.
            event = KubeEvent(type="Warning", reason=UNMANAGED, message=refusal.message)
            yield ctx.decision_apart(
                "refuse", UNMANAGED, refusal.message, EmitEvent(target=target, events=(event,))
            )
            continue
        message = (
            f"gatelog cannot read this pod and {after} until the field is fixed: {refusal.message}"
        )
        command = ReportPod(
            target=target,
            status="False",
            reason=REFUSED,
            message=message,
            events=(KubeEvent(type="Warning", reason=REFUSED, message=message),),
        )
        if pod is not None:
            yield ctx.decision(ctx.world.groups[pod.group], "refuse", REFUSED, message, command)
        else:
            yield ctx.decision_apart("refuse", REFUSED, message, command)


def _due(world: World) -> bool:
    return bool(world.meta.unreported)


RULE = ClusterRule(
    name="refuse",
    run=refuse,
    due=_due,
    docs=(
        RuleDoc(
            "refuse",
            "a pod cannot be read, or bears our gate or finalizer without our label",
            "says on the pod what is wrong, once for each thing",
        ),
    ),
)
