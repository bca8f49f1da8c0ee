"""Places of a role: how many there are, and how many are not taken.

Per role with count n, A active and I inactive pods (terms of KEP-976 "Retrying Failed Pods"):

    replaced  A + I - n inactive pods, at most I: released, failed first (B20)
    absent    n - A: while positive the group is short of pods

In groups that declare sets or roles, whose pods may come one by one while it runs, n is the most
places that were taken at once.

Invariant: nothing is changed here.
"""

from podgroup.model.policy import Policy
from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group, Role
from podgroup.state.members import Flag


def staffed(group: Group) -> bool:
    """Tell whether a group has roles whose places are to be kept filled."""
    composed = group.composition.done and not group.single
    return composed and group.ending.finish is None and not group.mirror.lost


def places(group: Group, role: Role) -> int:
    """Return how many places a role has; in a group that declares roles, how many were taken."""
    return max(role.need, role.peak) if group.spec.dialect else role.count


def absent(ctx: RuleContext, group: Group) -> int:
    """Return how many pods are missing; with fast admission a role with any pod is complete."""
    if group.spec.owner:
        return 0  # the controller that owns the pods creates them again by itself
    members = ctx.members(group)
    missing = 0
    for name, role in group.roles.items():
        active = members.count(Flag.ACTIVE, name) + role.succeeded_gone
        if group.spec.dialect:
            missing += max(0, places(group, role) - active) if role.count else 0
        elif group.spec.fast:
            missing += 1 if role.count and not active else 0
        else:
            missing += max(0, role.count - active)
    return missing


def ends_deserted(policy: Policy) -> bool:
    """Tell whether a group whose pods were all deleted ends by itself."""
    return bool(policy.deleted_group_timeout_s) and policy.compatibility != "kueue"


def deserted(ctx: RuleContext, group: Group) -> bool:
    """Tell whether all pods of a group were deleted or succeeded, none may run, and none came back.

    Never true of a serving group.
    """
    members = ctx.members(group)
    if not members.count(Flag.DELETING) or members.count(Flag.LIVE) or members.count(Flag.GATED):
        return False
    if group.spec.serving or not staffed(group) or not absent(ctx, group):
        return False
    if len(members) - members.count(Flag.DELETING) > members.count(Flag.SUCCEEDED):
        return False  # the pass over the pods waits until nearly all are deleted
    pods = map(ctx.pod, members.flags)
    return all(pod.deleting or pod.view.phase == "Succeeded" for pod in pods)


def idle(ctx: RuleContext, group: Group) -> str:
    """Say that a group holds quota while none of its pods runs or can run; "" if that is not so.

    Its pods ended without success, and no other pods have their places.
    """
    members = ctx.members(group)
    if not members.count(Flag.FAILED) or members.count(Flag.LIVE) or not staffed(group):
        return ""
    missing = absent(ctx, group)
    if not missing or members.count(Flag.ACTIVE) > members.count(Flag.SUCCEEDED):
        return ""
    pods = "1 pod" if missing == 1 else f"{missing} pods"
    said = f"holds quota and runs nothing: {pods} ended without success, to be replaced"
    policy = ctx.world.policy
    if ctx.world.mode == "builtin" and ends_deserted(policy) and deserted(ctx, group):
        said += (
            f"; all were deleted: without others it ends {policy.deleted_group_timeout_s} s later"
        )
    return said
