"""Taking our finalizer off a pod.

Invariant: it comes off only when nothing about the pod is still to be counted, and it runs no more.
"""

from podgroup.model.commands import FinalizePod
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.timing import may_run
from podgroup.state.group import Group
from podgroup.state.pod import Pod


def finalize(
    ctx: RuleContext, group: Group, pod: Pod, rule: str, reason: str, message: str
) -> Conclusions:
    """Decide that a pod loses our finalizer, if it has it and nothing is in flight.

    One that may run keeps it until it has ended, or its kubelet does not answer any more. (Not in
    kueue mode, where the books are Kueue's, and so is the custom.)
    """
    if ctx.world.mode != "kueue" and may_run(ctx, pod):
        return
    if pod.held and pod.free:
        yield ctx.decision(group, rule, reason, message, FinalizePod(target=pod_ref(pod)))
