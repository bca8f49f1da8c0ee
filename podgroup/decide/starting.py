"""Rules about running: stop what must not run, release quota, start what may.

Rules, in this order:

1. evict     the group was evicted: stop its running pods; gated and ended pods stay
2. yield     an evicted group has nothing running any more: its quota is released
3. unadmit   a pod is past the gate without an admission: it is stopped, if our log has seen the
             gate on it; a pod that never had one is left to run and reported (B17) unless an
             operator wants it stopped (`Policy.stop_unadmitted`), and so is one that we let in
             while Kueue has yet to decide about a Workload that was made again (`takeover`). One
             that we never let in has `UNADMITTED_GRACE_S` to end, whatever grace period it asks for
4. ungate    the group is admitted: gated pods start, oldest first, one per free place of their role

Invariant: open pods plus pods being opened never exceed a role's count.
"""

from typing import NamedTuple

from podgroup.commands import KubeEvent, ReleaseQuota, StopPod, UngatePod
from podgroup.decide.context import (
    UNADMITTED_GRACE_S,
    Deciding,
    group_ref,
    normal,
    pod_ref,
    short_grace,
)
from podgroup.decide.order import start_key
from podgroup.decide.rule import Line, Rule
from podgroup.decide.sparing import spared
from podgroup.decide.takeover import precedes
from podgroup.decide.timing import may_run, still_running
from podgroup.facts import role_of, started_before
from podgroup.members import Flag
from podgroup.names import (
    ADMISSION_GATE,
    CLUSTER_QUEUE_LABEL,
    EVENT_STARTED,
    EVENT_STOPPED,
    EVICTED_DEACTIVATED,
    LOCAL_QUEUE_LABEL,
    MAX_LABEL_VALUE,
    PODSET_LABEL,
    REASON_EVICTED_PREFIX,
    REASON_NOT_ADMITTED,
    ROLE_HASH,
    SLICE_NAME,
    TOPOLOGY_GATE,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
    WORKLOAD_ANNOTATION,
)
from podgroup.objects import Assignment, PodSetUpdate, Toleration
from podgroup.view import Group, Pod

NOT_ADMITTED_MESSAGE = "Not admitted by cluster queue"
_TOPOLOGY = (TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, TOPOLOGY_UNCONSTRAINED)
_ELASTIC = (SLICE_NAME, WORKLOAD_ANNOTATION)
"""Annotations of an earlier slice that give way to those of the one that is admitted."""


def stopping(d: Deciding, group: Group) -> None:
    """Run rules 1 to 3."""
    if group.ending.finish is not None or group.mirror.lost:
        return
    evicted = group.requeueing.evicted
    if evicted is not None:
        _stop_all(d, group, "evict", REASON_EVICTED_PREFIX + evicted.reason, evicted.message)
        yield_quota(d, group)
    elif group.quota.holding is None:
        _unadmit(d, group)


def _unadmit(d: Deciding, group: Group) -> None:
    members = d.members(group)
    started = [d.pod(uid) for uid in members.listed(Flag.STOPPABLE)]
    # Who was never let in is not about to be held, and may have been deleted with a long grace.
    known = group.composition.done and not _about_to_be_held(group)
    going = [d.pod(uid) for uid in members.listed(Flag.DELETING)]
    unwanted = bool(started) and _unwanted(d, group)
    for pod in [*started, *(pod for pod in going if _lingers(d, pod))]:
        if (
            (pod.opened or (unwanted and not pod.let_in))
            and pod.free
            and (known or not pod.let_in)
            and not precedes(d, group, pod)
        ):
            grace_s = short_grace(pod)
            _stop(d, group, pod, "unadmit", REASON_NOT_ADMITTED, NOT_ADMITTED_MESSAGE, grace_s)


def _unwanted(d: Deciding, group: Group) -> bool:
    """Tell whether pods that were never at a gate are to be stopped: none was started before."""
    wanted = d.world.policy.stop_unadmitted and bool(group.spec.queue)
    return wanted and not started_before(d.world, group)


def _lingers(d: Deciding, pod: Pod) -> bool:
    """Tell whether a pod that was never let in was given longer to end than it is due."""
    grace_s = pod.view.grace_s
    return may_run(d, pod) and not pod.let_in and (grace_s or 0) > UNADMITTED_GRACE_S


def _about_to_be_held(group: Group) -> bool:
    # kueue mode: a Workload that has not been read back yet cannot say that it is not admitted.
    return group.mirror.workload is None


def _stop_all(d: Deciding, group: Group, rule: str, reason: str, message: str) -> None:
    for uid in d.members(group).listed(Flag.STOPPABLE):
        pod = d.pod(uid)
        if pod.free:
            _stop(d, group, pod, rule, reason, message)


def _stop(
    d: Deciding,
    group: Group,
    pod: Pod,
    rule: str,
    reason: str,
    message: str,
    grace_s: int | None = None,
) -> None:
    d.emit(
        group,
        rule,
        reason,
        f"stop pod {pod.view.name}: {message}",
        StopPod(
            target=pod_ref(pod),
            reason=reason,
            message=message,
            grace_s=grace_s,
            events=normal(EVENT_STOPPED, message),
        ),
    )


