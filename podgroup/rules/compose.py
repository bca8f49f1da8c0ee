"""Rule: a group has all its pods: roles and counts are fixed, and the Workload is created.

In builtin mode the Workload is decided on after admission (`CREATE`), so that it is created with
its status: that saves one of two writes of a single pod (a third of what it costs the API server).
Beside Kueue the Workload comes first, since admission waits for it.

Pods that failed or were deleted before they ran are released, whether the group is composed or not.
Then the group says what is missing or wrong (`helpers.completeness`); excess pods go, all roles
together, by the active order (declared groups: per role, by `excess`); KEP-976 story 2.

A complete group without a Workload gets it later. Creating it may be refused (a name that is taken,
a sample pod that went away, a kind that was not served for a while), and a Workload may come and go
while no watch runs. Builtin admission does not wait for the Workload, so the group may hold quota
by then: its roles and counts stay as they were composed. A group without quota is composed anew if
no Workload can be created for it. While the Workload is refused the group says so (`explain`,
`report`), and each try comes later than the last.

Composition alone passes over all pods of a group. Invariant: once composed, roles and counts stay
for this Workload.
"""

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from podgroup.log.events import Decision
from podgroup.log.records import Reopened
from podgroup.model.commands import ComposeGroup, CreateWorkload, ObjectRef, PodSetSpec
from podgroup.model.names import (
    ADMISSION_GATED_BY,
    EVENT_CREATED_WORKLOAD,
    IS_GROUP_WORKLOAD,
    JOB_UID,
    MAX_OWNERS,
    PROVREQ_PREFIX,
    SINGLE_PODSET,
    STATEFUL_SET,
)
from podgroup.model.topology import NOTHING_ASKED, TopologyRequest, requested
from podgroup.rules.dissolve import no_pods_left
from podgroup.rules.excess import delete_excess
from podgroup.rules.helpers.completeness import Roles, find_missing, find_unfit
from podgroup.rules.helpers.context import (
    Concluding,
    Conclusions,
    RuleContext,
    group_ref,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.rules.helpers.copying import copied_annotations, copied_labels
from podgroup.rules.helpers.declared import placed, pod_sets
from podgroup.rules.helpers.gating import gated_by
from podgroup.rules.helpers.leading import max_execution_s, priority_of
from podgroup.rules.helpers.no_workload import without_workload
from podgroup.rules.helpers.order import active_key
from podgroup.rules.helpers.releasing import finalize
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.mirror import first_status
from podgroup.state.facts import follows_owner, pods_of, set_named
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod


def compose(ctx: RuleContext, group: Group) -> Conclusions:
    """Compose the group if that is possible; else say why not."""
    if group.composition.done or group.ending.finish is not None or not len(ctx.members(group)):
        return ()
    return _compose_what_is_there(ctx, group)


def _compose_what_is_there(ctx: RuleContext, group: Group) -> Conclusions:
    yield from _release_inactive(ctx, group)
    problem = yield from find_missing(ctx, group)
    if problem is None:
        roles = _roles(ctx, group, (yield from _drop_excess(ctx, group)))
        problem = find_unfit(ctx, group, roles)
        if problem is None:
            yield from ctx.pending(group, "", "")
            if workload_free(group):
                yield from _compose(ctx, group, roles)
            return
    yield from ctx.pending(group, *problem)


def _release_inactive(ctx: RuleContext, group: Group) -> Conclusions:
    if group.single:
        return
    for uid in ctx.members(group).listed(Flag.INACTIVE):
        yield from finalize(
            ctx,
            group,
            ctx.pod(uid),
            "compose",
            "InactivePod",
            "ended before the group was complete",
        )
    for uid in ctx.members(group).listed(Flag.DELETING):
        if ctx.pod(uid).terminated:
            why = "ended and deleted before the group was complete"
            yield from finalize(ctx, group, ctx.pod(uid), "compose", "InactivePod", why)


def _drop_excess(ctx: RuleContext, group: Group) -> Concluding[frozenset[str]]:
    """Delete pods beyond the total; return the uids of all pods beyond it.

    A pod whose write is in flight, or was refused, is deleted later (`excess`).
    """
    members = ctx.members(group)
    excess = members.count(Flag.ACTIVE) - group.spec.total
    if group.single or group.spec.dialect or excess <= 0:
        return frozenset()
    pods = sorted((ctx.pod(uid) for uid in members.with_flags(Flag.ACTIVE)), key=active_key)
    beyond = pods[group.spec.total :]
    for pod in beyond:
        if pod.free:
            yield delete_excess(
                ctx, group, pod, f"the group wants {group.spec.total} pods, this one is beyond"
            )
    return frozenset(pod.view.uid for pod in beyond)


def _roles(ctx: RuleContext, group: Group, without: AbstractSet[str]) -> Roles:
    roles: Roles = {}
    for uid in ctx.members(group).with_flags(Flag.ACTIVE):
        if uid in without:
            continue
        pod = ctx.pod(uid)
        roles.setdefault(pod.role, []).append(pod)
    return {
        name: sorted(roles[name], key=lambda p: (p.view.created_at, p.view.uid))
        for name in sorted(roles, key=lambda n: (n.lower(), n))
    }


def _compose(ctx: RuleContext, group: Group, roles: Roles) -> Conclusions:
    if not roles:
        return
    if group.spec.dialect:
        sets = pod_sets(ctx, group, roles)
        pods = placed(sets, roles)
    else:
        sets = _by_shape(group, roles)
        pods = [pod for members in roles.values() for pod in members]
    sets = tuple(replace(one, topology=_asked(ctx, group, one)) for one in sets)
    if ctx.world.mode == BUILTIN:
        yield _fix(ctx, group, sets)
    else:
        yield create(ctx, group, sets, pods, _there(group))


def _asked(ctx: RuleContext, group: Group, one: PodSetSpec) -> TopologyRequest:
    """Return the topology request of a podset; in kueue mode none, as Kueue reads it itself."""
    if ctx.world.mode == "kueue" or not ctx.world.policy.topology_aware_scheduling:
        return NOTHING_ASKED
    if one.sample is not None:
        return requested(ctx.pod(one.sample.uid).view.annotations)
    declared = set_named(group, one.name)
    return declared.topology if declared is not None else NOTHING_ASKED


def _fix(ctx: RuleContext, group: Group, sets: tuple[PodSetSpec, ...]) -> Decision:
    """Compose a group whose Workload comes later, or a single pod that needs no Workload."""
    priority, ref = priority_of(ctx, group) or (0, None)
    none = without_workload(ctx.world, group)
    return ctx.decision(
        group,
        "compose",
        "GroupComplete",
        _there(group)
        + (
            "a single pod does without a Workload (queueing.workloads)"
            if none
            else ", ".join(_named(ctx, group, one) for one in sets)
        ),
        ComposeGroup(target=group_ref(group), pod_sets=sets, priority=priority, priority_ref=ref),
    )


def create(
    ctx: RuleContext, group: Group, sets: tuple[PodSetSpec, ...], pods: list[Pod], why: str
) -> Decision:
    """Decide to create the Workload, of `sets`, owned by the first of `pods` (one at least)."""
    found = priority_of(ctx, group)
    priority, ref = found if found is not None else (0, None)
    first = ctx.members(group).first()
    lead = ctx.pod(first) if first else pods[0]
    return ctx.decision(
        group,
        "compose",
        "GroupComplete",
        why + ", ".join(_named(ctx, group, one) for one in sets),
        CreateWorkload(
            target=workload_ref(group),
            queue=group.spec.queue,
            pod_sets=sets,
            owners=_owners(ctx, group, lead) or tuple(pod_ref(pod) for pod in pods[:MAX_OWNERS]),
            controller=group.single,
            labels=copied_labels(ctx, group) | ({JOB_UID: lead.view.uid} if group.single else {}),
            annotations=copied_annotations(ctx, group) | _annotations(ctx, group, lead),
            priority=priority,
            priority_ref=ref,
            max_execution_s=max_execution_s(lead),
            topology=ctx.world.policy.topology_aware_scheduling,
            status=first_status(ctx, group),
            trim=ctx.world.mode == BUILTIN,
            events=normal(
                EVENT_CREATED_WORKLOAD,
                f"Created Workload: {group.namespace}/{group.mirror.name}",
                pod_ref(lead),
            ),
        ),
    )


def _owners(ctx: RuleContext, group: Group, lead: Pod) -> tuple[ObjectRef, ...]:
    """Return the StatefulSet of the pods, where the group outlives its pods; () elsewhere."""
    if not follows_owner(ctx.world, group):
        return ()
    return tuple(
        ObjectRef(kind=one.kind, namespace=group.namespace, name=one.name, uid=one.uid)
        for one in lead.view.owners
        if one.controller and one.kind == STATEFUL_SET
    )


def _there(group: Group) -> str:
    if group.spec.dialect:
        return "what has to come first is there: "
    return "the pod is there: " if group.single else f"all {group.spec.total} pods are there: "


def _named(ctx: RuleContext, group: Group, one: PodSetSpec) -> str:
    sample = one.sample.uid if one.sample is not None else ""
    return pods_of(ctx.world, group, one.name, one.count, sample)


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


def _annotations(ctx: RuleContext, group: Group, lead: Pod) -> dict[str, str]:
    chosen = {
        key: value for key, value in lead.view.annotations.items() if key.startswith(PROVREQ_PREFIX)
    }
    by = gated_by(ctx.world, group)
    if by and not group.spec.prebuilt:
        chosen[ADMISSION_GATED_BY] = by
    if not group.single:
        chosen[IS_GROUP_WORKLOAD] = "true"
    return chosen


def restore(ctx: RuleContext, group: Group) -> Conclusions:
    """Create the Workload of a complete group that has none, or compose the group anew."""
    if not group.composition.done or group.mirror.workload is not None or group.mirror.lost:
        return ()
    if group.ending.finish is not None or group.spec.prebuilt or not workload_free(group):
        return ()
    if "Workload" in ctx.world.meta.missing or not len(ctx.members(group)):
        return ()
    if without_workload(ctx.world, group):
        return ()
    return _restore(ctx, group)


def _restore(ctx: RuleContext, group: Group) -> Conclusions:
    foreign = (group.namespace, group.mirror.name) in ctx.world.workloads
    pods = {} if foreign else _pods(ctx, group)
    sets = _pod_sets(group, pods)
    if sets:
        everyone = [pod for name in pods for pod in pods[name]]
        fresh = group.composition.complete_at == ctx.here.at
        why = _there(group) if fresh else "the Workload is missing and made again: "
        yield create(ctx, group, sets, everyone, why)
        return
    if group.quota.holding is not None and not foreign and not any(pods.values()):
        yield no_pods_left(ctx, group)
    if group.quota.holding is None:
        # Composing anew also says why there can be no Workload, if that is so.
        yield Reopened(group.id)


def _pods(ctx: RuleContext, group: Group) -> dict[str, list[Pod]]:
    """Return the active pods of roles that have places, in the order in which they keep them."""
    found: dict[str, list[Pod]] = {name: [] for name, r in group.roles.items() if r.count}
    for uid in ctx.members(group).with_flags(Flag.ACTIVE):
        pod = ctx.pod(uid)
        if pod.role in found:
            found[pod.role].append(pod)
    return {
        name: sorted(found[name], key=active_key)[: group.roles[name].count]
        for name in sorted(found, key=lambda n: (n.lower(), n))
    }


def _pod_sets(group: Group, pods: dict[str, list[Pod]]) -> tuple[PodSetSpec, ...]:
    """Return the podsets as they were composed; () if no pod shows the shape of a podset."""
    found = []
    for name, some in pods.items():
        role, declared = group.roles[name], set_named(group, name)
        template = declared.template if declared is not None else ""
        if not some and not template:
            return ()
        found.append(
            PodSetSpec(
                name=SINGLE_PODSET if group.single else name.lower(),
                count=role.count,
                requests=dict(role.requests),
                topology=role.topology,
                sample=None if template else pod_ref(some[0]),
                template=template,
            )
        )
    return tuple(found) if any(pods.values()) else ()


RESTORE = Rule(
    name="compose",
    run=restore,
    docs=(
        RuleDoc(
            "compose",
            "a complete group has no Workload",
            "creates it again, or composes the group anew if it holds no quota",
        ),
    ),
)


RULE = Rule(
    name="compose",
    run=compose,
    docs=(
        RuleDoc(
            "compose",
            "all pods of a group are there",
            "fixes roles and counts, creates the Workload (`queueing.workloads`)",
        ),
    ),
)


CREATE = Rule(name="compose", run=restore, mode=BUILTIN)
"""Creates the Workload of a group that was composed just now, after admission."""
