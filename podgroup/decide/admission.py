"""Quota admission in builtin mode: which waiting groups start now, and which make room for them.

Theory. What there is and who waits is entered in the line-up (`decide.lineup`) as it becomes known;
`podgroup.admission` decides, as docs/queues.md describes, and here its verdicts become decisions:
admissions, evictions of those who give way, and reasons why others wait. A group that was not
looked at, because an equal one did not fit or another is before it, reports the same reason, or
that. A reason is not reported again because the amounts in it changed: what is free changes all the
time, and each report costs writes.

Invariant: the sum of what is admitted never exceeds what quota, borrowing and lending limits allow.
"""

import re
from datetime import UTC, datetime

from podgroup.admission.book import Book
from podgroup.admission.ledger import Ledger
from podgroup.admission.scheduler import Scheduler
from podgroup.admission.verdicts import Admission, PreemptionVerdict, Verdicts
from podgroup.admission.wording import ASSUMED, PREEMPTION_WHY, preempted
from podgroup.commands import AdmitGroup, EvictGroup
from podgroup.decide import snapshot
from podgroup.decide.checks import required_checks
from podgroup.decide.context import Deciding, Writer, group_ref
from podgroup.decide.lacking import lack
from podgroup.decide.lineup import REFUSED, Lineup, lineup
from podgroup.decide.queueing import circle_above
from podgroup.decide.unadmitted import ran_unadmitted
from podgroup.facts import cluster_queue_of, local_queue_of
from podgroup.ids import GroupID
from podgroup.members import Flag
from podgroup.names import (
    EVICTED_CLUSTER_QUEUE_STOPPED,
    EVICTED_DEACTIVATED,
    EVICTED_LOCAL_QUEUE_STOPPED,
    EVICTED_PREEMPTED,
    PENDING_DEACTIVATED,
    PENDING_MISCONFIGURED,
    PENDING_ON_HOLD,
)
from podgroup.objects import ClusterQueueView
from podgroup.records import Kept, Requeued, Used
from podgroup.view import Group, World

Reason = tuple[str, str]

_AMOUNT = re.compile(r"\S+ more needed")


def enqueue(d: Deciding, group: Group) -> None:
    """Let a group wait for quota, or not, as its state says."""
    if not _may_wait(d.world, group):
        lack(d, group)
        d.write.wait_no_longer(group.id)
        return
    evicted = group.requeueing.evicted
    if evicted is not None and not group.requeueing.requeued and _active_again(group):
        d.record(Requeued(group.id))
    why = _ineligible(d.world, group)
    if why is not None:
        d.pending(group, *why)
        lack(d, group)
        d.write.wait_no_longer(group.id)
        return
    d.write.wait(group.id)


def prepare(world: World, write: Writer) -> None:
    """Work out who waited before what is folded next, where that is not remembered."""
    if world.lineup is not None:
        return
    for identity in sorted(world.groups):
        group = world.groups[identity]
        if (charge := ran_unadmitted(world, group)) is not None:
            write.charge(identity, charge)
        if _may_wait(world, group) and not group.parked and _ineligible(world, group) is None:
            write.wait(identity)
    lineup(world, write)
    write.heard()


def _may_wait(world: World, group: Group) -> bool:
    if (
        group.quota.holding is not None
        or not group.composition.done
        or group.ending.finish is not None
    ):
        return False
    return not group.mirror.lost and len(world.members[group.id]) > 0


def _active_again(group: Group) -> bool:
    """Tell whether nothing but its deactivation, which is over, kept a group from queueing."""
    if group.mirror.workload is not None and not group.mirror.workload.active:
        return False
    # B15: any reason beginning with Deactivated is over once spec.active is true again.
    evicted = group.requeueing.evicted
    return (
        group.composition.short is None
        and evicted is not None
        and evicted.reason.startswith(EVICTED_DEACTIVATED)
        and not group.mirror.deactivating
    )


def _ineligible(world: World, group: Group) -> Reason | None:
    """Say why a group may not be in the queue at all. Order: pods, activity, queue, place."""
    if group.composition.short is not None:
        return "WaitingForReplacementPods", group.composition.short[1]
    evicted = group.requeueing.evicted
    if group.mirror.workload is not None and not group.mirror.workload.active:
        return PENDING_DEACTIVATED, _why(
            "The workload is deactivated", group.mirror.workload.because
        )
    if evicted is not None and not group.requeueing.requeued:
        return evicted.reason, evicted.message
    if not group.spec.queue:
        return PENDING_MISCONFIGURED, "the pods name no queue"
    live = world.members[group.id].count
    for role in group.roles.values():
        if live(Flag.LIVE, role.name) > role.count:
            # They would be charged on top of what was asked for, once the group is admitted.
            return (
                "RunningUnadmitted",
                f"more pods of role {role.name} run than the {role.count} that the group asks for: "
                "it waits for them to end",
            )
    local = local_queue_of(world, group)
    if local is None:
        return (
            "LocalQueueNotFound",
            f"LocalQueue {group.spec.queue} doesn't exist in namespace {group.namespace}",
        )
    if local.stop_policy != "None":
        return PENDING_ON_HOLD, _why(f"LocalQueue {group.spec.queue} is stopped", local.because)
    queue = world.cluster_queues.get(local.cluster_queue)
    if queue is None:
        return "ClusterQueueNotFound", f"ClusterQueue {local.cluster_queue} doesn't exist"
    return None