def yield_quota(d: Deciding, group: Group) -> None:
    """Run rule 2."""
    evicted, holding = group.requeueing.evicted, group.quota.holding
    if evicted is None or holding is None or d.world.mode == "kueue":
        return
    if d.members(group).count(Flag.OPENING):
        return  # a gate that is being removed may be off by now: stop that pod first
    if still_running(d, group):
        return
    # A single pod that was started is stopped and never comes back; one at its gate waits again.
    again = not group.single or bool(d.members(group).count(Flag.GATED))
    d.emit(
        group,
        "yield",
        evicted.reason,
        "nothing of the group runs any more",
        ReleaseQuota(
            target=group_ref(group),
            reason=evicted.reason,
            message=evicted.message,
            requeue=again
            and group.requeueing.requeue_at is None
            and not evicted.reason.startswith(EVICTED_DEACTIVATED),
        ),
    )


def starting(d: Deciding, group: Group) -> None:
    """Run rule 4."""
    holding = group.quota.holding
    if holding is None or not holding.admitted or group.requeueing.evicted is not None:
        return
    if group.ending.finish is not None or group.mirror.lost:
        return
    members = d.members(group)
    if not members.count(Flag.GATED):
        return
    for assignment in holding.admission.assignments:
        role = group.roles.get(role_of(group, assignment.name))
        if role is None or unknown_flavor(d, assignment):
            continue
        taken = (
            members.count(Flag.OPEN, role.name)
            + members.count(Flag.OPENING, role.name)
            + role.succeeded_gone
        )
        room = role.count - taken
        if room <= 0:
            continue
        waiting = [
            pod
            for pod in (
                d.pod(u) for u in members.listed(Flag.GATED) if members.roles[u] == role.name
            )
            if pod.free and not pod.deleting and not pod.terminated
        ]
        if not waiting:
            continue
        queue = holding.admission.cluster_queue
        given = _given(d, group, assignment, queue)
        for pod in sorted(waiting, key=start_key)[:room]:
            _ungate(d, group, pod, queue, given)


def unknown_flavor(d: Deciding, assignment: Assignment) -> str:
    """Return a flavor of an assignment that does not exist (yet): its labels are not known."""
    return next((f for f in assignment.flavors.values() if f not in d.world.flavors), "")


class _Given(NamedTuple):
    """What an admission gives every pod of one podset: made once, said in each pod's decision."""

    selector: dict[str, str]
    tolerations: tuple[Toleration, ...]
    labels: dict[str, str]
    annotations: dict[str, str]
    """Before those of `updates`, and what depends on the pod comes between."""
    updates: list[PodSetUpdate]
    topology: bool
    slice_name: str
    events: tuple[KubeEvent, ...]


def _given(d: Deciding, group: Group, assignment: Assignment, queue: str) -> _Given:
    policy = d.world.policy
    selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for flavor in dict.fromkeys(assignment.flavors.values()):
        view = d.world.flavors.get(flavor)
        if view is not None:
            selector.update(view.node_labels)
            tolerations += [t for t in view.tolerations if t not in tolerations]
    labels = {PODSET_LABEL: assignment.name, LOCAL_QUEUE_LABEL: group.spec.queue}
    if len(queue) <= MAX_LABEL_VALUE and "." not in queue:
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
        if policy.topology_aware_scheduling and not spared(d.world, group)
        else {},
        updates=updates,
        topology=assignment.topology and policy.topology_aware_scheduling,
        slice_name=_slice(d, group),
        events=normal(EVENT_STARTED, f"Admitted by clusterQueue {queue}"),
    )


def _ungate(d: Deciding, group: Group, pod: Pod, queue: str, given: _Given) -> None:
    view, topology = pod.view, given.topology
    annotations = given.annotations.copy()
    if not view.role_annotated and not group.single:
        # Ungating changes the shape; the role must not change with it if the log is ever lost.
        annotations[ROLE_HASH] = view.role if group.spec.dialect else pod.role
    if topology and not any(key in view.annotations for key in _TOPOLOGY):
        annotations[TOPOLOGY_UNCONSTRAINED] = "true"  # Kueue's ungater looks for one of the three
    if given.slice_name:
        annotations[SLICE_NAME] = given.slice_name
    for update in given.updates:
        annotations.update(update.annotations)
    asked = any(update.labels or update.annotations for update in given.updates)
    two = TOPOLOGY_GATE in view.gates and not topology
    elastic = d.world.policy.elastic_jobs and SLICE_NAME in annotations
    d.emit(
        group,
        "ungate",
        "Admitted",
        f"pod {view.name} may start: admitted by ClusterQueue {queue}",
        UngatePod(
            target=pod_ref(pod),
            gates=(ADMISSION_GATE, TOPOLOGY_GATE) if two else (ADMISSION_GATE,),
            node_selector=given.selector,
            tolerations=given.tolerations,
            labels=given.labels,
            annotations=annotations,
            replaces=_ELASTIC if elastic else (),
            workload=group.mirror.name if asked and d.world.mode != "kueue" else "",
            events=given.events,
        ),
    )


def _slice(d: Deciding, group: Group) -> str:
    """Return the slice that an elastic Workload is, "" for any other."""
    if not d.world.policy.elastic_jobs or group.mirror.workload is None:
        return ""
    return group.mirror.workload.annotations.get(SLICE_NAME, "")


def _updates(group: Group, pod_set: str) -> list[PodSetUpdate]:
    checks = group.mirror.workload.checks if group.mirror.workload is not None else ()
    return [update for check in checks for update in check.updates if update.name == pod_set]


STOP = Rule(
    run=stopping,
    says=(
        Line("evict", "the group was evicted", "stops its running pods"),
        Line("yield", "an evicted group runs nothing any more", "gives its quota back"),
        Line("unadmit", "a pod is past the gate without an admission", "stops it"),
    ),
)
START = Rule(
    run=starting,
    says=(
        Line(
            "ungate",
            "the group is admitted",
            "takes gates off, oldest pods first, one per free place",
        ),
    ),
)
