"""What users see on their pods: a condition and an Event that say why a pod waits.

Following the review of KEP-5501: a reason is reported once it has held for 5 s, once per change, in
stable words, and withdrawn when it no longer holds. `PodScheduled` stays the API server's and the
scheduler's; ours is condition gatelog.io/admitted.

Reports, when the timer of a group falls due:
  - the reason the group waits for, to its first `MAX_PODS` pods by age and uid (every pod of a
    group says the same; the others are one `gatelog why` away)
  - to the failed pods of a group that holds quota and runs nothing: that it needs other pods
  - to a gated pod of a role that the admitted Workload does not have: which roles it has (B7)
  - to a gated pod that requests more than its group has declared for its role: how much more
  - to a gated pod of a role whose places are all taken: that it waits for a place (B4)
  - to a gated pod of a group that is over: what it waits for, or that it never starts
  - to pods whose writes the API server refuses, in every state of the group: its answer
  - to the first pod: that the API server refuses the group's Workload (builtin mode)

The Event is Normal while quota or pods are waited for and a Warning when only a person can help.
Invariant: a report is written to a pod only if it differs from the last one.
"""

from datetime import timedelta
from heapq import nsmallest

from podgroup.log.events import Decision
from podgroup.log.records import RecountReported, RefusalReported, Reportable, Reported
from podgroup.model.commands import EmitEvent, KubeEvent, ObjectRef, ReportPod
from podgroup.model.ids import PodUID
from podgroup.model.names import (
    ADMITTED,
    GROUP_TOTAL_COUNT,
)
from podgroup.model.reasons import (
    FLAVOR_NOT_FOUND,
    FLAVORS_AT_ODDS,
    GROUP_IS_OVER,
    LARGER_THAN_DECLARED,
    SCALE_UP_PENDING,
    UNKNOWN_ROLE,
    UNMANAGED,
    WAITING_FOR_PLACE,
    WORKLOAD_REFUSED,
    WRITE_REFUSED,
    reason_of,
)
from podgroup.model.wording import quantity
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.order import start_key
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.wording import growth, refusal, unwritten
from podgroup.state.asked import at_odds
from podgroup.state.devices import uncounted
from podgroup.state.facts import (
    UNPLACED,
    beyond,
    given_name,
    grows,
    pods_of,
    role_of,
    unknown_flavor,
)
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.world import World

HOLD = timedelta(seconds=5)
MAX_PODS = 50


def report(ctx: RuleContext, group: Group) -> Conclusions:
    """Report to a group's users, or set the timer for a later report."""
    key, reporting = _key(ctx, group), group.reporting
    over = reporting.pods and not _waits(group)
    if not (key != reporting.key or reporting.due or over or reporting.recounted is not None):
        if group.mirror.refused == group.mirror.refusal_told:
            return ()
    return _report(ctx, group, key)


def _report(ctx: RuleContext, group: Group, key: str) -> Conclusions:
    if key != group.reporting.key:
        said = None if group.explained.wait is not None and group.ending.finish is None else key
        yield Reportable(group.id, said, ctx.here.at + HOLD if key else None)
    if group.reporting.due:
        yield Reported(group.id)
        for pod, (reason, message) in _reports(ctx, group):
            if pod.reported != (reason, message):
                yield _write_event(ctx, group, pod, reason, message)
    if group.reporting.pods and not _waits(group):
        yield from _take_back(ctx, group, everyone=not key)
    if group.mirror.refused != group.mirror.refusal_told:
        yield from _refused(ctx, group)
    if group.reporting.recounted is not None:
        yield from _recounted(ctx, group, *group.reporting.recounted)
        yield RecountReported(group.id)


def _refused(ctx: RuleContext, group: Group) -> Conclusions:
    """Report to the first pod that its group has no Workload, where the group does not wait."""
    first = ctx.members(group).first()
    yield RefusalReported(group.id)
    if not group.mirror.refused or first is None or ctx.world.mode == "kueue":
        return
    message = (
        f"{refusal(group)}; the group is queued and runs without it, and it is tried again later"
    )
    event = KubeEvent(type="Warning", reason=WORKLOAD_REFUSED, message=message)
    yield ctx.decision(
        group,
        "report",
        WORKLOAD_REFUSED,
        message,
        EmitEvent(target=pod_ref(ctx.pod(first)), events=(event,)),
    )


