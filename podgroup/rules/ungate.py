"""Rule: the group is admitted: gated pods start, oldest first, one per free place of their role.

Invariant: open pods plus pods being ungated never exceed a role's count; in a serving group pods
that may run do not either.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from podgroup.log.events import Decision
from podgroup.model import limits
from podgroup.model.commands import KubeEvent, UngatePod
from podgroup.model.names import (
    ADMISSION_GATE,
    CLUSTER_QUEUE_LABEL,
    EVENT_STARTED,
    LOCAL_QUEUE_LABEL,
    PODSET_LABEL,
    ROLE_HASH,
    SLICE_NAME,
    TOPOLOGY_GATE,
    TOPOLOGY_UNCONSTRAINED,
    WORKLOAD_ANNOTATION,
)
from podgroup.model.objects import Assignment, PodSetUpdate, Toleration
from podgroup.model.topology import LEVEL_ASKED
from podgroup.rules.helpers.context import Concluding, Conclusions, RuleContext, normal, pod_ref
from podgroup.rules.helpers.no_workload import without_workload
from podgroup.rules.helpers.order import start_key
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import given_up_at, may_run, timer_of, wake_at
from podgroup.rules.helpers.topology import selectors_of
from podgroup.state.asked import at_odds
from podgroup.state.devices import uncounted
from podgroup.state.facts import role_of, unknown_flavor
from podgroup.state.group import Group, QuotaReservation, Role
from podgroup.state.members import Flag
from podgroup.state.pod import Pod

SUCCESSOR = "successor"
_ELASTIC = (SLICE_NAME, WORKLOAD_ANNOTATION)
"""Annotations of an earlier slice that give way to those of the admitted slice."""


def ungate(ctx: RuleContext, group: Group) -> Conclusions:
    """Ungate pods of an admitted group that have places."""
    holding = group.quota.holding
    if holding is None or not holding.admitted or group.requeueing.evicted is not None:
        return ()
    if group.ending.finish is not None or group.mirror.lost:
        return ()
    members = ctx.members(group)
    if not members.count(Flag.GATED):
        return ()
    return _start(ctx, group, holding)


def _start(ctx: RuleContext, group: Group, holding: QuotaReservation) -> Conclusions:
    members = ctx.members(group)
    for assignment in holding.admission.assignments:
        role = group.roles.get(role_of(group, assignment.name))
        if role is None or unknown_flavor(ctx.world, assignment):
            continue
        if at_odds(ctx.world, assignment):
            continue
        room = role.count - (yield from _taken(ctx, group, role))
        if room <= 0:
            continue
        waiting = [
            pod
            for pod in map(ctx.pod, members.listed(Flag.GATED, role.name))
            if not pod.deleting
            and not pod.terminated
            # While its devices are unknown a pod stays gated: its claim may exceed its share.
            and uncounted(ctx.world, group.namespace, pod.view) is None
        ]
        if not waiting:
            continue
        queue = holding.admission.cluster_queue
        given = _given(ctx, group, assignment, queue)
        start = sorted(waiting, key=start_key)[:room]
        placed = [pod for pod in start if given.two or TOPOLOGY_GATE not in pod.view.gates]
        if assignment.place is None or not placed:
            selectors = {pod.view.name: given.selector for pod in start}
        else:
            found = selectors_of(ctx, group, role.name, assignment.place, placed)
            theirs = {pod.view.name for pod in placed}
            others = (pod.view.name for pod in start if pod.view.name not in theirs)
            places = {name: {**given.selector, **found[name]} for name in found}
            selectors = {**dict.fromkeys(others, given.selector), **places}
        for pod in start:
            if pod.view.name in selectors:
                yield _ungate(ctx, group, pod, queue, given, selectors[pod.view.name])


def _taken(ctx: RuleContext, group: Group, role: Role) -> Concluding[int]:
    """Return how many places of a role are taken; sets the timer for when the next may be free."""
    members = ctx.members(group)
    opening = members.count(Flag.OPENING, role.name)
    if not group.spec.serving:
        return members.count(Flag.OPEN, role.name) + opening + role.succeeded_gone
    # A terminating pod has given its place up, and may run: its successor waits for its end.
    taken = members.count(Flag.LIVE, role.name) + opening
    if taken < role.count:
        return taken
    ends: list[datetime] = []
    for pod in map(ctx.pod, members.listed(Flag.DELETING, role.name)):
        if not members.flags[pod.view.uid] & Flag.LIVE:
            continue
        at = given_up_at(ctx, pod)
        if at is None:
            continue
        if may_run(ctx, pod):
            ends.append(at)
        else:
            taken -= 1
    if ends and taken >= role.count:
        wish = timer_of(ctx, group, SUCCESSOR)
        # Where the pods' node answers the time moves on with each event: an earlier timer will do.
        if wish is None or wish.due_at > min(ends):
            yield from wake_at(ctx, group, SUCCESSOR, min(ends))
    return taken


class _Given(NamedTuple):
    """What an admission gives every pod of a podset: made once, and in each pod's decision."""

    selector: dict[str, str]
    tolerations: tuple[Toleration, ...]
    labels: dict[str, str]
    annotations: dict[str, str]
    """Without those of `updates`, which come later, after those that depend on the pod."""
    updates: list[PodSetUpdate]
    topology: bool
    """The pods have places; in kueue mode Kueue places started pods, and takes its gate off."""
    two: bool
    """The topology gate is removed as well. Where it stays Kueue places the pods."""
    slice_name: str
    events: tuple[KubeEvent, ...]


