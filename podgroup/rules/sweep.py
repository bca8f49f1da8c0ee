"""Rule: none of a group's pods is left, and its Workload is released.

The Workload's owners are gone, so garbage collection deletes it as soon as our finalizer is off. We
delete it where garbage collection need not: in groups too big for complete owner references (B16),
where an owning pod was taken out of the group and lives on, and where the owner is the StatefulSet
of the pods. While the StatefulSet wants pods the Workload stays: a roll-out of a set of one pod
keeps its quota.

Invariant: no Workload is left behind.
"""

from podgroup.model.commands import FinalizeWorkload
from podgroup.model.names import MAX_OWNERS, WORKLOAD_FINALIZER
from podgroup.rules.helpers.context import Conclusions, RuleContext, workload_free, workload_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.state.changes import WINDS_UP
from podgroup.state.facts import follows_owner, outlasts
from podgroup.state.group import Group


def sweep(ctx: RuleContext, group: Group) -> Conclusions:
    """Release the Workload of a group without pods."""
    workload = group.mirror.workload
    if len(ctx.members(group)) or workload is None or not workload_free(group):
        return ()
    if outlasts(ctx.world, group):
        return ()
    if group.single and not (group.ending.finish is not None and group.ending.finish.written):
        return ()
    lasts = (
        group.composition.total > MAX_OWNERS
        or group.departures.strayed
        or follows_owner(ctx.world, group)
    )
    if WORKLOAD_FINALIZER in workload.finalizers or (lasts and workload.deleted_at is None):
        return (
            ctx.decision(
                group,
                "sweep",
                "NoPodsLeft",
                "no pod of the group is left",
                FinalizeWorkload(target=workload_ref(group), delete=lasts),
            ),
        )
    return ()


RULE = Rule(
    name="sweep",
    run=sweep,
    parked=True,
    reads=WINDS_UP,
    docs=(RuleDoc("sweep", "no pod of the group is left", "releases the Workload"),),
)