def _recounted(ctx: RuleContext, group: Group, uid: PodUID, old: str, new: str) -> Conclusions:
    pod = ctx.world.pods.get(uid)
    if pod is None:
        return
    what = "what it declares" if group.spec.dialect else GROUP_TOTAL_COUNT
    message = (
        f"pod {pod.view.name}: {what} was changed from {old} to {new}; "
        f"the group is complete and stays at {group.composition.total}"
    )
    event = KubeEvent(type="Warning", reason="TotalCountChanged", message=message)
    yield ctx.decision(
        group,
        "report",
        "TotalCountChanged",
        message,
        EmitEvent(target=pod_ref(pod), events=(event,)),
    )


def _key(ctx: RuleContext, group: Group) -> str:
    """Return the key of the present report, "" for none: constant work, compared on every event."""
    if _refused_writes(group):
        return group.explained.message
    if group.ending.finish is not None:
        late = ctx.members(group).count(Flag.GATED)
        return f"{late} after {group.ending.finish.reason}" if late else ""
    if group.explained.wait is not None:
        return f"{group.explained.wait.reason}\n{group.explained.wait.message}"
    if _idle(group):
        return group.explained.message
    odd = _odd(ctx, group)
    more = f": {group.quota.reason[0]}" if odd and grows(group) else ""
    return f"{odd} odd{more}" if odd else ""


def _waits(group: Group) -> bool:
    """Tell whether the reports on waiting pods are still true."""
    return group.explained.wait is not None or _idle(group) or _refused_writes(group)


def _refused_writes(group: Group) -> bool:
    """Tell whether writes of pods are refused in a group that does not wait, by rule `explain`."""
    return group.explained.wait is None and group.explained.effect.refused


def _idle(group: Group) -> bool:
    """Tell whether a group holds quota and runs nothing, by rule `explain`."""
    holds = group.quota.holding is not None and group.requeueing.evicted is None
    return holds and group.explained.effect.short


def _odd(ctx: RuleContext, group: Group) -> int:
    """Count gated pods of an admitted group that are not about to start."""
    if group.quota.holding is None or group.requeueing.evicted is not None:
        return 0
    members = ctx.members(group)
    return members.count(Flag.GATED) - members.count(Flag.OPENING)


def _reports(ctx: RuleContext, group: Group) -> list[tuple[Pod, tuple[str, str]]]:
    members = ctx.members(group)
    if _refused_writes(group):
        refused = nsmallest(MAX_PODS, unwritten(ctx, group), key=start_key)
        return [(pod, (WRITE_REFUSED, group.explained.message)) for pod in refused]
    if group.ending.finish is not None:
        gated = (ctx.pod(uid) for uid in members.listed(Flag.GATED))
        chosen = sorted((pod for pod in gated if not pod.deleting), key=start_key)[:MAX_PODS]
        return [(pod, (GROUP_IS_OVER, _over(group, pod))) for pod in chosen]
    wait = group.explained.wait
    if wait is not None:
        pods = [ctx.pod(uid) for uid in members.with_flags(Flag.ACTIVE)]
        chosen = sorted(pods, key=start_key)[:MAX_PODS]
        why = wait.reason, wait.message
        return [(pod, _no_place(ctx, group, pod) or why) for pod in chosen]
    if _idle(group):
        pods = [ctx.pod(uid) for uid in members.listed(Flag.INACTIVE)]
        why = group.explained.reason, group.explained.message
        return [(pod, why) for pod in sorted(pods, key=start_key)[:MAX_PODS]]
    found = []
    for uid in members.listed(Flag.GATED):
        pod = ctx.pod(uid)
        role = group.roles[pod.role]
        if pod.deleting:
            continue
        if not role.count:
            found.append((pod, _unplaced(ctx.world, group, pod)))
        elif unknown := uncounted(ctx.world, group.namespace, pod.view):
            found.append((pod, unknown))
        elif nowhere := _no_node(ctx, group, pod):
            found.append((pod, nowhere))
        elif grows(group):
            found.append((pod, (SCALE_UP_PENDING, growth(group))))
        else:
            text = (
                f"the group has {pods_of(ctx.world, group, pod.role, role.count)} already; "
                "the pod starts when one of them gives up its place"
            )
            found.append((pod, (WAITING_FOR_PLACE, text)))
    return found


