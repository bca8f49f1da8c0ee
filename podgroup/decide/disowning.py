"""Rules about pods that are not in our hands: no longer, or not yet.

    disown    a pod lost label kueue.x-k8s.io/managed at its gate: our finalizer comes off, so that
              nothing of ours keeps it when it is deleted, and an Event says so. Its gate stays:
              nothing has admitted it. (What runs without its label stays in our hands: `keeping`.)
    refuse    a pod cannot be read (an annotation that is too long, a field of another type): it is
              marked with what is wrong, once for each thing

A pod that gets the label back is queued again. A pod that a complete list no longer contains, and
that was not released, may be gone or only without its label: the finalizer comes off if it is
there. So it does when a pod that has ended loses the label.

Invariant: these are the only decisions about pods that are members of no group.
"""

from podgroup.commands import FinalizePod, KubeEvent, ObjectRef, ReportPod
from podgroup.decide.context import Deciding
from podgroup.decide.rule import Line, Rule
from podgroup.names import ADMISSION_GATE, MANAGED_LABEL
from podgroup.reasons import UNMANAGED
from podgroup.records import PodRefused, Released
from podgroup.view import Group

REFUSED = "PodRefused"
MAX_MARKED = 50
"""Pods marked after one message of the log at most; the others follow after the next."""


def disowning(d: Deciding, group: Group) -> None:
    """Release the pods that were taken out of our hands."""
    if not group.departures.disowned:
        return
    for uid, name, gated in group.departures.disowned:
        target = ObjectRef(kind="Pod", namespace=group.namespace, name=name, uid=uid)
        message = f"label {MANAGED_LABEL} was removed: gatelog lets go of this pod"
        if gated:
            message += (
                f". Its gate {ADMISSION_GATE} stays, because nothing has admitted it: put the "
                "label back to have it queued again, or delete the pod"
            )
        event = KubeEvent(
            type="Warning" if gated else "Normal", reason=UNMANAGED, message=message, on=target
        )
        d.emit(
            group,
            "disown",
            UNMANAGED,
            f"pod {name} is no longer managed",
            FinalizePod(target=target, events=(event,)),
        )
        if gated and uid not in d.world.pods:  # one that came back is up to the rules for members
            d.emit(
                group,
                "report",
                UNMANAGED,
                message,
                ReportPod(target=target, status="False", reason=UNMANAGED, message=message),
            )
    d.record(Released(group.id))


def tell_refused(d: Deciding) -> None:
    """Tell pods that cannot be read what is wrong with them."""
    meta = d.world.meta
    waiting = [uid for uid, refusal in meta.refused.items() if not refusal.told]
    for uid in waiting[:MAX_MARKED]:
        refusal = meta.refused[uid]
        d.record(PodRefused("", uid))
        pod = d.world.pods.get(uid)
        after = "goes by what it last read of it" if pod is not None else "leaves it alone"
        if pod is not None and pod.view.unread:
            after = "goes on without what is too long"
        message = (
            f"gatelog cannot read this pod and {after} until the field is fixed: {refusal.message}"
        )
        command = ReportPod(
            target=ObjectRef(kind="Pod", namespace=refusal.namespace, name=refusal.name, uid=uid),
            status="False",
            reason=REFUSED,
            message=message,
            events=(KubeEvent(type="Warning", reason=REFUSED, message=message),),
        )
        if pod is not None:
            d.emit(d.world.groups[pod.group], "refuse", REFUSED, message, command)
        else:
            d.emit_apart("refuse", REFUSED, message, command)


DISOWN = Rule(
    run=disowning,
    parked=True,
    says=(
        Line(
            "disown",
            f"a pod lost the label `{MANAGED_LABEL}` at its gate",
            "takes our finalizer off it and says so; its gate stays, its place in the group is "
            "free",
        ),
    ),
)
REFUSE = Line(
    "refuse", "a pod cannot be read", "says on the pod what is wrong, once for each thing"
)
