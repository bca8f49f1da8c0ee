"""Rule about running pods that are hidden from the watch: their label is put back (`keep`).

A watch with a label selector no longer shows a pod whose label was removed, as if the pod had
ended. The write that puts the label back can tell: it finds the pod by its uid, or the pod is gone.
Meanwhile the pod stays as it was, and is charged.

A client that removes the label again and again is answered more and more slowly, `CEILING_S` apart
at most, so a fight costs little. History and an Event on the pod record each time.

Invariant: a hidden pod has either a write in flight, or a timer for the next.
"""

from datetime import datetime, timedelta

from podgroup.model.commands import KeepPod, KubeEvent
from podgroup.model.names import MANAGED_LABEL
from podgroup.model.reasons import UNMANAGED
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import fallen_due, no_wake, timer_of
from podgroup.state.facts import KEEP
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod

CEILING_S = 60
LABEL_PUT_BACK = "LabelPutBack"
_MESSAGE = (
    f"label {MANAGED_LABEL} was removed from a pod that runs: gatelog puts it back, and the pod "
    "is charged to its queue until it has ended or is gone"
)


def restore_managed_label(ctx: RuleContext, group: Group) -> Conclusions:
    """Put the label back on running pods that have lost it."""
    if not ctx.members(group).count(Flag.HIDDEN):
        return no_wake(ctx, group, KEEP)
    return _put_back(ctx, group)


def _put_back(ctx: RuleContext, group: Group) -> Conclusions:
    if timer_of(ctx, group, KEEP) is not None:
        return  # constant work per event: nothing is due before
    hidden = map(ctx.pod, ctx.members(group).listed(Flag.HIDDEN))
    for pod in (yield from fallen_due(ctx, group, KEEP, ((pod, _due(pod)) for pod in hidden))):
        event = KubeEvent(type="Warning", reason=LABEL_PUT_BACK, message=_MESSAGE)
        why = f"pod {pod.view.name} is out of sight: it has lost its label, or is gone"
        yield ctx.decision(
            group, "keep", UNMANAGED, why, KeepPod(target=pod_ref(pod), events=(event,))
        )


def _due(pod: Pod) -> datetime:
    hiding = pod.hiding
    assert hiding is not None
    assert hiding.since is not None
    pause_s = min(2 ** (hiding.kept - 1), CEILING_S) if hiding.kept else 0
    return hiding.since + timedelta(seconds=pause_s)


RULE = Rule(
    name="keep",
    run=restore_managed_label,
    parked=True,
    docs=(
        RuleDoc(
            "keep",
            "a running pod lost that label",
            "puts the label back; the pod stays charged",
        ),
    ),
)
