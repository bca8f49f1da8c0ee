"""Rules that make a complete group out of pods: composition, as KEP-976 story 2 wants it.

Checks, in this order; the first that fails is the reason the group waits:

1. pods that failed or were deleted before they ran are released, composed or not
2. group name, role hashes and total count are such that a Workload can be made of them
3. pods agree on queue, dialect and size                                 (B1)
4. no foreign Workload has the group's name
5. as many active pods exist as the total says (fast admission: one is enough); groups that declare
   sets or roles have rules of their own (`declared`)
6. surplus pods go: all roles together, by the active order (declared groups: per role, by
   `staffing`)
7. at most 18 roles
8. the priority class exists

Composition is the one pass over all pods of a group. Invariant: once composed, roles and counts
change no more for this Workload.
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from podgroup.commands import (
    ComposeGroup,
    CreateWorkload,
    PodSetSpec,
    PriorityRef,
)
from podgroup.decide.agreeing import disagreement
from podgroup.decide.closing import delete_excess, finalize
from podgroup.decide.context import (
    Deciding,
    group_ref,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.decide.copying import copied_annotations, copied_labels, copy_problem, index_problem
from podgroup.decide.declared import incomplete, placed, pod_sets, undeclared, unfit
from podgroup.decide.malformed import malformed
from podgroup.decide.order import active_key
from podgroup.decide.rule import Line, Rule
from podgroup.decide.sparing import spared
from podgroup.facts import started_before
from podgroup.members import Flag
from podgroup.names import (
    ADMISSION_GATED_BY,
    EVENT_CREATED_WORKLOAD,
    IS_GROUP_WORKLOAD,
    JOB_UID,
    MAX_EXEC_SECONDS,
    MAX_INT32,
    MAX_OWNERS,
    MAX_ROLES,
    PROVREQ_PREFIX,
    SINGLE_PODSET,
    integer,
)
from podgroup.view import Group, Pod

Roles = dict[str, list[Pod]]
"""The pods of each role, oldest first."""


class Problem(NamedTuple):
    """Why a group cannot be composed: a word and a sentence."""

    reason: str
    message: str


def composing(d: Deciding, group: Group) -> None:
    """Compose the group if it can be; else say why not."""
    if group.composition.done or group.ending.finish is not None or not len(d.members(group)):
        return
    _release_inactive(d, group)
    problem = _incomplete(d, group)
    if problem is None:
        roles = _roles(d, group, _drop_surplus(d, group))
        problem = _unfit(d, group, roles)
        if problem is None:
            d.pending(group, "", "")
            if workload_free(group):
                _compose(d, group, roles)
            return
    d.pending(group, *problem)


def _release_inactive(d: Deciding, group: Group) -> None:
    if group.single:
        return
    for uid in d.members(group).listed(Flag.INACTIVE):
        finalize(
            d, group, d.pod(uid), "compose", "InactivePod", "ended before the group was complete"
        )
    for uid in d.members(group).listed(Flag.DELETING):
        if d.pod(uid).terminated:
            why = "ended and deleted before the group was complete"
            finalize(d, group, d.pod(uid), "compose", "InactivePod", why)


def _incomplete(d: Deciding, group: Group) -> Problem | None:
    members = d.members(group)
    if not group.single:
        found = undeclared(d, group) or malformed(d, group) or disagreement(d, group)
        if found is not None:
            return Problem(*found)
        found = index_problem(d, group)
        if found is not None:
            return Problem(*found)
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
    foreign = d.world.workloads.get((group.namespace, group.mirror.name))
    if foreign is not None and group.mirror.workload is None:
        return Problem(
            "WorkloadNameConflict",
            f'A Workload named "{group.mirror.name}" already exists but is not a pod group '
            "workload; this pod group cannot be admitted",
        )
    found = incomplete(d, group) if group.spec.dialect else _too_few(d, group)
    if found is not None:
        return Problem(*found)
    if members.count(Flag.RUNNING) > members.count(Flag.STOPPABLE):
        return Problem(
            "WaitingForPods", f"pods of an earlier run of '{group.name}' are still terminating"
        )
    if members.count(Flag.STOPPABLE) and not started_before(d.world, group):
        # B17: a gate cannot be added to a pod that exists. It runs, and the reason is shown.
        return Problem(
            "RunningUnadmitted",
            "pods are past the gate without an admission that gatelog knows of; "
            "a Workload is made when none of them is left",
        )
    return None


def _too_few(d: Deciding, group: Group) -> Problem | None:
    gone = sum(role.succeeded_gone for role in group.roles.values())
    active = d.members(group).count(Flag.ACTIVE) + gone
    if active >= (1 if group.spec.fast else group.spec.total):
        return None
    return Problem(
        "WaitingForPods",
        f"'{group.name}' group has fewer runnable pods than expected "
        f"(total count {group.spec.total})",
    )


def _unfit(d: Deciding, group: Group, roles: Roles) -> Problem | None:
    clash = copy_problem(d, group)
    if clash is not None:
        return Problem(*clash)
    if group.spec.dialect:
        found = unfit(roles)
        return Problem(*found) if found is not None else _class_problem(d, group)
    if len(roles) > MAX_ROLES:
        return Problem(
            "TooManyRoles",
            f"pod group can't include more than {MAX_ROLES} roles, it has {len(roles)}: "
            "pods count as one role when their requests, ports, selectors, affinity, tolerations "
            "and priority are the same",
        )
    if d.world.mode == "builtin":
        # Role hashes may be of the users' choice, and quota is charged for the first pod of each.
        found = unfit(roles)
        if found is not None:
            return Problem(*found)
    return _class_problem(d, group)


def _drop_surplus(d: Deciding, group: Group) -> frozenset[str]:
    """Delete pods beyond the total; return all that are not to be counted in, by uid.

    One whose write is in flight, or was refused, is deleted later (`staffing`).
    """
    members = d.members(group)
    surplus = members.count(Flag.ACTIVE) - group.spec.total
    if group.single or group.spec.dialect or surplus <= 0:
        return frozenset()
    pods = sorted((d.pod(uid) for uid in members.with_flags(Flag.ACTIVE)), key=active_key)
    beyond = pods[group.spec.total :]
    for pod in beyond:
        if pod.free:
            delete_excess(
                d, group, pod, f"the group wants {group.spec.total} pods, this one is beyond"
            )
    return frozenset(pod.view.uid for pod in beyond)


def _roles(d: Deciding, group: Group, without: AbstractSet[str]) -> Roles:
    roles: Roles = {}
    for uid in d.members(group).with_flags(Flag.ACTIVE):
        if uid in without:
            continue
        pod = d.pod(uid)
        roles.setdefault(pod.role, []).append(pod)
    return {
        name: sorted(roles[name], key=lambda p: (p.view.created_at, p.view.uid))
        for name in sorted(roles, key=lambda n: (n.lower(), n))
    }


def priority_of(d: Deciding, group: Group) -> tuple[int, PriorityRef | None] | None:
    """Return priority and its source, or None when the label names a class that is not there.

    Order: WorkloadPriorityClass of the label; the pods' PriorityClass; the global default of
    lowest value (ties by name); 0.
    """
    if group.spec.priority_class:
        known = d.world.workload_classes.get(group.spec.priority_class)
        if known is None:
            return None
        return known.value, PriorityRef(kind="WorkloadPriorityClass", name=known.name)
    first = d.members(group).first()
    name = d.pod(first).view.priority_class if first else ""
    cls = d.world.classes.get(name) if name else None
    if cls is None and not name:
        defaults = [c for c in d.world.classes.values() if c.global_default]
        cls = min(defaults, key=lambda c: (c.value, c.name), default=None)
    if cls is None:
        return 0, None
    return cls.value, PriorityRef(kind="PriorityClass", name=cls.name)


def _class_problem(d: Deciding, group: Group) -> Problem | None:
    if priority_of(d, group) is not None:
        return None
    return Problem(
        "WorkloadPriorityClassNotFound",
        f'WorkloadPriorityClass "{group.spec.priority_class}" not found',
    )


def _compose(d: Deciding, group: Group, roles: Roles) -> None:
    if not roles:
        return
    if group.spec.dialect:
        sets = pod_sets(group, roles)
        pods = placed(sets, roles)
    else:
        sets = _by_shape(group, roles)
        pods = [pod for members in roles.values() for pod in members]
    if spared(d.world, group):
        _fix(d, group, sets)
    else:
        create(d, group, sets, pods, _there(group))


def _fix(d: Deciding, group: Group, sets: tuple[PodSetSpec, ...]) -> None:
    """Compose a single pod that does without a Workload."""
    priority, ref = priority_of(d, group) or (0, None)
    d.emit(
        group,
        "compose",
        "GroupComplete",
        _there(group) + "a single pod does without a Workload (queueing.workloads)",
        ComposeGroup(target=group_ref(group), pod_sets=sets, priority=priority, priority_ref=ref),
    )


def create(
    d: Deciding, group: Group, sets: tuple[PodSetSpec, ...], pods: list[Pod], why: str
) -> None:
    """Decide that the Workload is made of `sets`, owned by the first of `pods`; there is one."""
    found = priority_of(d, group)
    priority, ref = found if found is not None else (0, None)
    first = d.members(group).first()
    lead = d.pod(first) if first else pods[0]
    d.emit(
        group,
        "compose",
        "GroupComplete",
        why + ", ".join(f"{p.count} x {p.name}" for p in sets),
        CreateWorkload(
            target=workload_ref(group),
            queue=group.spec.queue,
            pod_sets=sets,
            owners=tuple(pod_ref(pod) for pod in pods[:MAX_OWNERS]),
            controller=group.single,
            labels=copied_labels(d, group) | ({JOB_UID: lead.view.uid} if group.single else {}),
            annotations=copied_annotations(d, group) | _annotations(group, lead),
            priority=priority,
            priority_ref=ref,
            max_execution_s=max_execution_s(lead),
            topology=d.world.policy.topology_aware_scheduling,
            events=normal(
                EVENT_CREATED_WORKLOAD,
                f"Created Workload: {group.namespace}/{group.mirror.name}",
                pod_ref(lead),
            ),
        ),
    )


def _there(group: Group) -> str:
    if group.spec.dialect:
        return "what has to come first is there: "
    return "the pod is there: " if group.single else f"all {group.spec.total} pods are there: "


def _by_shape(group: Group, roles: dict[str, list[Pod]]) -> tuple[PodSetSpec, ...]:
    if group.spec.fast:
        name, some = next(iter(roles.items()))
        roles = {name: some}
    return tuple(
        PodSetSpec(
            name=SINGLE_PODSET if group.single else name.lower(),
            count=group.spec.total if group.spec.fast else len(some),
            sample=pod_ref(some[0]),
            requests=some[0].view.requests,
        )
        for name, some in roles.items()
    )


def _annotations(group: Group, lead: Pod) -> dict[str, str]:
    chosen = {
        key: value for key, value in lead.view.annotations.items() if key.startswith(PROVREQ_PREFIX)
    }
    gated_by = lead.view.annotations.get(ADMISSION_GATED_BY)
    if gated_by:
        chosen[ADMISSION_GATED_BY] = gated_by
    if not group.single:
        chosen[IS_GROUP_WORKLOAD] = "true"
    return chosen


def max_execution_s(lead: Pod) -> int | None:
    """Return the bound on execution that a pod asks for, None for none or one that is no bound."""
    text = lead.view.labels.get(MAX_EXEC_SECONDS, "")
    found = integer(text) or 0
    return found if 0 < found <= MAX_INT32 else None


COMPOSE = Rule(
    run=composing,
    says=(
        Line(
            "compose",
            "all pods of a group are there",
            "fixes roles and counts, creates the Workload (a single pod may do without: "
            "`queueing.workloads`)",
        ),
    ),
)