def _over(group: Group, pod: Pod) -> str:
    """Say that a group is over, and what becomes of a pod that is still gated."""
    finish = group.ending.finish
    why = f"{finish.reason}: {finish.message}" if finish is not None else ""
    if group.single:
        return f"pod {pod.view.name} never starts ({why}); delete it and make it again"
    return (
        f"group {group.name} is over ({why}); pod {pod.view.name} stays at its gate until every "
        f"pod past its gate and Workload {group.mirror.name} are gone, and is then queued in a "
        "new group of that name"
    )


def _no_place(ctx: RuleContext, group: Group, pod: Pod) -> tuple[str, str] | None:
    """Say that a gated pod has no place in any admission of its composed group; else None."""
    if not group.composition.done or not pod.gated or group.roles[pod.role].count:
        return None
    return _unplaced(ctx.world, group, pod)


def _unplaced(world: World, group: Group, pod: Pod) -> tuple[str, str]:
    """Say why a pod has no place in its group."""
    view, role = pod.view, pod.role.removeprefix(UNPLACED)
    known = ", ".join(pods_of(world, group, n) for n, r in sorted(group.roles.items()) if r.count)
    name = given_name(role, view)
    more = beyond(group, role, view)
    if more:
        amounts = ", ".join(f"{r} {quantity(r, more[r])}" for r in sorted(more))
        return LARGER_THAN_DECLARED, (
            f"pod {view.name} asks for {amounts}, more than its group has declared for "
            f"{pods_of(world, group, role)}, so there is no quota for it; the group has {known}"
        )
    return UNKNOWN_ROLE, (
        f"the Workload {group.mirror.name} has no place for pod {view.name}"
        f"{f' of role {name}' if name else ''}; the group has {known}"
    )


def _no_node(ctx: RuleContext, group: Group, pod: Pod) -> tuple[str, str] | None:
    """Say that no node suits an admitted pod, by the flavors of its admission."""
    assignments = (
        group.quota.holding.admission.assignments if group.quota.holding is not None else ()
    )
    for one in assignments:
        if role_of(group, one.name) != pod.role:
            continue
        name = pod.view.name
        if flavor := unknown_flavor(ctx.world, one):
            said = f"pod {name} is admitted with ResourceFlavor {flavor}, which is not there"
            return FLAVOR_NOT_FOUND, said
        if why := at_odds(ctx.world, one):
            return FLAVORS_AT_ODDS, f"pod {name} is admitted, and no node suits it: {why}"
    return None


def _write_event(ctx: RuleContext, group: Group, pod: Pod, reason: str, message: str) -> Decision:
    known = reason_of(reason)
    kind = "Warning" if known.serious else "Normal"
    event = KubeEvent(type=kind, reason=known.event_name, message=message)
    return ctx.decision(
        group,
        "report",
        reason,
        message,
        ReportPod(
            target=pod_ref(pod), status="False", reason=reason, message=message, events=(event,)
        ),
    )


def _take_back(ctx: RuleContext, group: Group, *, everyone: bool) -> Conclusions:
    """Withdraw the report from pods that have it: from `everyone`, else from ungated pods."""
    holding = group.quota.holding
    if holding is not None and group.requeueing.evicted is not None:
        return  # the next wait is about to be reported
    if holding is not None:
        reason = ADMITTED
        message = f"Admitted by clusterQueue {holding.admission.cluster_queue}"
    elif group.ending.finish is not None:
        reason, message = group.ending.finish.reason, group.ending.finish.message
    else:
        return
    for uid in ctx.members(group).listed(Flag.REPORTED):
        pod = ctx.pod(uid)
        if everyone or not pod.gated:
            yield ctx.decision(
                group,
                "report",
                reason,
                message,
                ReportPod(target=pod_ref(pod), status="True", reason=reason, message=message),
            )


def unmanaged(ctx: RuleContext, group: Group, target: ObjectRef, message: str) -> Decision:
    """Decide to report on a pod that it is not managed."""
    return ctx.decision(
        group,
        "report",
        UNMANAGED,
        message,
        ReportPod(target=target, status="False", reason=UNMANAGED, message=message),
    )


RULE = Rule(
    name="report",
    run=report,
    parked=True,
    docs=(
        RuleDoc(
            "report",
            "a reason has held for 5 s, or holds no longer",
            "writes condition `gatelog.io/admitted` and an Event on the first 50 pods",
        ),
    ),
)
