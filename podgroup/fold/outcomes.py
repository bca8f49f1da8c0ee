"""Fold of outcomes and timers: what became of decisions.

Theory. An applied outcome carries the resource version that contains the write; the expectation
ends when the object is known at that version. An obsolete outcome means the object is gone: its
deletion is on its way and ends the expectation, unless the deletion is already known. A rejected
outcome ends the expectation at once, marks the version at which the API server refused, and sets a
timer, so that the same write is tried again once the object changed or half a minute passed. A
write that is rejected again and again is tried once a minute without end, unless it is too large,
which does not change while its pods exist. An object has one such timer, so it costs two tries a
minute at most.

Invariant: each final outcome ends exactly one expectation, sooner or later.
"""

from datetime import timedelta

from msgspec.structs import replace

from podgroup.fold import marking
from podgroup.fold import sentences as say
from podgroup.fold.common import end_expectation, index, mark, note
from podgroup.fold.group import ending, mirror, reporting
from podgroup.fold.leaving import gone
from podgroup.fold.progress import ungated_elsewhere
from podgroup.fold.workloads import workload_is_gone
from podgroup.log.events import OutcomeRecorded, TimerFired
from podgroup.log.journal import At, OutcomeRow, ParkedRow
from podgroup.log.outcomes import FINAL, TOO_LARGE
from podgroup.model.ids import GroupID, newer
from podgroup.model.names import WORKLOAD_FINALIZER
from podgroup.model.objects import MARK_TIMER, WorkloadView
from podgroup.model.reasons import PARKED_DECISION
from podgroup.model.standing import COUNTS_TIMER, STARTS_TIMER
from podgroup.model.wording import unparked
from podgroup.state.changes import of_pod, of_workload
from podgroup.state.group import Group
from podgroup.state.meta import Timer
from podgroup.state.pod import Pod
from podgroup.state.world import World

RETRY_AFTER = timedelta(seconds=30)
RETRY_CEILING = timedelta(seconds=60)
"""Longest time until a rejected write is tried again, however often it was rejected: whatever waits
goes on within a minute of the repair."""
MIRROR_CEILING = timedelta(minutes=30)
"""The same for the creation of a Workload in builtin mode, for which nothing waits."""
MAX_GIVEN_UP = 1000
"""Parked decisions that are remembered; the next like a forgotten decision is listed anew."""
MAX_REFUSAL = 500
"""Characters of an API server's answer that are kept."""
RETRY = "retry"
REPORT = "report"
CONFLICT = 409
"""Status of a rejected ungating: a key of the pod has another value already. The actuator sets it;
the API server's own 409 is passing."""


def outcome_recorded(world: World, here: At, event: OutcomeRecorded, ordinal: int) -> None:
    """Fold the outcome of a decision."""
    _attempted(world, here, event)
    if event.parked:
        _park(world, here, event, ordinal)


def _attempted(world: World, here: At, event: OutcomeRecorded) -> None:
    world.journal.outcomes.append(
        OutcomeRow(
            event.decision,
            event.delivery,
            event.attempt,
            event.status,
            event.http_status,
            event.message,
            here.at,
            here.position,
        )
    )
    if event.status not in FINAL:
        return
    if event.unchanged:
        ungated_elsewhere(world, here, event.uid)
    target = world.expecting.get(event.decision)
    if target is None:
        marking.outcome(world, here, event)
        return
    group = world.groups.get(target[0])
    if group is None:
        return
    pod = world.pods.get(target[1]) if target[1] else None
    if pod is not None:
        _pod_outcome(world, here, group, pod, event)
    elif not target[1]:
        _workload_outcome(world, here, group, event)


def _park(world: World, here: At, event: OutcomeRecorded, ordinal: int) -> None:
    """List a parked decision, once for each group and reason.

    The group goes on: its rules decide again after a while, or when the decision is released.
    """
    known, key = world.meta.given_up, f"{event.group}: {event.message}"
    if key in known:
        return
    if len(known) >= MAX_GIVEN_UP:
        del known[next(iter(known))]
    known[key] = f"{here.position}/{ordinal}"
    row = ParkedRow(
        seq=here.position,
        ord=ordinal,
        at=here.at,
        reason=PARKED_DECISION,
        message=unparked(event.message),
        group=event.group,
        object=say.decision_parked(event.decision, event.parked),
    )
    world.journal.parked.append(row)
    group = event.group if event.group in world.groups else ""
    note(world, here, "Parked", group, "", row.reason, row.message, event.decision)


def _pod_outcome(world: World, here: At, group: Group, pod: Pod, event: OutcomeRecorded) -> None:
    expectation = pod.expect
    if expectation is None or expectation.decision != event.decision:
        return
    if event.status == "applied":
        pod.rejections = 0
        if pod.refused is not None:
            pod.refused = None
            index(world, group, pod)
            mark(world, group.id)
        pod.expect = replace(expectation, result_version=event.resource_version)
        version = event.resource_version
        last = expectation.may_end and pod.held and pod.deleting
        if version and not last and not newer(version, pod.view.resource_version):
            old = world.members[group.id].flags[pod.view.uid]
            end_expectation(world, group, pod, indexed=False)
            new = index(world, group, pod, old)
            mark(world, group.id, of_pod(world, group, old, new))
        world.journal.pods.add(pod.view.uid)
    elif event.status == "rejected":
        if pod.refused is not None and pod.refused[0] != expectation.action:
            pod.rejections = 0  # the count was of another action
        if expectation.action == "UngatePod" and event.http_status == CONFLICT:
            ending.start_failed(group, event.message or say.START_FAILED)
        else:
            # No write was refused at a version that the pod has got meanwhile.
            pod.refused_version = expectation.version or pod.view.resource_version
            pod.refused = expectation.action, _said(event)
        if expectation.action == "UngatePod":
            pod.ungate_decided = False
        pod.rejections += 1
        end_expectation(world, group, pod)
        if event.http_status != TOO_LARGE:
            _retry_later(world, here, group, pod.view.uid, _doubled(pod.rejections))
    elif event.status == "obsolete" and pod.hidden:
        gone(world, here, group, pod)
    # obsolete: the pod is gone, the watch is about to say so


