"""Rule: a single pod is being deleted, or gone, and does not run (any more).

Its Workload is finished, and both are released at once.

Invariant: a pod that runs keeps its quota until it has ended.
"""

from podgroup.model.commands import FinishGroup
from podgroup.model.names import FINISHED_OWNER_NOT_FOUND
from podgroup.rules.disown import withdraw
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import still_running
from podgroup.state.group import Group
from podgroup.state.members import Flag

ORPHAN_MESSAGE = "The workload's owner no longer exists"


def orphan(ctx: RuleContext, group: Group) -> Conclusions:
    """Finish the Workload of a single pod that is being deleted or gone."""
    if not group.single or group.ending.finish is not None:
        return ()
    members = ctx.members(group)
    deleting = members.count(Flag.DELETING)
    gone = not len(members) and group.mirror.workload is not None
    if not deleting and not gone:
        return ()
    return _orphan(ctx, group, deleting)


def _orphan(ctx: RuleContext, group: Group, deleting: int) -> Conclusions:
    members = ctx.members(group)
    if group.departures.left:
        yield from withdraw(ctx, group)
        return
    if deleting and (yield from still_running(ctx, group)):
        return  # the pod runs until it has ended, and keeps its quota
    workload = group.mirror.workload
    if (
        group.requeueing.evicted
        and ctx.world.mode == "kueue"
        and workload
        and workload.cluster_queue
    ):
        return  # the quota is given back first (`mirror`), as Kueue waits for that
    if members.count(Flag.TERMINATED):
        return  # the pod has ended: rule `finish` says how
    yield ctx.decision(
        group,
        "orphan",
        FINISHED_OWNER_NOT_FOUND,
        "the pod is being deleted" if deleting else "the pod is gone",
        FinishGroup(
            target=group_ref(group), reason=FINISHED_OWNER_NOT_FOUND, message=ORPHAN_MESSAGE
        ),
    )


RULE = Rule(
    name="orphan",
    run=orphan,
    parked=True,
    docs=(
        RuleDoc("orphan", "a single pod is being deleted", "finishes its Workload, releases both"),
    ),
)
