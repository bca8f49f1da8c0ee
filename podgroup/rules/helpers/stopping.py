"""Stopping a pod: it is deleted, with a condition that says why.

Invariant: a pod is stopped once at a time.
"""

from podgroup.log.events import Decision
from podgroup.model.commands import StopPod
from podgroup.model.names import EVENT_STOPPED
from podgroup.rules.helpers.context import RuleContext, normal, pod_ref
from podgroup.state.pod import Pod


def stop_pod(
    ctx: RuleContext,
    pod: Pod,
    rule: str,
    reason: str,
    message: str,
    grace_s: int | None = None,
) -> Decision:
    """Decide that a pod is stopped; `grace_s` is its grace period in seconds, None for its own."""
    return ctx.decision(
        ctx.world.groups[pod.group],
        rule,
        reason,
        f"stop pod {pod.view.name}: {message}",
        StopPod(
            target=pod_ref(pod),
            reason=reason,
            message=message,
            grace_s=grace_s,
            events=normal(EVENT_STOPPED, message),
        ),
    )
