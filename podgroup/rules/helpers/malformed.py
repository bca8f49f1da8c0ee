"""Values of which no Workload can be made: the group's name, its roles, its total count.

The webhook refuses these when the pod is created. Pods that came past the webhook (while it was
away, in a namespace that it does not see, or before it existed) are marked here, before the API
server refuses the Workload with a message that names neither pod nor annotation.

Invariant: a group without a fault here gets a Workload whose name, podset names and counts the
Workload API accepts.
"""

from podgroup.log.dialects import OWNER, ROLES, SETS
from podgroup.model.names import (
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MAX_INT32,
    ROLE_HASH,
    is_dns_label,
    is_dns_subdomain,
)
from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod

SHOWN = 60
"""Characters of a bad value that are shown."""


def malformed(ctx: RuleContext, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) of the first value that cannot be used, None if all can."""
    members = ctx.members(group)
    first = members.first()
    pod = ctx.pod(first) if first else None
    name = pod.view.name if pod else "?"
    if not is_dns_subdomain(group.name):
        return (
            "BadGroupName",
            f"pod {name}: {GROUP_NAME} is {_shown(group.name)}, which can name no Workload: it "
            "must be lower case letters, digits, '-' and '.', at most 253 characters",
        )
    # Declared roles have the names of labels, and not of hashes (`declared`).
    hashed = group.spec.dialect not in (SETS, ROLES, OWNER)
    there = (role for role in group.roles if hashed and members.count(Flag.ACTIVE, role))
    bad = next((role for role in there if not is_dns_label(role)), None)
    if bad is not None:
        sample = next((p for p in by_age(ctx, group) if p.role == bad), pod)
        return (
            "BadRoleHash",
            f"pod {sample.view.name if sample else '?'}: annotation {ROLE_HASH} is "
            f"{_shown(bad)}, which can name no podset: it must be lower case letters, digits "
            "and '-', at most 63 characters; without the annotation gatelog computes it",
        )
    if group.spec.total < 1 and not group.spec.dialect:
        value = pod.view.annotations.get(GROUP_TOTAL_COUNT) if pod else None
        return (
            "BadTotalCount",
            f"pod {name}: annotation {GROUP_TOTAL_COUNT} is {_shown(value)}, "
            f"it must be an integer from 1 to {MAX_INT32}",
        )
    return None


def of_another_group(ctx: RuleContext, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) where a single pod is in a PodGroup of Kubernetes (KEP-4671)."""
    first = ctx.members(group).first()
    view = ctx.pod(first).view if first else None
    if view is None or not view.scheduling_group:
        return None
    return (
        "UnreadPodGroup",
        f"pod {view.name}: spec.schedulingGroup names PodGroup {view.scheduling_group}, which "
        "gatelog does not read: alone the pod would be admitted without the others. Put label "
        f"{GROUP_NAME}: {view.scheduling_group} and annotation {GROUP_TOTAL_COUNT} (its number of "
        "pods) on each pod of the group",
    )


def _shown(value: str | None) -> str:
    return repr(value if value is None or len(value) <= SHOWN else value[:SHOWN] + "...")


def by_age(ctx: RuleContext, group: Group) -> list[Pod]:
    """Return the pods of a group, oldest first, ties broken by uid. A pass over the group."""
    pods = (ctx.pod(uid) for uid in ctx.members(group).flags)
    return sorted(pods, key=lambda p: (p.view.created_at, p.view.uid))
