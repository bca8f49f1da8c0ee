"""Rule: new pods become owners of the group's Workload; a single pod owns its prebuilt Workload.

Invariant: a Workload has at most `names.MAX_OWNERS` owners.
"""

from podgroup.model.commands import UpdateWorkload
from podgroup.model.names import EVENT_OWNER_REFERENCES_ADDED, JOB_UID, MAX_OWNERS
from podgroup.rules.helpers.context import (
    Conclusions,
    RuleContext,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.rules.helpers.order import start_key
from podgroup.rules.helpers.places import staffed
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.state.changes import WORKLOAD
from podgroup.state.facts import follows_owner
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod


def own(ctx: RuleContext, group: Group) -> Conclusions:
    """Make pods owners of the Workload that are not yet."""
    if group.single:
        return _own_prebuilt(ctx, group)
    if Flag.UNOWNED not in ctx.members(group).sets:
        return ()  # mostly: each pod is an owner
    if not staffed(group) or group.mirror.workload is None or not workload_free(group):
        return ()
    if follows_owner(ctx.world, group):
        return ()  # the StatefulSet of the pods owns the Workload
    missing = _missing(ctx, group)
    if not missing:
        return ()
    room = MAX_OWNERS - len(ctx.members(group).owned)
    chosen = sorted(missing, key=start_key)[:room]
    command = UpdateWorkload(
        target=workload_ref(group),
        add_owners=tuple(pod_ref(pod) for pod in chosen),
        events=normal(EVENT_OWNER_REFERENCES_ADDED, f"Added {len(chosen)} owner reference(s)"),
    )
    message = f"{len(chosen)} new pods own the Workload"
    return (ctx.decision(group, "own", "OwnerReferencesAdded", message, command),)


def _own_prebuilt(ctx: RuleContext, group: Group) -> Conclusions:
    first = ctx.members(group).first()
    workload = group.mirror.workload
    if not group.spec.prebuilt or not group.composition.done or group.ending.finish is not None:
        return
    if first is None or workload is None or workload.deleted_at is not None:
        return
    if not workload_free(group):
        return
    if first in workload.owner_uids:
        return
    pod = ctx.pod(first)
    yield ctx.decision(
        group,
        "own",
        "OwnerReferencesAdded",
        f"pod {pod.view.name} controls the Workload made for it",
        UpdateWorkload(
            target=workload_ref(group),
            add_owners=(pod_ref(pod),),
            controller=True,
            labels={JOB_UID: pod.view.uid},
        ),
    )


def lacks_owners(ctx: RuleContext, group: Group) -> bool:
    """Tell whether a pod that has a place is no owner of the Workload yet."""
    if group.mirror.workload is None:
        return True
    return not follows_owner(ctx.world, group) and bool(_missing(ctx, group))


def _missing(ctx: RuleContext, group: Group) -> list[Pod]:
    """Return pods that have places and are no owners, if there is room for more."""
    members = ctx.members(group)
    if Flag.UNOWNED not in members.sets or len(members.owned) >= MAX_OWNERS:
        return []
    return [
        pod
        for pod in (ctx.pod(uid) for uid in members.listed(Flag.UNOWNED))
        if pod.role in group.roles and group.roles[pod.role].count
    ]


RULE = Rule(
    name="own",
    run=own,
    reads=WORKLOAD,
    docs=(RuleDoc("own", "a new pod of an admitted group", "makes it an owner of the Workload"),),
)