def _given(ctx: RuleContext, group: Group, assignment: Assignment, queue: str) -> _Given:
    policy = ctx.world.policy
    kueues = ctx.world.mode == "kueue" and assignment.topology and policy.topology_aware_scheduling
    selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for flavor in dict.fromkeys(assignment.flavors.values()):
        view = ctx.world.flavors.get(flavor)
        if view is not None:
            selector.update(view.node_labels)
            tolerations += [t for t in view.tolerations if t not in tolerations]
    labels = {PODSET_LABEL: assignment.name, LOCAL_QUEUE_LABEL: group.spec.queue}
    if len(queue) <= limits.LABEL_VALUE and "." not in queue:
        labels[CLUSTER_QUEUE_LABEL] = queue
    updates = _updates(group, assignment.name)
    for update in updates:
        labels.update(update.labels)
        selector.update(update.node_selector)
        tolerations += [t for t in update.tolerations if t not in tolerations]
    return _Given(
        selector=selector,
        tolerations=tuple(tolerations),
        labels={key: value for key, value in labels.items() if value},
        annotations={WORKLOAD_ANNOTATION: group.mirror.name}
        if policy.topology_aware_scheduling and not without_workload(ctx.world, group)
        else {},
        updates=updates,
        topology=assignment.place is not None or kueues,
        two=not kueues,
        slice_name=_slice(ctx, group),
        events=normal(EVENT_STARTED, f"Admitted by clusterQueue {queue}"),
    )


def _ungate(
    ctx: RuleContext, group: Group, pod: Pod, queue: str, given: _Given, selector: Mapping[str, str]
) -> Decision:
    view = pod.view
    annotations = dict(given.annotations)
    if not view.role_annotated and not group.single:
        # Ungating changes the shape; the annotation keeps the role even if the log is lost.
        annotations[ROLE_HASH] = view.role if group.spec.dialect else pod.role
    if given.topology and not any(key in view.annotations for key in LEVEL_ASKED):
        annotations[TOPOLOGY_UNCONSTRAINED] = "true"  # Kueue's ungater needs one of three
    if given.slice_name:
        annotations[SLICE_NAME] = given.slice_name
    for update in given.updates:
        annotations.update(update.annotations)
    asked = any(update.labels or update.annotations for update in given.updates)
    two = TOPOLOGY_GATE in view.gates and given.two
    elastic = ctx.world.policy.elastic_jobs and SLICE_NAME in annotations
    return ctx.decision(
        group,
        "ungate",
        "Admitted",
        f"pod {view.name} may start: admitted by ClusterQueue {queue}",
        UngatePod(
            target=pod_ref(pod),
            gates=(ADMISSION_GATE, TOPOLOGY_GATE) if two else (ADMISSION_GATE,),
            node_selector=selector,
            tolerations=given.tolerations,
            labels=given.labels,
            annotations=annotations,
            replaces=_ELASTIC if elastic else (),
            workload=group.mirror.name if asked and ctx.world.mode != "kueue" else "",
            events=given.events,
        ),
    )


def _slice(ctx: RuleContext, group: Group) -> str:
    """Return the slice name of an elastic Workload, "" for any other Workload."""
    if not ctx.world.policy.elastic_jobs or group.mirror.workload is None:
        return ""
    return group.mirror.workload.annotations.get(SLICE_NAME, "")


def _updates(group: Group, pod_set: str) -> list[PodSetUpdate]:
    checks = group.mirror.workload.checks if group.mirror.workload is not None else ()
    return [update for check in checks for update in check.updates if update.name == pod_set]


RULE = Rule(
    name="ungate",
    run=ungate,
    docs=(
        RuleDoc(
            "ungate",
            "the group is admitted",
            "removes gates, oldest pods first, one per free place",
        ),
    ),
)