def _workload_outcome(world: World, here: At, group: Group, event: OutcomeRecorded) -> None:
    expectation = group.mirror.expect
    if expectation is None or expectation.decision != event.decision:
        return
    known = group.mirror.workload
    if event.status == "applied":
        mirror.written(group, replace(expectation, result_version=event.resource_version))
        version = event.resource_version
        takes = expectation.may_end
        finalized = takes and known is None
        seen = version and known is not None and not newer(version, known.resource_version)
        last = takes and known is not None and _is_going(known, expectation.action)
        if not finalized and (not seen or last):
            mark(world, group.id, 0)
            return  # the watch is about to show the write
        if seen:
            end_expectation(world, group, None, indexed=False)
            mark(world, group.id, of_workload(world, group))
            return
        end_expectation(world, group, None)
    else:
        # Obsolete: the target is gone; the Workload known here may have replaced it.
        version = known.resource_version if known is not None else f"create:{event.decision}"
        mirror.refused(group, version)
        after = RETRY_AFTER
        if event.status == "rejected":
            if expectation.action == "CreateWorkload":
                after = _refused(world, here, group, event)
            else:
                after = _doubled(mirror.rejected(group, expectation.action, _said(event)))
        end_expectation(world, group, None)
        if event.status == "obsolete" and known is not None:
            if mirror.missed(group) > 1:
                workload_is_gone(world, here, group)  # no watch is going to show that
                return
        if event.http_status != TOO_LARGE:
            _retry_later(world, here, group, "", after)
    mark(world, group.id)


def _is_going(known: WorkloadView, action: str) -> bool:
    """Tell whether the known view of a Workload is from before the write that ends it."""
    if known.deleted_at is None:
        return action == "DeleteWorkload"
    return WORKLOAD_FINALIZER in known.finalizers


def _refused(world: World, here: At, group: Group, event: OutcomeRecorded) -> timedelta:
    """Remember why the Workload was refused; returns the wait, twice as long each time."""
    why = event.message[:MAX_REFUSAL] or say.answered(event.http_status)
    if mirror.creation_refused(group, why, too_large=event.http_status == TOO_LARGE):
        note(
            world,
            here,
            "WorkloadRefused",
            group=group.id,
            reason=str(event.http_status or event.status),
            message=say.workload_refused(group.mirror.name, why),
            decision=event.decision,
        )
    waited_for = world.mode == "kueue"
    return _doubled(group.mirror.refusals, RETRY_CEILING if waited_for else MIRROR_CEILING)


def _said(event: OutcomeRecorded) -> str:
    """Return the API server's answer, on one line."""
    return " ".join(event.message.split())[:MAX_REFUSAL] or say.answered(event.http_status)


def _doubled(times: int, ceiling: timedelta = RETRY_CEILING) -> timedelta:
    return min(RETRY_AFTER * (1 << min(times - 1, 10)), ceiling)


def _retry_later(world: World, here: At, group: Group, uid: str, after: timedelta) -> None:
    name = f"retry/{group.id}/{uid}"
    world.meta.timers[name] = Timer(here.at + after, group.id, RETRY)


def timer_fired(world: World, here: At, event: TimerFired) -> None:
    """Fold a timer that fell due; a timer that was replaced or cancelled meanwhile does nothing."""
    timer = world.meta.timers.get(event.timer)
    if timer is None:
        return
    # In logs of earlier releases the timer of another try may be later than the event.
    if timer.due_at != event.due_at and (timer.purpose != RETRY or timer.due_at > event.due_at):
        return
    del world.meta.timers[event.timer]
    if timer.purpose == COUNTS_TIMER:
        world.quotas.moved = True
        return
    if timer.purpose == STARTS_TIMER:
        world.quotas.overdue = True
        return
    if timer.purpose == MARK_TIMER:
        marking.due(world, event.timer)
        return
    group = world.groups.get(GroupID(timer.group))
    if group is None:
        return
    if timer.purpose != RETRY:
        if timer.purpose == REPORT:
            reporting.due(group, True)
        mark(world, group.id)
        return
    _again(world, here, group, event.timer)


def try_again(world: World, here: At, group: Group) -> None:
    """Let rejected decisions of a group be made again at once, since a person asks for it."""
    waiting = [
        name
        for name, timer in world.meta.timers.items()
        if timer.group == group.id and timer.purpose == RETRY
    ]
    for name in waiting:
        del world.meta.timers[name]
        _again(world, here, group, name)


def _again(world: World, here: At, group: Group, timer: str) -> None:
    uid = timer.rsplit("/", 1)[1]
    pod = world.pods.get(uid) if uid else None
    if pod is not None:
        pod.refused_version = ""
        index(world, group, pod)
    elif not uid:
        mirror.retried(group)
    note(world, here, "TimerFired", group=group.id, pod=uid, reason=RETRY)
    mark(world, group.id)