def _why(said: str, because: str) -> str:
    """Return what is so with what a person gave as the reason, if any."""
    return f"{said}: {because}" if because else said


def retire_admissions(d: Deciding, group: Group) -> None:
    """Evict an admitted group that was deactivated or whose queue was drained."""
    holding = group.quota.holding
    if holding is None or group.requeueing.evicted is not None or group.ending.finish is not None:
        return
    local = local_queue_of(d.world, group)
    queue = d.world.cluster_queues.get(holding.admission.cluster_queue)
    reason = message = ""
    # A mere reservation goes as soon as its queue is stopped, an admission when it is drained.
    drained = ("HoldAndDrain",) if holding.admitted else ("Hold", "HoldAndDrain")
    if group.mirror.workload is not None and not group.mirror.workload.active:
        reason = EVICTED_DEACTIVATED
        message = _why("The workload is deactivated", group.mirror.workload.because)
    elif queue is not None and queue.stop_policy in drained:
        reason = EVICTED_CLUSTER_QUEUE_STOPPED
        message = _why("The ClusterQueue is stopped", queue.because)
    elif local is not None and local.stop_policy in drained:
        reason = EVICTED_LOCAL_QUEUE_STOPPED
        message = _why("The LocalQueue is stopped", local.because)
    if reason:
        command = EvictGroup(target=group_ref(group), reason=reason, message=message)
        d.emit(group, "drain", reason, message, command)


def admit_pending(d: Deciding) -> None:
    """Have decided what may be, now that something has changed."""
    quotas = d.world.quotas
    without_verdict: set[str] = set()
    going_on = False
    while quotas.news or quotas.objects or going_on:
        without_verdict.update(quotas.news)
        line = lineup(d.world, d.write)
        line.scheduler.book.begin(d.here.at.timestamp())
        ill = line.follow(d.world)
        d.write.heard()
        for identity, error in ill.items():
            _park(d, identity, error)
        scheduler, book = line.scheduler, line.scheduler.book
        try:
            verdicts = scheduler.settle(d.here.at.timestamp(), d.here.position)
        except Exception as error:  # a bug of ours stops the group that it shows at, no other
            if not _park(d, scheduler.looking_at, error):
                raise
            d.write.remember(None)
            d.write.recall()
            continue
        without_verdict.difference_update(head.id for head in verdicts.heads)
        _carry_out(d, line, verdicts)
        going_on = bool(verdicts.admitted or verdicts.preempted) and not book.ways.drain
        if not going_on:
            without_verdict |= book.judged
            book.judged.clear()
    for identity in without_verdict:
        _tell(d, identity)


def _park(d: Deciding, identity: str, error: Exception) -> bool:
    """Stop the group that admission fails for; tell whether there was one to stop."""
    group = d.world.groups.get(GroupID(identity))
    if group is None or group.parked:
        return False
    d.park(group, error)
    d.write.look_again(group.id)
    return True


def _carry_out(d: Deciding, line: Lineup, verdicts: Verdicts) -> None:
    """Make decisions of what was decided, head by head."""
    admitted = {one.id: one for one in verdicts.admitted}
    preempting: dict[str, list[PreemptionVerdict]] = {}
    for verdict in verdicts.preempted:
        preempting.setdefault(verdict.by_id, []).append(verdict)
    for head in verdicts.heads:
        group = d.world.groups[GroupID(head.id)]
        if head.status == ASSUMED:
            _admit(d, group, admitted[head.id])
            right = group.quota.holding is not None
        else:
            _refuse(d, group, (head.reason, head.message))
            lack(d, group, head.cluster_queue, head.shortages)
            right = True
            for verdict in preempting.pop(head.id, ()):
                victim = d.world.groups[GroupID(verdict.id)]
                _preempt(d, line.scheduler, group, victim, verdict)
                if victim.requeueing.evicted is None:
                    line.correct(d.world, victim.id)
                    right = False
        if not right:  # what is recorded was applied in its place
            line.correct(d.world, group.id)
    book = line.scheduler.book
    for identity in sorted(book.marked):
        _keep(d, identity, book)
    book.marked.clear()
    if book.ledger is not None:
        for key in sorted(book.ledger.marked):
            _use(d, book.ledger, key)
        book.ledger.marked.clear()


def _keep(d: Deciding, identity: str, book: Book) -> None:
    """Conclude that quota is kept for a group, or no longer: that outlives a restart."""
    group = d.world.groups.get(GroupID(identity))
    if group is None or group.quota.holding is not None:
        return
    kept = None
    claim = book.claims.get(identity)
    queue, reserved = book.reserved_for(identity)
    if claim is not None:
        sets = snapshot.assignments(claim.pod_sets)
        kept = Kept(group.id, claim.queue, sets, claim.borrowing, claim.victims)
    elif book.has_place(identity):
        kept = Kept(group.id, book.has_place(identity), (), head=True)
    elif reserved:
        sets = snapshot.assignments(snapshot.per_flavor(reserved))
        kept = Kept(group.id, queue, sets, head=True)
    if group.quota.kept != kept:
        d.record(kept or Kept(group.id))


