"""Rule: the group has ended: all pods lose our finalizers, and the Workload once it says Finished.

Invariant: the Workload goes last.
"""

from podgroup.model.commands import FinalizeWorkload
from podgroup.model.names import EVENT_FINISHED_WORKLOAD, WORKLOAD_FINALIZER
from podgroup.rules.helpers.context import (
    Conclusions,
    RuleContext,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.rules.helpers.releasing import finalize
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.state.changes import WINDS_UP
from podgroup.state.facts import follows_owner
from podgroup.state.group import Finish, Group
from podgroup.state.members import Flag


def release(ctx: RuleContext, group: Group) -> Conclusions:
    """Release the pods of a finished group; the Workload last, once it says Finished."""
    finish = group.ending.finish
    if finish is None:
        return ()
    return _release(ctx, group, finish)


def _release(ctx: RuleContext, group: Group, finish: Finish) -> Conclusions:
    held = ctx.members(group).listed(Flag.HELD)
    if held:
        message = f"the group is over: {finish.message}"
        for uid in held:
            yield from finalize(ctx, group, ctx.pod(uid), "release", finish.reason, message)
    workload = group.mirror.workload
    if workload is not None and (finish.written or workload.deleted_at is not None):
        yield from release_workload(ctx, group, finish.reason)


def release_workload(ctx: RuleContext, group: Group, reason: str) -> Conclusions:
    """Take our finalizer off the Workload, if it is there."""
    workload = group.mirror.workload
    if workload is None or WORKLOAD_FINALIZER not in workload.finalizers:
        return
    if not workload_free(group):
        return
    text = f"Workload '{group.namespace}/{group.mirror.name}' is declared finished"
    first = ctx.members(group).first()
    event = normal(EVENT_FINISHED_WORKLOAD, text, pod_ref(ctx.pod(first))) if first else ()
    yield ctx.decision(
        group,
        "release",
        reason,
        "nothing is left to account for",
        FinalizeWorkload(
            target=workload_ref(group),
            delete=follows_owner(ctx.world, group),
            events=event if group.ending.finish is not None else (),
        ),
    )


RULE = Rule(
    name="release",
    run=release,
    parked=True,
    reads=WINDS_UP,
    docs=(RuleDoc("release", "the group is over", "takes our finalizers off pods and Workload"),),
)
