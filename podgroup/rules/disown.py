"""Rule: a pod lost label kueue.x-k8s.io/managed at its gate, and is no longer managed.

Our finalizer comes off, so that the pod can be deleted without us, and an Event says so. Its gate
stays: nothing has admitted the pod. (A running pod without its label stays managed: `keep`.)
A pod that gets the label back is queued again. A pod that a complete list lacks, and that was not
released, may be gone or only without its label: the finalizer comes off if the pod exists. It also
comes off a pod that has ended and loses the label.

Invariant: this and `refuse` alone decide about pods that are members of no group.
"""

from podgroup.log.records import Released
from podgroup.model.commands import FinalizePod, FinalizeWorkload, KubeEvent, ObjectRef
from podgroup.model.names import ADMISSION_GATE, MANAGED_LABEL
from podgroup.model.reasons import UNMANAGED
from podgroup.rules.helpers.context import Conclusions, RuleContext, workload_free, workload_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.report import unmanaged
from podgroup.state.group import Group


def disown(ctx: RuleContext, group: Group) -> Conclusions:
    """Release the pods that lost our label."""
    if not group.departures.disowned:
        return ()
    return _disown(ctx, group)


def _disown(ctx: RuleContext, group: Group) -> Conclusions:
    for uid, name, gated in group.departures.disowned:
        target = ObjectRef(kind="Pod", namespace=group.namespace, name=name, uid=uid)
        message = f"label {MANAGED_LABEL} was removed: gatelog releases this pod"
        if gated:
            message += (
                f". Its gate {ADMISSION_GATE} stays, because nothing has admitted it: put the "
                "label back to have it queued again, or delete the pod"
            )
        event = KubeEvent(
            type="Warning" if gated else "Normal", reason=UNMANAGED, message=message, on=target
        )
        yield ctx.decision(
            group,
            "disown",
            UNMANAGED,
            f"pod {name} is no longer managed",
            FinalizePod(target=target, events=(event,)),
        )
        if gated and uid not in ctx.world.pods:  # rules for members decide about a pod that is back
            yield unmanaged(ctx, group, target, message)
    yield Released(group.id)


def withdraw(ctx: RuleContext, group: Group) -> Conclusions:
    """Delete the Workload of an unmanaged gated pod, so that the pod can be queued anew one day."""
    if workload_free(group):
        yield ctx.decision(
            group,
            "disown",
            "Unmanaged",
            "the pod is no longer managed",
            FinalizeWorkload(target=workload_ref(group), delete=True),
        )


RULE = Rule(
    name="disown",
    run=disown,
    parked=True,
    docs=(
        RuleDoc(
            "disown",
            f"a pod lost the label `{MANAGED_LABEL}` at its gate",
            "removes our finalizer; its gate stays, its place is free",
        ),
    ),
)
