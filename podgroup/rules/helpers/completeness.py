"""What keeps a group from being composed: the first of these that fails is why it waits.

1. a Workload can be made of group name, role hashes and total count
2. pods agree on queue, dialect and size                                 (B1)
3. no foreign Workload has the group's name
4. as many active pods exist as the total says (fast admission: one is enough); groups that declare
   sets or roles have rules of their own (`declared`)
5. at most 18 roles
6. the priority class exists

Invariant: whether a group passes depends on its pods, and not on the order in which they came.
"""

from typing import NamedTuple

from podgroup.model.names import MAX_ROLES
from podgroup.model.reasons import NAMESPACE_TOO_LARGE, POD_TOO_LARGE, RUNNING_UNADMITTED
from podgroup.model.wording import EARLIER_RUN, joined, too_few
from podgroup.rules.helpers.conflicts import find_conflict
from podgroup.rules.helpers.context import Concluding, RuleContext
from podgroup.rules.helpers.copying import copy_problem, index_problem
from podgroup.rules.helpers.declared import incomplete, undeclared, unfit
from podgroup.rules.helpers.malformed import malformed, of_another_group
from podgroup.rules.helpers.topology import topology_problem
from podgroup.state.facts import started_before
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod

Roles = dict[str, list[Pod]]
"""The pods of each role, oldest first."""


class Problem(NamedTuple):
    """Why a group cannot be composed: a word and a sentence."""

    reason: str
    message: str


def find_missing(ctx: RuleContext, group: Group) -> Concluding[Problem | None]:
    """Say what is missing or wrong with a group before its roles are looked at."""
    members = ctx.members(group)
    if members.troubled and (uid := members.least(Flag.CUT)) is not None:
        view = ctx.pod(uid).view
        if view.too_large:
            return Problem(POD_TOO_LARGE, f"pod {view.name}: {view.too_large}")
        return Problem(NAMESPACE_TOO_LARGE, f"pod {view.name}: {view.crowded}")
    if group.single:
        found = of_another_group(ctx, group)
        if found is not None:
            return Problem(*found)
    else:
        found = (
            undeclared(ctx, group)
            or malformed(ctx, group)
            or (yield from find_conflict(ctx, group))
        )
        if found is not None:
            return Problem(*found)
        found = index_problem(ctx, group)
        if found is not None:
            return Problem(*found)
    made = group.mirror.workload
    if made is not None and made.problem and made.deleted_at is None:
        return Problem("BadWorkload", f"Workload {made.name}: {made.problem}")
    if group.spec.prebuilt:
        return Problem(
            "PrebuiltWorkloadNotFound",
            f'the Workload "{group.mirror.name}" that the pods name does not exist, or belongs '
            "to something else",
        )
    if group.mirror.workload is not None:
        return Problem(
            "WorkloadIsGoing", f'the Workload "{group.mirror.name}" is still being deleted'
        )
    foreign = ctx.world.workloads.get((group.namespace, group.mirror.name))
    if foreign is not None and group.mirror.workload is None:
        return Problem(
            "WorkloadNameConflict",
            f'A Workload named "{group.mirror.name}" already exists but is not a pod group '
            "workload; this pod group cannot be admitted",
        )
    found = (yield from incomplete(ctx, group)) if group.spec.dialect else _too_few(ctx, group)
    if found is not None:
        return Problem(*found)
    if members.count(Flag.RUNNING) > members.count(Flag.STOPPABLE):
        return Problem("WaitingForPods", f"{EARLIER_RUN} '{group.name}' are still terminating")
    if members.count(Flag.STOPPABLE) and not started_before(ctx.world, group):
        # B17: a gate cannot be added to a pod that exists. It runs, and the reason is shown.
        return Problem(
            RUNNING_UNADMITTED,
            "pods are past the gate without an admission that gatelog knows of; "
            "a Workload is made when none of them is left",
        )
    return None


def _too_few(ctx: RuleContext, group: Group) -> Problem | None:
    gone = sum(role.succeeded_gone for role in group.roles.values())
    active = ctx.members(group).count(Flag.ACTIVE) + gone
    if active >= (1 if group.spec.fast else group.spec.total):
        return None
    return Problem(
        "WaitingForPods",
        joined(
            too_few(1 if group.spec.fast else group.spec.total),
            f"'{group.name}' group has fewer runnable pods than expected "
            f"(total count {group.spec.total})",
        ),
    )


def find_unfit(ctx: RuleContext, group: Group, roles: Roles) -> Problem | None:
    """Say what is wrong with the roles of a group's pods."""
    clash = copy_problem(ctx, group) or topology_problem(ctx, roles)
    if clash is not None:
        return Problem(*clash)
    if group.spec.dialect:
        found = unfit(roles)
        return Problem(*found) if found is not None else _class_problem(ctx, group)
    if len(roles) > MAX_ROLES:
        return Problem(
            "TooManyRoles",
            f"pod group can't include more than {MAX_ROLES} roles, it has {len(roles)}: "
            "pods count as one role when their requests, ports, selectors, affinity, tolerations "
            "and priority are the same",
        )
    if ctx.world.mode == "builtin":
        # Role hashes may be of the users' choice, and quota is charged for the sample of each.
        found = unfit(roles)
        if found is not None:
            return Problem(*found)
    return _class_problem(ctx, group)


def _class_problem(ctx: RuleContext, group: Group) -> Problem | None:
    name = group.spec.priority_class
    if not name or name in ctx.world.workload_classes:
        return None
    return Problem(
        "WorkloadPriorityClassNotFound",
        f'WorkloadPriorityClass "{group.spec.priority_class}" not found',
    )
