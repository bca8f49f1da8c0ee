"""Rule: a pod is beyond its role's count n, and is deleted.

Solid pods beyond n (active, not on their way out), by the active order, last first. A pod that is
terminating but still bound keeps its place (B4): its successor waits gated instead of being
deleted. In groups that declare sets or roles n is the declared count. Pods of a StatefulSet or
LeaderWorkerSet beyond n stay gated: their controller would create them again.

Invariant: deleting excess never takes a role below its count.
"""

from podgroup.log.events import Decision
from podgroup.model.commands import DeletePod
from podgroup.model.names import EVENT_EXCESS_POD_DELETED
from podgroup.rules.helpers.context import Conclusions, RuleContext, normal, pod_ref, short_grace
from podgroup.rules.helpers.order import active_key
from podgroup.rules.helpers.places import staffed
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.state.facts import pods_of
from podgroup.state.group import Group, Role
from podgroup.state.members import Flag, Members
from podgroup.state.pod import Pod


def excess_again(ctx: RuleContext, group: Group) -> Conclusions:
    """Delete an excess pod again whose deletion was rejected, once the pod has changed."""
    uids = ctx.members(group).listed(Flag.EXCESS)
    return _again(ctx, group, uids) if uids else ()


def _again(ctx: RuleContext, group: Group, uids: list[str]) -> Conclusions:
    for uid in uids:
        pod = ctx.pod(uid)
        if pod.held or not pod.deleting:
            yield delete_excess(ctx, group, pod, "left over after a rejected attempt")


def delete_excess(ctx: RuleContext, group: Group, pod: Pod, why: str) -> Decision:
    """Decide that a pod is beyond the count, and is deleted."""
    return ctx.decision(
        group,
        "excess",
        "ExcessPod",
        f"pod {pod.view.name}: {why}",
        DeletePod(
            target=pod_ref(pod),
            grace_s=short_grace(pod),
            events=normal(EVENT_EXCESS_POD_DELETED, "Excess pod deleted"),
        ),
    )


def excess(ctx: RuleContext, group: Group) -> Conclusions:
    """Delete the pods beyond the count of each role."""
    if not staffed(group) or group.spec.owner:
        return ()  # the owner of the pods would create deleted pods again
    solid = ctx.members(group).count
    for role in group.roles.values():
        if role.count and solid(Flag.SOLID, role.name) > role.count - role.succeeded_gone:
            return _excess_of_all(ctx, group)
    return ()


def _excess_of_all(ctx: RuleContext, group: Group) -> Conclusions:
    members, roles = ctx.members(group), group.roles
    for name in sorted(roles):
        yield from _excess(ctx, group, members, roles[name])


def _excess(ctx: RuleContext, group: Group, members: Members, role: Role) -> Conclusions:
    limit = role.count - role.succeeded_gone
    if not role.count or members.count(Flag.SOLID, role.name) <= limit:
        return
    chosen = sorted((ctx.pod(u) for u in members.with_flags(Flag.SOLID, role.name)), key=active_key)
    pods = pods_of(ctx.world, group, role.name, role.count)
    for pod in chosen[limit:]:
        if pod.free:
            yield delete_excess(ctx, group, pod, f"the group has no more than {pods}")


AGAIN = Rule(
    name="excess",
    run=excess_again,
)


RULE = Rule(
    name="excess",
    run=excess,
    docs=(RuleDoc("excess", "a pod is beyond its role's count", "deletes it"),),
)
