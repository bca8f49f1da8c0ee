"""Taking our finalizer off a pod.

Invariant: it comes off only a pod that no longer runs, and of which nothing is left to be counted.
"""

from podgroup.model.commands import FinalizePod
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.timing import may_run
from podgroup.state.group import Group
from podgroup.state.pod import Pod


def finalize(
    ctx: RuleContext, group: Group, pod: Pod, rule: str, reason: str, message: str
) -> Conclusions:
    """Decide that a pod loses our finalizer, if it has it and no decision is in flight.

    A pod that may run keeps the finalizer until it has ended, or its kubelet no longer answers.
    (In kueue mode, where Kueue keeps the account, Kueue's custom is followed: at once.)
    """
    if ctx.world.mode != "kueue" and may_run(ctx, pod):
        return
    if pod.held and pod.free:
        yield ctx.decision(group, rule, reason, message, FinalizePod(target=pod_ref(pod)))