def _use(d: Deciding, ledger: Ledger, key: tuple[str, str]) -> None:
    """Conclude what a LocalQueue is remembered to have used: that outlives a restart."""
    at = ledger.as_of(key)
    if at is None:
        d.record(Used("", "/".join(key)))
        return
    consumed = tuple((name, str(amount)) for name, amount in sorted(ledger.consumed(key).items()))
    d.record(Used("", "/".join(key), consumed, datetime.fromtimestamp(at, UTC)))


def _tell(d: Deciding, identity: str) -> None:
    """Say why a group waits that has news and was not looked at."""
    group = d.world.groups.get(GroupID(identity))
    if group is None or identity not in d.world.quotas.waiting:
        return
    queue = cluster_queue_of(d.world, group)
    why = _inactive(d, queue) if queue is not None else None
    if queue is not None and why is not None:
        lack(d, group)
    elif queue is not None and group.quota.reason[0] not in REFUSED:
        book = lineup(d.world, d.write).scheduler.book
        why = book.answer(identity)
        lack(d, group, queue.name, book.short_of(identity))
    if why is not None:
        _refuse(d, group, why)


def _inactive(d: Deciding, queue: ClusterQueueView) -> Reason | None:
    """Say why a ClusterQueue admits nothing, if it does not."""
    if queue.stop_policy != "None":
        return PENDING_ON_HOLD, _why(f"ClusterQueue {queue.name} is stopped", queue.because)
    if queue.deleting:
        said = f"ClusterQueue {queue.name} is inactive: it is being deleted"
        return "ClusterQueueInactive", said
    for resources in queue.groups:
        for flavor in resources.flavors:
            if flavor.name not in d.world.flavors:
                return (
                    "ClusterQueueInactive",
                    f"ClusterQueue {queue.name} is inactive: "
                    f"ResourceFlavor {flavor.name} doesn't exist",
                )
    absent, idle = snapshot.unusable_checks(d.world.checks, queue)
    for what, names in (("doesn't exist", absent), ("is not active", idle)):
        if names:
            said = f"ClusterQueue {queue.name} is inactive: AdmissionCheck {names[0]} {what}"
            return "ClusterQueueInactive", said
    circle = circle_above(d.world, queue.cohort)
    if circle:
        said = f"ClusterQueue {queue.name} is inactive: it is below a circle of cohorts: {circle}"
        return "ClusterQueueInactive", said
    return None


def _refuse(d: Deciding, group: Group, why: Reason) -> None:
    reason, message = group.quota.reason
    if (reason, _AMOUNT.sub("", message)) != (why[0], _AMOUNT.sub("", why[1])):
        d.pending(group, *why)
        d.write.look_again(group.id)


def _admit(d: Deciding, group: Group, admission: Admission) -> None:
    sets = admission.pod_sets
    amounts = ", ".join(
        f"{a.count} x {a.name} in {'/'.join(sorted(set(a.flavors.values()))) or 'no flavor'}"
        for a in sets
    )
    borrowing = ", borrowing from its cohort" if admission.borrowing else ""
    assignments = snapshot.assignments(sets)
    checks = required_checks(d.world, admission.cluster_queue, assignments) or ()
    waits = f"; waits for admission checks: {', '.join(checks)}" if checks else ""
    first = d.members(group).first()
    if first and d.pod(first).view.devices:
        waits += "; devices of its resourceClaims are charged to no quota"
    d.emit(
        group,
        "admit",
        "QuotaReserved",
        f"fits the quota of ClusterQueue {admission.cluster_queue}{borrowing}: {amounts}{waits}",
        AdmitGroup(
            target=group_ref(group),
            cluster_queue=admission.cluster_queue,
            assignments=assignments,
            checks=checks,
        ),
    )


def _preempt(
    d: Deciding, scheduler: Scheduler, group: Group, victim: Group, verdict: PreemptionVerdict
) -> None:
    """Let a group give way to another: in the words of Kueue, and by name for the ledger."""
    book = scheduler.book
    queue = book.queue_of(book.waiters[group.id])
    path = book.forest.path_text(queue.spec.name) if queue is not None else ""
    uid = group.mirror.workload.uid if group.mirror.workload is not None else group.id
    said = preempted(uid, "", verdict.reason, path, book.forest.path_text(verdict.cluster_queue))
    command = EvictGroup(
        target=group_ref(victim),
        reason=EVICTED_PREEMPTED,
        message=said,
        preempted_by=group.id,
        preemption=verdict.between,
    )
    message = (
        f"Preempted to accommodate {group.namespace}/{group.name} (group {group.id}) of priority "
        f"{group.composition.priority} in {path}, due to {PREEMPTION_WHY[verdict.reason]}"
    )
    d.emit(victim, "preempt", EVICTED_PREEMPTED, message, command)
